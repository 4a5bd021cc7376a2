//! Options of `tare export`.

use std::path::PathBuf;

use tare_render::export::FormatInfo;

use crate::cli::raw;
use crate::cli::resolved::samples::SampleSelection;
use crate::exit::Refusal;

/// Exported samples, format and destination.
#[derive(Debug)]
pub(crate) struct Export {
    pub(crate) samples: SampleSelection,
    pub(crate) format: &'static FormatInfo,
    /// `-` is standard output.
    pub(crate) output: PathBuf,
}

impl Export {
    /// Resolves the typed options.
    ///
    /// # Errors
    /// Fails with a usage message if an option is invalid.
    pub(crate) fn resolve(raw: raw::ExportArgs) -> Result<Self, Refusal> {
        let output = raw.output.unwrap_or_else(|| PathBuf::from("-"));
        Ok(Self { samples: SampleSelection::resolve(raw.samples)?, format: raw.format, output })
    }
}
