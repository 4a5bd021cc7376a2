//! Options of `tare stat`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use regex_lite::Regex;
use tare_events::{Event, EventGroup, Sources, needs_cpu_pmu};
use tare_format::abi::Flags;
use tare_format::nearest::nearest_hint;
use tare_kernel::cgroup::Cgroups;
use tare_kernel::host::{CpuList, Host};
use tare_measure::compare::Metric;
use tare_measure::count::{Aggregation, Inheritance, NAMED_METRICS, Pairing};

use crate::cli::raw;
use crate::cli::resolved::schedule::{self, Begin};
use crate::cli::resolved::versus::Versus;
use crate::cli::resolved::{events, targets};
use crate::exit::Refusal;

/// Events that each `-d` adds.
const DETAILED: [&str; 3] = [
    "L1-dcache-loads,L1-dcache-load-misses,LLC-loads,LLC-load-misses",
    "L1-icache-loads,L1-icache-load-misses,dTLB-loads,dTLB-load-misses,iTLB-loads,iTLB-load-misses",
    "L1-dcache-prefetches,L1-dcache-prefetch-misses",
];

/// Options of `tare stat`.
#[derive(Debug)]
pub struct Stat {
    /// The events.
    pub events: CountedEvents,
    /// Where they are counted.
    pub target: StatTarget,
    /// Command to run while counting; with [`StatTarget::Command`], the one to count.
    pub command: Vec<OsString>,
    /// Whether children count.
    pub inheritance: Inheritance,
    /// What a row sums.
    pub aggregation: Aggregation,
    /// Runs of the command.
    pub runs: Runs,
    /// When counting begins and ends.
    pub schedule: Schedule,
    /// Source of enable, disable, ping and stop.
    pub control: Option<String>,
    /// Form and destination of results.
    pub output: StatOutput,
    /// Comparison with another command.
    pub versus: Option<Versus>,
}

/// Events to count.
#[derive(Debug)]
pub struct CountedEvents {
    /// The events, by group.
    pub groups: Vec<EventGroup>,
    /// Whether `-e` names them, or `--null` leaves none. Otherwise they are the default events.
    pub by_name: bool,
    /// Whether they need a CPU PMU, and this machine is known to have none.
    pub no_cpu_pmu: bool,
    /// Whether each event keeps a counter for a whole run or turn, so that no count is scaled.
    pub exact: bool,
    /// Names of the derived figures to show; empty for all.
    pub metrics: Vec<String>,
    /// Whether an event of `-e` that wasn't counted makes tare exit with status 3, unless a run
    /// failed.
    pub strict: bool,
}

/// Runs of a command, and what surrounds each.
#[derive(Debug)]
pub struct Runs {
    /// Number of runs; `None`: until interrupted.
    pub number: Option<u32>,
    /// Whether the output shows spreads: `-r` was typed with a number other than 1.
    pub repeated: bool,
    /// Whether sync(2) is called before each run.
    pub sync: bool,
    /// Command before each run.
    pub pre: Option<String>,
    /// Command after each run.
    pub post: Option<String>,
}

impl Runs {
    /// Resolves `-r` and what surrounds each run.
    ///
    /// # Errors
    /// Fails if `-r` has no command, or if `-I` would print the intervals of repeated runs.
    fn resolve(raw: &raw::StatArgs) -> Result<Self, Refusal> {
        let repeat = raw.schedule.repeat;
        if repeat.is_some() && raw.command.is_empty() {
            return Err(Refusal::usage("-r repeats a command: give one"));
        }
        let repeated = repeat.is_some_and(|n| n != 1);
        if repeated && raw.schedule.interval_print.is_some() {
            return Err(Refusal::usage(
                "-I prints one run while it goes on, -r sums several: use one of them",
            ));
        }
        Ok(Self {
            number: repeat.map_or(Some(1), |n| (n > 0).then_some(n)),
            repeated,
            sync: raw.schedule.sync,
            pre: raw.schedule.pre.clone(),
            post: raw.schedule.post.clone(),
        })
    }
}

