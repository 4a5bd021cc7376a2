//! Options of the sinks.

use tare_annotate::SourceRoot;
use tare_render::script::Selection;

/// The zero of printed times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeBase {
    /// The recording's clock.
    #[default]
    Recorded,
    /// The first printed sample or other record.
    FirstSample,
    /// The sample or other record that was printed before.
    PreviousSample,
}

/// The records that are printed besides samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrintedRecords {
    /// Names, forks and exits of tasks.
    pub tasks: bool,
    /// Mappings.
    pub maps: bool,
    /// Context switches.
    pub switches: bool,
    /// Lost records.
    pub losses: bool,
    /// Ends of rounds, in which the recorder drained all ring buffers.
    pub rounds: bool,
    /// Namespaces of tasks.
    pub namespaces: bool,
    /// Cgroups.
    pub cgroups: bool,
    /// BPF programs and their symbols.
    pub bpf: bool,
    /// Changes of the kernel's code.
    pub text_pokes: bool,
}

/// Content and layout of printed samples.
#[derive(Clone, Debug, Default)]
pub struct ScriptOptions {
    /// Fields per type of event.
    pub selection: Selection,
    /// Print times in nanoseconds instead of microseconds.
    pub nanoseconds: bool,
    /// The zero of printed times.
    pub time_base: TimeBase,
    /// Formats seconds since 1970 (UTC) as a local date and time, for the field `tod`.
    pub local_time: Option<fn(i64) -> String>,
    /// Print call chains.
    pub callchains: bool,
    /// Print inlined functions; in JSON, source lines too.
    pub inline: bool,
    /// Print whole paths of source files instead of their names.
    pub full_source_paths: bool,
    /// Where source files are.
    pub sources: SourceRoot,
    /// Limit of addresses per call chain.
    pub max_stack: usize,
    /// Limit of blocks of code between the branches of a branch stack.
    pub max_blocks: Option<usize>,
    /// Functions that end a call chain.
    pub stop_at: Vec<String>,
    /// The records that are printed besides samples.
    pub records: PrintedRecords,
}
