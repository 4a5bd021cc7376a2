//! A profile of tare, by tare or by perf, as weights of phases and functions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use super::super::words;
use crate::run::succeed;
use crate::scratch::{Scratch, Tool};

/// A high rate, for cheap commands, that is no multiple of a timer's. A sample costs microseconds,
/// so shares are scaled to the CPU time of a run without a profiler.
const OPTIONS: &str = "-q -F 19999 -e cpu-clock -g";

/// A recording of tare, by tare or by perf.
pub(super) struct Profile<'a> {
    scratch: &'a Scratch<'a>,
    tool: Tool,
    file: PathBuf,
}

/// Weights of a profile: the sum, and by phase and function.
#[derive(Debug, Default)]
pub(super) struct Weights {
    all: f64,
    phases: BTreeMap<String, f64>,
    functions: BTreeMap<String, f64>,
}

impl<'a> Profile<'a> {
    pub(super) fn new(scratch: &'a Scratch<'a>, tool: Tool) -> Self {
        Self { scratch, tool, file: scratch.path("profile") }
    }

    /// Returns the command line that records a command.
    pub(super) fn of_command(&self, command: &[String]) -> Vec<String> {
        let recorder = self.scratch.recorder(self.tool, &self.file);
        [recorder, words(OPTIONS), words("--"), command.to_vec()].concat()
    }

    /// Returns the command line that records a process for `time`.
    pub(super) fn of_process(&self, pid: u32, time: Duration) -> Vec<String> {
        let recorder = self.scratch.recorder(self.tool, &self.file);
        let sleep = format!("-p {pid} -- sleep {}", time.as_secs_f64());
        [recorder, words(OPTIONS), words(&sleep)].concat()
    }

    /// The weights of the threads with these names. tare reads the recordings of both tools, so
    /// that functions have the same names. The recording is removed.
    pub(super) fn weights(&self, names: &[&str]) -> anyhow::Result<Weights> {
        let folded = self.scratch.path("folded").display().to_string();
        let file = self.file.display().to_string();
        let tare = self.scratch.setting.tare();
        let line = [&tare, "export", "--format", "folded", "-i", &file, "-o", &folded];
        succeed(&line.map(str::to_owned))?;
        let text = std::fs::read_to_string(&folded)?;
        for name in ["profile", "profile.old", "folded"] {
            let _ = std::fs::remove_file(self.scratch.path(name));
        }
        let mut weights = Weights::default();
        for line in text.lines() {
            let (chain, weight) = line.rsplit_once(' ').context("a chain has a weight")?;
            let mut frames = chain.split(';');
            if names.contains(&frames.next().unwrap_or_default()) {
                weights.add(&frames.collect::<Vec<_>>(), weight.parse()?);
            }
        }
        anyhow::ensure!(weights.all > 0.0, "the profile has no sample of {names:?}");
        Ok(weights)
    }
}

impl Weights {
    /// Adds a sample's weight. `frames` are outermost first.
    fn add(&mut self, frames: &[&str], weight: f64) {
        self.all += weight;
        *self.phases.entry(phase(frames)).or_default() += weight;
        let function = frames.last().copied().unwrap_or("?").to_owned();
        *self.functions.entry(function).or_default() += weight;
    }

    pub(super) fn phase(&self, name: &str) -> Option<f64> {
        Some(self.phases.get(name)? / self.all)
    }

    pub(super) fn function(&self, name: &str) -> Option<f64> {
        Some(self.functions.get(name)? / self.all)
    }

    /// The `most` heaviest phases with their shares, and the others as one.
    pub(super) fn phases(&self, most: usize) -> Vec<(String, f64)> {
        heaviest(&self.phases, self.all, most)
    }

    pub(super) fn functions(&self, most: usize) -> Vec<(String, f64)> {
        heaviest(&self.functions, self.all, most)
    }

    /// The weights in microseconds, if all of them together are `us`.
    pub(super) fn scaled(&self, us: f64) -> Value {
        let of = |map: &BTreeMap<String, f64>| -> BTreeMap<String, f64> {
            map.iter().map(|(name, weight)| (name.clone(), weight / self.all * us)).collect()
        };
        json!({ "phases": of(&self.phases), "functions": of(&self.functions) })
    }
}

fn heaviest(map: &BTreeMap<String, f64>, all: f64, most: usize) -> Vec<(String, f64)> {
    let mut sorted: Vec<(String, f64)> =
        map.iter().map(|(name, weight)| (name.clone(), weight / all)).collect();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
    let rest: f64 = sorted.iter().skip(most).map(|(_, share)| share).sum();
    sorted.truncate(most);
    sorted.extend((rest > 0.0).then(|| ("all others".to_owned(), rest)));
    sorted
}

/// The phase of a sample: the outermost kernel entry in its chain, or user mode.
fn phase(frames: &[&str]) -> String {
    let call = |frame: &str| {
        let name = ["__x64_sys_", "__arm64_sys_", "__se_sys_", "__do_sys_"]
            .iter()
            .find_map(|prefix| frame.strip_prefix(prefix))?;
        Some(format!("system call {name}"))
    };
    let of = |frame: &&str| match *frame {
        frame if frame.contains("exc_page_fault") || frame == "do_mem_abort" => {
            Some("page faults".to_owned())
        }
        frame if frame.starts_with("asm_sysvec") || frame.starts_with("asm_common_interrupt") => {
            Some("interrupts".to_owned())
        }
        frame if frame.starts_with("ret_from_fork") => Some("a child's first steps".to_owned()),
        frame => call(frame),
    };
    let is_entry = |frame: &&str| frame.contains("entry_SYSCALL") || **frame == *"do_syscall_64";
    frames.iter().find_map(of).unwrap_or_else(|| {
        match frames.iter().rposition(is_entry) {
            // The compiler inlined this call's first function into the dispatcher.
            Some(at) => frames.get(at + 1).map_or_else(
                || "entering and leaving the kernel".to_owned(),
                |function| format!("system call, {function}"),
            ),
            None => "user mode".to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_part_of_the_outermost_entry_of_the_kernel() {
        let of = |chain: &str| phase(&chain.split(';').collect::<Vec<_>>());
        assert_eq!(of("main;f"), "user mode");
        assert_eq!(of("main;asm_exc_page_fault;exc_page_fault;x"), "page faults");
        let open = "main;entry_SYSCALL_64_after_hwframe;do_syscall_64;__x64_sys_openat;x;asm_exc_page_fault";
        assert_eq!(of(open), "system call openat");
        assert_eq!(of("main;entry_SYSCALL_64_after_hwframe"), "entering and leaving the kernel");
        assert_eq!(of("main;do_syscall_64;do_pwritev;x"), "system call, do_pwritev");
    }

    #[test]
    fn shares_are_of_all() {
        let mut weights = Weights::default();
        for (frames, weight) in [(["a", "b"], 3.0), (["a", "c"], 1.0)] {
            weights.add(&frames, weight);
        }
        assert_eq!(weights.functions(1), [("b".to_owned(), 0.75), ("all others".to_owned(), 0.25)]);
        assert_eq!((weights.function("c"), weights.function("d")), (Some(0.25), None));
    }
}
