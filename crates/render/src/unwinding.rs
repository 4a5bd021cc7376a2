//! Incomplete user call chains, from copied stacks and from frame pointers, in words and as JSON.

use serde::Serialize;
use tare_format::printable;
use tare_profile::{
    DeepestStack, EndReasonCount, FramePointers, Losses, TruncatedChains, Unwinding,
};

/// Share of truncated stacks, in percent, from which a line suggests a larger copy.
const FEW_PERCENT: f64 = 1.0;

/// Largest stack copy that the kernel makes, in bytes.
const LARGEST_COPY: u64 = 65_528;

/// Share of stacks, in percent, that the largest copy should hold; below it a line suggests frame
/// pointers too.
const MOST_PERCENT: f64 = 99.0;

/// Returns lines about incomplete call chains.
pub(crate) fn lines(losses: &Losses) -> impl Iterator<Item = String> {
    let chains = losses.frame_pointers.as_ref().and_then(frame_pointer_line);
    let truncated = truncated_line(&losses.truncated_chains);
    line(&losses.unwinding).into_iter().chain(truncated).chain(chains)
}

/// Frames that the kernel records by default.
const DEFAULT_FRAMES: u16 = 127;

/// Returns `12.5% of 800 call chains are truncated: the kernel recorded their innermost 127 frames
/// (…)`; `None` if none is.
fn truncated_line(chains: &TruncatedChains) -> Option<String> {
    let TruncatedChains { stacks, truncated, frames } = *chains;
    let remedy = if frames < DEFAULT_FRAMES {
        "max-stack= of the event, or kernel.perf_event_max_stack, is that low".to_owned()
    } else {
        let more = u32::from(frames).saturating_mul(4).next_power_of_two();
        format!("as root, before recording: sysctl kernel.perf_event_max_stack={more}")
    };
    (truncated > 0).then(|| {
        let share = percent(truncated, stacks);
        format!("{share} of {stacks} call chains are truncated: the kernel recorded their innermost {frames} frames ({remedy})")
    })
}

/// Returns `90.0% of 12800 copied user stacks are complete, 9.4% truncated (1200 the copy ended),
/// 0.6% failed (80 no binary, most in /opt/app); --call-graph dwarf,24576 would have held 99.2%`;
/// `None` if all are complete.
fn line(unwinding: &Unwinding) -> Option<String> {
    let all = unwinding.stacks();
    let truncated = unwinding.truncated_stacks();
    if unwinding.whole == all {
        return None;
    }
    let kind = if unwinding.by_recorder { "user call chains" } else { "copied user stacks" };
    let mut line = format!("{} of {all} {kind} are complete", percent(unwinding.whole, all));
    for (result, number, ended) in [
        ("truncated", truncated, &unwinding.truncated),
        ("failed", unwinding.failed_stacks(), &unwinding.failed),
    ] {
        if number > 0 {
            line += &format!(", {} {result} ({})", percent(number, all), reasons(ended));
        }
    }
    if unwinding.spliced > 0 {
        line += &format!(", {} continued by frame pointers", unwinding.spliced);
    }
    line += &unwinding.deepest.as_ref().map_or(String::new(), deepest_part);
    let many = unwinding.sufficient.filter(|sufficient| {
        let cut = sufficient.of.saturating_sub(unwinding.whole);
        share(cut, all) >= FEW_PERCENT
    });
    if let Some(sufficient) = many {
        let held = percent(sufficient.stacks, sufficient.of);
        line += &format!("; --call-graph dwarf,{} would have held {held}", sufficient.bytes);
        if sufficient.bytes >= LARGEST_COPY
            && share(sufficient.stacks, sufficient.of) < MOST_PERCENT
        {
            line += ", and is the largest copy: dwarf+fp continues with frame pointers";
        }
    } else if let Some(remedy) = remedy(unwinding) {
        line += &format!("; {remedy}");
    }
    Some(line)
}

/// Returns `; the deepest of them has 900 KiB: as root, or with CAP_BPF and CAP_PERFMON, tare copies
/// up to 1 MiB of each stack`.
fn deepest_part(deepest: &DeepestStack) -> String {
    let size = |bytes: u64| match bytes {
        MIB.. => format!("{:.1} MiB", bytes as f64 / MIB as f64),
        _ => format!("{} KiB", bytes.div_ceil(1 << 10)),
    };
    let DeepestStack { bytes, copied_bytes, ref lack, missed } = *deepest;
    let copies = if let Some(lack) = lack {
        format!(": {}", printable(lack))
    } else if copied_bytes > 0 {
        let missed = match missed {
            0 => String::new(),
            _ => format!("; {missed} deep stacks weren't: their ring buffer was full"),
        };
        format!(", of which up to {} are copied{missed}", size(copied_bytes))
    } else if bytes > LARGEST_COPY {
        ": as root, or with CAP_BPF and CAP_PERFMON, tare copies up to 1.0 MiB of each stack".into()
    } else {
        String::new()
    };
    format!("; the deepest of them has {}{copies}", size(bytes))
}

