//! The recorder's own threads, and how recordings leave them out.
//!
//! ```text
//! events on a command's tasks or cgroup    never see them
//! tracepoints and probes                   a filter excludes them
//! BPF programs                             leave out this process
//! other events on whole CPUs or cgroups    sample them, and readers drop these samples
//! ```
//! With `include_self` there is no such filter, the programs for off-CPU time record this process,
//! and readers keep the samples.

use std::collections::BTreeSet;
use std::ffi::CString;

use tare_format::ledger::Recorder;

use crate::error::{FilterError, RecordError};
use crate::options::Target;
use crate::output::Output;
use crate::plan::PlannedEvent;
use crate::session::RecordSession;

/// Whether all threads of the recorder start before the recording, because filters or the ledger
/// name them. Events on a command's tasks or cgroup need that only if they have filters, or if BPF
/// programs record system calls.
pub(crate) fn are_named(session: &RecordSession) -> bool {
    let is_commands =
        matches!(session.options.target, Target::Command(_) | Target::CommandInCgroup(_));
    !is_commands
        || session.plan.calls.is_some()
        || session.plan.events.iter().any(PlannedEvent::has_filter_fields)
}

/// Returns the recorder's threads so far: this one, the output's, and `others`. Unless
/// [`are_named`], the output may start one later.
pub(crate) fn recorder(
    session: &RecordSession,
    output: &Output,
    others: impl Iterator<Item = i32>,
) -> Recorder {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let tids: BTreeSet<i32> = [own].into_iter().chain(others).chain(output.threads()).collect();
    Recorder { pid, tids, included: session.options.include_self }
}

/// Returns the filter of each event, or `None` if it has none. Unless they are recorded too, it
/// excludes the threads of the recorder.
pub(crate) fn filters(
    session: &RecordSession,
    recorder: &Recorder,
) -> Result<Vec<Option<CString>>, RecordError> {
    let excluded: Vec<i32> =
        if recorder.included { Vec::new() } else { recorder.tids.iter().copied().collect() };
    let planned = session.plan.events.iter();
    Ok(planned.map(|planned| event_filter(planned, &excluded)).collect::<Result<_, _>>()?)
}

/// Returns the threads whose samples the ledger counts separately: the recorder's if whole CPUs are
/// recorded, otherwise none.
pub(crate) fn counted(session: &RecordSession, recorder: &Recorder) -> Vec<i32> {
    if matches!(session.options.target, Target::Cpus(_)) {
        recorder.tids.iter().copied().collect()
    } else {
        Vec::new()
    }
}

/// Returns the filter of an event: the user's, joined with one that excludes these threads. `None`
/// if there is nothing to filter, or if the event accepts no filter.
///
/// # Errors
/// Fails if the text is too long for the kernel, or contains a NUL.
pub fn event_filter(
    planned: &PlannedEvent,
    threads: &[i32],
) -> Result<Option<CString>, FilterError> {
    let Some(fields) = planned.filter_fields() else { return Ok(None) };
    let Some(text) = self_filter(fields, threads, planned.event.filter.as_deref()) else {
        return Ok(None);
    };
    let event = planned.event.name.clone();
    let longest = rustix::param::page_size() - 1;
    if text.len() > longest {
        return Err(FilterError::TooLong { event, bytes: text.len(), longest });
    }
    CString::new(text).map(Some).map_err(|_| FilterError::Nul { event })
}

/// Fields that name a task, and that are compared besides `common_pid`, which every tracepoint has.
/// At a switch, `prev_pid` equals `common_pid`.
const FIELDS: [&str; 2] = ["next_pid", "pid"];