/// Where events are counted.
#[derive(Debug)]
pub enum StatTarget {
    /// In the command, and in its children unless `-i` excludes them.
    Command,
    /// In a cgroup that the command is started in, on these CPUs.
    CommandInCgroup(CpuList),
    /// In all threads of these processes.
    Processes(Vec<i32>),
    /// In these threads.
    Threads(Vec<i32>),
    /// On these CPUs.
    Cpus {
        /// The CPUs.
        cpus: CpuList,
        /// Whether `-C` lists them. If not, all CPUs are counted.
        listed: bool,
    },
    /// In cgroups, by name, on these CPUs; an empty name is all tasks on the CPUs.
    Cgroups {
        /// Their names.
        names: Vec<String>,
        /// Which events are counted in which cgroup.
        pairing: Pairing,
        /// The CPUs.
        cpus: CpuList,
    },
}

/// Start, interval and end of counting.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// When it begins.
    pub begin: Begin,
    /// Length of an interval; `None`: only totals are printed.
    pub interval: Option<Duration>,
    /// Number of intervals after which it ends.
    pub interval_count: Option<u64>,
    /// Time after which it ends.
    pub timeout: Option<Duration>,
    /// Whether totals follow the intervals.
    pub summary: bool,
}

/// Form of results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatForm {
    /// A table for people.
    Text,
    /// perf's CSV columns, with this separator.
    Csv(String),
    /// perf's JSON lines.
    JsonLines,
    /// tare's versioned JSON document.
    Document,
}

/// Destination of results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// stderr, since stdout belongs to the command.
    Stderr,
    /// stdout.
    Stdout,
    /// A file, replaced or appended to.
    File {
        /// Its path.
        path: PathBuf,
        /// Whether to append.
        append: bool,
    },
    /// An inherited descriptor.
    Descriptor(i32),
    /// Nothing is printed.
    Nowhere,
}

/// Form and destination of results.
#[derive(Clone, Debug)]
pub struct StatOutput {
    /// Form.
    pub form: StatForm,
    /// Destination.
    pub destination: Destination,
    /// Only derived metrics.
    pub metric_only: bool,
    /// Whether digits of large numbers are grouped.
    pub big_numbers: bool,
    /// Whether the time of each run is shown.
    pub each_run: bool,
    /// Whether the sums have a first column `summary` in CSV.
    pub summary_column: bool,
    /// Whether the screen is cleared before each interval.
    pub clears: bool,
    /// 1 prints the numbers of events and open files, 2 also every attribute.
    pub verbose: u8,
}

impl StatOutput {
    /// Whether messages are suppressed: machine-readable results go to stderr, or nothing is
    /// printed.
    #[must_use]
    pub fn is_without_messages(&self) -> bool {
        if self.destination == Destination::Nowhere {
            return true;
        }
        let stderr = matches!(self.destination, Destination::Stderr | Destination::Descriptor(2));
        stderr && self.form != StatForm::Text
    }
}

impl Stat {
    /// Resolves the typed options.
    ///
    /// # Errors
    /// Fails with a [`Refusal`] that names the remedy.
    pub fn resolve(raw: raw::StatArgs, host: &Host) -> Result<Self, Refusal> {
        if !raw.after_dashes {
            no_subcommand(&raw.command)?;
        }
        let target = target(&raw, host)?;
        let aggregation = aggregation(&raw, &target)?;
        let begin = schedule::begin(&raw.schedule.start)?;
        let runs = Runs::resolve(&raw)?;
        let sources = Sources::new(host.clone());
        // `--vs` compares these times by itself.
        let is_compared = raw.versus.vs.is_some();
        let sources = if is_compared { sources } else { sources.with_own_times() };
        let (groups, by_name) = counted(&raw, &target, &sources)?;
        let versus = Versus::resolve(&raw.versus, &raw.command, metrics(&groups))?;
        Ok(Self {
            versus,
            events: CountedEvents {
                no_cpu_pmu: needs_cpu_pmu(&groups) && sources.lacks_cpu_pmu(),
                groups,
                by_name,
                exact: raw.events.exact,
                metrics: raw.events.metrics.clone(),
                strict: raw.events.strict,
            },
            target,
            inheritance: if raw.target.children.no_inherit {
                Inheritance::None
            } else {
                Inheritance::Children
            },
            aggregation,
            runs,
            schedule: Schedule {
                begin,
                interval: raw.schedule.interval_print.map(Duration::from_millis),
                interval_count: raw.schedule.interval_count,
                timeout: raw.schedule.end.duration(),
                summary: raw.schedule.summary,
            },
            output: output(&raw),
            control: raw.schedule.start.control,
            command: raw.command,
        })
    }
}

