//! Turns the events that users type into attributes for the kernel.
//!
//! `syntax` parses the text without looking names up. `resolve` looks them up: `names` knows the
//! kernel's fixed events, `pmu` those in sysfs, `tracepoint` those in tracefs, `breakpoint`
//! addresses, and `uprobe` functions of programs. `terms` and `modifiers` apply the rest of an
//! event. `filter` serves `--filter`, `list` serves `tare list`, `probes` serves `tare trace`.
//! `open_error` and `unavailable` explain the kernel's refusals. docs/events.md is the manual.

mod breakpoint;
mod error;
mod filter;
mod functions;
pub mod list;
mod mapping_identity;
mod modifiers;
pub mod names;
mod open_error;
mod pmu;
pub mod probes;
mod resolve;
mod selections;
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
pub use names::OwnTime;
pub use open_error::OpenError;
pub use sources::Sources;
pub use syntax::glob_matches;
pub use terms::{CallGraph, SamplingTerms, branch_kind, branch_kinds};
pub use unavailable::{
    Unavailable, is_cpu_pmu, is_kernel_only, needs_cpu_pmu, restrict_to_user_mode,
};

/// The PMU of perf's tool events, which the kernel doesn't have.
const OWN_TIME_PMU: &str = "tool";

/// An event, ready to be opened on any target.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The name shown in results: the value of `name=`, else the text as typed. A tracepoint is
    /// shown as `SYSTEM:EVENT`, and a core event of a hybrid machine with its PMU. All instances of
    /// an uncore PMU share a name.
    pub name: String,
    /// The PMU in sysfs that provides the event, if the user named one or tare selected one.
    pub pmu: Option<String>,
    /// The tracepoint, if the event is one.
    pub tracepoint: Option<Tracepoint>,
    /// The attribute for a counting event. The opener adds the fields that depend on the target
    /// (`disabled`, `inherit`, `enable_on_exec`, `read_format`); `sampling` has the terms for
    /// samples.
    pub attr: Attr,
    /// `:P`: parsing sets `attr.precise_ip` to 3; the recorder lowers it until the kernel accepts
    /// the event, and `tare overhead` sets it to 0.
    pub precise_max: bool,
    /// Factor from a raw count to `unit` (sysfs `EVENT.scale`; 1e-6 for clocks, whose unit is
    /// `msec`).
    pub scale: f64,
    /// The unit of a scaled count; empty for plain occurrences.
    pub unit: String,
    /// The CPUs that the event can be opened on; `None` for all.
    pub cpus: Option<PmuCpus>,
    /// The filter on the tracepoint's fields.
    pub filter: Option<String>,
    /// Whether the user selected privilege levels (`:u`, `:k`, …). If not, tare may exclude the
    /// kernel where the user lacks permission.
    pub explicit_levels: bool,
    /// `percore`: the counts of the threads of a core should be summed. `tare stat` and `tare
    /// record` refuse it.
    pub percore: bool,
    /// `inherit` and `no-inherit`: whether child tasks are counted; `None` if not set for this
    /// event.
    pub inherit: Option<bool>,
    /// Terms that have an effect only if the event is sampled.
    pub sampling: SamplingTerms,
}

impl Event {
    /// Returns the time that stands in the event's place in results, if it is one of perf's tool
    /// events.
    #[must_use]
    pub fn own_time(&self) -> Option<OwnTime> {
        let is_own = self.pmu.as_deref() == Some(OWN_TIME_PMU);
        is_own.then(|| names::own_time(&self.name)).flatten()
    }

    /// Whether the event is a probe of a user-space function, of which a thread has none of its
    /// parent's: the kernel can't pass it on.
    #[must_use]
    pub fn is_uprobe(&self) -> bool {
        self.pmu.as_deref() == Some(uprobe::PMU)
    }

    /// Puts the PMU instance into the name of an uncore event, as `perf stat --no-merge` does:
    /// `uncore_imc_0/event/`, `event [uncore_imc_0]`. Other events keep their names.
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

    /// Creates an event that counts plain occurrences, without a PMU, terms or modifiers.
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

    /// Returns a typed term that has no effect on counting, if there is one. `period` and `freq`
    /// are not reported.
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
    /// The system, such as `sched`.
    pub system: String,
    /// The event, such as `sched_switch`.
    pub name: String,
}

/// The CPUs on which an event of a PMU is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PmuCpus {
    /// An uncore PMU: one CPU counts for its whole package or node, so the event can't count a task
    /// (sysfs `cpumask`).
    OnePerPackage(CpuList),
    /// A core PMU that only some CPUs have (hybrid; sysfs `cpus`).
    Those(CpuList),
}

/// Events that the kernel schedules onto counters together; a single event is a group of one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventGroup {
    /// The events, the leader first.
    pub events: Vec<Event>,
    /// `:W`: if the counters can't hold the whole group, its events are opened one by one.
    pub weak: bool,
    /// `:S`: a sample of the leader carries the counts of all members.
    pub sample_read: bool,
}

/// Parses the text of one `-e`: events and groups, separated by commas.
///
/// # Errors
/// Fails at the first invalid event. The error has its position, and known names that look similar.
pub fn parse(text: &str, sources: &Sources) -> Result<Vec<EventGroup>, EventError> {
    let items = syntax::parse_items(text).map_err(|at| at.in_text(text))?;
    let mut groups = Vec::new();
    for item in &items {
        groups.extend(resolve::resolve(item, sources).map_err(|at| at.in_text(text))?);
    }
    Ok(groups)
}

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
