//! Arguments as typed: the definition of every option, with its names, value, help, conflicts and
//! default.

use std::ffi::OsString;
use std::mem::ManuallyDrop;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches};

use crate::cli::{perf, translated};
use crate::exit::say;

#[cfg(feature = "agent")]
mod agent;
mod annotate;
mod archive;
mod attached;
mod bench;
mod chains;
mod deferred;
mod definition;
mod diff;
mod doctor;
mod events;
mod export;
mod filters;
mod flame;
#[cfg(feature = "agent")]
mod fleet;
mod help;
mod input;
mod list;
mod lock;
mod overhead;
mod plain;
pub mod record;
mod recorded;
mod report;
mod report_layout;
mod rounds;
mod rows;
mod sampler;
mod samples;
mod sched;
mod schedule;
mod script;
#[cfg(feature = "serve")]
mod serve;
mod stat;
#[cfg(feature = "agent")]
mod store;
mod stored;
mod symbol_search;
mod targets;
mod task_list;
mod text;
mod top;
mod trace;
mod traced;
mod versus;

#[cfg(feature = "agent")]
pub use agent::AgentArgs;
pub use annotate::{AnnotateArgs, DisassemblerStyle, ListingArgs, PercentType};
pub use archive::ArchiveArgs;
pub use bench::{
    BenchArgs, BenchExportArgs, BenchFormat, BenchHookArgs, BenchJudgeArgs, BenchLaunchArgs,
    BenchRunArgs, BenchShownArgs, OutputStyle, SortMethod, TimeUnitName,
};
pub use chains::{ChainLengthArgs, InlineArgs};
pub use deferred::Deferred;
pub use diff::{DiffArgs, VersusStoreArgs};
pub use doctor::DoctorArgs;
pub use events::{EventArgs, EventListArgs};
pub use export::ExportArgs;
pub use filters::{
    EventFilterArgs, EventSwitchArgs, NameFilterArgs, OwnSampleArgs, RangeArgs, TaskFilterArgs,
};
pub use flame::{FlameArgs, FlameFormat, FlameOrder, FlameRoot};
#[cfg(feature = "agent")]
pub use fleet::{FleetArgs, FleetQuestion};
pub use input::{DEFAULT_RECORDING, FilePartArgs, ForceArgs, InputArgs, RecordingArgs};
pub use list::ListArgs;
pub use lock::{LockArgs, LockSort};
pub use overhead::{OverheadArgs, ProfilerArgs};
pub use record::RecordArgs;
pub use recorded::{
    BuildidListArgs, CompletionsArgs, EvlistArgs, IgnoredVerboseArgs, InjectArgs, KallsymsArgs,
    VersionArgs,
};
pub use report::{KeyArgs, ReportArgs, ReportOutputArgs, SampleWeight};
pub use report_layout::ReportLayout;
pub use rounds::{MIN_ROUNDS, RoundArgs};
pub use rows::{ColumnArgs, EntryArgs, Percentage, PercentageArgs, RowArgs};
pub use sampler::{MIN_RATE_HZ, SamplerArgs};
pub use samples::SampleArgs;
pub use sched::{SchedArgs, SchedSort};
pub use schedule::{ControlArgs, TimeoutArgs};
pub use script::{MAX_STACK, ScriptArgs};
#[cfg(feature = "serve")]
pub use serve::ServeArgs;
pub use stat::{DEFAULT_EVENTS, StatArgs};
#[cfg(feature = "agent")]
pub use store::{StoreAction, StoreCommandArgs};
pub use stored::StoreArgs;
pub use symbol_search::SymbolSearch;
pub use targets::{AttachArgs, FollowMode, InheritArgs, RunningArgs};
pub(crate) use task_list::TaskList;
pub use text::{InterfaceArgs, JsonArgs, PrecisionArgs, SeparatedArgs, StepArgs, TableArgs};
pub use top::TopArgs;
pub use trace::TraceArgs;
pub use traced::{ResultFileArgs, RingArgs, TracedArgs};
pub use versus::VersusArgs;

/// Greatest width of a help in characters.
const MAX_HELP_WIDTH: usize = 120;

/// A Linux profiler that weighs itself.
#[derive(Debug, clap::Parser)]
#[command(
    name = "tare",
    version,
    max_term_width = MAX_HELP_WIDTH,
    arg_required_else_help = true,
    infer_long_args = true
)]
pub struct Tare {
    /// The command.
    #[command(subcommand)]
    pub command: TareCommand,
}