impl Stat {
    /// Returns the counted target in the words of perf's title; for cgroups in tare's own.
    #[must_use]
    pub fn title(&self) -> String {
        let list = |ids: &[i32]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let words = self.command.iter().map(|word| word.to_string_lossy());
        match &self.target {
            StatTarget::Command | StatTarget::CommandInCgroup(_) => {
                format!("'{}'", words.collect::<Vec<_>>().join(" "))
            }
            StatTarget::Processes(pids) => format!("process id '{}'", list(pids)),
            StatTarget::Threads(tids) => format!("thread id '{}'", list(tids)),
            StatTarget::Cpus { listed: false, .. } => "'system wide'".to_owned(),
            StatTarget::Cpus { cpus, .. } => format!("'CPU(s) {cpus}'"),
            StatTarget::Cgroups { names, .. } => format!("cgroup '{}'", names.join(",")),
        }
    }
}

/// Refuses perf's subcommands `record` and `report`, which would otherwise run as commands.
fn no_subcommand(command: &[OsString]) -> Result<(), Refusal> {
    let instead = match command.first().and_then(|word| word.to_str()) {
        Some("record") => "`tare stat --json -o FILE COMMAND` keeps counts in a file",
        Some("report") => "`tare stat --json -o FILE COMMAND` writes a file that jq reads",
        _ => return Ok(()),
    };
    let name = command[0].to_string_lossy();
    Err(Refusal::usage(format!(
        "perf's 'stat {name}' is not supported: {instead}; `tare stat -- {name}` runs a command called {name}"
    )))
}

fn target(raw: &raw::StatArgs, host: &Host) -> Result<StatTarget, Refusal> {
    let cpus = |text: &Option<String>| targets::cpus(text.as_deref(), host);
    if !raw.target.running.pid.is_empty() {
        return Ok(StatTarget::Processes(targets::tasks(raw::TaskList::ids(
            &raw.target.running.pid,
        ))?));
    }
    if !raw.target.running.tid.is_empty() {
        return Ok(StatTarget::Threads(targets::tasks(raw::TaskList::ids(
            &raw.target.running.tid,
        ))?));
    }
    let named = [
        (&raw.target.for_each_cgroup, Pairing::EachWithAll),
        (&raw.target.running.cgroup, Pairing::InTurn),
    ]
    .into_iter()
    .find(|(names, _)| !names.is_empty());
    if let Some((names, pairing)) = named {
        let names = match pairing {
            Pairing::EachWithAll => matching_cgroups(names, host)?,
            Pairing::InTurn => names.clone(),
        };
        return Ok(StatTarget::Cgroups { names, pairing, cpus: cpus(&raw.target.running.cpu)? });
    }
    if raw.target.follow.is_some() && raw.command.is_empty() {
        return Err(Refusal::usage("--follow applies to a command's children: give a command"));
    }
    if raw.target.running.all_cpus || raw.target.running.cpu.is_some() || raw.command.is_empty() {
        return Ok(StatTarget::Cpus {
            cpus: cpus(&raw.target.running.cpu)?,
            listed: raw.target.running.cpu.is_some(),
        });
    }
    match raw.target.follow {
        None | Some(raw::FollowMode::Inherit) => Ok(StatTarget::Command),
        Some(raw::FollowMode::Cgroup) => in_cgroup(raw, host),
        Some(raw::FollowMode::Auto | raw::FollowMode::System) => Err(Refusal::usage(
            "--follow: tare stat supports inherit and cgroup; -a counts the whole machine",
        )),
    }
}

