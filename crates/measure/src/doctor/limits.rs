//! Checks the limits of this process and of sampling, and whether the NMI watchdog uses a counter.

use tare_kernel::host::CapabilitySet;

use super::facts::Facts;
use super::item::{Group, Item, State};
use super::remedy;

/// Sufficient number of events open on every CPU at a time.
const WANTED_EVENTS: u64 = 64;
/// Size of a CPU's ring buffer, in KiB, that is sufficient for bursts of samples.
const WANTED_RING_KIB: u64 = 8192;
/// The kernel's default limit on the sampling rate, in Hz. The kernel lowers the limit if sampling
/// interrupts take too long.
const USUAL_RATE: i64 = 100_000;

pub(super) fn examine(facts: &Facts<'_>) -> Vec<Item> {
    vec![
        open_files(facts),
        locked_memory(facts),
        sample_rate(facts),
        cpu_time(facts),
        stack_depth(facts),
        watchdog(facts),
    ]
}

fn open_files(facts: &Facts<'_>) -> Item {
    let item = |found: String| Item::ok(Group::Limits, "open_files", "open files", found);
    let Some(soft) = facts.open_files.current else { return item("unlimited".to_owned()) };
    let hard = facts
        .open_files
        .maximum
        .map_or_else(|| "no hard limit".to_owned(), |hard| format!("hard limit {hard}"));
    let found = item(format!("{soft} ({hard})"));
    let events = soft.saturating_sub(16) / facts.cpu_count();
    if events >= WANTED_EVENTS {
        return found;
    }
    let cost =
        format!("about {events} events fit at a time with -a: each uses a file on every CPU");
    found.with_shortcoming(State::Limited, cost, vec![remedy::more_files(facts)])
}

/// All ring buffers of a user share `perf_event_mlock_kb` for each CPU; any excess counts against
/// `RLIMIT_MEMLOCK` (`perf_mmap`, `kernel/events/core.c`).
fn locked_memory(facts: &Facts<'_>) -> Item {
    const ID: (Group, &str, &str) = (Group::Limits, "locked_memory", "ring buffers");
    let per_cpu = match facts.host.sysctl("kernel.perf_event_mlock_kb") {
        Ok(kib) => u64::try_from(kib).unwrap_or(0),
        Err(error) => {
            return Item::unknown(
                ID.0,
                ID.1,
                ID.2,
                format!("/proc/sys/kernel/perf_event_mlock_kb: {error}"),
            );
        }
    };
    let unlimited =
        facts.has(CapabilitySet::IPC_LOCK) || facts.paranoid.as_ref().is_ok_and(|level| *level < 0);
    let Some(limit) = facts.locked_memory.current.filter(|_| !unlimited) else {
        return Item::ok(ID.0, ID.1, ID.2, "no limit");
    };
    let share = per_cpu.saturating_add(limit / 1024 / facts.cpu_count());
    let found = Item::ok(
        ID.0,
        ID.1,
        ID.2,
        format!("{share} KiB a CPU (mlock_kb {per_cpu} a CPU, and memlock {} KiB)", limit / 1024),
    );
    if share >= WANTED_RING_KIB {
        return found;
    }
    let wanted = WANTED_RING_KIB + rustix::param::page_size() as u64 / 1024; // plus the ring's control page
    let remedies = vec![
        remedy::sysctl(
            facts,
            "perf_event_mlock_kb",
            wanted,
            "every user may then lock this much on each CPU",
        ),
        remedy::capabilities(facts, &["perfmon", "ipc_lock"]),
    ];
    found.with_shortcoming(
        State::Limited,
        "bursts of samples can be lost; counting isn't affected",
        remedies,
    )
}

/// Creates the item of a numeric kernel setting; `judge` gets its value.
fn setting(
    facts: &Facts<'_>,
    id: &'static str,
    title: &'static str,
    name: &str,
    judge: impl FnOnce(i64, &dyn Fn(String) -> Item) -> Item,
) -> Item {
    match facts.host.sysctl(name) {
        Ok(number) => judge(number, &|found| Item::ok(Group::Limits, id, title, found)),
        Err(error) => Item::unknown(
            Group::Limits,
            id,
            title,
            format!("/proc/sys/{}: {error}", name.replace('.', "/")),
        ),
    }
}

fn sample_rate(facts: &Facts<'_>) -> Item {
    setting(
        facts,
        "max_sample_rate",
        "sampling rate",
        "kernel.perf_event_max_sample_rate",
        |rate, item| {
            let found = item(format!("at most {rate} samples per second and CPU"));
            if rate >= USUAL_RATE {
                return found;
            }
            let raise = remedy::sysctl(
                facts,
                "perf_event_max_sample_rate",
                USUAL_RATE,
                "the kernel lowers it again if its interrupts are slow",
            );
            found.with_shortcoming(State::Limited, "higher rates are refused", vec![raise])
        },
    )
}

fn cpu_time(facts: &Facts<'_>) -> Item {
    setting(
        facts,
        "cpu_time_max_percent",
        "sampling's CPU time",
        "kernel.perf_cpu_time_max_percent",
        |percent, item| match percent {
            1..=99 => item(format!("throttled beyond {percent}%")),
            _ => item("never throttled".to_owned()),
        },
    )
}

fn stack_depth(facts: &Facts<'_>) -> Item {
    setting(facts, "max_stack", "stack depth", "kernel.perf_event_max_stack", |frames, item| {
        let found = item(format!("{frames} frames"));
        if frames >= 127 {
            return found;
        }
        let raise = remedy::sysctl(
            facts,
            "perf_event_max_stack",
            127,
            "refused while stacks are being recorded",
        );
        found.with_shortcoming(
            State::Limited,
            "deeper stacks lose their outermost frames",
            vec![raise],
        )
    })
}

/// The watchdog for hard lockups uses one hardware counter of each CPU, unless the kernel is built
/// with `CONFIG_HARDLOCKUP_DETECTOR_BUDDY`, which the setting doesn't show.
fn watchdog(facts: &Facts<'_>) -> Item {
    let has_pmu = facts.probe().cycles().is_ok();
    setting(facts, "nmi_watchdog", "NMI watchdog", "kernel.nmi_watchdog", |on, item| {
        match (on, has_pmu) {
            (0, _) => item("off".to_owned()),
            (_, false) => item("on, without a PMU".to_owned()),
            (_, true) => item("on".to_owned()).with_shortcoming(
                State::Limited,
                "it uses one hardware counter of each CPU, so events are multiplexed sooner",
                vec![remedy::sysctl(
                    facts,
                    "nmi_watchdog",
                    0,
                    "hard lockups are then not detected",
                )],
            ),
        }
    })
}
