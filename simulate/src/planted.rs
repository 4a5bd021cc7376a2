//! `planted [RUNS [WORD]]`: plants one defect at a time into a copy of the sources and prints the
//! run that finds it. A defect that RUNS runs (default 2,000) don't find, or whose place doesn't
//! occur exactly once in the sources, is a failure. With WORD, plants only the defects whose name
//! contains it. Defects of the unwinder are found by programs with known call chains.

mod known_stacks;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use self::known_stacks::UnwinderDefect;

/// A defect: a text that occurs once in a file is replaced by another.
struct PlantedDefect {
    what: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
}

const PLANTED: [PlantedDefect; 22] = [
    PlantedDefect {
        what: "a ring's tail advances eight bytes too far",
        file: "crates/kernel/src/ring/mod.rs",
        from: "self.tail.wrapping_add(self.span.len() as u64)",
        to: "self.tail.wrapping_add(self.span.len() as u64 + 8)",
    },
    PlantedDefect {
        what: "a round mark is written twice, the second time too early",
        file: "crates/record/src/capture/reader.rs",
        from: "pieces.extend((!state.has_overwritten).then_some(&FINISHED_ROUND[..]));",
        to: "pieces.extend([&FINISHED_ROUND[..]; 2]);",
    },
    PlantedDefect {
        what: "a flush doesn't update the length of the data",
        file: "crates/record/src/output/file.rs",
        from: "let told = write_at(&*file, &self.published.beginning.data_size(end), DATA_SIZE_OFFSET);",
        to: "let told = write_at(&*file, &self.published.beginning.data_size(self.data.start), DATA_SIZE_OFFSET);",
    },
    PlantedDefect {
        what: "a next file lacks the names of running threads",
        file: "crates/record/src/recording/switch.rs",
        from: "records.append(&mut running);",
        to: "running.clear();",
    },
    PlantedDefect {
        what: "a next file begins before the rings were read",
        file: "crates/record/src/recording/switch.rs",
        from: "} else if !self.capture.shared.is_limited()",
        to: "} else if self.capture.shared.is_limited()",
    },
    PlantedDefect {
        what: "losses are read from the wrong word",
        file: "crates/record/src/capture/scanner.rs",
        from: "PERF_RECORD_LOST => word(record, HEADER + 8),",
        to: "PERF_RECORD_LOST => word(record, HEADER),",
    },
    PlantedDefect {
        what: "a record that wraps around a ring's end isn't counted",
        file: "crates/record/src/capture/scanner.rs",
        from: "self.walk(&straddling);",
        to: "",
    },
    PlantedDefect {
        what: "a throttle record is counted twice",
        file: "crates/record/src/capture/scanner.rs",
        from: "self.stats.throttled += 1",
        to: "self.stats.throttled += 2",
    },
    PlantedDefect {
        what: "a snapshot repeats the previous one",
        file: "crates/kernel/src/ring/overwritten.rs",
        from: "self.taken = head;",
        to: "self.taken = 0;",
    },
    PlantedDefect {
        what: "the flight recorder drops records too early",
        file: "crates/record/src/capture/flight_recorder.rs",
        from: "if age <= self.keep {",
        to: "if age <= self.keep / 2 {",
    },
    PlantedDefect {
        what: "a full disk's ledger counts bytes that were never written",
        file: "crates/record/src/recording/finish.rs",
        from: "counted.iter_mut().for_each(|counted| recount::replace(&mut stats, counted));",
        to: "let _ = (&mut counted, &mut stats, recount::replace);",
    },
    PlantedDefect {
        what: "a short write is taken for a complete one",
        file: "crates/record/src/output/write.rs",
        from: "let written = file.write_at(pieces, *end)?;\n            *end += written as u64;",
        to: "file.write_at(pieces, *end)?;\n            let written = pieces.iter().map(|piece| piece.len()).sum::<usize>();\n            *end += written as u64;",
    },
    PlantedDefect {
        what: "direct output: a grown last block isn't rewritten",
        file: "crates/record/src/output/direct.rs",
        from: "let mut at = self.clean / block * block;",
        to: "let mut at = self.clean.next_multiple_of(block);",
    },
    PlantedDefect {
        what: "direct output: a failed write leaves its bytes",
        file: "crates/record/src/output/direct.rs",
        from: "&self.buffer.bytes()[self.clean..self.len]",
        to: "&self.buffer.bytes()[self.clean..self.clean]",
    },
    PlantedDefect {
        what: "a next file's ledger includes the previous file",
        file: "crates/record/src/capture/stats.rs",
        from: "self.before.clone_from(&self.now);",
        to: "",
    },
    PlantedDefect {
        what: "the last block isn't compressed",
        file: "crates/record/src/output/file.rs",
        from: "let _ = self.pack().and_then(|()| self.check());\n        }\n        self.go_plain();",
        to: "let _ = self.check();\n        }\n        self.go_plain();",
    },
    PlantedDefect {
        what: "a returned CPU's events lack their ids",
        file: "crates/record/src/recording/hotplug.rs",
        from: "self.capture.shared.with_output(|output| output.add_ids(&self.description, &ids));",
        to: "self.capture.shared.with_output(|_| Ok::<(), crate::output::OutputError>(()));",
    },
    PlantedDefect {
        what: "samples at a lower rate get the weight of the first rate",
        file: "crates/replay/src/profile/sink.rs",
        from: "head.period.unwrap_or(event.period)",
        to: "head.period.map_or(event.period, |_| 1_001_001)",
    },
    PlantedDefect {
        what: "a new thread lacks its parent's name",
        file: "crates/replay/src/threads.rs",
        from: "let comm = parent.and_then(|parent| parent.comm.clone());",
        to: "let comm = parent.and_then(|parent| parent.comm.clone()).filter(|_| task.pid == task.ppid);",
    },
    PlantedDefect {
        what: "a mapping hides more than it replaces",
        file: "crates/symbols/src/address_space.rs",
        from: "let after = overlapped.last().filter(|old| old.end > end);",
        to: "let after = overlapped.last().filter(|old| old.end > end + 0x1000);",
    },
    PlantedDefect {
        what: "memory for records to unwind still holds earlier ones",
        file: "crates/record/src/output/unwinding.rs",
        from: "            memory.clear();\n",
        to: "",
    },
    PlantedDefect {
        what: "records that wait to be unwound are written twice",
        file: "crates/record/src/output/unwinding.rs",
        from: "[&mut self.held, &mut self.unwound].into_iter()",
        to: "[&mut self.unwound].into_iter()",
    },
];

