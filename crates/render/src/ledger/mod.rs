//! The ledger in lines: two summary lines, then warnings, then details.

mod budget;
mod follow;
mod off_cpu;
mod sampling;

use tare_format::ledger::{Cost, Gap, KeptBinaries, LateClock, Ledger, LedgerEvent, Loss};
use tare_format::printable;

use crate::plural::{agreeing, count, grouped};

const SECOND_NS: f64 = 1e9;

const UNFINISHED: &str = "the recorder was killed: losses and overhead are unknown";

/// Returns the full ledger, as `report` and `script` print it, safe to print on a terminal.
#[must_use]
pub fn ledger_lines(ledger: &Ledger) -> Vec<String> {
    let mut lines = ledger_summary(ledger);
    if ledger.finished {
        lines.extend(printable_lines(details(ledger)));
    }
    lines
}

fn printable_lines(lines: Vec<String>) -> impl Iterator<Item = String> {
    lines.into_iter().map(|line| printable(&line).into_owned())
}

/// Returns the lines that `record` prints: samples with the numbers of losses, overhead, off-CPU
/// time and kept binaries if requested, and a line per warning. For an unfinished recording, one
/// line says so.
#[must_use]
pub fn ledger_summary(ledger: &Ledger) -> Vec<String> {
    if !ledger.finished {
        return vec![UNFINISHED.to_owned()];
    }
    let mut lines = vec![samples(ledger), cost_summary(ledger)];
    lines.extend(ledger.off_cpu.as_ref().map(off_cpu::line));
    lines.extend(ledger.kept_binaries.as_ref().map(kept_binaries));
    lines.extend(warnings(ledger));
    printable_lines(lines).collect()
}

/// Returns lines that a user may have to act on.
fn warnings(ledger: &Ledger) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(follow::warnings(ledger));
    lines.extend(ledger.stopped.iter().map(|why| format!("the recording ended early: {why}")));
    lines.extend(losses(ledger));
    lines.extend(ledger.gaps.iter().map(gap));
    lines.extend(late_clocks(&ledger.late_clocks));
    let kept = |ns| {
        format!(
            "only the last {} of events fit into 1 GiB of memory: record fewer events, or a shorter time",
            seconds(ns)
        )
    };
    lines.extend(ledger.kept_ns.map(kept));
    if ledger.throttled > 0 {
        lines.push(format!(
            "the kernel throttled sampling {} (kernel.perf_event_max_sample_rate)",
            count(ledger.throttled, "time")
        ));
    }
    lines.extend(budget::warning(ledger));
    lines
}

fn details(ledger: &Ledger) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(events(ledger));
    lines.extend(follow::lines(ledger));
    lines.extend(own(ledger));
    lines.extend(sampling::line(ledger));
    lines.extend(budget::line(ledger));
    lines.push(cost(&ledger.cost, ledger.recorded_ns));
    lines.push(rings(ledger));
    if let Some(command) = &ledger.command {
        let user = seconds(command.user_ns);
        let system = seconds(command.system_ns);
        lines.push(format!("the command: {user} of CPU in user mode, {system} in the kernel"));
    }
    lines
}

/// Formats the numbers of kept binaries.
fn kept_binaries(kept: &KeptBinaries) -> String {
    let mut line = format!(
        "kept {} with {} in {}",
        count(kept.files, "file"),
        bytes(kept.copied_bytes),
        kept.folder
    );
    for (number, text) in [
        (kept.present, "already there"),
        (kept.without_id, "not kept: no build id"),
        (kept.missed, "NOT KEPT: gone too soon"),
        (kept.failed, "NOT KEPT: can't be written (is the disk full?)"),
    ] {
        if number > 0 {
            line.push_str(&format!(", {} {text}", grouped(number)));
        }
    }
    line
}

fn samples(ledger: &Ledger) -> String {
    let samples: u64 = ledger.events.iter().map(|event| event.samples).sum();
    let known: Vec<u64> = ledger.events.iter().filter_map(|event| event.lost).collect();
    let lost = match known.iter().sum() {
        0 if known.is_empty() => String::new(),
        0 => ", none lost".to_owned(),
        lost => format!(", {} LOST", grouped(lost)),
    };
    // The kernel counts its losses; records that the output had no room for are extra.
    let dropped = ledger.output.dropped_bytes;
    let is_all = dropped == 0 && ledger.late_clocks.is_empty();
    let lost = if is_all { lost } else { lost.replace("none lost", "none lost in ring buffers") };
    let lost = match dropped {
        0 => lost,
        dropped => format!("{lost}, {} of records DROPPED", bytes(dropped)),
    };
    let elapsed = seconds(ledger.recorded_ns);
    let size = bytes(ledger.output.written_bytes);
    format!("{} in {elapsed}{lost}; {size}", count(samples, "sample"))
}

