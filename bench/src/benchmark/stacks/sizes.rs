//! The size of a recording beside a frame-pointer recording with equally long chains, and beside
//! copies of stacks.

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
    for how in ["fp", "auto", "dwarf"] {
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
         with {:.1}, dwarf {:.0} with {:.1}",
        bytes[0], frames[0], bytes[1], frames[1], bytes[2], frames[2]
    );
    report.table.push(text);
    let what = "bytes of the file per sample, unwound/fp".to_owned();
    report.findings.push(finding(what, bytes[1] / bytes[0], Bound::AtMost(1.2)));
    let what = "bytes of the file per sample, unwound/dwarf".to_owned();
    report.findings.push(finding(what, bytes[1] / bytes[2], Bound::AtMost(0.05)));
    std::fs::remove_file(&file)?;
    Ok(json!({ "bytes_per_sample": bytes, "frames": frames }))
}