/// The commands of tare.
#[derive(Debug, clap::Subcommand)]
pub enum TareCommand {
    /// Count events while a command runs, or in running threads, CPUs or cgroups.
    #[command(args_override_self = true)]
    Stat(Deferred<StatArgs>),
    /// Compare the run times of commands in interleaved runs, with hyperfine's command line.
    #[command(args_override_self = true)]
    Bench(Deferred<BenchArgs>),
    /// Measure the overhead of sampling on this machine, or of profilers on a program.
    #[command(args_override_self = true)]
    Overhead(Deferred<OverheadArgs>),
    /// Record samples and tracepoints of a command, or of running processes, CPUs or cgroups, in a
    /// perf.data file.
    #[command(args_override_self = true)]
    Record(Deferred<RecordArgs>),
    /// Trace system calls of a command, running processes or the whole machine, with their
    /// durations.
    #[command(args_override_self = true)]
    Trace(Deferred<TraceArgs>),
    /// Show run time and CPU wait time of tasks: of a command, running processes, the whole machine
    /// or a recording.
    #[command(args_override_self = true)]
    Sched(Deferred<SchedArgs>),
    /// Show waits for kernel locks and futexes, by caller.
    #[command(args_override_self = true)]
    Lock(Deferred<LockArgs>),
    /// Print the samples of a recording, like perf script.
    #[command(args_override_self = true)]
    Script(Deferred<ScriptArgs>),
    /// Pack a recording with its binaries, debug files and kernel symbols.
    #[command(args_override_self = true)]
    Archive(Deferred<ArchiveArgs>),
    /// Show the profile of a recording, by command, file and function.
    #[command(args_override_self = true)]
    Report(Deferred<ReportArgs>),
    /// Show a live profile, by file and function.
    #[command(args_override_self = true)]
    Top(Deferred<TopArgs>),
    /// Profile the whole machine continuously, into a store.
    #[cfg(feature = "agent")]
    #[command(args_override_self = true)]
    Agent(Deferred<AgentArgs>),
    /// Show, name, compact or check a store of `tare agent`.
    #[cfg(feature = "agent")]
    #[command(args_override_self = true)]
    Store(Deferred<StoreCommandArgs>),
    /// Answer questions about the profiles of many hosts: top, losses, regressions and more.
    #[cfg(feature = "agent")]
    #[command(args_override_self = true)]
    Fleet(Deferred<FleetArgs>),
    /// Serve a web page on a store or a recording, for this user.
    #[cfg(feature = "serve")]
    #[command(args_override_self = true)]
    Serve(Deferred<ServeArgs>),
    /// Show functions instruction by instruction, with the weight of their samples.
    #[command(args_override_self = true)]
    Annotate(Deferred<AnnotateArgs>),
    /// Compare recordings function by function, and tell changes from noise.
    #[command(args_override_self = true)]
    Diff(Deferred<DiffArgs>),
    /// Draw a flame graph: a self-contained HTML page, or an SVG.
    #[command(args_override_self = true)]
    Flame(Deferred<FlameArgs>),
    /// Write samples in the formats of other tools.
    #[command(args_override_self = true)]
    Export(Deferred<ExportArgs>),
    /// List the events of this machine, and why others are missing.
    #[command(args_override_self = true)]
    List(ListArgs),
    /// Show the abilities of this machine and user, and how to lift each limit.
    #[command(args_override_self = true)]
    Doctor(DoctorArgs),
    /// List the events of a recording.
    #[command(args_override_self = true)]
    Evlist(Deferred<EvlistArgs>),
    /// List the files of a recording by their build ids.
    #[command(args_override_self = true)]
    BuildidList(Deferred<BuildidListArgs>),
    /// Copy a recording, where perf's scripts call perf inject.
    #[command(args_override_self = true)]
    Inject(Deferred<InjectArgs>),
    /// Look up kernel symbols.
    #[command(args_override_self = true)]
    Kallsyms(Deferred<KallsymsArgs>),
    /// Print a script that completes tare's command line in a shell.
    #[command(args_override_self = true)]
    Completions(Deferred<CompletionsArgs>),
    /// Print the version and build options.
    #[command(args_override_self = true)]
    Version(Deferred<VersionArgs>),
}