/// Formats the overhead in one line.
fn cost_summary(ledger: &Ledger) -> String {
    let cost = &ledger.cost;
    let ms = |ns: u64| format!("{:.1} ms", ns as f64 / 1e6);
    let recording = ms(cost.recording_cpu_ns);
    let rest = ms(cost.start_cpu_ns + cost.end_cpu_ns);
    let calibration = match cost.calibration_cpu_ns {
        0 => String::new(),
        ns => format!(", plus {} once to calibrate the cost of a sample", ms(ns)),
    };
    let recorder = format!("recorder: {recording}, plus {rest} at start and exit{calibration}");
    match sampling::amount(ledger) {
        Some(amount) => format!("overhead {amount} ({recorder})"),
        None => format!("overhead unknown ({recorder})"),
    }
}

/// Formats samples by event, if there are several.
fn events(ledger: &Ledger) -> Option<String> {
    let of = |event: &LedgerEvent| {
        let lost = event
            .lost
            .filter(|&lost| lost > 0)
            .map_or_else(String::new, |lost| format!(" ({} lost)", grouped(lost)));
        format!("{} {}{lost}", event.name, grouped(event.samples))
    };
    let seen: Vec<_> = ledger
        .events
        .iter()
        .filter(|event| event.samples > 0 || event.lost.is_some_and(|lost| lost > 0))
        .map(of)
        .collect();
    (seen.len() > 1).then(|| seen.join(", "))
}

fn losses(ledger: &Ledger) -> Vec<String> {
    let time = |ns: Option<u64>| {
        ns.map_or_else(|| "?".to_owned(), |ns| format!("{:.6}", ns as f64 / SECOND_NS))
    };
    let of = |loss: &Loss| {
        let cpu = loss.cpu;
        let records = count(loss.records, "record");
        format!("CPU {cpu} lost {records} between {} and {}", time(loss.from_ns), time(loss.to_ns))
    };
    let mut lines: Vec<String> = ledger.losses.iter().map(of).collect();
    if !lines.is_empty() {
        lines.push(format!(
            "to avoid losses, use larger ring buffers (-m, now {}) or fewer events",
            bytes(ledger.rings.bytes as u64)
        ));
    }
    lines
}

/// Formats the CPUs whose clocks were late, in one line if there are several.
fn late_clocks(clocks: &[LateClock]) -> Option<String> {
    let sum = |of: fn(&LateClock) -> u64| grouped(clocks.iter().map(of).sum());
    let samples = format!("{} of {} due samples", sum(|of| of.delivered), sum(|of| of.due));
    let place = match clocks {
        [] => return None,
        [one] => format!("CPU {} delivered {samples} of {}", one.cpu, one.event),
        several => format!(
            "{} delivered {samples} (CPU {}, …)",
            count(several.len() as u64, "clock"),
            several[0].cpu
        ),
    };
    Some(format!("{place}: the machine's timers came late, so times there are too low"))
}

fn gap(gap: &Gap) -> String {
    let seconds = |ns: u64| format!("{:.6}", ns as f64 / SECOND_NS);
    let from = gap.from_ns.map_or_else(|| "?".to_owned(), seconds);
    gap.to_ns.map_or_else(
        || format!("CPU {} was not recorded from {from} on: it went offline", gap.cpu),
        |to_ns| {
            let to = seconds(to_ns);
            format!("CPU {} was not recorded from {from} to {to}: it was offline", gap.cpu)
        },
    )
}

fn own(ledger: &Ledger) -> Option<String> {
    let own: u64 = ledger.events.iter().map(|event| event.own).sum();
    let are = agreeing(own, "is", "are");
    (own > 0).then(|| format!("{} of the samples {are} the recorder's own", grouped(own)))
}

fn cost(cost: &Cost, recorded_ns: u64) -> String {
    let share = if recorded_ns > 0 {
        100.0 * cost.recording_cpu_ns as f64 / recorded_ns as f64
    } else {
        0.0
    };
    let memory = cost
        .peak_memory_bytes
        .map_or_else(String::new, |peak| format!(", {} of memory", bytes(peak)));
    let [start, recording, end] = [cost.start_cpu_ns, cost.recording_cpu_ns, cost.end_cpu_ns]
        .map(|ns| format!("{:.1} ms", ns as f64 / 1e6));
    let wakes = count(cost.wake_ups, "wake-up");
    let calls = count(cost.system_calls, "system call");
    format!(
        "the recorder: {recording} of CPU time ({share:.2}% of a CPU), {start} at start, {end} at exit; {wakes}, {calls}{memory}"
    )
}

