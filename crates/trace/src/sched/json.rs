//! Switches and sums as JSON, in nanoseconds.

use serde_json::{Value, json};

use super::event::{SchedAction, Slice};
use super::slices::Sched;
use super::sums::{TaskSums, Waits};

/// Version of the documents: raised when a field changes its meaning or is removed.
pub const JSON_VERSION: u32 = 1;

/// Formats a switch as a JSON object; `None` for other actions, and if the leaving task isn't
/// selected.
#[must_use]
pub fn switch_object(action: &SchedAction<'_>, slice: &Slice) -> Option<Value> {
    let SchedAction::Switch { cpu, prev, state, next } = action else { return None };
    prev.is_selected.then(|| {
        json!({
            "time_ns": slice.time_ns,
            "cpu": cpu,
            "tid": prev.tid,
            "pid": prev.pid,
            "comm": String::from_utf8_lossy(prev.comm),
            "wait_ns": slice.wait_ns,
            "delay_ns": slice.delay_ns,
            "run_ns": slice.run_ns,
            "state": state.letter().to_string(),
            "next_tid": next.tid,
            "next_comm": String::from_utf8_lossy(next.comm),
        })
    })
}

/// Formats the sums as a document. `all`: all tasks were selected; `missing`: number of lost
/// records.
#[must_use]
pub fn sums_document(sched: &Sched, tasks: &[&TaskSums], all: bool, missing: u64) -> Value {
    let tasks: Vec<_> = tasks
        .iter()
        .map(|task| {
            json!({
                "tid": task.tid,
                "pid": task.pid,
                "comm": String::from_utf8_lossy(&task.comm),
                "run_ns": task.run_ns,
                "switches": task.switches,
                "preempted": task.preempted,
                "migrations": task.migrations,
                "wait": waits(&task.waits),
            })
        })
        .collect();
    let cpus: Vec<_> = sched
        .cpus()
        .map(|(cpu, sums)| {
            json!({
                "cpu": cpu,
                "run_ns": sums.run_ns,
                "idle_ns": all.then_some(sums.idle_ns),
                "switches": sums.switches,
                "migrations": sums.migrations,
                "wait": waits(&sums.waits),
            })
        })
        .collect();
    json!({
        "version": JSON_VERSION,
        "seen_ns": sched.seen_ns(),
        "tasks": tasks,
        "cpus": cpus,
        "missing_records": missing,
        "switches_without_room": sched.uncounted_switches(),
    })
}

fn waits(waits: &Waits) -> Value {
    json!({
        "count": waits.count,
        "total_ns": waits.total_ns,
        "mean_ns": waits.mean_ns(),
        "p50_ns": waits.quantile_ns(0.5),
        "p99_ns": waits.quantile_ns(0.99),
        "max_ns": waits.max_ns,
        "max_at_ns": waits.max_at_ns,
        "histogram": waits.buckets().collect::<Vec<_>>(),
    })
}