/// The parts of the project that are copied.
const COPIED: [&str; 8] =
    ["Cargo.toml", "Cargo.lock", "crates", "bench", "fuzz", "simulate", "tidy", "workloads"];

/// Columns of a defect's name.
const WIDTH: usize = 64;

/// All defects.
fn all_planted() -> impl Iterator<Item = &'static PlantedDefect> {
    PLANTED.iter().chain(known_stacks::PLANTED.iter().map(|defect| &defect.planted))
}

fn main() -> anyhow::Result<()> {
    let runs = std::env::args().nth(1).unwrap_or_else(|| "2000".to_owned());
    let root = PathBuf::from("target/planted");
    let tree = root.join("tree");
    if tree.exists() {
        fs::remove_dir_all(&tree).context("the previous copy can't be removed")?;
    }
    fs::create_dir_all(&tree)?;
    for part in COPIED {
        run(Command::new("cp").args(["-a", part]).arg(&tree))?;
    }
    // The previous build may contain a defect: give its file a new time, so that cargo rebuilds it.
    for planted in all_planted() {
        let path = tree.join(planted.file);
        fs::write(&path, fs::read(&path)?)?;
    }
    let mut missed = 0;
    let word = std::env::args().nth(2).unwrap_or_default();
    let mut tell = |planted: &PlantedDefect, found: Option<String>| {
        missed += usize::from(found.is_none());
        let found = found.map_or_else(|| "NOT FOUND".to_owned(), |after| format!("found: {after}"));
        writeln!(std::io::stdout(), "{:WIDTH$} {found}", planted.what)
    };
    for planted in PLANTED.iter().filter(|planted| planted.what.contains(&word)) {
        tell(planted, plant(planted, &tree, || find(&tree, &runs))?)?;
    }
    let in_unwinder = known_stacks::PLANTED.iter();
    let in_unwinder: Vec<_> =
        in_unwinder.filter(|defect| defect.planted.what.contains(&word)).collect();
    if !in_unwinder.is_empty() {
        plant_in_unwinder(&in_unwinder, &tree, &mut tell)?;
    }
    ensure!(missed == 0, "{missed} of {} defects were not found", all_planted().count());
    Ok(())
}

