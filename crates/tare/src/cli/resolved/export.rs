//! What `tare export` is to write.

use std::path::PathBuf;

use tare_render::export::FormatInfo;

use crate::cli::raw;
use crate::cli::resolved::samples::SampleSelection;
use crate::exit::Refusal;

/// What is written, and where to.
#[derive(Debug)]
pub(crate) struct Export {
    pub(crate) samples: SampleSelection,
    pub(crate) format: &'static FormatInfo,
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
}
