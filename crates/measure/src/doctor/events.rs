//! Checks which events can be opened, of which tasks and in which modes.

use std::path::Path;

use serde::Serialize;
use tare_kernel::host::CapabilitySet;
use tare_kernel::probe::{ProbeAnswer, Refusal};
use tare_kernel::tracefs::{Tracefs, TracefsError};

use super::facts::Facts;
use super::item::{Group, Item, Remedy, State};
use super::remedy::{self, shell_word};

/// Whether each kind of counting works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Abilities {
    /// `false` if the kernel has no `cycles` event; `true` also if `cycles` is refused for another
    /// reason.
    #[serde(skip)]
    pmu: bool,
    software: bool,
    hardware: bool,
    kernel_mode: bool,
    system_wide: bool,
    tracepoints: bool,
}

impl Abilities {
    /// States in one or two sentences what works and what doesn't.
    pub(super) fn verdict(self) -> String {
        if !self.software {
            return "tare can count nothing here: the kernel refuses even a software event of an own program.".to_owned();
        }
        let events = if self.hardware { "software and hardware events" } else { "software events" };
        let works = if self.tracepoints { vec![events, "tracepoints"] } else { vec![events] };
        let mut where_to = vec!["of own programs"];
        if !self.kernel_mode {
            where_to = vec!["of own programs in user mode"];
        }
        if self.system_wide {
            where_to.push("of the whole system");
        }
        let lacks = [
            (self.hardware, if self.pmu { "hardware events" } else { "hardware events (no PMU)" }),
            (self.tracepoints, "tracepoints"),
            (self.kernel_mode, "the kernel's part"),
            (self.system_wide, "the whole system"),
        ];
        let lacks =
            lacks.iter().filter(|(works, _)| !works).map(|&(_, name)| name).collect::<Vec<_>>();
        let lacks = if lacks.is_empty() {
            String::new()
        } else {
            format!(" Not {}.", join_words(&lacks, "or"))
        };
        let works = join_words(&works, "and");
        format!("tare can count {works}, {}.{lacks}", join_words(&where_to, "and"))
    }
}

/// Joins words as in `a, b and c`.
fn join_words(words: &[&str], and: &str) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [all @ .., last] => format!("{} {and} {last}", all.join(", ")),
    }
}

pub(super) fn examine(facts: &Facts<'_>) -> (Abilities, Vec<Item>) {
    let probe = facts.probe();
    let answers = [probe.own_user(), probe.own_kernel(), probe.system_wide(facts.some_cpu())];
    let cycles = probe.cycles();
    let tracepoint =
        Tracefs::find(&facts.host).and_then(|tracefs| tracefs.id("sched", "sched_switch"));
    let abilities = Abilities {
        pmu: cycles != Err(Refusal::NoSuchEvent),
        software: answers[0].is_ok(),
        hardware: cycles.is_ok(),
        kernel_mode: answers[1].is_ok(),
        system_wide: answers[2].is_ok(),
        tracepoints: answers[1].is_ok() && tracepoint.is_ok(),
    };
    let items = vec![
        paranoid(facts),
        permission(facts, "software", "software events", 2, answers[0], "nothing can be counted"),
        hardware(facts, cycles),
        permission(
            facts,
            "kernel_mode",
            "in the kernel",
            1,
            answers[1],
            "counts cover user mode only; context switches, migrations and tracepoints read 0",
        ),
        permission(
            facts,
            "system_wide",
            "whole system",
            0,
            answers[2],
            "-a, -C, -A and cgroups can't be counted",
        ),
        other_processes(facts),
        tracepoints(facts, &tracepoint, answers[1]),
        tracepoint_fields(facts, tracepoint.as_ref().ok().copied()),
    ];
    (abilities, items)
}

fn paranoid(facts: &Facts<'_>) -> Item {
    const ID: (Group, &str, &str) = (Group::Events, "paranoid", "paranoid level");
    let level = match &facts.paranoid {
        Ok(level) => *level,
        Err(error) => {
            return Item::unknown(
                ID.0,
                ID.1,
                ID.2,
                format!("/proc/sys/kernel/perf_event_paranoid: {error}"),
            );
        }
    };
    let forbids = match level {
        ..=-1 => "",
        0 => "no tracepoint fields",
        1 => "no tracepoint fields, no system-wide events",
        2 => "no tracepoint fields, no system-wide events, no kernel mode",
        3.. => "no events at all (a patch of this distribution)",
    };
    let forbids_all = level > 2 && facts.probe().own_user().is_err(); // patches differ in which capability lifts these levels
    if level < 0 || facts.has(CapabilitySet::PERFMON) && !forbids_all {
        let lifted = if level < 0 { "" } else { ", lifted for this process by CAP_PERFMON" };
        return Item::ok(ID.0, ID.1, ID.2, format!("{level}{lifted}"));
    }
    let keep = Remedy::command(
        "echo kernel.perf_event_paranoid=0 | sudo tee /etc/sysctl.d/60-perf.conf",
        "keeps the level after reboots; any user may then count the whole system",
    );
    Item::ok(ID.0, ID.1, ID.2, level.to_string()).with_shortcoming(
        State::Limited,
        format!("without CAP_PERFMON: {forbids}"),
        vec![keep],
    )
}