/// Plants defects in the unwinder, and tells what finds each. Skips those whose program has no
/// compiler here.
fn plant_in_unwinder(
    defects: &[&UnwinderDefect],
    tree: &Path,
    tell: &mut impl FnMut(&PlantedDefect, Option<String>) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    let programs = known_stacks::build_programs(tree)?;
    let is_built = |defect: &&&UnwinderDefect| programs.join(defect.program).exists();
    let names: BTreeSet<_> = defects.iter().filter(is_built).map(|defect| defect.program).collect();
    for program in names {
        let wrong = known_stacks::find(tree, &programs, program)?;
        ensure!(wrong.is_none(), "without a defect: {}", wrong.unwrap_or_default());
    }
    for UnwinderDefect { planted, program } in defects {
        if !programs.join(program).exists() {
            writeln!(std::io::stdout(), "{:WIDTH$} skipped: no {program}", planted.what)?;
            continue;
        }
        tell(planted, plant(planted, tree, || known_stacks::find(tree, &programs, program))?)?;
    }
    Ok(())
}

/// Plants a defect, looks for it, and restores the source. Returns the failure that found the
/// defect, if any.
fn plant(
    planted: &PlantedDefect,
    tree: &Path,
    find: impl FnOnce() -> anyhow::Result<Option<String>>,
) -> anyhow::Result<Option<String>> {
    let path = tree.join(planted.file);
    let source = fs::read_to_string(&path)?;
    let places = source.matches(planted.from).count();
    ensure!(
        places == 1,
        "'{}': {} contains the text to replace {places} times",
        planted.what,
        planted.file
    );
    fs::write(&path, source.replace(planted.from, planted.to))?;
    let found = find().with_context(|| planted.what);
    fs::write(&path, source)?;
    found
}

/// Simulates. Returns the failure, if any.
fn find(tree: &Path, runs: &str) -> anyhow::Result<Option<String>> {
    // Sharing the target folder saves rebuilding the dependencies.
    let target = fs::canonicalize("target")?;
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "-p", "tare-simulate", "--bin", "tare-simulate"]);
    run(build.current_dir(tree).env("CARGO_TARGET_DIR", &target))?;
    let simulate = target.join("debug/tare-simulate");
    let output = Command::new(simulate)
        .args(["--runs", runs, "--from", "1"])
        .env("RUST_BACKTRACE", "0")
        .output()
        .context("the simulation can't be started")?;
    if output.status.success() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let is_told = |line: &&str| line.starts_with("Error: ") || line.starts_with("    1: ");
    let told = text.lines().filter(is_told).map(|line| line.trim_start_matches("    1: "));
    Ok(Some(told.collect::<Vec<_>>().join(": ")))
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    if status.success() { Ok(()) } else { bail!("{command:?}: {status}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_defect_has_one_place_in_the_sources() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for planted in all_planted() {
            let source = fs::read_to_string(root.join(planted.file))
                .unwrap_or_else(|error| panic!("'{}': {}: {error}", planted.what, planted.file));
            assert_eq!(source.matches(planted.from).count(), 1, "'{}'", planted.what);
        }
    }
}
