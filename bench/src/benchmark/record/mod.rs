//! Benchmarks of `tare record` and `perf record`, profiles of tare's own CPU time, a report of a
//! large recording, and the comparison of two binaries.

pub(super) mod against;
mod busy;
pub(super) mod costs;
pub(super) mod flood;
pub(super) mod full;
pub(super) mod idle;
pub(super) mod kill;
pub(super) mod paths;
pub(super) mod report;
pub(super) mod steady;
pub(super) mod summary;
mod synthetic;
mod trial;
pub(super) mod true_cost;

use std::path::Path;

use crate::run::succeed;
use crate::scratch::Tool;
use trial::Trial;

/// Options that record every system call of the machine.
const SYSTEM_CALLS: &str = "-a -e raw_syscalls:*";

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// A trial in the benchmark's folder, without a load beside it and without counting.
fn trial(name: &str, tool: Tool, options: &str, command: &[String]) -> Trial {
    Trial {
        name: name.to_owned(),
        tool,
        options: words(options),
        command: command.to_vec(),
        beside: None,
        counted: false,
        folder: None,
    }
}

/// Runs `script` with one line per sample; returns the number of lines and the last line.
fn script(tool: &str, file: &Path, options: &[&str]) -> anyhow::Result<(u64, String)> {
    let file = file.display().to_string();
    let words = [&[tool, "script", "-i", &file], options]
        .concat()
        .into_iter()
        .map(str::to_owned)
        .collect::<Vec<_>>();
    let done = succeed(&words)?;
    let mut lines = done.stdout.lines().filter(|line| !line.trim().is_empty());
    let last = lines.clone().next_back().unwrap_or_default().to_owned();
    Ok((lines.by_ref().count() as u64, last))
}
