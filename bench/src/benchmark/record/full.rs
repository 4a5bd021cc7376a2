//! Full disks and file size limits: which samples remain, and whether a message names the limit.

use serde::Serialize;
use serde_json::json;

use super::summary::summarize;
use super::{script, words};
use crate::report::{Bound, Estimate, Finding, Report};
use crate::run::run_for_output;
use crate::scratch::{Scratch, Tool};
use crate::setting::Setting;

/// Size of the file system and limit of the file, in bytes.
const SPACE: u64 = 20 << 20;

/// Mounts a file system in a private namespace, records into it, and copies the recording out.
const IN_TMPFS: &str = r#"dir=$1 copy=$2; shift 2
mount -t tmpfs -o size=20M tmpfs "$dir" || exit 99
"$@"; status=$?
cp "$dir/recording" "$copy"; exit $status"#;

const WAYS: [&str; 7] = [
    "--output-path=auto",
    "--output-path=write",
    "--output-path=mmap",
    "--output-path=direct",
    "-z --output-path=write",
    "-z --output-path=mmap",
    "-z --output-path=direct",
];

/// A recording that ran out of space.
#[derive(Clone, Debug, Serialize)]
struct FailedRecording {
    limit: &'static str,
    what: &'static str,
    way: &'static str,
    status: u8,
    /// Whether a message names the limit.
    is_said: bool,
    samples: u64,
    perf_samples: u64,
    /// Bytes of samples (compressed if so recorded) divided by the space.
    share: f64,
}

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let mut all = Vec::new();
    for _ in 0..setting.rounds.unwrap_or(1) {
        for (limit, what) in [
            ("tmpfs", "tracepoints"),
            ("tmpfs", "stacks"),
            ("fsize", "tracepoints"),
            ("fsize", "stacks"),
        ] {
            for way in WAYS {
                all.push(stop(&scratch, limit, what, way)?);
            }
        }
    }
    let count = |is_bad: fn(&FailedRecording) -> bool| {
        Estimate::exact(all.iter().filter(|one| is_bad(one)).count() as f64)
    };
    let none =
        |what: &str, measured| Finding { what: what.into(), measured, bound: Bound::AtMost(0.0) };
    let least = all.iter().map(|one| one.share).fold(f64::INFINITY, f64::min);
    let findings = vec![
        none("exit statuses other than 125", count(|one| one.status != 125)),
        none("ends without a message", count(|one| !one.is_said)),
        none(
            "recordings that perf counts differently, or not at all",
            count(|one| one.samples != one.perf_samples || one.samples == 0),
        ),
        Finding {
            what: "samples' share of the space, the least of any".into(),
            measured: Estimate::exact(least),
            bound: Bound::AtLeast(0.9),
        },
    ];
    let line = |one: &FailedRecording| {
        format!(
            "{:<6} {:<12} {:<24} status {} samples {:>8} perf {:>8} share {:.4}",
            one.limit, one.what, one.way, one.status, one.samples, one.perf_samples, one.share
        )
    };
    Ok(Report { table: all.iter().map(line).collect(), findings, raw: json!(all) })
}

/// What to record until the space is full: options and command. Compressed recordings take longer.
fn subject(scratch: &Scratch<'_>, what: &str, way: &str) -> Vec<String> {
    let seconds = if way.contains("-z") { 12 } else { 3 };
    if what == "stacks" {
        let options =
            format!("-a -e page-faults -c 1 --call-graph dwarf,8192 -- timeout {seconds} sh -c");
        [words(&options), vec!["while :; do /bin/true; done".to_owned()]].concat()
    } else {
        words(&format!("-a -e raw_syscalls:* -- {} {seconds}", scratch.setting.workload("flood")))
    }
}

fn stop(
    scratch: &Scratch<'_>,
    limit: &'static str,
    what: &'static str,
    way: &'static str,
) -> anyhow::Result<FailedRecording> {
    let folder = scratch.path("tmpfs");
    let copy = scratch.path("stopped");
    std::fs::create_dir_all(&folder)?;
    let _ = std::fs::remove_file(&copy);
    let is_tmpfs = limit == "tmpfs";
    let [folder_text, copy_text] = [&folder, &copy].map(|path| path.display().to_string());
    let mut line: Vec<String> = if is_tmpfs {
        ["unshare", "-m", "sh", "-c", IN_TMPFS, "sh", &folder_text, &copy_text]
            .map(str::to_owned)
            .to_vec()
    } else {
        vec!["prlimit".to_owned(), format!("--fsize={SPACE}")]
    };
    line.extend(
        scratch
            .recorder(Tool::Tare, &if is_tmpfs { folder.join("recording") } else { copy.clone() }),
    );
    line.extend([words(way), subject(scratch, what, way)].concat());
    let done = run_for_output(&line)?;
    let found = summarize(&copy, None)?;
    let bytes = if way.contains("-z") { found.packed_bytes } else { found.sample_bytes };
    let word = if is_tmpfs {
        "the file system of the recording is full"
    } else {
        "the recording may not become longer"
    };
    let perf_samples =
        script("perf", &copy, &["-F", "time", "-G"]).map_or(0, |(samples, _)| samples);
    Ok(FailedRecording {
        limit,
        what,
        way,
        status: done.ended.status,
        is_said: done.stderr.contains(word),
        samples: found.samples,
        perf_samples,
        share: bytes as f64 / SPACE as f64,
    })
}
