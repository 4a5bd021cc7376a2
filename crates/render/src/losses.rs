//! What is missing of a recording, in words: the same in every table, text and document.

use tare_format::printable;
use tare_profile::{Losses, MissingSymbols, OffCpuChains};

use crate::plural::{agreeing, plural};
use crate::unwinding;

/// What is missing so many times.
struct Line {
    number: u64,
    what: String,
}

/// A line for each kind of loss; none where nothing was lost.
#[must_use]
pub fn loss_lines(losses: &Losses) -> Vec<String> {
    let said = losses.lost_events;
    let full = format!(
        "lost while recording, said {said} {}: their ring was full (larger rings: -m)",
        plural(said, "time")
    );
    let was = |number, noun, what: &str| Line {
        number,
        what: format!("{} {} {what}", plural(number, noun), agreeing(number, "was", "were")),
    };
    let is = |number, noun, of: &str, what: &str| {
        let noun = plural(number, noun);
        let are = agreeing(number, "is", "are");
        Line { number, what: format!("{noun}{of} {are} {what}") }
    };
    let plain = |number, noun, what: &str| Line {
        number,
        what: format!("{} {what}", plural(number, noun)),
    };
    let counted = [
        was(losses.lost_records, "record", &full),
        was(losses.lost_samples, "sample", "lost while recording, by the events' own count"),
        plain(
            losses.throttled,
            "time",
            "the kernel stopped an event that interrupted too often (a lower rate: -F)",
        ),
        plain(losses.malformed_records, "record", "could not be decoded"),
        plain(losses.late_records, "record", "came too late to be put in order of time"),
        is(losses.outside_samples, "sample", " of what is not the command's", "left out"),
        is(
            losses.own_samples,
            "sample",
            " of the recorder itself",
            "left out (--include-self keeps them)",
        ),
        plain(
            losses.missing_user_chains,
            "call chain",
            "without the user part, which was to come later and didn't",
        ),
        is(
            losses.aux_bytes,
            "byte",
            " of AUX data (hardware traces)",
            "not decoded (perf script --itrace does)",
        ),
        is(
            losses.stat_records,
            "count",
            " of perf stat record",
            "not shown (perf stat report does)",
        ),
    ];
    let counted = counted.iter().filter(|line| line.number > 0);
    let mut lines: Vec<_> = counted.map(|line| format!("{} {}", line.number, line.what)).collect();
    lines.extend(names(losses));
    lines.extend(unwinding::lines(losses).chain(unread_lines(losses)));
    lines
}

/// What names are worth, and what gives more.
fn names(losses: &Losses) -> impl Iterator<Item = String> {
    let off_cpu = off_cpu(losses.off_cpu);
    let mappings = left_out_mappings(losses.left_out_mappings);
    let jitdumps = untimed_jitdumps(losses.untimed_jitdumps);
    [mappings, jitdumps, remedy(losses), off_cpu].into_iter().flatten()
}

/// How much of the time that tasks were not on a CPU has whole call chains.
fn off_cpu(of: OffCpuChains) -> Option<String> {
    let percent = 100.0 * of.whole_ns as f64 / of.ns as f64;
    (of.ns > 0).then(|| {
        let ms = of.ns as f64 / 1e6;
        format!("{percent:.1}% of {ms:.3} ms off-CPU has call chains from where the thread began")
    })
}

/// What gives most samples without a function's name one.
fn remedy(losses: &Losses) -> Option<String> {
    let unnamed = losses.unnamed.as_ref()?;
    let remedy = unnamed.remedy.as_ref()?;
    let why = match &unnamed.lack {
        MissingSymbols::DebugFile(file) => {
            format!("{} is stripped", printable(file.path.as_bytes()))
        }
        MissingSymbols::Binary(file) => {
            format!("{} is not here as it was recorded", printable(file.path.as_bytes()))
        }
        MissingSymbols::Permission(file) => {
            format!("{} can't be read", printable(file.path.as_bytes()))
        }
        MissingSymbols::PerfMap(_) => {
            "compiled code, whose names its process didn't write".to_owned()
        }
        MissingSymbols::KernelAddresses => "the kernel hides its addresses".to_owned(),
        MissingSymbols::KernelSymbols(_) => "another kernel was recorded".to_owned(),
    };
    Some(format!("{:.2}% would have a function's name: {remedy} ({why})", unnamed.percent))
}

/// Of what lies in mappings that were left out there is no name.
fn left_out_mappings(number: u64) -> Option<String> {
    let mappings = plural(number, "mapping");
    let are = agreeing(number, "is", "are");
    (number > 0).then(|| {
        format!(
            "{number} {mappings} of address spaces {are} left out: more than real processes have"
        )
    })
}

/// What names by a jitdump without its times are worth.
fn untimed_jitdumps(number: u64) -> Option<String> {
    let dumps = plural(number, "jitdump");
    (number > 0).then(|| {
        format!("{number} {dumps} and the recording have no common clock: where code was replaced, the last name is shown (tare record, or perf record -k mono)")
    })
}

/// What could not be read of a recording.
pub(crate) fn unread_lines(losses: &Losses) -> Vec<String> {
    let gap = |gap: &tare_profile::Gap| {
        let (bytes, are) = (plural(gap.bytes, "byte"), agreeing(gap.bytes, "is", "are"));
        format!("{} {bytes} at byte {} {are} left out: {}", gap.bytes, gap.offset, gap.why)
    };
    let mut lines: Vec<_> = losses.gaps.iter().map(gap).collect();
    if losses.more_gaps > 0 {
        lines.push(format!(
            "{} more {}; {} bytes are left out in all",
            losses.more_gaps,
            plural(losses.more_gaps, "gap"),
            losses.unread_bytes
        ));
    }
    if losses.is_unfinished {
        lines.push("the recorder was killed: what it had written is shown".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        let one = Losses { lost_records: 1, lost_events: 1, own_samples: 1, ..Losses::default() };
        assert_eq!(
            loss_lines(&one),
            [
                "1 record was lost while recording, said 1 time: their ring was full (larger rings: -m)",
                "1 sample of the recorder itself is left out (--include-self keeps them)",
            ]
        );
        let many = Losses { late_records: 2, outside_samples: 10, ..Losses::default() };
        assert_eq!(
            loss_lines(&many),
            [
                "2 records came too late to be put in order of time",
                "10 samples of what is not the command's are left out",
            ]
        );
    }
}