const MIB: u64 = 1 << 20;

/// Returns what would make the largest group of incomplete chains whole; `None` if nothing that a
/// user can do would.
fn remedy(unwinding: &Unwinding) -> Option<&'static str> {
    let groups = unwinding.truncated.iter().chain(&unwinding.failed);
    let largest = groups.max_by_key(|ended| ended.stacks)?;
    Some(match largest.why {
        "no binary" if unwinding.by_recorder => {
            "most need the file while recording: record as root, and delete no running program"
        }
        "no binary" => "most need the recorded file: record with --keep-binaries",
        "no unwind table" => {
            "most need tables or frame pointers: compile the file with -fasynchronous-unwind-tables or -fno-omit-frame-pointer"
        }
        "code without call frames in a file that has them" => {
            "most need a table: compile with -fasynchronous-unwind-tables, or add .cfi directives to the assembly"
        }
        _ => return None,
    })
}

/// Share of broken frame-pointer call chains, in percent, below which there is no line: samples in
/// the C library's system calls always lose one frame.
const SOME_PERCENT: f64 = 5.0;

/// Returns `84.2% of 5000 user call chains miss callers: code has no frame pointers: libfoo.so
/// 2100, app 1500 (record with -g to find them, at 1.2 us more per sample; …)`.
fn frame_pointer_line(chains: &FramePointers) -> Option<String> {
    const FILES: usize = 3;
    if share(chains.broken, chains.stacks) < SOME_PERCENT {
        return None;
    }
    let file = |(path, stacks): &(String, u64)| {
        let name = path.rsplit('/').next().unwrap_or(path);
        format!("{} {stacks}", printable(name))
    };
    let mut files: Vec<_> = chains.dsos.iter().take(FILES).map(file).collect();
    if chains.dsos.len() > FILES {
        files.push(format!("{} more files", chains.dsos.len() - FILES));
    }
    let cost =
        chains.cost_us.map_or(String::new(), |us| format!(", at {us:.1} us more per sample"));
    Some(format!(
        "{} of {} user call chains miss callers: code has no frame pointers: {} (record with -g to find them{cost}; --call-graph lbr finds them too on CPUs that have it)",
        percent(chains.broken, chains.stacks),
        chains.stacks,
        files.join(", ")
    ))
}

fn reasons(ended: &[EndReasonCount]) -> String {
    let one = |ended: &EndReasonCount| match &ended.dso {
        Some(dso) => format!("{} {}, most in {}", ended.stacks, ended.why, printable(dso)),
        None => format!("{} {}", ended.stacks, ended.why),
    };
    ended.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// Formats a share in percent. Only a complete one is printed as 100%.
fn percent(part: u64, whole: u64) -> String {
    let share = share(part, whole);
    format!("{:.1}%", if part < whole { share.min(99.9) } else { share })
}

/// The results of unwinding, as a part of JSON documents.
#[derive(Debug, Serialize)]
pub struct CopiedStacks<'a> {
    /// Number of copied stacks.
    stacks: u64,
    whole: u64,
    truncated: u64,
    failed: u64,
    spliced: u64,
    reasons: Vec<Reason<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sufficient: Option<Size>,
}

#[derive(Debug, Serialize)]
struct Reason<'a> {
    why: &'static str,
    stacks: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dso: Option<&'a str>,
}

/// Call chains that were broken by code without frame pointers.
#[derive(Debug, Serialize)]
pub(crate) struct BrokenChains<'a> {
    stacks: u64,
    broken: u64,
    files: Vec<BrokenBy<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auto_costs_us: Option<f64>,
}

#[derive(Debug, Serialize)]
struct BrokenBy<'a> {
    dso: &'a str,
    stacks: u64,
}

impl<'a> BrokenChains<'a> {
    pub(crate) fn new(chains: &'a FramePointers) -> Self {
        let file = |(dso, stacks): &'a (String, u64)| BrokenBy { dso, stacks: *stacks };
        Self {
            stacks: chains.stacks,
            broken: chains.broken,
            files: chains.dsos.iter().map(file).collect(),
            auto_costs_us: chains.cost_us,
        }
    }
}

/// Call chains that the kernel cut at its limit of frames.
#[derive(Debug, Serialize)]
pub(crate) struct ChainsAtLimit {
    stacks: u64,
    truncated: u64,
    max_frames: u16,
}

impl ChainsAtLimit {
    /// Returns `None` if no chain is truncated.
    pub(crate) fn new(chains: &TruncatedChains) -> Option<Self> {
        let TruncatedChains { stacks, truncated, frames: max_frames } = *chains;
        (truncated > 0).then_some(Self { stacks, truncated, max_frames })
    }
}

