//! Selected samples of a recording.

use std::path::PathBuf;

use tare_replay::{SampleFilterOptions, TimeRanges};
use tare_symbols::SymbolOptions;

use crate::cli::raw;
use crate::cli::resolved::script;
use crate::cli::resolved::stored::StoredSamples;
use crate::cli::resolved::symbols;
use crate::exit::Refusal;

/// Samples to read from a recording, and the sources of their symbols.
#[derive(Clone, Debug)]
pub(crate) struct SampleSelection {
    /// The recording; `-` is standard input.
    pub(crate) input: PathBuf,
    /// Samples of a store, in place of the recording's.
    pub(crate) stored: Option<StoredSamples>,
    /// Names of events; empty: all.
    pub(crate) events: Vec<String>,
    /// Whether CPU time and off-CPU time are shown as one event.
    pub(crate) wall_clock: bool,
    /// Names, tasks and CPUs.
    pub(crate) filter: SampleFilterOptions,
    /// Ranges of time.
    pub(crate) time: TimeRanges,
    /// Whether the recorder's own samples are kept even if `tare record` ran without
    /// `--include-self`.
    pub(crate) include_self: bool,
    /// Whether inlined functions are frames.
    pub(crate) inline: bool,
    /// Sources of symbols.
    pub(crate) symbols: SymbolOptions,
}

impl SampleSelection {
    /// Resolves the typed options.
    ///
    /// # Errors
    /// Fails with a usage message if an option is invalid.
    pub(crate) fn resolve(raw: raw::SampleArgs) -> Result<Self, Refusal> {
        let filter = SampleFilterOptions {
            comms: raw.names.comms,
            dsos: raw.names.dsos,
            symbols: raw.names.symbols,
            pids: raw::TaskList::ids(&raw.tasks.pid),
            tids: raw::TaskList::ids(&raw.tasks.tid),
            cpus: script::cpus(raw.tasks.range.cpu.as_deref())?,
            ..SampleFilterOptions::default()
        };
        Ok(Self {
            stored: StoredSamples::resolve(&raw.stored)?,
            input: raw.stored.store.clone().unwrap_or_else(|| raw.recording.path()),
            events: raw.events.events,
            wall_clock: raw.wall_clock,
            filter,
            time: script::times(raw.tasks.range.time.as_deref())?,
            include_self: raw.own.include_self,
            inline: raw.inline.inline,
            symbols: symbols::resolve(raw.symbol_search),
        })
    }

    /// Selects samples of a store.
    pub(crate) fn from_store(stored: StoredSamples) -> Self {
        let input = PathBuf::from(stored.name());
        Self { stored: Some(stored), ..Self::all_of(input) }
    }

    /// Selects samples and sources of symbols as a command line without options does.
    pub(crate) fn all_of(input: PathBuf) -> Self {
        let filter = SampleFilterOptions::default();
        let symbols = symbols::resolve(raw::SymbolSearch::default());
        let events = Vec::new();
        let time = TimeRanges::All;
        let include_self = false;
        let inline = false;
        let wall_clock = false;
        let stored = None;
        Self { input, stored, events, wall_clock, filter, time, include_self, inline, symbols }
    }
}
