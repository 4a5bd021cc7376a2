//! Samples in the formats of other tools. Each format is a type that implements [`ExportFormat`],
//! and a line of [`FORMATS`], from which options and help texts are generated.
//!
//! ```text
//!            /- sums:  folded, pprof, speedscope       call chains with their weights
//! samples ---+- rows:  jsonl                           each sample
//!            \- time:  chrome, firefox                 each sample, by thread
//! ```
//! Names are written as recorded, with invalid UTF-8 replaced; folded stacks also escape control
//! characters. All formats but folded stacks hold the losses and the ledger.

mod cached;
mod chrome;
mod firefox;
mod folded;
mod jsonl;
#[cfg(feature = "pprof")]
mod pprof;
mod speedscope;
mod sums;

use std::io::{self, Write};

pub use chrome::Chrome;
pub use firefox::Firefox;
pub use folded::Folded;
pub use jsonl::JsonLines;
#[cfg(feature = "pprof")]
pub use pprof::Pprof;
pub use speedscope::Speedscope;

use crate::samples::{RecordingSummary, SampleSink};

/// The time from the first sample to the last one.
#[derive(Default)]
struct TimeSpan {
    first_ns: Option<u64>,
    last_ns: u64,
}

impl TimeSpan {
    /// Adds the time of a sample. Samples may come in any order.
    fn add(&mut self, time_ns: u64) {
        self.first_ns = Some(self.first_ns.map_or(time_ns, |first_ns| first_ns.min(time_ns)));
        self.last_ns = self.last_ns.max(time_ns);
    }

    /// The first sample's time on the recording's clock; 0 without samples.
    fn start_ns(&self) -> u64 {
        self.first_ns.unwrap_or(0)
    }

    /// The first sample's time in ns since 1970; 0 if it is unknown.
    fn wall_start_ns(&self, whole: &RecordingSummary<'_>) -> u64 {
        let clock = self.first_ns.zip(whole.session.clock);
        clock.map_or(0, |(first_ns, clock)| clock.to_wall_ns(first_ns))
    }

    fn length_ns(&self) -> u64 {
        self.first_ns.map_or(0, |first_ns| self.last_ns.saturating_sub(first_ns))
    }
}

/// The output of an exporter.
pub type ExportWriter = Box<dyn Write + Send>;

/// Makes an exporter that writes to an output.
pub type MakeExporter = fn(ExportWriter) -> io::Result<Box<dyn Exporter>>;

/// Writes samples in a format.
pub trait Exporter: SampleSink {
    /// Writes the rest, after the last sample.
    ///
    /// # Errors
    /// Fails if the output can't be written, or if the format can't hold these samples.
    fn finish(self: Box<Self>, whole: &RecordingSummary<'_>) -> io::Result<()>;
}

/// A format: its description, and how to make its exporter.
pub trait ExportFormat: Exporter + Sized + 'static {
    /// Its name, as `--format` takes it.
    const NAME: &'static str;
    /// Its contents, for help texts.
    const HELP: &'static str;
    /// Programs that read it.
    const READERS: &'static str;
    /// The usual ending of a file's name.
    const EXTENSION: &'static str;
    /// Whether it is unreadable on a terminal.
    const IS_BINARY: bool = false;
    /// Whether it holds the fields of tracepoints.
    const HAS_TRACES: bool = false;
    /// Whether it holds each address with its lines, instead of the start of its function.
    const HAS_ADDRESSES: bool = false;

    /// Makes an exporter.
    ///
    /// # Errors
    /// Fails if the start of the output can't be written.
    fn create(out: ExportWriter) -> io::Result<Self>;
}

/// The description of an [`ExportFormat`].
#[derive(Debug)]
pub struct FormatInfo {
    /// See [`ExportFormat::NAME`].
    pub name: &'static str,
    /// See [`ExportFormat::HELP`].
    pub help: &'static str,
    /// See [`ExportFormat::READERS`].
    pub readers: &'static str,
    /// See [`ExportFormat::EXTENSION`].
    pub extension: &'static str,
    /// See [`ExportFormat::IS_BINARY`].
    pub is_binary: bool,
    /// See [`ExportFormat::HAS_TRACES`].
    pub has_traces: bool,
    /// See [`ExportFormat::HAS_ADDRESSES`].
    pub has_addresses: bool,
    /// Makes an exporter of this format; `None` if it isn't a file.
    ///
    /// # Errors
    /// Fails if the start of the output can't be written.
    pub create: Option<MakeExporter>,
}

impl FormatInfo {
    const fn new<F: ExportFormat>() -> Self {
        Self {
            name: F::NAME,
            help: F::HELP,
            readers: F::READERS,
            extension: F::EXTENSION,
            is_binary: F::IS_BINARY,
            has_traces: F::HAS_TRACES,
            has_addresses: F::HAS_ADDRESSES,
            create: Some(|out| Ok(Box::new(F::create(out)?))),
        }
    }

    /// Describes the tables of a store, which the store's own crate writes.
    #[cfg(feature = "parquet")]
    const fn tables() -> Self {
        Self {
            name: "parquet",
            help: "a store: tables of samples, frames and segments",
            readers: "DuckDB, pandas, Spark",
            extension: "parquet",
            is_binary: true,
            has_traces: false,
            has_addresses: false,
            create: None,
        }
    }

    /// Finds a format by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.name == name)
    }
}

/// All formats of this build, in the order of help texts. The table in `docs/export.md` has a row
/// for each.
pub static FORMATS: &[FormatInfo] = &[
    FormatInfo::new::<Folded>(),
    #[cfg(feature = "pprof")]
    FormatInfo::new::<Pprof>(),
    FormatInfo::new::<Firefox>(),
    FormatInfo::new::<Speedscope>(),
    FormatInfo::new::<Chrome>(),
    #[cfg(feature = "parquet")]
    FormatInfo::tables(),
    FormatInfo::new::<JsonLines>(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_has_a_row_for_each_format() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/export.md");
        let manual = std::fs::read_to_string(path).unwrap();
        let begin = manual.find("| format | read by |").expect("docs/export.md lacks the table");
        let rows = manual[begin..].lines().skip(2).take_while(|line| line.starts_with('|'));
        let rows: Vec<&str> = rows.collect();
        for format in FORMATS {
            let begin = format!("| {} | {} |", format.name, format.readers);
            let found = rows.iter().filter(|row| row.starts_with(&begin)).count();
            assert_eq!(found, 1, "docs/export.md lacks the row '{begin}'");
        }
        if cfg!(all(feature = "pprof", feature = "parquet")) {
            assert_eq!(rows.len(), FORMATS.len(), "docs/export.md has a row without a format");
        }
    }
}