impl Tare {
    /// Parses arguments, after perf's options before the command, and notes which `-e` each
    /// `--filter` follows, which clap's structs don't keep.
    ///
    /// # Errors
    /// Fails if clap rejects the arguments, or if they ask for help or the version.
    pub fn parse_typed(args: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut args: Vec<OsString> = args.into_iter().collect();
        perf::take_global_options(&mut args);
        trace::join_string_limit(&mut args);
        translated::translate(&mut args);
        let word = |at: usize| args.get(at).and_then(|word| word.to_str());
        if word(1) == Some("help") && matches!(word(2), Some("-h" | "--help")) {
            args.truncate(2);
        }
        let tare = plain::read(&args).map_or_else(|| Self::parse_described(args), Ok)?;
        if tare.names_tasks_and_machine() {
            say("-a has no effect beside -p, -t or -u, as in perf: only these tasks are measured");
        }
        Ok(tare)
    }

    /// Whether `-a` is given with `-p`, `-t` or `-u`.
    fn names_tasks_and_machine(&self) -> bool {
        let (running, user) = match &self.command {
            TareCommand::Stat(stat) => (&stat.target.running, &None),
            TareCommand::Record(record) => {
                (&record.target.attach.running, &record.target.attach.uid)
            }
            TareCommand::Top(top) => (&top.attach.running, &top.attach.uid),
            _ => return false,
        };
        let names_tasks = !running.pid.is_empty() || !running.tid.is_empty() || user.is_some();
        running.all_cpus && names_tasks
    }

    /// Parses arguments with clap. Help is parsed again to lay it out in columns. If an option is
    /// unknown, tries again with perf's options that have no effect here, and prints a message for
    /// each typed one.
    fn parse_described(args: Vec<OsString>) -> Result<Self, clap::Error> {
        let error = match typed(args.clone(), Self::command()).and_then(Self::from_matches) {
            Err(error) if error.kind() == ErrorKind::DisplayHelp => {
                return typed(args, with_columns()).and_then(Self::from_matches);
            }
            Err(error) => error,
            Ok(tare) => return Ok(tare),
        };
        let Some(command) = perf::with_accepted(&args, &error, Self::command()) else {
            return Err(error);
        };
        let typed = typed(args, command)?;
        let messages = perf::messages(&typed.matches);
        let tare = Self::from_matches(typed)?;
        messages.iter().for_each(|message| say(message));
        Ok(tare)
    }

    /// Returns the typed values.
    fn from_matches(mut typed: ClapMatches) -> Result<Self, clap::Error> {
        let filter_positions = filter_positions(&typed.matches);
        // Values are moved: a copy of all matches would take a twelfth of the instructions of
        // `tare stat --null true`.
        let mut tare = Self::from_arg_matches_mut(&mut typed.matches)?;
        match &mut tare.command {
            TareCommand::Stat(stat) => {
                stat.after_dashes = typed.after_dashes;
                stat.events.list.filter_positions = filter_positions;
            }
            TareCommand::Record(record) => record.events.filter_positions = filter_positions,
            TareCommand::Sched(sched) => sched.traced.after_dashes = typed.after_dashes,
            TareCommand::Lock(lock) => lock.traced.after_dashes = typed.after_dashes,
            _ => {}
        }
        Ok(tare)
    }
}

/// Returns the description of tare with the ends of all helps laid out for this terminal.
fn with_columns() -> clap::Command {
    let width = help::width();
    let mut tare = Tare::command();
    // `build` describes the subcommands, which are deferred.
    tare.build();
    tare.mut_subcommands(|command| match command.get_after_help() {
        Some(text) => {
            let text = help::lay_out(&text.to_string(), width);
            command.after_help(text)
        }
        None => command,
    })
}

/// Arguments as matched by clap. clap's structures are never freed: freeing takes time, and the
/// kernel does it at the exit.
struct ClapMatches {
    matches: ManuallyDrop<ArgMatches>,
    /// Whether `--` stands before the command that is run.
    after_dashes: bool,
}

/// Matches arguments against the description `command`.
fn typed(mut args: Vec<OsString>, command: clap::Command) -> Result<ClapMatches, clap::Error> {
    let mut command = ManuallyDrop::new(command);
    let after_dashes = attached::put_equals(&mut args, &mut command);
    let matches = ManuallyDrop::new(command.try_get_matches_from_mut(args)?);
    Ok(ClapMatches { matches, after_dashes })
}

