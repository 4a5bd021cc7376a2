//! A recording's losses in words, for all outputs.

use tare_format::printable;
use tare_profile::{InStep, Losses, MissingSymbols, OffCpuChains};

use crate::plural::{agreeing, plural};
use crate::unwinding;

/// A kind of loss, and how often it occurred.
struct LossLine {
    number: u64,
    text: String,
}

/// Returns a line for each kind of loss, and one about the call chains of off-CPU time.
#[must_use]
pub fn loss_lines(losses: &Losses) -> Vec<String> {
    let full = format!(
        "lost because a ring buffer was full ({} {}): enlarge ring buffers with -m",
        losses.lost_events,
        plural(losses.lost_events, "time")
    );
    let was = |number, noun, text: &str| LossLine {
        number,
        text: format!("{} {} {text}", plural(number, noun), agreeing(number, "was", "were")),
    };
    let counted = [
        was(losses.lost_records, "record", &full),
        was(losses.lost_samples, "sample", "lost, by the kernel's count of each event"),
        plain(
            losses.throttled,
            "time",
            "the kernel throttled an event that interrupted too often: lower the rate with -F",
        ),
        plain(losses.malformed_records, "record", "could not be decoded"),
        plain(losses.late_records, "record", "came too late to be sorted by time"),
        plain(losses.decreased_counts, "count", "of a group was less than before; it is left out"),
        plain(
            losses.missing_user_chains,
            "call chain",
            &format!(
                "{} the user part: the kernel never delivered it",
                agreeing(losses.missing_user_chains, "lacks", "lack")
            ),
        ),
        plain(
            losses.aux_bytes,
            "byte",
            "of AUX data (hardware traces) not decoded: use perf script --itrace",
        ),
        plain(losses.stat_records, "count", "of perf stat record not shown: use perf stat report"),
    ];
    let counted = counted.into_iter().chain(task_lines(losses)).filter(|line| line.number > 0);
    let mut lines: Vec<_> = counted.map(|line| format!("{} {}", line.number, line.text)).collect();
    lines.extend(naming_lines(losses));
    lines.extend(unwinding::lines(losses).chain(unread_lines(losses)));
    lines
}

/// Returns samples of tasks that are left out or unknown.
fn task_lines(losses: &Losses) -> [LossLine; 3] {
    [
        plain(
            losses.outside_samples,
            "sample",
            &format!("from outside the command {} dropped", was_or_were(losses.outside_samples)),
        ),
        plain(
            losses.foreign_samples,
            "sample",
            &format!(
                "{} of tasks outside of the recorder's pid namespace: record outside of the container to name them",
                agreeing(losses.foreign_samples, "is", "are")
            ),
        ),
        plain(
            losses.own_samples,
            "sample",
            &format!(
                "of the recorder itself {} dropped (--include-self keeps them)",
                was_or_were(losses.own_samples)
            ),
        ),
    ]
}

fn plain(number: u64, noun: &str, text: &str) -> LossLine {
    LossLine { number, text: format!("{} {text}", plural(number, noun)) }
}

fn was_or_were(number: u64) -> &'static str {
    agreeing(number, "was", "were")
}

/// Returns lines about names and call chains that are missing or uncertain.
fn naming_lines(losses: &Losses) -> impl Iterator<Item = String> {
    let off_cpu = off_cpu_line(losses.off_cpu);
    let mappings = dropped_mappings_line(losses.left_out_mappings);
    let jitdumps = untimed_jitdumps_line(losses.untimed_jitdumps);
    let in_step = losses.in_step.as_ref().map(in_step_line);
    [mappings, jitdumps, remedy_line(losses), in_step, off_cpu].into_iter().flatten()
}

/// Returns a line about a function in step with the sampling period, with a rate whose period is no
/// simple multiple.
fn in_step_line(in_step: &InStep) -> String {
    let InStep { function, command, tid, period_ns } = in_step;
    let hz = (1.382 * 1e9 / *period_ns as f64).round().max(1.0);
    format!(
        "{} of {} ({tid}) repeats itself in step with the sampling period of {:.3} ms, so its share may depend on the rate: compare with -F {hz}",
        printable(function.as_bytes()),
        printable(command.as_bytes()),
        *period_ns as f64 / 1e6
    )
}

