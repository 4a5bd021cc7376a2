//! Options of `tare lock`.

use std::path::PathBuf;

use tare_trace::lock::{LockKey, LockOptions};

use super::symbols;
use super::trace::TraceTarget;
use crate::cli::perf;
use crate::cli::raw::{self, LockSort};
use crate::exit::Refusal;

/// Source of the waits.
#[derive(Clone, Debug)]
pub(crate) enum LockSource {
    /// `-` is standard input.
    Recording(PathBuf),
    Live(TraceTarget),
}

/// The resolved options of `tare lock`.
#[derive(Clone, Debug)]
pub(crate) struct Lock {
    pub(crate) source: LockSource,
    pub(crate) options: LockOptions,
    pub(crate) key: LockKey,
    /// Maximum number of rows to print.
    pub(crate) entries: usize,
    pub(crate) stacks: bool,
    pub(crate) output: Option<PathBuf>,
    pub(crate) json: bool,
}

impl Lock {
    /// Resolves the typed options.
    ///
    /// # Errors
    /// Fails with a usage message if an option is invalid.
    pub(crate) fn new(raw: raw::LockArgs) -> Result<Self, Refusal> {
        let key = match raw.key {
            LockSort::Contended => LockKey::Contended,
            LockSort::WaitTotal => LockKey::Total,
            LockSort::WaitMax => LockKey::Max,
            LockSort::AvgWait => LockKey::Average,
        };
        let options = LockOptions {
            kernel: !raw.futexes,
            futexes: !raw.kernel,
            symbols: symbols::resolve(raw::SymbolSearch::default()),
        };
        let source = if let Some(input) = raw.input.input {
            LockSource::Recording(input)
        } else {
            perf::refuse_subcommand("lock", &raw.traced.command, raw.traced.after_dashes)?;
            LockSource::Live(TraceTarget::resolve(&raw.traced)?)
        };
        Ok(Self {
            source,
            options,
            key,
            entries: raw.rows.entries.unwrap_or(usize::MAX),
            stacks: raw.stacks,
            output: raw.result.output,
            json: raw.json.json,
        })
    }
}
