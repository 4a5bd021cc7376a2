//! The arguments of `perf_event_open(2)`, and the results of `read(2)` on its descriptors
//! (`linux/perf_event.h`).

mod attr;
mod flags;
mod reading;

pub use attr::{ATTR_SIZE, Attr, AttrError, ReadFormat, Sampling};
pub use flags::Flags;
pub use perf_event_open_sys::bindings;
pub use reading::{Count, Reading, ReadingError};
