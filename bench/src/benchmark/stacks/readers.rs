//! The same file in other programs: perf in two versions, FlameGraph's scripts, and hotspot. Each
//! reads the recording of a program whose chains are known. Programs that aren't installed are
//! skipped.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};
use tare_format::file::Reader;
use tare_format::record::{Sample, kind};

use super::hotspot::Chains;
use super::{finding, hotspot, words};
use crate::benchmark::unwind::known;
use crate::report::{Bound, Report};
use crate::run::succeed;
use crate::scratch::Scratch;

/// Where `./x perf-lines` installs a later perf, without the C library that it needs here.
const LATER_PERF: &str = "target/perf-root/system";

/// Where Debian installs hotspot's reader.
const HOTSPOT: &str = "/usr/lib/x86_64-linux-gnu/libexec/hotspot-perfparser";

const FLAME_GRAPH: &str = "stackcollapse-perf.pl";

/// A version of perf.
struct Perf {
    name: String,
    words: Vec<String>,
    /// Whether it is this machine's, and not a later one. `perf report` of 7.3 starts addr2line for
    /// every call chain, also for those that perf recorded by frame pointers.
    is_own: bool,
}

impl Perf {
    /// The versions that are installed.
    fn versions() -> Vec<Self> {
        let root = LATER_PERF;
        let loader = format!("{root}/lib64/ld-linux-x86-64.so.2");
        let libraries = format!("{root}/usr/lib/x86_64-linux-gnu");
        let later = format!("{root}/usr/bin/perf");
        let [own, later] =
            [words(&["perf"]), words(&[&loader, "--library-path", &libraries, &later])];
        let versions = [(own, true), (later, false)].into_iter().filter_map(|(words, is_own)| {
            let version = succeed(&[&words[..], &["--version".into()]].concat()).ok()?;
            let name = version.stdout.trim().replace(" version", "");
            Some(Self { name, words, is_own })
        });
        versions.collect()
    }

    fn run(&self, arguments: &[&str], file: &str) -> anyhow::Result<String> {
        let line = [&self.words[..], &words(arguments), &words(&["-i", file])].concat();
        Ok(succeed(&line)?.stdout)
    }

    /// Whether `perf report` starts addr2line: a program of this name is put in its way.
    fn starts_addr2line(&self, scratch: &Scratch<'_>, file: &str) -> anyhow::Result<bool> {
        let folder = std::path::absolute(scratch.path("fake"))?;
        std::fs::create_dir_all(&folder)?;
        let [marker, fake] = ["started", "addr2line"].map(|name| folder.join(name));
        let _ = std::fs::remove_file(&marker);
        std::fs::write(&fake, format!("#!/bin/sh\ntouch '{}'\n", marker.display()))?;
        std::fs::set_permissions(&fake, PermissionsExt::from_mode(0o755))?;
        let path = format!("PATH={}:{}", folder.display(), std::env::var("PATH")?);
        let report = words(&["report", "--stdio", "-g", "caller", "-i", file]);
        let line = [&words(&["env", &path])[..], &self.words, &report].concat();
        let text = succeed(&line)?.stdout;
        anyhow::ensure!(text.contains("work"), "{} names no function of the program", self.name);
        Ok(marker.exists())
    }
}

/// Records a program, and has each reader print its chains.
pub(super) fn measure(scratch: &Scratch<'_>, report: &mut Report) -> anyhow::Result<Value> {
    known::build(&scratch.setting.workloads)?;
    let path = scratch.path("read.data");
    let file = path.display().to_string();
    let tare = scratch.setting.tare();
    let record = [&tare, "record", "-q", "-g", "-F", "999", "-e", "cpu-clock", "-o", &file, "--"];
    let program = scratch.setting.workload("known");
    succeed(&words(
        &[&record[..], &["sh", "-c", "\"$0\" 2; xz -T1 -k -c \"$0\" | wc -c", &program]].concat(),
    ))?;
    let script = [&tare, "script", "--no-inline", "-F", "ip", "-i", &file];
    let own = addresses(&succeed(&words(&script))?.stdout);
    let mut raw = serde_json::Map::new();
    let recorded = chains(&path)?;
    // Newer versions of perf print addresses of the process, others those of its files.
    let as_recorded: Vec<_> =
        recorded.values().filter(|chain| !chain.is_empty()).cloned().collect();
    let share = |report: &mut Report, raw: &mut serde_json::Map<_, _>, what: String, share: f64| {
        raw.insert(what.clone(), json!(share));
        report.findings.push(finding(what, share, Bound::AtLeast(1.0)));
    };
    let versions = Perf::versions();
    if versions.len() < 2 {
        report.table.push("perf 7.3: skipped: not installed (./x perf-lines installs it)".into());
    }
    for perf in &versions {
        let printed = addresses(&perf.run(&["script", "--no-inline", "-F", "ip"], &file)?);
        let equal =
            |own: &[Vec<u64>]| own.iter().zip(&printed).filter(|(own, other)| own == other).count();
        let equal = equal(&own).max(equal(&as_recorded));
        let of = own.len().max(printed.len()).max(1);
        let what = format!("{}: samples whose chain is the one that tare prints", perf.name);
        share(report, &mut raw, what, equal as f64 / of as f64);
        if perf.is_own {
            let started = f64::from(u8::from(perf.starts_addr2line(scratch, &file)?));
            let what = format!("{} report: starts of addr2line", perf.name);
            report.findings.push(finding(what, started, Bound::AtMost(0.0)));
        }
        match same_roots(scratch, perf, &file) {
            Ok(same) => {
                let what =
                    format!("FlameGraph, from {} script: samples with the same root", perf.name);
                share(report, &mut raw, what, same);
            }
            Err(why) => report.table.push(format!("FlameGraph: skipped: {why:#}")),
        }
    }
    if Path::new(HOTSPOT).exists() {
        let other = read_by_hotspot(scratch, &file)?;
        let has_same_frames = |(key, chain): &(&_, &Vec<u64>)| {
            other.get(key).map(|other| user_offsets(other)) == Some(user_offsets(chain))
        };
        let equal = recorded.iter().filter(has_same_frames).count();
        let what = "hotspot: samples with the recorded user frames".to_owned();
        share(report, &mut raw, what, equal as f64 / recorded.len().max(1) as f64);
    } else {
        report.table.push("hotspot: skipped: not installed".to_owned());
    }
    Ok(raw.into())
}

