//! Records and their fields as `tare script` prints them, in the format of `perf script`.

mod attr;
mod digits;
mod dump;
mod extra;
mod fields;
mod record;

pub use attr::attr_line;
pub use digits::{decimal, hex, name, name_with_tabs, padded, padded_name, signed};
pub use dump::dump;
pub use extra::{branch_flags, has_data_address, page_size, registers};
pub use fields::{Fields, Selection, field_names};
pub use record::record;
