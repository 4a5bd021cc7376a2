//! What `tare script` prints of records, in the words of `perf script`.

mod attr;
mod digits;
mod dump;
mod record;

pub use attr::attr_line;
pub use digits::{decimal, hex, name, padded, padded_name, signed};
pub use dump::dump;
pub use record::record;
