//! What the kernel's `perf_event_open` takes and what `read` on its files returns
//! (`linux/perf_event.h`).

mod attr;
mod flags;
mod reading;

pub use attr::{ATTR_SIZE, Attr, AttrError, ReadFormat, Sampling};
pub use flags::Flags;
pub use perf_event_open_sys::bindings;
pub use reading::{Count, Reading, ReadingError};
