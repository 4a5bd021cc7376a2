//! The same task by tare and by samply, hyperfine and bpftrace: CPU time and elapsed time of the
//! tool with its command.

use anyhow::Context;

use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::{Round, Variant, rounds};
use crate::run::Usage;
use crate::scratch::Scratch;
use crate::setting::Setting;

/// Passes of the loop that is sampled.
const PASSES: &str = "1000000000";

/// Runs of `true` within one run of a tool.
const RUNS: &str = "100";

/// Counts the system calls of its command.
const COUNT_CALLS: &str =
    "tracepoint:raw_syscalls:sys_enter /pid == cpid/ { @[args->id] = count(); }";

/// Indices of the variants.
const BARE_LOOP: usize = 0;
const TARE_RECORD: usize = 1;
const SAMPLY: usize = 2;
const TARE_STAT: usize = 3;
const HYPERFINE: usize = 4;
const TARE_TRACE: usize = 5;
const BPFTRACE: usize = 6;
const TARE_BENCH: usize = 7;

/// The file of `kernel.perf_event_paranoid`.
const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let level: i32 = std::fs::read_to_string(PARANOID)?.trim().parse().context(PARANOID)?;
    anyhow::ensure!(
        level <= 1,
        "samply needs kernel.perf_event_paranoid of at most 1, even as root"
    );
    let scratch = Scratch::new(setting)?;
    let file = |name: &str| scratch.path(name).display().to_string();
    let tare = setting.tare();
    let spin = setting.workload("spin");
    let variants = vec![
        Variant::new("loop", [&spin, PASSES]),
        Variant::new(
            "loop, tare record -g -F 1000",
            [&tare, "record", "-q", "-g", "-F", "1000", "-o", &file("tare.data"), &spin, PASSES],
        ),
        Variant::new(
            "loop, samply record -r 1000",
            [
                "samply",
                "record",
                "-s",
                "-n",
                "-r",
                "1000",
                "-o",
                &file("samply.json"),
                &spin,
                PASSES,
            ],
        ),
        Variant::new(
            "100 x true, tare stat -r",
            [&tare, "stat", "-r", RUNS, "-o", "/dev/null", "true"],
        ),
        Variant::new(
            "100 x true, hyperfine -N",
            ["hyperfine", "-N", "-w", "0", "-r", RUNS, "--style", "none", "true"],
        ),
        Variant::new("true, tare trace -s", [&tare, "trace", "-s", "-o", "/dev/null", "true"]),
        Variant::new(
            "true, bpftrace",
            ["bpftrace", "-q", "-o", "/dev/null", "-e", COUNT_CALLS, "-c", "/bin/true"],
        ),
        Variant::new(
            "100 x true, tare bench -N",
            [&tare, "bench", "-N", "-r", RUNS, "--style", "none", "true"],
        ),
    ];
    let rounds = rounds(&variants, setting.rounds.unwrap_or(20))?;
    Ok(Report::of_rounds(&variants, &rounds, findings(&rounds)))
}

fn findings(rounds: &[Round]) -> Vec<Finding> {
    let ratio = |of: fn(&Usage) -> u64, [at, to]: [usize; 2]| {
        let ratios =
            rounds.iter().map(|round| of(&round.usage[at]) as f64 / of(&round.usage[to]) as f64);
        Estimate::of_ratios(ratios)
    };
    let added = |round: &Round, at: usize| {
        round.usage[at].cpu_ns as f64 - round.usage[BARE_LOOP].cpu_ns as f64
    };
    let added_ratio = rounds.iter().map(|round| added(round, TARE_RECORD) / added(round, SAMPLY));
    let cpu = |usage: &Usage| usage.cpu_ns;
    let elapsed = |usage: &Usage| usage.elapsed_ns;
    let finding = |what: &str, measured, most| Finding {
        what: what.to_owned(),
        measured,
        bound: Bound::EstimateAtMost(most),
    };
    vec![
        finding(
            "CPU added to a loop at 1000 Hz, tare/samply",
            Estimate::median(added_ratio.collect()),
            0.5,
        ),
        finding("elapsed, loop, tare/samply", ratio(elapsed, [TARE_RECORD, SAMPLY]), 1.0),
        finding("CPU, 100 x true, tare bench/hyperfine", ratio(cpu, [TARE_BENCH, HYPERFINE]), 1.0),
        finding(
            "elapsed, 100 x true, tare bench/hyperfine",
            ratio(elapsed, [TARE_BENCH, HYPERFINE]),
            1.0,
        ),
        finding(
            "peak memory, 100 x true, tare bench/hyperfine",
            ratio(|usage: &Usage| usage.peak_bytes, [TARE_BENCH, HYPERFINE]),
            1.5,
        ),
        finding("CPU, 100 x true, tare/hyperfine", ratio(cpu, [TARE_STAT, HYPERFINE]), 1.5),
        finding("elapsed, 100 x true, tare/hyperfine", ratio(elapsed, [TARE_STAT, HYPERFINE]), 1.5),
        finding(
            "CPU, counting calls of true, tare/bpftrace",
            ratio(cpu, [TARE_TRACE, BPFTRACE]),
            1.0,
        ),
        finding(
            "elapsed, counting calls of true, tare/bpftrace",
            ratio(elapsed, [TARE_TRACE, BPFTRACE]),
            1.0,
        ),
    ]
}