/// Replaces each pattern that isn't a cgroup's name by the cgroups that match it, as perf does.
fn matching_cgroups(names: &[String], host: &Host) -> Result<Vec<String>, Refusal> {
    let known = Cgroups::read(host);
    let mut cgroups = Vec::new();
    for name in names {
        let is_pattern = name.contains(['^', '$', '*', '+', '?', '[', '(', '{', '|', '\\']);
        if !is_pattern || known.find(host, name).is_ok() {
            cgroups.push(name.clone());
            continue;
        }
        let refuse = |why: String| Refusal::usage(format!("--for-each-cgroup '{name}': {why}"));
        let pattern = Regex::new(name).map_err(|error| refuse(error.to_string()))?;
        let found = known.matching(host, |name| pattern.is_match(name));
        if found.is_empty() {
            return Err(refuse("no cgroup's path matches".to_owned()));
        }
        cgroups.extend(found);
    }
    Ok(cgroups)
}

fn in_cgroup(raw: &raw::StatArgs, host: &Host) -> Result<StatTarget, Refusal> {
    let conflicts = [
        (raw.target.children.no_inherit, "-i excludes the command's children"),
        (raw.versus.vs.is_some(), "--vs counts by inherited events"),
    ];
    if let Some((_, why)) = conflicts.into_iter().find(|(is_typed, _)| *is_typed) {
        return Err(Refusal::usage(format!("--follow=cgroup: {why}; use --follow=inherit")));
    }
    Ok(StatTarget::CommandInCgroup(targets::cpus(None, host)?))
}

fn aggregation(raw: &raw::StatArgs, target: &StatTarget) -> Result<Aggregation, Refusal> {
    let cpu_rows = [
        (raw.rows.no_aggr, Aggregation::Cpu, "-A"),
        (raw.rows.per_core, Aggregation::Core, "--per-core"),
        (raw.rows.per_die, Aggregation::Die, "--per-die"),
        (raw.rows.per_socket, Aggregation::Socket, "--per-socket"),
        (raw.rows.per_node, Aggregation::Node, "--per-node"),
        (raw.rows.per_cluster, Aggregation::Cluster, "--per-cluster"),
        (
            raw.rows.per_cache.is_some(),
            Aggregation::Cache(raw.rows.per_cache.unwrap_or(0)),
            "--per-cache",
        ),
    ];
    let counts_cpus = matches!(
        target,
        StatTarget::Cpus { .. } | StatTarget::Cgroups { .. } | StatTarget::CommandInCgroup(_)
    );
    if let Some(&(_, aggregation, option)) = cpu_rows.iter().find(|(is_typed, ..)| *is_typed) {
        return match counts_cpus {
            true => Ok(aggregation),
            false => Err(Refusal::usage(format!(
                "{option} shows CPUs, and only -a, -C and cgroups count by CPU: add -a"
            ))),
        };
    }
    match (raw.rows.per_thread, target) {
        (false, _) => Ok(Aggregation::All),
        (true, StatTarget::Processes(_) | StatTarget::Threads(_)) => Ok(Aggregation::Thread),
        (true, _) => Err(Refusal::usage(
            "--per-thread shows the threads of running processes: use it with -p or -t",
        )),
    }
}

fn counted(
    raw: &raw::StatArgs,
    target: &StatTarget,
    sources: &Sources,
) -> Result<(Vec<EventGroup>, bool), Refusal> {
    if raw.events.null {
        return Ok((Vec::new(), true));
    }
    let by_name = !raw.events.list.list.events.is_empty() || !raw.events.metrics.is_empty();
    let mut groups = events::typed(&raw.events.list, sources)?;
    let parse =
        |text: &str| tare_events::parse(text, sources).map_err(|error| events::refuse(&error));
    if !by_name {
        // As in perf: cpu-clock for whole CPUs and cgroups, task-clock for tasks.
        let counts_cpus = matches!(target, StatTarget::Cpus { .. } | StatTarget::Cgroups { .. });
        groups.extend(parse(if counts_cpus { "cpu-clock" } else { "task-clock" })?);
        groups.extend(parse(raw::DEFAULT_EVENTS)?);
    }
    for event in metric_events(&raw.events.metrics)? {
        groups.extend(parse(event)?);
    }
    for more in DETAILED.iter().take(raw.events.detailed.into()) {
        groups.extend(parse(more)?);
    }
    groups.iter().flat_map(|group| &group.events).try_for_each(only_counts)?;
    for event in groups.iter_mut().flat_map(|group| &mut group.events) {
        at_level(event, raw);
        if raw.output.no_merge {
            event.name_by_unit();
        }
    }
    Ok((groups, by_name))
}

