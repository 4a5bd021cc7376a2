//! How the recorder followed the command, and the share of its use that the samples cover.

use tare_format::ledger::{Coverage, FixedPeriod, Follow, FollowMode, Ledger, LedgerEvent};

use super::seconds;
use crate::plural::{agreeing, count, grouped};

/// Coverage below which a warning is printed, in percent.
const ENOUGH_PERCENT: f64 = 90.0;

/// Formats the fixed period of an event.
fn fixed_period(fixed: FixedPeriod, name: &str) -> String {
    format!(
        "{name} every {} ({} samples per second of CPU time, at {} per second)",
        grouped(fixed.period),
        grouped(fixed.hz),
        grouped(fixed.a_second)
    )
}

/// Formats the sampled amount, the amount used and the share; `None` if nothing was used.
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

/// Returns the lines of details.
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
            "the period is fixed, so that children start with it: {}",
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
        (true, false) => {
            Some(format!("unknown: this mode has no count of {} by task", unknown.join(", ")))
        }
        (false, true) => Some(format!("the samples stand for {}", covered.join(", "))),
        (false, false) => Some(format!(
            "the samples stand for {}; unknown for {}",
            covered.join(", "),
            unknown.join(", ")
        )),
    };
    lines.extend(sentence.map(|sentence| format!("coverage: {sentence}{}", tasks(follow))));
    if follow.kernel_keeps_counts == Some(true) {
        lines.push("this kernel carries counts of short-lived children over to their siblings: see linux/inherited-events.md".to_owned());
    }
    lines
}

/// Returns lines that a user may have to act on.
pub(super) fn warnings(ledger: &Ledger) -> Vec<String> {
    let Some(follow) = &ledger.follow else { return Vec::new() };
    let mut lines = Vec::new();
    let too_little = |event: &&LedgerEvent| {
        event
            .coverage
            .filter(|c| !c.is_little)
            .and_then(|c| c.percent())
            .is_some_and(|percent| percent < ENOUGH_PERCENT)
    };
    // A recording that ended early doesn't cover the rest of the command.
    let is_whole = ledger.stopped.is_none();
    if let Some(event) = ledger.events.iter().find(too_little).filter(|_| is_whole) {
        lines.push(format!(
            "WARNING: much of the command's {} has no samples: {}",
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
        let run = agreeing(outlived, "runs", "run");
        lines.push(format!("{processes} {outlive} the command: {they} {run} on, as without tare"));
    }
    lines.extend(follow.cgroup_kept.as_ref().map(|name| {
        format!("the command's cgroup {name} could not be removed: remove it with rmdir once it is empty")
    }));
    lines
}

/// Returns the events without known coverage. Events on whole CPUs also count other tasks; only
/// clocks can be compared with the CPU time of the command's tasks.
fn uncovered<'a>(ledger: &'a Ledger, follow: &Follow) -> Vec<&'a str> {
    let is_uncovered = |event: &&LedgerEvent| event.samples > 0 && event.coverage.is_none();
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

/// Returns the remedy for a recording that covers too little of an event.
fn remedy(ledger: &Ledger, follow: &Follow, event: &LedgerEvent) -> &'static str {
    match follow.mode {
        _ if follow.unrecordable && event.samples == 0 => {
            "the program runs with other rights than its user (set-user-ID, set-group-ID, capabilities, or an unreadable file), so the kernel removes its events: record as root"
        }
        _ if !ledger.losses.is_empty() => "samples were lost: enlarge ring buffers with -m",
        _ if event.coverage.is_some_and(|coverage| coverage.is_highest_rate) => {
            "the kernel can't sample this often: use a lower rate (-F)"
        }
        FollowMode::Inherit => {
            "short-lived children have none: --follow=cgroup and --follow=system see them (they need CAP_PERFMON)"
        }
        FollowMode::Cgroup if follow.left_cgroup > 0 => {
            "tasks left its cgroup: use --follow=system"
        }
        FollowMode::Cgroup | FollowMode::System => "use a higher rate (-F)",
    }
}
