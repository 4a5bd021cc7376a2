//! `planted [RUNS [WORD]]`: plants one defect after the other into a copy of the sources, and says after
//! how many runs the simulation finds it. One that is not found within so many runs (2,000), or that
//! can't be planted any more, is a failure. `WORD`: only those whose name has it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

/// A defect: in a file, a text that is there once gives way to another.
struct PlantedDefect {
    what: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
}

const PLANTED: [PlantedDefect; 20] = [
    PlantedDefect {
        what: "a tail that is eight bytes too far",
        file: "crates/kernel/src/ring/mod.rs",
        from: "self.tail.wrapping_add(self.span.len() as u64)",
        to: "self.tail.wrapping_add(self.span.len() as u64 + 8)",
    },
    PlantedDefect {
        what: "a mark that comes twice, the second time too early",
        file: "crates/record/src/capture/reader.rs",
        from: "pieces.extend((!state.has_overwritten).then_some(&FINISHED_ROUND[..]));",
        to: "pieces.extend([&FINISHED_ROUND[..]; 2]);",
    },
    PlantedDefect {
        what: "a flush that doesn't say how long the data are",
        file: "crates/record/src/output/file.rs",
        from: "&self.beginning.data_size(end), DATA_SIZE_OFFSET);",
        to: "&self.beginning.data_size(self.start), DATA_SIZE_OFFSET);",
    },
    PlantedDefect {
        what: "a next file that doesn't name the threads that run",
        file: "crates/record/src/recording/switch.rs",
        from: "records.append(&mut running);",
        to: "running.clear();",
    },
    PlantedDefect {
        what: "a next file that begins before ring buffers were read",
        file: "crates/record/src/recording/switch.rs",
        from: "} else if !self.shared.is_limited()",
        to: "} else if self.shared.is_limited()",
    },
    PlantedDefect {
        what: "losses that are taken from the wrong word",
        file: "crates/record/src/capture/scanner.rs",
        from: "PERF_RECORD_LOST => word(record, HEADER + 8),",
        to: "PERF_RECORD_LOST => word(record, HEADER),",
    },
    PlantedDefect {
        what: "a record across a ring buffer's end that is not counted",
        file: "crates/record/src/capture/scanner.rs",
        from: "self.walk(&straddling);",
        to: "",
    },
    PlantedDefect {
        what: "a throttled event that is counted twice",
        file: "crates/record/src/capture/scanner.rs",
        from: "self.stats.throttled += 1",
        to: "self.stats.throttled += 2",
    },
    PlantedDefect {
        what: "a snapshot that repeats the one before",
        file: "crates/kernel/src/ring/overwritten.rs",
        from: "self.taken = head;",
        to: "self.taken = 0;",
    },
    PlantedDefect {
        what: "a flight recorder that forgets too early",
        file: "crates/record/src/capture/flight_recorder.rs",
        from: "if age <= self.keep {",
        to: "if age <= self.keep / 2 {",
    },
    PlantedDefect {
        what: "a full disk's file with the figures of what was appended",
        file: "crates/record/src/recording/finish.rs",
        from: "counted.iter_mut().for_each(|counted| recount::replace(&mut stats, counted));",
        to: "let _ = (&mut counted, &mut stats, recount::replace);",
    },
    PlantedDefect {
        what: "a write that is taken for whole when it was short",
        file: "crates/record/src/output/write.rs",
        from: "let written = file.write_at(pieces, *end)?;\n            *end += written as u64;",
        to: "file.write_at(pieces, *end)?;\n            let written = pieces.iter().map(|piece| piece.len()).sum::<usize>();\n            *end += written as u64;",
    },
    PlantedDefect {
        what: "past the page cache: a last block that has grown",
        file: "crates/record/src/output/direct.rs",
        from: "let mut at = self.clean / block * block;",
        to: "let mut at = self.clean.next_multiple_of(block);",
    },
    PlantedDefect {
        what: "past the page cache: what a failed write leaves",
        file: "crates/record/src/output/direct.rs",
        from: "&self.buffer.bytes()[self.clean..self.len]",
        to: "&self.buffer.bytes()[self.clean..self.clean]",
    },
    PlantedDefect {
        what: "a next file whose ledger begins with the file before",
        file: "crates/record/src/capture/stats.rs",
        from: "self.before.clone_from(&self.now);",
        to: "",
    },
    PlantedDefect {
        what: "a last block that is not compressed any more",
        file: "crates/record/src/output/file/ending.rs",
        from: "let _ = self.pack().and_then(|()| self.check());",
        to: "let _ = self.check();",
    },
    PlantedDefect {
        what: "a CPU that came back, whose events nobody knows",
        file: "crates/record/src/recording/hotplug.rs",
        from: "self.shared.with_output(|output| output.add_ids(&self.description, &ids));",
        to: "self.shared.with_output(|_| Ok::<(), crate::output::OutputError>(()));",
    },
    PlantedDefect {
        what: "samples of a lower rate that weigh as those of the first",
        file: "crates/replay/src/profile/sink.rs",
        from: "head.period.unwrap_or(of_event)",
        to: "head.period.map_or(of_event, |_| 1_001_001)",
    },
    PlantedDefect {
        what: "a thread that begins without its parent's name",
        file: "crates/replay/src/threads.rs",
        from: "let comm = parent.and_then(|parent| parent.comm.clone());",
        to: "let comm = parent.and_then(|parent| parent.comm.clone()).filter(|_| task.pid == task.ppid);",
    },
    PlantedDefect {
        what: "a mapping that hides more than it replaces",
        file: "crates/symbols/src/address_space/pieces.rs",
        from: "let after = overlapped.last().filter(|old| old.end > end);",
        to: "let after = overlapped.last().filter(|old| old.end > end + 0x1000);",
    },
];