/// The user addresses of a chain within their pages. hotspot keeps one address for a place in a file
/// that several processes map, and repeats an address of the kernel.
fn user_offsets(chain: &[u64]) -> Vec<u64> {
    chain.iter().filter(|address| **address < 1 << 63).map(|address| address & 0xfff).collect()
}

/// The addresses of each sample's chain, as a tool prints them.
fn addresses(printed: &str) -> Vec<Vec<u64>> {
    let chain = |text: &str| -> Vec<u64> {
        let address = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
        text.split_whitespace().filter_map(address).collect()
    };
    printed.split("\n\n").map(chain).filter(|chain| !chain.is_empty()).collect()
}

/// The share of samples whose outermost functions FlameGraph's script finds as often in what perf
/// prints as in what tare prints.
fn same_roots(scratch: &Scratch<'_>, perf: &Perf, file: &str) -> anyhow::Result<f64> {
    let tare = scratch.setting.tare();
    let tare = succeed(&words(&[&tare, "script", "--no-inline", "-i", file]))?.stdout;
    let own = roots(scratch, &tare)?;
    let other = roots(scratch, &perf.run(&["script", "--no-inline"], file)?)?;
    let sum = |roots: &HashMap<String, u64>| roots.values().sum::<u64>();
    let same: u64 =
        own.iter().map(|(root, samples)| *samples.min(other.get(root).unwrap_or(&0))).sum();
    Ok(same as f64 / sum(&own).max(sum(&other)).max(1) as f64)
}

/// The weight of each outermost function, with its program's name, as FlameGraph's script sums them.
/// Functions of stripped files have no name that all tools print.
fn roots(scratch: &Scratch<'_>, printed: &str) -> anyhow::Result<HashMap<String, u64>> {
    let text = scratch.path("printed");
    std::fs::write(&text, printed)?;
    let find = succeed(&words(&["sh", "-c", "command -v \"$0\"", FLAME_GRAPH]));
    let script = find.ok().context("stackcollapse-perf.pl isn't in $PATH")?.stdout;
    let folded = succeed(&words(&["perl", script.trim(), &text.display().to_string()]))?.stdout;
    let mut roots = HashMap::new();
    for line in folded.lines() {
        let (stack, weight) = line.rsplit_once(' ').context("a folded stack and its weight")?;
        let (comm, callees) = stack.split_once(';').unwrap_or((stack, ""));
        let root = callees.split(';').next().unwrap_or_default();
        let is_unnamed = root.starts_with("fun_") || root.starts_with('[');
        // The dynamic linker has two names for the place where programs start.
        let root = if root == "_dl_start_user" { "_start" } else { root };
        let root = if is_unnamed { "unnamed" } else { root };
        *roots.entry(format!("{comm};{root}")).or_default() += weight.parse::<u64>()?;
    }
    Ok(roots)
}

/// The chains in a recording.
fn chains(file: &Path) -> anyhow::Result<Chains> {
    /// Addresses from here on are markers (`PERF_CONTEXT_MAX`).
    const MARKERS: u64 = (-4095_i64).cast_unsigned();
    let mut reader = Reader::open(std::fs::File::open(file)?)?;
    let mut chains = Chains::new();
    while let Some(entry) = reader.next_record()? {
        if entry.record.kind != kind::PERF_RECORD_SAMPLE {
            continue;
        }
        let sample = Sample::from_record(&entry.record, entry.description.lookup())?;
        let chain = sample.callchain.context("samples with chains")?;
        let chain = chain.iter().filter(|address| *address < MARKERS).collect();
        let key =
            sample.head.time_ns.zip(sample.head.tid).context("samples with time and thread")?;
        chains.insert(key, chain);
    }
    Ok(chains)
}

/// The chains that hotspot's reader finds in a recording.
fn read_by_hotspot(scratch: &Scratch<'_>, file: &str) -> anyhow::Result<Chains> {
    let into: PathBuf = scratch.path("hotspot");
    let output = into.display().to_string();
    succeed(&words(&[HOTSPOT, "--max-frames", "1024", "--input", file, "--output", &output]))?;
    let bytes = std::fs::read(&into)?;
    std::fs::remove_file(&into)?;
    hotspot::chains(&bytes).context("hotspot's reader wrote an unknown format")
}
