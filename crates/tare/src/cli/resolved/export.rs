//! What `tare export` is to write.

use std::path::PathBuf;

use crate::cli::raw::{self, ExportFormat};
use crate::cli::resolved::samples::SampleSelection;
use crate::exit::Refusal;

/// What is written, and where to.
#[derive(Debug)]
pub(crate) struct Export {
    pub(crate) samples: SampleSelection,
    pub(crate) format: ExportFormat,
    /// `-` is standard output.
    pub(crate) output: PathBuf,
}

impl Export {
    /// # Errors
    /// Wrong usage, in one line.
    pub(crate) fn resolve(raw: raw::ExportArgs) -> Result<Self, Refusal> {
        let output = raw.output.unwrap_or_else(|| PathBuf::from("-"));
        Ok(Self { samples: SampleSelection::resolve(raw.samples)?, format: raw.format, output })
    }

    /// Whether the format is nothing for a terminal.
    pub(crate) fn is_binary(&self) -> bool {
        match self.format {
            #[cfg(feature = "pprof")]
            ExportFormat::Pprof => true,
            #[cfg(feature = "parquet")]
            ExportFormat::Parquet => true,
            _ => false,
        }
    }

    /// Whether the format has room for the fields of tracepoints.
    pub(crate) fn has_traces(&self) -> bool {
        match self.format {
            ExportFormat::Chrome | ExportFormat::Jsonl => true,
            #[cfg(feature = "parquet")]
            ExportFormat::Parquet => true,
            _ => false,
        }
    }
}