fn rings(ledger: &Ledger) -> String {
    let rings = &ledger.rings;
    let output = &ledger.output;
    let full = (rings.fullest_bytes.saturating_mul(100)).checked_div(rings.bytes).unwrap_or(0);
    let fallback = output.fallback.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
    let spills = match output.spills {
        0 => String::new(),
        spills => format!(" (used write instead {}: the disk was too slow)", count(spills, "time")),
    };
    let queue = match output.queue_bytes {
        0 => String::new(),
        most => format!(
            "; queue up to {} of {}",
            bytes(output.queue_high_water_bytes as u64),
            bytes(most as u64)
        ),
    };
    let number = rings.number;
    let size = bytes(rings.bytes as u64);
    let records = bytes(output.record_bytes);
    let rate = per_second(output.record_bytes, ledger.recorded_ns)
        .map_or_else(String::new, |rate| format!(" ({}/s)", bytes(rate)));
    format!(
        "ring buffers: {number} of {size}, up to {full}% full; records: {records}{rate}; output: {}{spills}{fallback}{queue}",
        output.path
    )
}

fn per_second(amount: u64, ns: u64) -> Option<u64> {
    (ns > 0)
        .then(|| u128::from(amount) * 1_000_000_000 / u128::from(ns))
        .map(|rate| u64::try_from(rate).unwrap_or(u64::MAX))
}

fn seconds(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / SECOND_NS)
}

/// Formats a number of bytes; units are powers of 1000.
fn bytes(number: u64) -> String {
    let units = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let unit = units.into_iter().find(|(_, size)| number as f64 >= *size);
    unit.map_or_else(
        || format!("{number} B"),
        |(unit, size)| format!("{:.1} {unit}", number as f64 / size),
    )
}

#[cfg(test)]
mod tests {
    use tare_format::ledger::{Command, Coverage, Follow, FollowMode, Output, Recorder, Rings};

    use super::*;

    fn follow() -> Follow {
        Follow {
            mode: FollowMode::Inherit,
            why: Some("-i asks for it".to_owned()),
            root: 8,
            tasks: Some(1001),
            unseen_tasks: 990,
            left_cgroup: 2,
            outlived: 1,
            ..Follow::default()
        }
    }

    fn losses_of_cpu_1() -> Vec<Loss> {
        let from_ns = Some(1_500_000_000);
        let to_ns = Some(1_600_000_000);
        vec![Loss { cpu: 1, records: 7, from_ns, to_ns }]
    }

    fn gaps() -> Vec<Gap> {
        let gap = |from_ns, to_ns| Gap { cpu: 3, from_ns: Some(from_ns), to_ns };
        vec![gap(1_700_000_000, Some(1_800_000_000)), gap(1_900_000_000, None)]
    }

    fn ledger() -> Ledger {
        let coverage = Coverage {
            sampled: 1_234_000_000,
            used: 1_950_000_000,
            is_time: true,
            ..Coverage::default()
        };
        Ledger {
            follow: Some(follow()),
            finished: true,
            events: vec![
                LedgerEvent {
                    name: "cpu-clock".to_owned(),
                    samples: 1234,
                    own: 3,
                    lost: Some(0),
                    coverage: Some(coverage),
                    ..LedgerEvent::default()
                },
                LedgerEvent {
                    name: "page-faults".to_owned(),
                    samples: 5,
                    own: 0,
                    lost: Some(7),
                    ..LedgerEvent::default()
                },
            ],
            losses: losses_of_cpu_1(),
            gaps: gaps(),
            throttled: 2,
            recorded_ns: 2_000_000_000,
            cost: Cost {
                start_cpu_ns: 1_000_000,
                recording_cpu_ns: 20_000_000,
                end_cpu_ns: 500_000,
                calibration_cpu_ns: 0,
                wake_ups: 8,
                system_calls: 30,
                peak_memory_bytes: Some(5_000_000),
                readers: 1,
            },
            output: Output {
                path: "write".to_owned(),
                record_bytes: 4_000_000,
                written_bytes: 4_100_000,
                ..Output::default()
            },
            rings: Rings {
                number: 2,
                bytes: 8_388_608,
                fullest_bytes: 2_000_000,
                flush_interval_ms: 250,
            },
            command: Some(Command { user_ns: 1_900_000_000, system_ns: 50_000_000 }),
            ..Ledger::new(Recorder { pid: 7, ..Recorder::default() })
        }
    }

    #[test]
    fn events_without_counts_by_task_have_no_coverage() {
        let mut ledger = ledger();
        ledger.follow.as_mut().unwrap().mode = FollowMode::System;
        let line =
            ledger_lines(&ledger).into_iter().find(|line| line.starts_with("coverage: ")).unwrap();
        assert!(
            line.ends_with("(63.3%); unknown for page-faults; 990 of 1,001 tasks have no sample"),
            "{line}"
        );
        ledger.events[0].coverage = None;
        assert!(ledger_lines(&ledger).contains(
            &"coverage: unknown: this mode has no count of cpu-clock, page-faults by task; 990 of 1,001 tasks have no sample".to_owned()
        ));
    }