/// Returns a refusal in words.
pub(super) fn reason(why: Refusal) -> String {
    match why {
        Refusal::NoSuchEvent => "the kernel has no such event".to_owned(),
        Refusal::Forbidden => "not allowed".to_owned(),
        Refusal::Seccomp => "a seccomp filter refuses perf_event_open".to_owned(),
        Refusal::NoEvents => "the kernel was built without events".to_owned(),
        Refusal::NoFiles => "no file descriptor is left".to_owned(),
        Refusal::Other(errno) => format!("the kernel refuses: {errno}"),
    }
}

/// Creates the item of an event from the attempt to open it. `level` is the highest paranoid level
/// that allows it to every user.
fn permission(
    facts: &Facts<'_>,
    id: &'static str,
    title: &'static str,
    level: i32,
    answer: ProbeAnswer,
    cost: &str,
) -> Item {
    let item = |found: String| Item::ok(Group::Events, id, title, found);
    match answer {
        Ok(()) => item("yes".to_owned()),
        Err(why) => {
            let state = if why == Refusal::NoFiles { State::Unknown } else { State::Missing };
            item(reason(why)).with_shortcoming(state, cost, remedy::refused(facts, why, level))
        }
    }
}

fn hardware(facts: &Facts<'_>, cycles: ProbeAnswer) -> Item {
    const COST: &str = "cycles, instructions, cache and branch events are <not supported>; use clocks and software events";
    if cycles != Err(Refusal::NoSuchEvent) {
        return permission(facts, "hardware", "hardware events", 2, cycles, COST);
    }
    let place = if facts.hypervisor.is_some() {
        "no PMU in this virtual machine"
    } else {
        "the kernel knows no PMU"
    };
    Item::ok(Group::Events, "hardware", "hardware events", place).with_shortcoming(
        State::Missing,
        COST,
        remedy::virtual_pmu(facts.hypervisor),
    )
}

fn other_processes(facts: &Facts<'_>) -> Item {
    let item =
        |found: &str| Item::ok(Group::Events, "other_processes", "other users' tasks", found);
    match &facts.rights {
        Err(error) => Item::unknown(
            Group::Events,
            "other_processes",
            "other users' tasks",
            format!("/proc/self/status: {error}"),
        ),
        Ok(rights) if rights.has(CapabilitySet::PERFMON | CapabilitySet::SYS_PTRACE) => {
            item("allowed")
        }
        Ok(_) => item("own user's only").with_shortcoming(
            State::Limited,
            "-p and -t refuse other users' processes",
            vec![remedy::capabilities(facts, &["perfmon", "sys_ptrace"])],
        ),
    }
}

/// Tracepoints need tracefs to be looked up, and permission for kernel mode to be counted.
fn tracepoints(
    facts: &Facts<'_>,
    tracepoint: &Result<u64, TracefsError>,
    in_kernel: ProbeAnswer,
) -> Item {
    const COST: &str = "sys:event can't be looked up, and commands based on tracepoints don't work";
    let item = |found: String| Item::ok(Group::Events, "tracepoints", "tracepoints", found);
    match tracepoint {
        Ok(_) => match in_kernel {
            Ok(()) => item("yes (tracefs is readable)".to_owned()),
            Err(why) => item(format!("{}, though tracefs is readable", reason(why)))
                .with_shortcoming(
                    State::Missing,
                    "sys:event counts nothing: tracepoints are in the kernel",
                    remedy::refused(facts, why, 1),
                ),
        },
        Err(TracefsError::NotMounted) => item("tracefs is not mounted".to_owned())
            .with_shortcoming(State::Missing, COST, vec![remedy::tracefs(facts)]),
        Err(TracefsError::NotReadable { mount, .. }) => {
            let group =
                "until reboot; your group may then read every tracepoint, but change nothing";
            let open = Remedy::command(
                format!(
                    "sudo mount -o remount,gid=$(id -g),mode=750 {}",
                    shell_word(Path::new(mount))
                ),
                group,
            );
            let everything = remedy::capabilities(facts, &["perfmon", "dac_read_search"]);
            let note = format!("{}; dac_read_search reads every file", everything.note);
            item(format!("{mount} is closed to this user")).with_shortcoming(
                State::Missing,
                COST,
                vec![open, Remedy { note, ..everything }],
            )
        }
        Err(TracefsError::NoSuch(_)) => {
            let build = Remedy::setting(
                "CONFIG_FTRACE=y, CONFIG_EVENT_TRACING=y",
                "in the build of the kernel",
            );
            item("the kernel has no sched:sched_switch".to_owned()).with_shortcoming(
                State::Missing,
                COST,
                vec![build],
            )
        }
        Err(error @ TracefsError::Io { .. }) => {
            Item::unknown(Group::Events, "tracepoints", "tracepoints", error)
        }
    }
}

fn tracepoint_fields(facts: &Facts<'_>, tracepoint: Option<u64>) -> Item {
    let cost = "samples of tracepoints have no fields; counting them works";
    match tracepoint {
        None => Item::unknown(
            Group::Events,
            "tracepoint_fields",
            "tracepoint fields",
            "no tracepoint could be looked up",
        ),
        Some(id) => permission(
            facts,
            "tracepoint_fields",
            "tracepoint fields",
            -1,
            facts.probe().tracepoint_fields(id),
            cost,
        ),
    }
}