/// Returns a filter that passes events which name none of these threads: neither as the current one
/// (`common_pid` is a thread id) nor in one of [`FIELDS`]. It is joined with the user's filter.
/// Returns `None` if there is nothing to filter.
///
/// The kernel accepts one filter per event (`PERF_EVENT_IOC_SET_FILTER`, then `EEXIST`), shorter
/// than a page. The ids of threads that were created in sequence are mostly consecutive, so runs of
/// them are excluded as ranges.
fn self_filter(fields: &[String], threads: &[i32], users: Option<&str>) -> Option<String> {
    let has = |name: &&str| fields.iter().any(|field| field == name);
    let names = ["common_pid"].into_iter().chain(FIELDS.into_iter().filter(has));
    let ranges = consecutive(threads);
    let clauses =
        names.flat_map(|name| ranges.iter().map(move |&(first, last)| clause(name, first, last)));
    let own = clauses.collect::<Vec<_>>().join(" && ");
    match (users, own.is_empty()) {
        (users, true) => users.map(str::to_owned),
        (None, false) => Some(own),
        (Some(users), false) => Some(format!("({users}) && {own}")),
    }
}

fn clause(name: &str, first: i32, last: i32) -> String {
    if first == last {
        format!("{name} != {first}")
    } else {
        format!("({name} < {first} || {name} > {last})")
    }
}

/// Splits numbers into runs of consecutive ones. Returns the first and the last of each.
fn consecutive(threads: &[i32]) -> Vec<(i32, i32)> {
    let mut sorted = threads.to_vec();
    sorted.sort_unstable();
    let mut runs: Vec<(i32, i32)> = Vec::new();
    for tid in sorted {
        match runs.last_mut() {
            Some((_, last)) if *last == tid || last.checked_add(1) == Some(tid) => *last = tid,
            _ => runs.push((tid, tid)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_kernel::host::Host;
    use tare_kernel::tracefs::Tracefs;

    fn filter_for(fields: &[&str], threads: &[i32], users: Option<&str>) -> Option<String> {
        self_filter(
            &fields.iter().map(|&field| field.to_owned()).collect::<Vec<_>>(),
            threads,
            users,
        )
    }

    #[test]
    fn every_field_that_names_a_task_is_compared_with_every_thread() {
        assert_eq!(filter_for(&["common_pid", "id"], &[7], None).unwrap(), "common_pid != 7");
        let switch = ["common_pid", "prev_pid", "next_pid"];
        assert_eq!(
            filter_for(&switch, &[9, 7], None).unwrap(),
            "common_pid != 7 && common_pid != 9 && next_pid != 7 && next_pid != 9"
        );
        assert_eq!(
            filter_for(&["comm", "pid"], &[7, 8, 9, 12], None).unwrap(),
            "(common_pid < 7 || common_pid > 9) && common_pid != 12 && (pid < 7 || pid > 9) && pid != 12"
        );
    }

    #[test]
    fn the_users_filter_is_kept() {
        assert_eq!(
            filter_for(&["common_pid"], &[7], Some("id == 1 || id == 2")).unwrap(),
            "(id == 1 || id == 2) && common_pid != 7"
        );
        assert_eq!(filter_for(&["common_pid"], &[], Some("id == 1")).unwrap(), "id == 1");
        assert_eq!(filter_for(&["common_pid"], &[], None), None);
    }

    /// The kernel accepts the filter of 102 threads for tracepoints of the scheduler and of system
    /// calls.
    #[test]
    fn the_kernel_accepts_the_filter() {
        use tare_format::abi::{Attr, Flags, Sampling, bindings};
        use tare_kernel::open::{EventTarget, Kernel, System};
        let Ok(tracefs) = Tracefs::find(&Host::default()) else {
            return println!("skipped: no tracefs for this user");
        };
        let threads: Vec<i32> = (1000..1100).chain([3000, 5000]).collect();
        for (system, name) in
            [("sched", "sched_switch"), ("sched", "sched_wakeup"), ("raw_syscalls", "sys_enter")]
        {
            let filter = self_filter(
                &tracefs.fields(system, name).unwrap(),
                &threads,
                Some("common_pid != 0"),
            )
            .unwrap();
            let config = tracefs.id(system, name).unwrap();
            let attr = Attr {
                kind: bindings::PERF_TYPE_TRACEPOINT,
                config,
                sampling: Sampling::Period(1),
                flags: Flags::DISABLED,
                ..Attr::default()
            };
            match System.open(&attr, EventTarget::Task(0), None) {
                Ok(event) => event.set_filter(&CString::new(filter).unwrap()).unwrap(),
                Err(error) => println!("skipped: {system}:{name} can't be opened: {error}"),
            }
        }
    }
}