    #[test]
    fn full_ledger_has_a_line_for_each_subject() {
        let expected = "\
1,239 samples in 2.000 s, 7 LOST; 4.1 MB
overhead unknown (recorder: 20.0 ms, plus 1.5 ms at start and exit)
WARNING: much of the command's cpu-clock has no samples: samples were lost: enlarge ring buffers with -m
2 tasks left the command's cgroup and were not recorded from then on: --follow=system sees them
1 process outlives the command: it runs on, as without tare
CPU 1 lost 7 records between 1.500000 and 1.600000
to avoid losses, use larger ring buffers (-m, now 8.4 MB) or fewer events
CPU 3 was not recorded from 1.700000 to 1.800000: it was offline
CPU 3 was not recorded from 1.900000 on: it went offline
the kernel throttled sampling 2 times (kernel.perf_event_max_sample_rate)
cpu-clock 1,234, page-faults 5 (7 lost)
the command was followed by inherited events (-i asks for it)
coverage: the samples stand for cpu-clock 1.234 s of 1.950 s (63.3%); 990 of 1,001 tasks have no sample
3 of the samples are the recorder's own
the recorder: 20.0 ms of CPU time (1.00% of a CPU), 1.0 ms at start, 0.5 ms at exit; 8 wake-ups, 30 system calls, 5.0 MB of memory
ring buffers: 2 of 8.4 MB, up to 23% full; records: 4.0 MB (2.0 MB/s); output: write
the command: 1.900 s of CPU in user mode, 0.050 s in the kernel";
        assert_eq!(ledger_lines(&ledger()).join("\n"), expected);
    }

    #[test]
    fn the_remedy_depends_on_the_cause_of_low_coverage() {
        let warning = |change: fn(&mut Ledger)| {
            let mut ledger = ledger();
            ledger.losses.clear();
            change(&mut ledger);
            ledger_lines(&ledger).into_iter().find(|line| line.starts_with("WARNING"))
        };
        assert!(warning(|_| {}).unwrap().contains("short-lived children"));
        assert_eq!(warning(|ledger| ledger.stopped = Some("full".to_owned())), None);
        let highest = warning(|ledger| {
            ledger.events[0].coverage.as_mut().unwrap().is_highest_rate = true;
        });
        assert!(highest.unwrap().contains("lower rate"));
        let other_rights = warning(|ledger| {
            ledger.events[0].samples = 0;
            ledger.follow.as_mut().unwrap().unrecordable = true;
        });
        assert!(other_rights.unwrap().contains("other rights"));
        let mut little = ledger();
        little.events[0].coverage.as_mut().unwrap().is_little = true;
        let lines = ledger_lines(&little);
        assert!(lines.iter().any(|line| line.contains("1.950 s (too little to tell a share)")));
        assert!(!lines.iter().any(|line| line.starts_with("WARNING")));
    }

    #[test]
    fn dropped_records_are_reported_beside_losses() {
        let event = LedgerEvent { samples: 10, lost: Some(0), ..LedgerEvent::default() };
        let output = Output { dropped_bytes: 2_000, written_bytes: 100, ..Output::default() };
        let line = ledger_lines(&Ledger {
            finished: true,
            events: vec![event],
            output,
            ..Ledger::default()
        })
        .swap_remove(0);
        assert_eq!(
            line,
            "10 samples in 0.000 s, none lost in ring buffers, 2.0 kB of records DROPPED; 100 B"
        );
    }

    #[test]
    fn late_clocks_are_named_and_nothing_claims_that_no_sample_is_missing() {
        let clock =
            |cpu| LateClock { event: "cpu-clock".to_owned(), cpu, due: 1000, delivered: 512 };
        let one = Ledger { late_clocks: vec![clock(1)], losses: Vec::new(), ..ledger() };
        let lines = ledger_summary(&one).join("\n");
        let text = "CPU 1 delivered 512 of 1,000 due samples of cpu-clock: the machine's timers came late, so times there are too low";
        assert!(lines.contains(text), "{lines}");
        let events = vec![LedgerEvent { lost: Some(0), ..LedgerEvent::default() }];
        let several = Ledger { late_clocks: vec![clock(1), clock(3)], events, ..one };
        let lines = ledger_summary(&several).join("\n");
        let text = "2 clocks delivered 1,024 of 2,000 due samples (CPU 1, …): ";
        assert!(lines.contains(text) && lines.contains("none lost in ring buffers;"), "{lines}");
    }
}
