//! The size of a recording beside a frame-pointer recording with equally long chains, and the same
//! file in perf.

use serde_json::{Value, json};

use super::chains::{self, ChainCounts};
use super::{finding, words};
use crate::report::{Bound, Report};
use crate::run::succeed;
use crate::scratch::Scratch;

/// Records a program that keeps frame pointers both ways.
pub(super) fn measure(scratch: &Scratch<'_>, report: &mut Report) -> anyhow::Result<Value> {
    let program = scratch.setting.workload("known-fp");
    let file = scratch.path("sizes.data");
    let mut bytes = Vec::new();
    let mut frames = Vec::new();
    for how in ["fp", "auto"] {
        let into = file.display().to_string();
        let tare = scratch.setting.tare();
        let record = [&tare, "record", "-q", "-F", "4000", "-e", "cpu-clock", "--call-graph", how];
        succeed(&words(&[&record[..], &["-o", &into, "--", &program, "3"]].concat()))?;
        let samples = chains::read(scratch, &file)?;
        bytes.push(std::fs::metadata(&file)?.len() as f64 / samples.len().max(1) as f64);
        frames.push(ChainCounts::count(samples.iter()).frames_each());
    }
    let text = format!(
        "a program with frame pointers: fp {:.0} bytes a sample with {:.1} frames, unwound {:.0} \
         with {:.1}",
        bytes[0], frames[0], bytes[1], frames[1]
    );
    report.table.push(text);
    let what = "bytes of the file per sample, unwound/fp".to_owned();
    report.findings.push(finding(what, bytes[1] / bytes[0], Bound::AtMost(1.2)));
    let by_perf = addresses(&["perf", "script", "--no-inline"], &file.display().to_string());
    match by_perf {
        Err(why) => report.table.push(format!("perf script of the same file: skipped: {why:#}")),
        Ok(by_perf) => {
            let own = addresses(&[&scratch.setting.tare(), "script"], &file.display().to_string())?;
            let equal = own.iter().zip(&by_perf).filter(|(own, perf)| own == perf).count();
            let share = equal as f64 / own.len().max(by_perf.len()).max(1) as f64;
            let what = "samples for which perf script prints tare's chain".to_owned();
            report.findings.push(finding(what, share, Bound::AtLeast(1.0)));
        }
    }
    std::fs::remove_file(&file)?;
    Ok(json!({ "bytes_per_sample": bytes, "frames": frames }))
}

/// The addresses of each sample's chain, as a tool prints them.
fn addresses(tool: &[&str], file: &str) -> anyhow::Result<Vec<Vec<u64>>> {
    let printed = succeed(&words(&[tool, &["-F", "ip", "-i", file]].concat()))?.stdout;
    let chain = |text: &str| -> Vec<u64> {
        let address = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
        text.split_whitespace().filter_map(address).collect()
    };
    Ok(printed.split("\n\n").map(chain).filter(|chain| !chain.is_empty()).collect())
}
