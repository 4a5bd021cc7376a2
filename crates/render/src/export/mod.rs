//! Samples in the formats of other tools.
//!
//! ```text
//!            /- sums:  folded, pprof, speedscope       call chains and what they weigh
//! samples ---+- rows:  jsonl, parquet                  each sample
//!            \- time:  chrome, firefox                 each sample, by thread
//! ```
//! Names are those of the recording. Losses and the ledger go along where a format has room for
//! them.

mod chrome;
mod firefox;
mod folded;
mod jsonl;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "pprof")]
mod pprof;
mod speedscope;
mod sums;

use std::io::{self, Write};

pub use chrome::Chrome;
pub use firefox::Firefox;
pub use folded::Folded;
pub use jsonl::JsonLines;
#[cfg(feature = "parquet")]
pub use parquet::Parquet;
#[cfg(feature = "pprof")]
pub use pprof::Pprof;
pub use speedscope::Speedscope;

use crate::samples::{RecordingSummary, SampleSink};

/// Where exports go.
pub type ExportWriter = Box<dyn Write + Send>;

/// What writes samples in a format.
pub trait Exporter: SampleSink {
    /// All samples were taken: writes the rest.
    ///
    /// # Errors
    /// Those of the output.
    fn finish(self: Box<Self>, whole: &RecordingSummary<'_>) -> io::Result<()>;
}
