//! Adds remedies and exit statuses to errors, and describes opened events.

use std::io::Write;

use rustix::io::Errno;
use tare_events::OpenError;
use tare_format::abi::bindings::{PERF_COUNT_SW_DUMMY, PERF_TYPE_SOFTWARE};
use tare_format::abi::{Attr, Flags};
use tare_kernel::child::{CommandError, FileLimit};
use tare_kernel::host::Host;
use tare_kernel::open::{EventTarget, Kernel, System};
use tare_kernel::probe::{self, AccessProbe};
use tare_measure::count::Counters;

use crate::exit::{Exit, Refusal, say};

/// Words an error of opening events, with the command that fixes it.
pub(crate) fn for_open(error: &OpenError, host: &Host, files: &FileLimit) -> Refusal {
    let remedy = match error {
        OpenError::NotPermitted { task: Some(tid), .. } if is_closed(*tid, &System) => format!(
            "process {tid} belongs to another user, or is protected: run tare as that user, or with CAP_PERFMON or CAP_SYS_PTRACE (`tare doctor` shows how)"
        ),
        OpenError::NotPermitted { per_cpu, .. } => {
            let level = host.sysctl("kernel.perf_event_paranoid");
            let wanted = if *per_cpu { 0 } else { 1 };
            if is_filtered(host, &System) {
                "a seccomp filter refuses it, as those of containers do: `docker run --cap-add=PERFMON` or another filter allows it; `tare doctor` shows how".to_owned()
            } else {
                let level = level.map_or_else(|_| "?".to_owned(), |level| level.to_string());
                format!(
                    "kernel.perf_event_paranoid is {level}: `sudo sysctl kernel.perf_event_paranoid={wanted}` allows it; `tare doctor` says more"
                )
            }
        }
        OpenError::TooManyFiles { needed, .. } => {
            let limit =
                files.hard().map_or_else(|| "unlimited".to_owned(), |hard| hard.to_string());
            format!("the limit is {limit}: `ulimit -Hn {}` as root, or fewer events", needed + 32)
        }
        OpenError::Filter { .. } => {
            "`tare list EVENT` shows the fields that filters can use".to_owned()
        }
        OpenError::NoSuchTask(_) | OpenError::Other { .. } => String::new(),
    };
    let message = if remedy.is_empty() { error.to_string() } else { format!("{error}; {remedy}") };
    let exit =
        if matches!(error, OpenError::NoSuchTask(_)) { Exit::Usage } else { Exit::OwnFailure };
    Refusal { exit, message }
}

/// Whether a seccomp filter refuses every event: this process has one, and may not even count in
/// user mode on its own thread.
fn is_filtered(host: &Host, kernel: &dyn Kernel) -> bool {
    let probe = AccessProbe::new(kernel, host.rights().as_ref().ok());
    probe.own_user() == Err(probe::Refusal::Seccomp)
}

/// Whether the kernel refuses the task rather than the event: attaching needs the rights of
/// ptrace(2), or `CAP_PERFMON` (`perf_check_permission`, `kernel/events/core.c`). Tries an event
/// that is allowed on tare's own task and never happens.
fn is_closed(tid: i32, kernel: &dyn Kernel) -> bool {
    let attr = Attr {
        kind: PERF_TYPE_SOFTWARE,
        config: PERF_COUNT_SW_DUMMY.into(),
        flags: Flags::DISABLED | Flags::EXCLUDE_KERNEL | Flags::EXCLUDE_HV,
        ..Attr::default()
    };
    let refused = |tid| {
        let answer = kernel.open(&attr, EventTarget::Task(tid), None);
        matches!(answer, Err(Errno::ACCESS | Errno::PERM))
    };
    tid != 0 && refused(tid) && !refused(0)
}

/// Gives an error of a run its exit status: [`Exit::OwnFailure`] only with a command, whose status
/// it stands for.
pub(crate) fn with_status(error: anyhow::Error, has_command: bool) -> anyhow::Error {
    let is_own = |refusal: &Refusal| refusal.exit == Exit::OwnFailure;
    if !has_command && error.downcast_ref::<Refusal>().is_some_and(is_own) {
        return Refusal { exit: Exit::Failure, message: crate::exit::message(&error) }.into();
    }
    match error.downcast_ref::<CommandError>() {
        // 126 and 127, as with a shell, env(1) or nice(1).
        Some(command) => {
            Refusal { exit: Exit::Command(command.status()), message: crate::exit::message(&error) }
                .into()
        }
        None if has_command && error.downcast_ref::<Refusal>().is_none() => {
            Refusal { exit: Exit::OwnFailure, message: crate::exit::message(&error) }.into()
        }
        None => error,
    }
}

/// `-v` prints the numbers of events and of open files, `-vv` also the attributes of each event.
pub(crate) fn describe(sets: &[Counters], verbose: u8) {
    let counters = || sets.iter().flat_map(Counters::as_slice);
    let files: usize = counters().map(|counter| counter.locations().count()).sum();
    say(&format!("{} events, {files} open files", counters().count()));
    if verbose > 1 {
        let mut stderr = std::io::stderr().lock();
        for counter in counters() {
            let _ = writeln!(
                stderr,
                "perf_event_attr of {}:\n{}",
                tare_format::printable(&counter.subject.event.name),
                counter.attr
            );
        }
    }
}