/// Returns the events of metrics, each once.
fn metric_events(names: &[String]) -> Result<Vec<&'static str>, Refusal> {
    let mut events = Vec::new();
    for name in names {
        let Some(metric) = NAMED_METRICS.iter().find(|metric| metric.0 == name) else {
            let known = NAMED_METRICS.map(|metric| metric.0);
            let hint = nearest_hint(name, known);
            return Err(Refusal::usage(format!(
                "-M {name}: unknown metric{hint} (tare has no vendor metrics; known: {})",
                known.join(", ")
            )));
        };
        events.extend(
            metric.1.split(',').filter(|event| !events.contains(event)).collect::<Vec<_>>(),
        );
    }
    Ok(events)
}

/// Applies `--all-user` and `--all-kernel`.
fn at_level(event: &mut Event, raw: &raw::StatArgs) {
    let counted = match (raw.events.list.all_user, raw.events.list.all_kernel) {
        (true, _) => Flags::EXCLUDE_USER,
        (_, true) => Flags::EXCLUDE_KERNEL,
        _ => return,
    };
    event.attr.flags |= Flags::EXCLUDE_KERNEL | Flags::EXCLUDE_USER | Flags::EXCLUDE_HV;
    event.attr.flags.remove(counted);
    event.explicit_levels = true;
}

/// Refuses `percore`, and terms that only apply to sampling, instead of ignoring them.
fn only_counts(event: &Event) -> Result<(), Refusal> {
    if event.percore {
        return Err(Refusal::usage(format!(
            "{}: percore is not supported, --per-core sums over the threads of each core",
            event.name
        )));
    }
    match event.term_for_sampling() {
        Some(term) => Err(Refusal::usage(format!(
            "{}: {term} is for sampling, and tare stat counts: leave it out",
            event.name
        ))),
        None => Ok(()),
    }
}

/// Returns the compared metrics: time, CPU time, peak memory and every event.
fn metrics(groups: &[EventGroup]) -> Vec<Metric> {
    let events = groups.iter().flat_map(|group| &group.events);
    Metric::all(events.map(|event| (event.name.clone(), event.unit.clone(), event.scale)))
}

fn output(raw: &raw::StatArgs) -> StatOutput {
    let form = match (&raw.output.field_separator, raw.output.json_lines, raw.output.json) {
        (Some(separator), ..) => {
            StatForm::Csv(if separator == "\\t" { "\t".to_owned() } else { separator.clone() })
        }
        (_, true, _) => StatForm::JsonLines,
        (.., true) => StatForm::Document,
        _ => StatForm::Text,
    };
    let destination = match (&raw.output.output, raw.output.log_fd) {
        _ if raw.output.quiet => Destination::Nowhere,
        (Some(path), _) if path.as_os_str() == "-" => Destination::Stdout,
        (Some(path), _) => Destination::File { path: path.clone(), append: raw.output.append },
        (None, Some(fd)) => Destination::Descriptor(fd),
        (None, None) => Destination::Stderr,
    };
    StatOutput {
        form,
        destination,
        metric_only: raw.output.metric_only,
        big_numbers: !raw.output.no_big_num,
        each_run: raw.output.table,
        summary_column: raw.schedule.summary && !raw.output.no_csv_summary,
        clears: raw.schedule.interval_clear,
        verbose: raw.output.steps.verbose,
    }
}
