//! What is missing of a recording, in words: the same in every table, text and document.

use tare_profile::Losses;

/// A line for each kind of loss; none where nothing was lost.
#[must_use]
pub fn loss_lines(losses: &Losses) -> Vec<String> {
    let Losses { lost_records, lost_events, unwound_stacks, .. } = losses;
    let counted = [
        (
            *lost_records,
            format!(
                "records were lost while recording, said {lost_events} times: their ring was full (larger rings: -m)"
            ),
        ),
        (
            losses.lost_samples,
            "samples were lost while recording, by the events' own count".to_owned(),
        ),
        (
            losses.throttled,
            "times the kernel stopped an event that interrupted too often (a lower rate: -F)"
                .to_owned(),
        ),
        (losses.malformed_records, "records could not be decoded".to_owned()),
        (losses.late_records, "records came too late to be put in order of time".to_owned()),
        (losses.outside_samples, "samples of what is not the command's are left out".to_owned()),
        (
            losses.own_samples,
            "samples of the recorder itself are left out (--include-self keeps them)".to_owned(),
        ),
        (
            losses.incomplete_stacks,
            format!(
                "of {unwound_stacks} copies of user stacks don't reach their thread's first function (more of them: --call-graph dwarf,BYTES)"
            ),
        ),
        (
            losses.aux_bytes,
            "bytes of AUX data (hardware traces) are not decoded (perf script --itrace does)"
                .to_owned(),
        ),
        (
            losses.stat_records,
            "counts of perf stat record are not shown (perf stat report does)".to_owned(),
        ),
    ];
    let counted = counted.into_iter().filter(|(count, _)| *count > 0);
    let mut lines: Vec<_> = counted.map(|(count, what)| format!("{count} {what}")).collect();
    lines.extend(unread_lines(losses));
    lines
}

/// What could not be read of a recording.
pub(crate) fn unread_lines(losses: &Losses) -> Vec<String> {
    let gap = |gap: &tare_profile::Gap| {
        format!("{} bytes at byte {} are left out: {}", gap.bytes, gap.offset, gap.why)
    };
    let mut lines: Vec<_> = losses.gaps.iter().map(gap).collect();
    if losses.more_gaps > 0 {
        lines.push(format!(
            "{} more gaps; {} bytes are left out in all",
            losses.more_gaps, losses.unread_bytes
        ));
    }
    if losses.is_unfinished {
        lines.push("the recorder was killed: what it had written is shown".to_owned());
    }
    lines
}