/// Returns the number of `-e` before each `--filter`.
fn filter_positions(matches: &ArgMatches) -> Vec<usize> {
    let Some(("stat" | "record", matches)) = matches.subcommand() else { return Vec::new() };
    let positions =
        |id: &str| matches.indices_of(id).map_or_else(Vec::new, Iterator::collect::<Vec<usize>>);
    let events = positions("events");
    positions("filters")
        .iter()
        .map(|filter| events.iter().filter(|event| *event < filter).count())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use clap::{Arg, ArgAction};

    use super::*;

    /// Options whose repeated values add up: those of perf, and `--fail-if` and `--debug-dir`,
    /// which perf lacks.
    const ACCUMULATE: [&str; 9] = [
        "events",
        "filters",
        "cgroup",
        "branch_filter",
        "fail_if",
        "verbose",
        "debug_dir",
        "pid",
        "tid",
    ];

    /// Two values that the option takes.
    fn two_values(arg: &Arg) -> [String; 2] {
        match &arg.get_possible_values()[..] {
            [first, .., last] => [first.get_name().to_owned(), last.get_name().to_owned()],
            _ => ["1".to_owned(), "2".to_owned()],
        }
    }

    fn typed(command: &str, arg: &Arg, value: &str) -> Vec<OsString> {
        let name = arg
            .get_long()
            .map_or_else(|| format!("-{}", arg.get_short().unwrap()), |long| format!("--{long}"));
        let takes_value = arg.get_action().takes_values();
        let word = if takes_value { format!("{name}={value}") } else { name };
        ["tare", command, &word].map(OsString::from).to_vec()
    }

    /// Returns the text of each Rust file below a folder, up to its tests.
    fn sources(folder: &Path) -> Vec<String> {
        let mut sources = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources.extend(self::sources(&path));
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                sources.push(text.split("#[cfg(test)]").next().unwrap_or_default().to_owned());
            }
        }
        sources
    }

    /// Options that several commands share are in a struct of their own, which these flatten.
    #[test]
    fn no_option_is_defined_twice() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/raw");
        let mut definitions = BTreeSet::new();
        for source in sources(&folder) {
            let mut lines = Vec::new();
            for line in source.lines().map(str::trim) {
                if line.starts_with("pub ") && lines.iter().any(|line: &&str| line.contains("long"))
                {
                    let help: String =
                        lines.iter().filter_map(|line| line.strip_prefix("///")).collect();
                    let definition = format!("{line}{help}");
                    assert!(definitions.insert(definition), "defined twice: {line}");
                }
                if line.is_empty() || line.starts_with("pub ") {
                    lines.clear();
                } else {
                    lines.push(line);
                }
            }
        }
        assert!(definitions.len() > 250, "{}", definitions.len());
    }

    /// perf's parse-options keeps the last value of a repeated option, and so do the options of
    /// `stat`, `record`, `report` and `script`, except those of `ACCUMULATE` and `script -F`.
    #[test]
    fn of_a_repeated_option_the_last_one_counts() {
        let mut seen = 0;
        for name in ["stat", "record", "report", "script"] {
            let mut tare = Tare::command();
            tare.build();
            let command = tare.find_subcommand(name).unwrap();
            let options = command.get_arguments().filter(|arg| !arg.is_positional());
            let is_own = |arg: &&Arg| !["help", "version"].contains(&arg.get_id().as_str());
            for arg in options.filter(is_own) {
                let [first, second] = two_values(arg);
                let mut words = typed(name, arg, &first);
                words.extend(typed(name, arg, &second).split_off(2));
                let matches = match Tare::command().try_get_matches_from(&words) {
                    Ok(matches) => matches,
                    // Another option is required beside it: that is checked after all are read.
                    Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => continue,
                    Err(error) => panic!("{words:?}: {error}"),
                };
                let (_, matches) = matches.subcommand().unwrap();
                let id = arg.get_id().as_str();
                if matches!(arg.get_action(), ArgAction::Set) {
                    let values: Vec<_> = matches.get_raw(id).unwrap().collect();
                    assert_eq!(values, [second.as_str()], "{words:?}");
                } else if matches!(arg.get_action(), ArgAction::Append) {
                    let is_fields = name == "script" && id == "fields";
                    assert!(
                        ACCUMULATE.contains(&id) || is_fields,
                        "{words:?}: perf takes the last"
                    );
                }
                seen += 1;
            }
        }
        assert!(seen > 100, "only {seen} options were tried");
    }
}
