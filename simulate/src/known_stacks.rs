//! Defects of the unwinder, each with a program of `workloads/known` whose call chains it breaks.
//! They need Linux on x86-64 and the right to record.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::{PlantedDefect, run};

/// A defect, and the program that finds it.
pub(super) struct UnwinderDefect {
    pub(super) planted: PlantedDefect,
    pub(super) program: &'static str,
}

pub(super) const PLANTED: [UnwinderDefect; 12] = [
    UnwinderDefect {
        planted: PlantedDefect {
            what: "unwinding: a return address is read a word too low",
            file: "crates/symbols/src/unwind/frame.rs",
            from: "let at = cfa.wrapping_add_signed(at.into());",
            to: "let at = cfa.wrapping_add_signed(at.into()).wrapping_sub(8);",
        },
        program: "known",
    },
    UnwinderDefect {
        planted: PlantedDefect {
            what: "unwinding: the byte before a call's return isn't looked up",
            file: "crates/symbols/src/unwind/unwinder.rs",
            from: "let address = self.frame.pc.wrapping_sub(u64::from(!self.frame.is_exact));",
            to: "let address = self.frame.pc;",
        },
        program: "throws",
    },
    UnwinderDefect {
        planted: PlantedDefect {
            what: "unwinding: saved registers aren't restored",
            file: "crates/symbols/src/unwind/frame.rs",
            from: "if at >= sp {",
            to: "if at < sp {",
        },
        program: "known-fp",
    },
    UnwinderDefect {
        planted: PlantedDefect {
            what: "unwinding: saved registers are read from the next word",
            file: "crates/symbols/src/unwind/row.rs",
            from: "Rule::Offset(bytes) => saved.push((register, bytes)),",
            to: "Rule::Offset(bytes) => saved.push((register, bytes + 8)),",
        },
        program: "known-fp",
    },
    UnwinderDefect {
        planted: PlantedDefect {
            what: "unwinding: the result of an expression is a word too high",
            file: "crates/symbols/src/unwind/frame.rs",
            from: "Some(Location::Address { address }) => Ok(*address),",
            to: "Some(Location::Address { address }) => Ok(*address + 8),",
        },
        program: "known",
    },
    UnwinderDefect {
        planted: PlantedDefect {
            what: "unwinding: code that ends a signal handler isn't recognized",
            file: "crates/symbols/src/unwind/unwinder.rs",
            from: "let leaves_signal = |at: u64| loaded.has_code(at, self.arch.signal_return);",
            to: "let leaves_signal = |at: u64| at == 0 && loaded.has_code(at, self.arch.signal_return);",
        },
        program: "known-musl",
    },
    UnwinderDefect {
        planted: PlantedDefect {
            what: "unwinding: interrupted code keeps the handler's stack pointer",
            file: "crates/symbols/src/unwind/frame.rs",
            from: "for (register, offset) in arch.signal_frame.registers {",
            to: "for (register, offset) in arch.signal_frame.registers.iter().filter(|(register, _)| *register != arch.stack_pointer) {",
        },
        program: "known-musl",
    },
    UnwinderDefect {
        planted: PlantedDefect {
            what: "unwinding: code without tables isn't followed",
            file: "crates/symbols/src/unwind/unwinder.rs",
            from: "if self.arch.machine != arch::X86_64.machine {",
            to: "if self.arch.machine == arch::X86_64.machine {",
        },
        program: "known-no-tables",
    },
    UnwinderDefect {
        planted: PlantedDefect {
            what: "unwinding: a direct call before a return address isn't seen",
            file: "crates/symbols/src/unwind/call.rs",
            from: "if from_end(5) == 0xe8 {",
            to: "if from_end(5) == 0xe9 {",
        },
        program: "known-assembly",
    },
    UnwinderDefect {
        planted: PlantedDefect {
            what: "unwinding: the caller's stack pointer is a word too low",
            file: "crates/symbols/src/unwind/frame.rs",
            from: "Some(cfa));\n        self.restore(row, cfa, sp, memory);",
            to: "Some(cfa - 8));\n        self.restore(row, cfa, sp, memory);",
        },
        program: "known-static",
    },
    UnwinderDefect {
        planted: PlantedDefect {
            what: "unwinding: copies are cut at half of the stack",
            file: "crates/replay/src/stack_trimmer.rs",
            from: "depth.saturating_add(BEYOND)",
            to: "depth / 2",
        },
        program: "known",
    },
    UnwinderDefect {
        planted: PlantedDefect {
            what: "unwinding: the rest of a deep stack begins a word too late",
            file: "crates/replay/src/deep_stacks.rs",
            from: "stack.bytes.get(whole.len() - before..)",
            to: "stack.bytes.get(whole.len() - before + 8..)",
        },
        program: "known-large",
    },
];

/// Share of a program's stacks, in percent, that must equal one of its chains. A busy machine leaves
/// few samples, of which two may be of the program's start.
const EXACT_PERCENT: u64 = 98;

/// Compiles the programs. Returns their folder.
pub(super) fn build_programs(tree: &Path) -> anyhow::Result<PathBuf> {
    let folder = fs::canonicalize("target")?.join("planted/known");
    run(Command::new(tree.join("workloads/known/build.sh")).arg(&folder))?;
    Ok(folder)
}

/// Builds tare, records a program, and compares its stacks with its chains. Returns the difference,
/// if any.
pub(super) fn find(tree: &Path, programs: &Path, name: &str) -> anyhow::Result<Option<String>> {
    let target = fs::canonicalize("target")?;
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "-p", "tare-perf", "--bin", "tare"]);
    run(build.current_dir(tree).env("CARGO_TARGET_DIR", &target))?;
    let tare = target.join("debug/tare");
    let program = programs.join(name);
    let [chains, recording, script] =
        ["chains", "perf.data", "script"].map(|name| programs.join(name));
    // The program that copies deep stacks is loaded while the command runs.
    let seconds = if name == "known-large" { "4" } else { "0.6" };
    fs::write(&chains, read(Command::new(&program).arg("--chains"))?)?;
    let mut record = Command::new(&tare);
    record.args(["record", "-q", "-e", "cpu-clock:u", "-F", "4000", "--call-graph", "auto", "-o"]);
    read(record.arg(&recording).arg("--").arg(&program).arg(seconds))?;
    let fields = ["script", "--no-inline", "-F", "ip,sym,dso", "-i"];
    fs::write(&script, read(Command::new(&tare).args(fields).arg(&recording))?)?;
    let mut judge = Command::new("awk");
    judge.args(["-v", "ends=1", "-f"]).arg(programs.join("known-chains.awk"));
    let judged = read(judge.args([&chains, &script]))?;
    let numbers = judged.trim().split_once(' ').context("two numbers")?;
    let [exact, all] = [numbers.0.parse::<u64>()?, numbers.1.parse::<u64>()?];
    ensure!(all >= 100, "{name} left only {all} samples");
    let is_exact = (exact + 2) * 100 >= all * EXACT_PERCENT;
    Ok((!is_exact).then(|| format!("{name}: {exact} of {all} stacks are exact")))
}

/// Runs a command. Returns its standard output.
fn read(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {errors}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
