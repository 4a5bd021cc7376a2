//! The list of benchmarks.

mod agent;
mod bench_ab;
mod diff;
mod flame_page;
mod follow;
mod off_cpu;
mod overhead;
mod peers;
mod record;
mod report_speed;
mod sched;
mod stacks;
mod symbols;
mod top;
mod trace;
mod true_cost;
mod tui;
mod unwind;
mod versus;
mod zstd;

pub(crate) use self::stacks::names as stack_parts;
use crate::report::Report;
use crate::setting::Setting;

#[derive(Debug)]
pub(crate) struct Benchmark {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: fn(&Setting) -> anyhow::Result<Report>,
}

/// Compares two binaries. It needs an argument, so it isn't one of [`BENCHMARKS`].
pub(crate) const AGAINST: Benchmark = Benchmark {
    name: "against",
    about: "what counting and recording cost: the binary before against the binary after",
    run: record::against::run,
};

/// Takes names of its parts.
pub(crate) const STACKS: Benchmark = Benchmark {
    name: "stacks",
    about: "whole stacks while recording: known chains, Debian's programs, sizes and costs",
    run: stacks::run,
};

/// All benchmarks that run without arguments.
pub(crate) const BENCHMARKS: &[Benchmark] = &[
    Benchmark {
        name: "true-cost",
        about: "what counting `true` costs, against perf and against bare `true`",
        run: true_cost::run,
    },
    Benchmark {
        name: "forks-elapsed",
        about: "recording 500 x (date, expr) with one to five software events",
        run: follow::software,
    },
    Benchmark {
        name: "forks-traced",
        about: "the same with two tracepoints among the events",
        run: follow::traced,
    },
    Benchmark {
        name: "forks-coverage",
        about: "how much of 1000 x (date, expr) has samples, by rate",
        run: follow::coverage::run,
    },
    Benchmark {
        name: "forks-threads",
        about: "what recording adds to each of 20000 threads",
        run: follow::threads::run,
    },
    Benchmark {
        name: "forks-make",
        about: "what a report says of make -j2 of a C library, against exact times",
        run: follow::build::run,
    },
    Benchmark {
        name: "forks-clean",
        about: "what 100 recorders leave behind, 50 of them killed",
        run: follow::clean::run,
    },
    Benchmark {
        name: "equal",
        about: "100 comparisons of a command with itself by tare stat --vs",
        run: versus::equal,
    },
    Benchmark {
        name: "planted",
        about: "10 comparisons with a command that works 3% longer",
        run: versus::planted,
    },
    Benchmark {
        name: "ab",
        about: "10 more series of tare bench: equal commands, and 3% and 1% more work",
        run: bench_ab::run,
    },
    Benchmark {
        name: "diff",
        about: "comparisons of recordings: a program with itself, and with a function 5% slower",
        run: diff::run,
    },
    Benchmark {
        name: "peers",
        about: "recording, counting and tracing beside samply, hyperfine and bpftrace",
        run: peers::run,
    },
    Benchmark {
        name: "record-idle",
        about: "every system call and switch of a machine at rest",
        run: record::idle::run,
    },
    Benchmark {
        name: "record-flood",
        about: "a loop of system calls on one CPU, then on each",
        run: record::flood::run,
    },
    Benchmark {
        name: "record-true",
        about: "what recording `true` costs",
        run: record::true_cost::run,
    },
    Benchmark {
        name: "record-steady",
        about: "what a recorder costs between its start and its end, with two busy CPUs and none",
        run: record::steady::run,
    },
    Benchmark {
        name: "where",
        about: "where tare's own CPU time goes, by tare and by perf, and the floor of each",
        run: record::costs::run,
    },
    Benchmark {
        name: "record-kill",
        about: "recorders that are killed, 200 times",
        run: record::kill::run,
    },
    Benchmark {
        name: "record-full",
        about: "full disks and limits on the size of files",
        run: record::full::run,
    },
    Benchmark {
        name: "record-report",
        about: "a report of a recording of 1 GB",
        run: record::report::run,
    },
    Benchmark {
        name: "report-speed",
        about: "report and script of 300 short programs with deep stacks, beside perf",
        run: report_speed::run,
    },
    Benchmark {
        name: "report-grown",
        about: "report and script of 3000 short programs beside those of 300",
        run: report_speed::grown,
    },
    Benchmark {
        name: "tui",
        about: "the interactive report of 5 million samples, until its first screen and its last",
        run: tui::run,
    },
    Benchmark {
        name: "flame-page",
        about: "the page of 100,000 call chains in Chromium: until it is drawn, searches, bytes",
        run: flame_page::run,
    },
    Benchmark {
        name: "top",
        about: "CPU time of the live report at 99 Hz, beside perf top's",
        run: top::run,
    },
    Benchmark {
        name: "top-memory",
        about: "memory of the live report over a day of 100,000 short processes",
        run: top::memory,
    },
    Benchmark {
        name: "record-paths",
        about: "the ways into a file: file systems, compression, loads and traces",
        run: record::paths::run,
    },
    Benchmark {
        name: "off-cpu",
        about: "waits of two processes that wake each other, beside perf's record of switches",
        run: off_cpu::run,
    },
    Benchmark {
        name: "sched",
        about: "context switches of a recording, beside perf sched timehist",
        run: sched::timehist,
    },
    Benchmark {
        name: "lock",
        about: "waits for a futex and a lock of the kernel, against the waiting thread's clock",
        run: sched::lock,
    },
    Benchmark {
        name: "trace",
        about: "sums of a loop of system calls, beside empty programs, perf trace and strace",
        run: trace::flood,
    },
    Benchmark {
        name: "trace-true",
        about: "what tare trace -s adds to `true`",
        run: trace::start_up,
    },
    Benchmark {
        name: "trace-data",
        about: "a recording of a loop of system calls, beside perf trace record",
        run: trace::data,
    },
    Benchmark {
        name: "trace-kill",
        about: "what 200 tracers leave in the kernel that are killed at any moment",
        run: trace::kill,
    },
    Benchmark {
        name: "probe",
        about: "calls of a function that tare trace --probe looks at, beside bpftrace",
        run: trace::probe,
    },
    Benchmark {
        name: "agent",
        about: "CPU time and memory of tare agent: at rest, and beside compilations",
        run: agent::cost::run,
    },
    Benchmark {
        name: "agent-kill",
        about: "stores of 300 agents that are killed",
        run: agent::kill::run,
    },
    STACKS,
    Benchmark {
        name: "unwind",
        about: "copied stacks: known chains, and three recordings beside framehop",
        run: unwind::run,
    },
    Benchmark {
        name: "lines",
        about: "functions and lines of the stacks of three recordings, beside the library addr2line",
        run: unwind::lines::run,
    },
    Benchmark {
        name: "symbols",
        about: "script --inline of copied stacks of a program with all debug info, beside perf",
        run: symbols::script::run,
    },
    Benchmark {
        name: "symbols-million",
        about: "a million addresses, beside the program of the crate addr2line",
        run: symbols::million::run,
    },
    Benchmark {
        name: "symbols-large",
        about: "memory of names in a program with 1 GB of debug info",
        run: symbols::large::run,
    },
    Benchmark {
        name: "shares",
        about: "shares of symbols in ten recordings, against perf's report of the same",
        run: symbols::shares::run,
    },
    Benchmark {
        name: "symbols-truth",
        about: "10,000 addresses each of five programs, against LLVM's symbolizer",
        run: symbols::truth::run,
    },
    Benchmark {
        name: "overhead-zero",
        about: "10 studies at 0 Hz: nothing is lost",
        run: overhead::zero,
    },
    Benchmark {
        name: "overhead-planted",
        about: "10 studies of a fake profiler that burns 2%",
        run: overhead::planted,
    },
    Benchmark {
        name: "overhead-nested",
        about: "10 studies: handler, interrupt and stolen time lie in each other",
        run: overhead::nested,
    },
    Benchmark {
        name: "overhead-between",
        about: "10 studies beside a timer's interrupt without a sample",
        run: overhead::between,
    },
    Benchmark {
        name: "overhead-predict",
        about: "10 times the cost at 10,000 Hz, from lower rates",
        run: overhead::predict,
    },
    Benchmark {
        name: "overhead-table",
        about: "one study of all rates, with its time",
        run: overhead::table,
    },
    Benchmark {
        name: "overhead-peer",
        about: "what tare and perf add to the event at 4000 Hz with call chains",
        run: overhead::peer,
    },
    Benchmark {
        name: "calibrate",
        about: "what ten recordings measure of a sample's cost, against ten studies",
        run: overhead::calibrate::run,
    },
    Benchmark {
        name: "overhead-budget",
        about: "recordings within 0.5, 1 and 2%, held against trace events and full rate",
        run: overhead::budget::run,
    },
];
