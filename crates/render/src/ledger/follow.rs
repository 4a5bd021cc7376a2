//! How the command was followed, and how much of what its tasks used the samples stand for.

use tare_format::ledger::{Coverage, Event, FixedPeriod, Follow, FollowMode, Ledger};

use super::seconds;
use crate::plural::{agreeing, count, grouped};

/// Less than this share (in percent) is warned of.
const ENOUGH_PERCENT: f64 = 90.0;

/// The period of an event.
fn fixed_period(fixed: FixedPeriod, name: &str) -> String {
    format!(
        "{name} every {} ({} a second of CPU, at {} a second)",
        grouped(fixed.period),
        grouped(fixed.hz),
        grouped(fixed.a_second)
    )
}

/// What samples stand for, of what was used.
fn coverage(coverage: Coverage) -> Option<String> {
    let amount = |number: u64| {
        if coverage.is_time { seconds(number) } else { grouped(number) }
    };
    let percent = coverage.percent()?;
    let sampled = amount(coverage.sampled);
    let used = amount(coverage.used);
    Some(if coverage.is_little {
        format!("{sampled} of {used} (too little to tell a share)")
    } else {
        format!("{sampled} of {used} ({percent:.1}%)")
    })
}

/// The lines that tell of it.
pub(super) fn lines(ledger: &Ledger) -> Vec<String> {
    let Some(follow) = &ledger.follow else { return Vec::new() };
    let mut lines = Vec::new();
    let because = follow.why.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
    lines.push(format!("the command was followed {}{because}", follow.mode.how()));
    let fixed: Vec<_> = ledger
        .events
        .iter()
        .filter_map(|event| Some(fixed_period(event.fixed?, &event.name)))
        .collect();
    if !fixed.is_empty() {
        lines.push(format!(
            "so that children start with the right period it is fixed: {}",
            fixed.join(", ")
        ));
    }
    let covered: Vec<_> = ledger
        .events
        .iter()
        .filter_map(|event| Some(format!("{} {}", event.name, coverage(event.coverage?)?)))
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
    if follow.kernel_keeps_counts == Some(true) {
        lines.push("this kernel keeps what short-lived children count, for their siblings: see linux/inherited-events.md".to_owned());
    }
    lines
}

/// What a user may want to act on.
pub(super) fn warnings(ledger: &Ledger) -> Vec<String> {
    let Some(follow) = &ledger.follow else { return Vec::new() };
    let mut lines = Vec::new();
    let too_little = |event: &&Event| {
        event
            .coverage
            .filter(|c| !c.is_little)
            .and_then(|c| c.percent())
            .is_some_and(|percent| percent < ENOUGH_PERCENT)
    };
    // What the command did after a recording ended early is not missing in it.
    let is_whole = ledger.stopped.is_none();
    if let Some(event) = ledger.events.iter().find(too_little).filter(|_| is_whole) {
        lines.push(format!(
            "WARNING: much of what the command used has no samples ({}): {}",
            event.name,
            remedy(ledger, follow, event)
        ));
    }
    if follow.left_cgroup > 0 {
        let left = follow.left_cgroup;
        let were = agreeing(left, "was", "were");
        let them = agreeing(left, "it", "them");
        lines.push(format!(
            "{} left the command's cgroup and {were} not recorded from then on: --follow=system sees {them}",
            count(left, "task")
        ));
    }
    if follow.outlived > 0 {
        let outlived = follow.outlived as u64;
        let processes = count(outlived, "process");
        let outlive = agreeing(outlived, "outlives", "outlive");
        let they = agreeing(outlived, "it", "they");
        let are = agreeing(outlived, "is", "are");
        lines.push(format!(
            "{processes} {outlive} the command: {they} {are} where {they} would have been without tare"
        ));
    }
    lines.extend(follow.cgroup_kept.as_ref().map(|name| {
        format!("the command's cgroup could not be removed: {name} is left, remove it when it is empty (rmdir)")
    }));
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
        (Some(tasks), unseen) => {
            let have = agreeing(unseen, "has", "have");
            format!("; {} of {} {have} no sample", grouped(unseen), count(tasks, "task"))
        }
    }
}

/// What would mend a recording that saw too little of an event.
fn remedy(ledger: &Ledger, follow: &Follow, event: &Event) -> &'static str {
    match follow.mode {
        _ if follow.unrecordable && event.samples == 0 => {
            "its program runs with other rights than its user has (set-user-ID, set-group-ID, capabilities, or not readable), and the kernel takes events from such a task: record it as root"
        }
        _ if !ledger.losses.is_empty() => "samples were lost, use larger rings (-m)",
        _ if event.coverage.is_some_and(|coverage| coverage.is_highest_rate) => {
            "the kernel can't sample so often, use a lower rate (-F)"
        }
        FollowMode::Inherit => {
            "children that end early have none; --follow=cgroup or --follow=system sees them, which need CAP_PERFMON"
        }
        FollowMode::Cgroup if follow.left_cgroup > 0 => {
            "tasks left its cgroup; use --follow=system"
        }
        FollowMode::Cgroup | FollowMode::System => "use a higher rate (-F)",
    }
}
