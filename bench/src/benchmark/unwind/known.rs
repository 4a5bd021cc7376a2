//! Programs whose call chains are known at each sample: the share of stacks that equal one of them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::report::{Bound, Estimate, Finding};
use crate::scratch::Scratch;

/// Least share of stacks that equal one of the program's chains.
const WANTED: f64 = 0.995;

/// Builds the programs.
pub(in crate::benchmark) fn build(folder: &Path) -> anyhow::Result<()> {
    let built = Command::new("workloads/known/build.sh").arg(folder).status()?;
    ensure!(built.success(), "workloads/known/build.sh failed");
    Ok(())
}

/// Records programs whose call chains are known. `programs`: their names, and how their chains are
/// recorded.
pub(in crate::benchmark) fn findings(
    scratch: &Scratch<'_>,
    programs: &[(&str, &str)],
) -> anyhow::Result<Vec<Finding>> {
    let setting = scratch.setting;
    build(&setting.workloads)?;
    let mut findings = Vec::new();
    for &(name, how) in programs {
        let program = setting.workload(name);
        if !Path::new(&program).exists() {
            continue;
        }
        let file = scratch.path(&format!("{name}.data"));
        let mut record = Command::new(setting.tare());
        record.args(["record", "-q", "-F", "4000", "-e", "cpu-clock:u", "--call-graph", how, "-o"]);
        // Go's signal handlers run on a stack of their own, from which the interrupted frames can't
        // be reached.
        record.arg(&file).args(["--", &program, "4"]).env("GODEBUG", "asyncpreemptoff=1");
        ensure!(record.status()?.success(), "recording {name} failed");
        let (good, all) = judge(scratch, &program, &file, how)?;
        findings.push(Finding {
            what: format!("{name} by {how}: exactly known, of {all} stacks"),
            measured: Estimate::exact(good as f64 / all as f64),
            bound: Bound::AtLeast(WANTED),
        });
    }
    Ok(findings)
}

/// Counts the stacks that equal a known chain, and all stacks that `known-chains.awk` judges.
/// By frame pointers, chains needn't reach the start of their thread: the C library keeps none.
fn judge(
    scratch: &Scratch<'_>,
    program: &str,
    file: &Path,
    how: &str,
) -> anyhow::Result<(u64, u64)> {
    let chains = scratch.path("chains");
    let script = scratch.path("script");
    std::fs::write(&chains, Command::new(program).arg("--chains").output()?.stdout)?;
    let fields = ["script", "--no-inline", "-F", "ip,sym,dso", "-i"];
    let printed = Command::new(scratch.setting.tare()).args(fields).arg(file).output()?;
    std::fs::write(&script, printed.stdout)?;
    let judge = scratch.setting.workload("known-chains.awk");
    let ends = if how == "fp" { "ends=0" } else { "ends=1" };
    let begin = ["-v", ends, "-f", &judge];
    let output = Command::new("awk").args(begin).args([&chains, &script]).output()?;
    let text = String::from_utf8(output.stdout)?;
    let (good, all) = text.trim().split_once(' ').context("two numbers")?;
    Ok((good.parse()?, all.parse()?))
}