/// Returns the share of off-CPU time with complete call chains.
fn off_cpu_line(chains: OffCpuChains) -> Option<String> {
    let percent = 100.0 * chains.whole_ns as f64 / chains.ns as f64;
    (chains.ns > 0).then(|| {
        let ms = chains.ns as f64 / 1e6;
        format!("{percent:.1}% of {ms:.3} ms off-CPU time has complete call chains")
    })
}

/// Returns the remedy that names most of the samples without a function name.
fn remedy_line(losses: &Losses) -> Option<String> {
    let unnamed = losses.unnamed.as_ref()?;
    let remedy = unnamed.remedy.as_ref()?;
    let why = match &unnamed.lack {
        MissingSymbols::DebugFile(file) => {
            format!("{} is stripped", printable(file.path.as_bytes()))
        }
        MissingSymbols::Binary(file) => {
            format!("the recorded build of {} is missing", printable(file.path.as_bytes()))
        }
        MissingSymbols::UnidentifiedBinary(file) => {
            let path = printable(file.path.as_bytes());
            format!("the recorded build of {path} is missing, and had no build id")
        }
        MissingSymbols::Permission(file) => {
            format!("{} can't be read", printable(file.path.as_bytes()))
        }
        MissingSymbols::PerfMap(_) => "JIT code without a perf map".to_owned(),
        MissingSymbols::KernelAddresses => "the kernel hides its addresses".to_owned(),
        MissingSymbols::KernelSymbols(_) => "recorded on another kernel".to_owned(),
    };
    Some(format!("{:.2}% of samples would have a function name: {remedy} ({why})", unnamed.percent))
}

/// Returns a line about dropped mappings: samples in them have no name.
fn dropped_mappings_line(number: u64) -> Option<String> {
    let mappings = plural(number, "mapping");
    let were = was_or_were(number);
    (number > 0).then(|| {
        format!(
            "{number} {mappings} of address spaces {were} dropped: more than real processes have"
        )
    })
}

/// Returns a line about jitdumps whose times can't be compared with the recording's: their names
/// may be those of later code at the same address.
fn untimed_jitdumps_line(number: u64) -> Option<String> {
    let dumps = plural(number, "jitdump");
    let have = agreeing(number, "has", "have");
    (number > 0).then(|| {
        format!("{number} {dumps} {have} no common clock with the recording: replaced code shows its last name (use tare record, or perf record -k mono)")
    })
}

/// Returns lines about the parts of a recording that couldn't be read.
pub(crate) fn unread_lines(losses: &Losses) -> Vec<String> {
    let gap = |gap: &tare_profile::Gap| {
        let bytes = plural(gap.bytes, "byte");
        format!("{} {bytes} at offset {} skipped: {}", gap.bytes, gap.offset, gap.why)
    };
    let mut lines: Vec<_> = losses.gaps.iter().map(gap).collect();
    if losses.more_gaps > 0 {
        lines.push(format!(
            "{} more {}; {} bytes skipped in all",
            losses.more_gaps,
            plural(losses.more_gaps, "gap"),
            losses.unread_bytes
        ));
    }
    if losses.is_unfinished {
        lines
            .push("the recorder was killed: only the part that it had written is shown".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_in_step_with_the_period_is_named_with_another_rate() {
        let in_step = InStep {
            function: "step".to_owned(),
            command: "prog".to_owned(),
            tid: 12,
            period_ns: 1_001_001,
        };
        let losses = Losses { in_step: Some(in_step), ..Losses::default() };
        assert_eq!(
            loss_lines(&losses),
            [
                "step of prog (12) repeats itself in step with the sampling period of 1.001 ms, so its share may depend on the rate: compare with -F 1381"
            ]
        );
        assert!(losses.is_empty(), "nothing is missing");
    }

    #[test]
    fn nouns_and_verbs_agree_with_counts() {
        let one = Losses { lost_records: 1, lost_events: 1, own_samples: 1, ..Losses::default() };
        assert_eq!(
            loss_lines(&one),
            [
                "1 record was lost because a ring buffer was full (1 time): enlarge ring buffers with -m",
                "1 sample of the recorder itself was dropped (--include-self keeps them)",
            ]
        );
        let many = Losses { late_records: 2, outside_samples: 10, ..Losses::default() };
        assert_eq!(
            loss_lines(&many),
            [
                "2 records came too late to be sorted by time",
                "10 samples from outside the command were dropped",
            ]
        );
    }
}