/// What is copied of the project.
const COPIED: [&str; 7] =
    ["Cargo.toml", "Cargo.lock", "crates", "bench", "fuzz", "simulate", "tidy"];

fn main() -> anyhow::Result<()> {
    let runs = std::env::args().nth(1).unwrap_or_else(|| "2000".to_owned());
    let root = PathBuf::from("target/planted");
    let tree = root.join("tree");
    if tree.exists() {
        fs::remove_dir_all(&tree).context("the copy of the last time can't be removed")?;
    }
    fs::create_dir_all(&tree)?;
    for part in COPIED {
        run(Command::new("cp").args(["-a", part]).arg(&tree))?;
    }
    // What was built of the copy of the last time may have a defect in it.
    for planted in &PLANTED {
        let path = tree.join(planted.file);
        fs::write(&path, fs::read(&path)?)?;
    }
    let mut missed = 0;
    let word = std::env::args().nth(2).unwrap_or_default();
    for planted in PLANTED.iter().filter(|planted| planted.what.contains(&word)) {
        let found = plant(planted, &tree, &runs)?;
        missed += usize::from(found.is_none());
        let found = found.map_or_else(|| "NOT FOUND".to_owned(), |after| format!("found: {after}"));
        writeln!(std::io::stdout(), "{:58} {found}", planted.what)?;
    }
    ensure!(missed == 0, "{missed} of {} defects were not found in {runs} runs", PLANTED.len());
    Ok(())
}

/// Plants a defect, looks for it, and takes it out again. What was found, if anything.
fn plant(planted: &PlantedDefect, tree: &Path, runs: &str) -> anyhow::Result<Option<String>> {
    let path = tree.join(planted.file);
    let source = fs::read_to_string(&path)?;
    let places = source.matches(planted.from).count();
    ensure!(
        places == 1,
        "'{}': its place is there {places} times in {}",
        planted.what,
        planted.file
    );
    fs::write(&path, source.replace(planted.from, planted.to))?;
    let found = find(tree, runs).with_context(|| planted.what);
    fs::write(&path, source)?;
    found
}

fn find(tree: &Path, runs: &str) -> anyhow::Result<Option<String>> {
    // What crates from elsewhere were built into is used again.
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
