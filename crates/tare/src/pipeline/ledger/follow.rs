//! How the command was followed, and how much of what its tasks used the samples stand for.

use serde::{Deserialize, Serialize};

use super::{Event, Ledger};

/// How what the command starts is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FollowMode {
    /// By events on a cgroup that the command runs in.
    Cgroup,
    /// By events on whole CPUs, of which only what the command's tasks did is shown.
    System,
    /// By events that children inherit.
    #[default]
    Inherit,
}

impl FollowMode {
    /// As part of a sentence.
    #[must_use]
    pub fn how(self) -> &'static str {
        match self {
            Self::Cgroup => "by a cgroup of its own",
            Self::System => "on all CPUs, and keeps what its tasks do",
            Self::Inherit => "by inherited events",
        }
    }
}

/// How the command was followed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Follow {
    /// How.
    pub mode: FollowMode,
    /// Why not in a way that sees more.
    pub why: Option<String>,
    /// The command's process. What it did before its execve is not the command's.
    pub root: i32,
    /// How many tasks there were; `None` where that is not known.
    pub tasks: Option<u64>,
    /// Tasks of which there is no sample.
    pub unseen_tasks: u64,
    /// Inherited events only: whether the kernel keeps what they counted when their task ends, for
    /// the next child; `None` where that is not known.
    pub kernel_keeps_counts: Option<bool>,
    /// Tasks that left the command's cgroup: what they did from then on is not recorded.
    pub left_cgroup: u64,
    /// Processes that outlived the command, and were moved back to where tare is.
    pub outlived: usize,
}

/// What the samples of an event stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Coverage {
    /// The sum of the periods of its samples.
    pub sampled: u64,
    /// What the tasks used: nanoseconds of CPU time, or occurrences.
    pub used: u64,
    /// Whether these are nanoseconds.
    pub is_time: bool,
    /// Whether so little was used that chance decides how many samples there are.
    pub is_little: bool,
}

/// A period that stands for a frequency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct FixedPeriod {
    /// Samples a second that were asked for.
    pub hz: u64,
    /// A sample every so many cycles, or nanoseconds for the clocks.
    pub period: u64,
    /// Cycles or nanoseconds that a busy CPU makes a second.
    pub a_second: u64,
}

impl FixedPeriod {
    fn text(self, name: &str) -> String {
        let grouped = super::text::grouped;
        format!(
            "{name} every {} ({} a second of CPU, at {} a second)",
            grouped(self.period),
            grouped(self.hz),
            grouped(self.a_second)
        )
    }
}

/// Less than this share (in percent) is warned of.
const ENOUGH_PERCENT: f64 = 90.0;

impl Coverage {
    /// In percent; `None` where nothing was used.
    #[must_use]
    pub fn percent(&self) -> Option<f64> {
        (self.used > 0).then(|| 100.0 * self.sampled as f64 / self.used as f64)
    }

    fn text(&self) -> Option<String> {
        let amount = |number: u64| {
            if self.is_time { super::text::seconds(number) } else { super::text::grouped(number) }
        };
        Some(format!("{} of {} ({:.1}%)", amount(self.sampled), amount(self.used), self.percent()?))
    }
}

/// The lines that tell of it.
pub(super) fn lines(ledger: &Ledger) -> Vec<String> {
    let Some(follow) = &ledger.follow else { return Vec::new() };
    let mut lines = Vec::new();
    let because = follow.why.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
    lines.push(format!("the command was followed {}{because}", follow.mode.how()));
    let fixed: Vec<_> =
        ledger.events.iter().filter_map(|event| Some(event.fixed?.text(&event.name))).collect();
    if !fixed.is_empty() {
        lines.push(format!(
            "so that children start with the right period it is fixed: {}",
            fixed.join(", ")
        ));
    }
    let covered: Vec<_> = ledger
        .events
        .iter()
        .filter_map(|event| Some(format!("{} {}", event.name, event.coverage?.text()?)))
        .collect();
    let unknown = uncovered(ledger, follow);
    let sentence = match (covered.is_empty(), unknown.is_empty()) {
        (true, true) => None,
        (true, false) => Some(format!(
            "not known, as nothing counts {} by task in this mode",
            unknown.join(", ")
        )),
        (false, true) => Some(format!("the samples stand for {}", covered.join(", "))),
        (false, false) => Some(format!(
            "the samples stand for {}; not known for {}",
            covered.join(", "),
            unknown.join(", ")
        )),
    };
    lines.extend(sentence.map(|sentence| format!("coverage: {sentence}{}", tasks(follow))));
    let too_little = |event: &&Event| {
        event
            .coverage
            .filter(|c| !c.is_little)
            .and_then(|c| c.percent())
            .is_some_and(|percent| percent < ENOUGH_PERCENT)
    };
    if let Some(event) = ledger.events.iter().find(too_little) {
        lines.push(format!(
            "WARNING: much of what the command used has no samples ({}): {}",
            event.name,
            remedy(ledger, follow)
        ));
    }
    if follow.kernel_keeps_counts == Some(true) {
        lines.push("this kernel keeps what short-lived children count, for their siblings: see docs/kernel.md".to_owned());
    }
    if follow.left_cgroup > 0 {
        lines.push(format!("{} tasks left the command's cgroup and were not recorded from then on: --follow=system sees them", follow.left_cgroup));
    }
    if follow.outlived > 0 {
        lines.push(format!(
            "{} processes outlive the command: they are where they would have been without tare",
            follow.outlived
        ));
    }
    lines
}

/// Events on whole CPUs count what other tasks do as well: of events that are no clocks nothing
/// says how often the command's tasks had them.
fn uncovered<'a>(ledger: &'a Ledger, follow: &Follow) -> Vec<&'a str> {
    let is_uncovered = |event: &&Event| event.samples > 0 && event.coverage.is_none();
    let told = follow.mode == FollowMode::System && follow.tasks.is_some();
    ledger
        .events
        .iter()
        .filter(is_uncovered)
        .filter(|_| told)
        .map(|event| event.name.as_str())
        .collect()
}

fn tasks(follow: &Follow) -> String {
    match (follow.tasks, follow.unseen_tasks) {
        (None, _) => String::new(),
        (Some(tasks), unseen) => format!(
            "; {} of {} tasks have no sample",
            super::text::grouped(unseen),
            super::text::grouped(tasks)
        ),
    }
}

/// What would mend a recording that saw too little.
fn remedy(ledger: &Ledger, follow: &Follow) -> &'static str {
    match follow.mode {
        _ if !ledger.losses.is_empty() => "samples were lost, use larger rings (-m)",
        FollowMode::Inherit => {
            "children that end early have none; --follow=cgroup or --follow=system sees them, which need CAP_PERFMON"
        }
        FollowMode::Cgroup if follow.left_cgroup > 0 => {
            "tasks left its cgroup; use --follow=system"
        }
        FollowMode::Cgroup | FollowMode::System => "use a higher rate (-F)",
    }
}
