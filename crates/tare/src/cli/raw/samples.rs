use super::{
    EventFilterArgs, InlineArgs, NameFilterArgs, OwnSampleArgs, RecordingArgs, StoreArgs,
    SymbolSearch, TaskFilterArgs,
};

/// Samples of a recording, for `flame` and `export`.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("comms", |arg| arg.short('c')),
    mut_arg("store", |arg| arg.conflicts_with_all([
        "file", "input", "comms", "dsos", "symbols", "pid", "tid", "cpu", "time", "inline",
    ])),
)]
pub struct SampleArgs {
    /// The recording.
    #[command(flatten)]
    pub recording: RecordingArgs,

    /// A store in place of a recording.
    #[command(flatten)]
    pub stored: StoreArgs,

    /// Recorded events.
    #[command(flatten, next_help_heading = "Filters")]
    pub events: EventFilterArgs,

    /// Show CPU time and off-CPU time (`tare record --off-cpu`) as one event, under the clock's
    /// name
    #[arg(long, help_heading = "Filters")]
    pub wall_clock: bool,

    /// Commands, binaries and functions.
    #[command(flatten)]
    pub names: NameFilterArgs,

    /// Processes, threads, CPUs and times.
    #[command(flatten)]
    pub tasks: TaskFilterArgs,

    /// The recorder's own samples.
    #[command(flatten, next_help_heading = "Filters")]
    pub own: OwnSampleArgs,

    /// Inlined functions.
    #[command(flatten, next_help_heading = "Symbols")]
    pub inline: InlineArgs,

    /// Sources of symbols.
    #[command(flatten)]
    pub symbol_search: SymbolSearch,
}