#[derive(Debug, Serialize)]
struct Size {
    bytes: u64,
    stacks: u64,
}

impl<'a> CopiedStacks<'a> {
    /// Returns `None` if no stack was copied.
    #[must_use]
    pub fn new(unwinding: &'a Unwinding) -> Option<Self> {
        let ended = unwinding.truncated.iter().chain(&unwinding.failed);
        let reason = |ended: &'a EndReasonCount| Reason {
            why: ended.why,
            stacks: ended.stacks,
            dso: ended.dso.as_deref(),
        };
        let sufficient = unwinding.sufficient;
        (unwinding.stacks() > 0).then(|| Self {
            stacks: unwinding.stacks(),
            whole: unwinding.whole,
            truncated: unwinding.truncated_stacks(),
            failed: unwinding.failed_stacks(),
            spliced: unwinding.spliced,
            reasons: ended.map(reason).collect(),
            sufficient: sufficient.map(|size| Size { bytes: size.bytes, stacks: size.stacks }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_profile::Sufficient;

    #[test]
    fn truncated_chains_are_named_with_what_raises_the_limit() {
        let line =
            |truncated, frames| truncated_line(&TruncatedChains { stacks: 800, truncated, frames });
        assert_eq!(line(0, 0), None);
        assert_eq!(
            line(100, 127).unwrap(),
            "12.5% of 800 call chains are truncated: the kernel recorded their innermost 127 frames (as root, before recording: sysctl kernel.perf_event_max_stack=512)"
        );
        let own = line(800, 64).unwrap();
        assert!(own.contains("64 frames (max-stack= of the event, or "), "{own}");
    }

    #[test]
    fn lists_shares_and_reasons_in_one_line() {
        let ended = |why, stacks, dso: Option<&str>| EndReasonCount {
            why,
            stacks,
            dso: dso.map(str::to_owned),
        };
        let mut unwinding = Unwinding { whole: 900, ..Unwinding::default() };
        assert_eq!(line(&unwinding), None);
        unwinding.truncated = vec![ended("the copy ended", 93, None)];
        unwinding.failed = vec![ended("no binary", 7, Some("/opt/a\nb"))];
        unwinding.sufficient = Some(Sufficient { bytes: 24_576, stacks: 990, of: 993 });
        assert_eq!(
            line(&unwinding).unwrap(),
            "90.0% of 1000 copied user stacks are complete, 9.3% truncated (93 the copy ended), 0.7% failed (7 no binary, most in /opt/a\\u{a}b); --call-graph dwarf,24576 would have held 99.7%"
        );
        unwinding.sufficient = Some(Sufficient { bytes: 65_528, stacks: 950, of: 993 });
        assert!(line(&unwinding).unwrap().ends_with(
            "; --call-graph dwarf,65528 would have held 95.7%, and is the largest copy: dwarf+fp continues with frame pointers"
        ));
        unwinding.sufficient = Some(Sufficient { bytes: 24_576, stacks: 905, of: 905 });
        assert!(!line(&unwinding).unwrap().contains("--call-graph"), "below the threshold");
    }

    #[test]
    fn the_deepest_stack_is_named_with_what_copies_it() {
        let said = |copied_bytes, lack: Option<&str>, missed| {
            let lack = lack.map(str::to_owned);
            deepest_part(&DeepestStack { bytes: 900 << 10, copied_bytes, lack, missed })
        };
        let begin = "; the deepest of them has 900 KiB";
        assert!(said(0, None, 0).starts_with(&format!("{begin}: as root, or with CAP_BPF")));
        let copied = format!("{begin}, of which up to 1.0 MiB are copied");
        assert_eq!(said(MIB, None, 0), copied);
        let full = "; 7 deep stacks weren't: their ring buffer was full";
        assert_eq!(said(MIB, None, 7), format!("{copied}{full}"));
        assert_eq!(said(MIB, Some("too short"), 0), format!("{begin}: too short"));
    }

    #[test]
    fn the_largest_group_of_incomplete_chains_has_a_remedy() {
        let ended = |why, stacks| EndReasonCount { why, stacks, dso: None };
        let of = |why: &'static str, by_recorder| {
            let unwinding = Unwinding {
                whole: 900,
                truncated: vec![ended("the copy ended", 3)],
                failed: vec![ended(why, 90), ended("no registers", 7)],
                by_recorder,
                ..Unwinding::default()
            };
            let line = line(&unwinding).unwrap();
            line.split_once("; 7 no registers)").unwrap().1.to_owned()
        };
        assert!(of("no binary", true).starts_with("; most need the file while recording: "));
        assert!(of("no binary", false).ends_with("record with --keep-binaries"));
        assert!(of("no unwind table", true).contains("-fno-omit-frame-pointer"));
        assert_eq!(of("bad registers or unwind table", true), "");
    }
}
