//! `perf.data`: a description of the recording, and a stream of records.
//!
//! ```text
//! file: | header 104 bytes | ids, attributes | data: records ... | feature table | sections |
//! pipe: | header 16 bytes  | data: records; attributes and features are among them ...
//! ```
//! The header locates attributes and data. perf puts the attributes before the data; in tare's
//! finished files they follow the sections: see [`writer`].
//!
//! Source: `tools/perf/Documentation/perf.data-file-format.txt`, and where it is silent
//! `tools/perf/util/header.c`.

mod compression;
mod description;
pub mod features;
mod header;
mod loss;
pub mod note;
mod reader;
mod window;
pub mod writer;

pub use description::{Description, RecordedEvent};
pub use features::{ClockData, FeatureError, Features};
pub use header::{FileHeader, Header, Section};
pub use loss::{Gap, LossReason, Losses};
pub use reader::{Entry, OpenError, Payload, Reader};
