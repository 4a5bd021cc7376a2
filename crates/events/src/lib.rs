//! Events as users name them and as the kernel takes them.
//!
//! `syntax` parses the text without looking names up. `resolve` looks them up: `names` knows the
//! kernel's fixed events, `pmu` those in sysfs, `tracepoint` those in tracefs, `breakpoint`
//! addresses, `uprobe` functions of programs; `probes` serves `tare trace`. `terms` and `modifiers`
//! may follow a name. docs/events.md is the user's view.

mod breakpoint;
mod error;
mod filter;
pub mod list;
mod modifiers;
pub mod names;
mod nearest;
mod open_error;
mod pmu;
pub mod probes;
mod resolve;
mod sources;
mod syntax;
mod terms;
mod tracepoint;
mod unavailable;
mod uprobe;

use tare_format::abi::Attr;
use tare_kernel::host::CpuList;

pub use error::{EventError, Problem};
pub use filter::{FilterError, set_filter};
pub use nearest::nearest;
pub use open_error::OpenError;
pub use sources::Sources;
pub use syntax::glob_matches;
pub use terms::{CallGraph, SamplingTerms, branch_kind, branch_kinds};
pub use unavailable::{Unavailable, is_cpu_pmu, is_kernel_only, needs_cpu_pmu, user_mode_only};

/// One event, ready to be opened on any target.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The name that results carry: what the user typed, or `name=`. The instances of an uncore PMU
    /// share one.
    pub name: String,
    /// The PMU in sysfs that the event was found in, where the user named one or tare had to
    /// choose.
    pub pmu: Option<String>,
    /// The tracepoint that the event is.
    pub tracepoint: Option<Tracepoint>,
    /// What the kernel takes, without what depends on the target and on whether it counts or samples
    /// (`disabled`, `inherit`, `enable_on_exec`, `read_format`). It counts: what the user said
    /// about sampling is in `sampling`.
    pub attr: Attr,
    /// `:P`: `attr.precise_ip` is 3, and is lowered until the kernel takes the event.
    pub precise_max: bool,
    /// What a count is multiplied by to be in `unit` (sysfs `EVENT.scale`; 1e-6 for the clocks,
    /// whose unit is `msec`).
    pub scale: f64,
    /// The unit of a scaled count; empty for plain occurrences.
    pub unit: String,
    /// The CPUs that stand for the whole PMU, where it isn't one per CPU (sysfs `cpumask`), or the
    /// CPUs that have it (sysfs `cpus`).
    pub cpus: Option<PmuCpus>,
    /// A filter over the tracepoint's fields.
    pub filter: Option<String>,
    /// Whether the user said which privilege levels count (`:u`, `:k`, …): if not, tare may leave
    /// out the kernel where it isn't allowed.
    pub explicit_levels: bool,
    /// `percore`: the counts of the threads of a core are summed up.
    pub percore: bool,
    /// `inherit` and `no-inherit`: whether children are counted, where the user said so for this
    /// event.
    pub inherit: Option<bool>,
    /// What matters only where the event is sampled.
    pub sampling: SamplingTerms,
}

impl Event {
    /// Names an event of one of several units of a PMU by its unit, as `perf stat --no-merge` does:
    /// `uncore_imc_0/event/`, `event [uncore_imc_0]`. Others keep their names.
    pub fn name_by_unit(&mut self) {
        let Some(pmu) = &self.pmu else { return };
        let is_unit = matches!(self.cpus, Some(PmuCpus::OnePerPackage(_)));
        if !is_unit || self.name.starts_with(pmu.as_str()) {
            return;
        }
        self.name = match self.name.split_once('/') {
            Some((_, terms)) => format!("{pmu}/{terms}"),
            None => format!("{} [{pmu}]", self.name),
        };
    }

    /// An event that counts plain occurrences, with nothing said about where and how.
    #[must_use]
    pub fn new(name: impl Into<String>, attr: Attr) -> Self {
        Self {
            name: name.into(),
            pmu: None,
            tracepoint: None,
            attr,
            precise_max: false,
            scale: 1.0,
            unit: String::new(),
            cpus: None,
            filter: None,
            explicit_levels: false,
            percore: false,
            inherit: None,
            sampling: SamplingTerms::default(),
        }
    }

    /// A term that was typed and has no effect where the event is only counted, other than its rate
    /// of samples.
    #[must_use]
    pub fn term_for_sampling(&self) -> Option<&'static str> {
        let terms = &self.sampling;
        let typed = [
            ("call-graph", terms.call_graph.is_some()),
            ("stack-size", terms.stack_size.is_some()),
            ("max-stack", terms.max_stack.is_some()),
            ("branch_type", terms.branch_type.is_some()),
            ("time", terms.time.is_some()),
            ("overwrite", terms.overwrite.is_some()),
            ("nr", terms.max_events.is_some()),
            ("aux-output", terms.aux_output),
            ("aux-sample-size", terms.aux_sample_size.is_some()),
        ];
        typed.into_iter().find(|(_, typed)| *typed).map(|(term, _)| term)
    }
}

/// A tracepoint's name in two parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracepoint {
    /// `sched`
    pub system: String,
    /// `sched_switch`
    pub name: String,
}

/// On which CPUs an event of a PMU is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PmuCpus {
    /// An uncore PMU: one CPU of each package or node counts for all of it, so that it counts whole
    /// machines, not tasks (sysfs `cpumask`).
    OnePerPackage(CpuList),
    /// A core PMU that only some CPUs have (hybrid; sysfs `cpus`).
    Those(CpuList),
}

/// Events that are put on counters together; a single event is a group of one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventGroup {
    /// The leader first.
    pub events: Vec<Event>,
    /// `:W`: where the group doesn't fit on the counters together, its events are opened one by
    /// one.
    pub weak: bool,
    /// `:S`: a sample of the leader carries the counts of all members.
    pub sample_read: bool,
}

/// Reads the text of one `-e`: events and groups, separated by commas.
///
/// # Errors
/// The first thing in the text that is no event, with its position and the names that are near.
pub fn parse(text: &str, sources: &Sources) -> Result<Vec<EventGroup>, EventError> {
    let items = syntax::items(text).map_err(|at| at.in_text(text))?;
    let mut groups = Vec::new();
    for item in &items {
        groups.extend(resolve::item(item, sources).map_err(|at| at.in_text(text))?);
    }
    Ok(groups)
}
