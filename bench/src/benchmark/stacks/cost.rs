//! What unwinding while recording costs: stolen time, the recorder's CPU time and memory, and
//! perf's way to the same chains.

use std::path::Path;
use std::process::{Child, Command};
use std::time::Instant;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::chains::{self, ChainCounts};
use super::{finding, ledger, number, words};
use crate::report::{Bound, Report};
use crate::run::{run, run_for_output, succeed};
use crate::scratch::{Scratch, Tool};

/// A command with deep stacks.
const DEEP: &str = "printf '#include <regex>\\nint main() { return std::regex_match(\"a\", std::regex(\"b\")); }\\n' | g++ -O2 -x c++ -o /dev/null -";

/// Pairs of slices in the study of stolen time.
const PAIRS: usize = 200;

/// The time that a sample takes from the sampled program, beside frame pointers.
pub(super) fn stolen(scratch: &Scratch<'_>, report: &mut Report) -> anyhow::Result<Value> {
    let tare = scratch.setting.tare();
    let pairs = scratch.setting.rounds.unwrap_or(PAIRS).to_string();
    let study = "overhead -e cpu-clock --rates 0,4000 --loops counting --call-graph fp,auto";
    let study: Vec<&str> = study.split(' ').collect();
    let line = [&[tare.as_str()], &study[..], &["--pairs", &pairs, "--no-save", "--json"]].concat();
    let document: Value = serde_json::from_str(&succeed(&words(&line))?.stdout)?;
    let us = |study: usize| {
        let rows = document["studies"][study]["rows"].as_array().into_iter().flatten();
        let last = rows.last().context("a study has rows")?;
        number(&last["cost"]["stolen_us"]["value"])
    };
    let [fp, auto] = [us(0)?, us(1)?];
    report.table.push(format!("stolen by a sample: fp {fp:.2} us, auto {auto:.2} us"));
    let what = "stolen by a sample, auto minus fp, us".to_owned();
    report.findings.push(finding(what, auto - fp, Bound::AtMost(5.0)));
    Ok(json!({ "fp_us": fp, "auto_us": auto }))
}

/// Compiles a program without frame pointers that works at a depth of 20 frames, of which the C
/// library and `_start` have three.
fn twenty_frames(scratch: &Scratch<'_>) -> anyhow::Result<String> {
    use std::fmt::Write as _;
    let mut source = String::from(
        "#include <stdlib.h>\n#include <time.h>\n#define APART __attribute__((noinline, noipa))\n\
         APART long f0(long a) { for (volatile long i = 0; i < 20000; i++) a += i; return a; }\n",
    );
    for number in 1..=15 {
        let callee = number - 1;
        // Writing to a string can't fail.
        let _ = writeln!(
            source,
            "APART long f{number}(long a) {{ long b = f{callee}(a + 1); return a ^ b; }}"
        );
    }
    source.push_str(
        "int main(int argc, char **argv) { (void)argc; time_t end = time(0) + atol(argv[1]); \
         long sum = 0; while (time(0) < end) sum += f15(sum); return sum == 1; }\n",
    );
    let [path, program] = ["twenty.c", "twenty"].map(|name| scratch.path(name));
    std::fs::write(&path, source)?;
    let [from, to] = [&path, &program].map(|path| path.display().to_string());
    succeed(&words(&["cc", "-O2", "-fomit-frame-pointer", "-o", &to, &from]))?;
    Ok(std::path::absolute(program)?.display().to_string())
}

/// CPU time and memory of the recorder, beside frame pointers.
pub(super) fn recorder(scratch: &Scratch<'_>, report: &mut Report) -> anyhow::Result<Value> {
    let program = &*twenty_frames(scratch)?;
    let mut us = Vec::new();
    for how in ["fp", "auto"] {
        let ledger = ledger(scratch, &["-F", "4000", "--call-graph", how], &[program, "4"])?;
        let samples = number(&ledger["events"][0]["samples"])?;
        us.push(number(&ledger["cost"]["recording_cpu_ns"])? / 1e3 / samples);
    }
    let samples = chains::read(scratch, &scratch.path("recorded.data"))?;
    let frames = ChainCounts::count(samples.iter()).frames_each();
    ensure!((19.0..22.0).contains(&frames), "chains have {frames} frames");
    report.table.push(format!(
        "recorder's CPU time per sample of {frames:.1} frames: fp {:.2} us, auto {:.2} us",
        us[0], us[1]
    ));
    let what = "recorder's CPU time per sample of 20 frames, us".to_owned();
    report.findings.push(finding(what, us[1], Bound::AtMost(6.0)));
    let mut bytes = Vec::new();
    for how in ["fp", "auto"] {
        let ledger = ledger(scratch, &["-F", "999", "--call-graph", how], &["sh", "-c", DEEP])?;
        bytes.push(number(&ledger["cost"]["peak_memory_bytes"])?);
    }
    let what = "peak memory of the recorder of g++, auto minus fp, MB".to_owned();
    report.findings.push(finding(what, (bytes[1] - bytes[0]) / 1e6, Bound::AtMost(40.0)));
    Ok(json!({ "cpu_us": us, "frames": frames, "peak_memory_bytes": bytes }))
}

/// Processes that end with this value.
pub(super) struct BusyProcesses(pub(super) Vec<Child>);

impl Drop for BusyProcesses {
    fn drop(&mut self) {
        for process in &mut self.0 {
            // It may have ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// The share of a CPU that the recorder takes at 99 Hz with two busy CPUs. It records only the two
/// processes, whatever else runs on the machine.
pub(super) fn busy_machine(scratch: &Scratch<'_>, report: &mut Report) -> anyhow::Result<Value> {
    let program = twenty_frames(scratch)?;
    let mut busy = BusyProcesses(Vec::new());
    for _ in 0..2 {
        busy.0.push(Command::new(&program).arg("3600").spawn()?);
    }
    let pids: Vec<String> = busy.0.iter().map(|process| process.id().to_string()).collect();
    let options = ["-p", &pids.join(","), "-g", "-F", "99"];
    let ledger = ledger(scratch, &options, &["sleep", "10"])?;
    drop(busy);
    let share = number(&ledger["cost"]["recording_cpu_ns"])? / number(&ledger["recorded_ns"])?;
    let what = "recorder's share of a CPU at 99 Hz with two busy CPUs".to_owned();
    report.findings.push(finding(what, share, Bound::AtMost(0.003)));
    Ok(ledger)
}

/// Seconds after which perf is ended while it prints with its defaults: it starts addr2line for
/// inlined functions, which takes minutes.
const PATIENCE_S: u64 = 20;

/// What recording a command with whole chains and printing them takes, by perf and by tare: CPU time
/// without inlined functions, and the time to print with them, which perf does by default.
pub(super) fn beside_perf(scratch: &Scratch<'_>, report: &mut Report) -> anyhow::Result<Value> {
    let file = scratch.path("compared.data");
    let from = file.display().to_string();
    let tare = scratch.setting.tare();
    let record = recorder_cpu_s(scratch, Tool::Tare, &["-g"], &file)?;
    let own = run(&words(&[&tare, "script", "--no-inline", "-i", &from]))?;
    let own_cpu_s = [record, own.cpu_ns as f64 / 1e9];
    let own_inlined = run(&words(&[&tare, "script", "--inline", "-i", &from]))?;
    let copies = ["--call-graph", "dwarf,65528"];
    let record = recorder_cpu_s(scratch, Tool::Perf, &copies, &file)?;
    let printed = run(&words(&["perf", "script", "--no-inline", "-i", &from]))?;
    let perf_cpu_s = [record, printed.cpu_ns as f64 / 1e9];
    let began = Instant::now();
    let patience = PATIENCE_S.to_string();
    run_for_output(&words(&["timeout", &patience, "perf", "script", "-i", &from]))?;
    let own_s = own_inlined.elapsed_ns as f64 / 1e9;
    let inlined_s = [own_s, began.elapsed().as_secs_f64()];
    std::fs::remove_file(&file)?;
    report.table.push(format!(
        "g++, record and script: tare {:.3} s and {:.3} s of CPU time, perf {:.3} s and {:.3} s; \
         script with inlined functions takes {:.2} s and {:.1} s (perf is ended after {PATIENCE_S} s)",
        own_cpu_s[0],
        own_cpu_s[1],
        perf_cpu_s[0],
        perf_cpu_s[1],
        inlined_s[0],
        inlined_s[1]
    ));
    let sum = |cpu_s: [f64; 2]| cpu_s[0] + cpu_s[1];
    let what = "CPU time to record copies and print chains, perf --no-inline/tare".to_owned();
    report.findings.push(finding(what, sum(perf_cpu_s) / sum(own_cpu_s), Bound::AtLeast(20.0)));
    let what = "time to print chains with inlined functions, perf/tare".to_owned();
    let ratio = inlined_s[1] / inlined_s[0];
    report.findings.push(finding(what, ratio, Bound::AtLeast(20.0)));
    let raw = json!({ "tare_s": own_cpu_s, "perf_s": perf_cpu_s, "inlined_s": inlined_s });
    Ok(raw)
}

/// Records a command. Returns the recorder's CPU time in seconds.
fn recorder_cpu_s(
    scratch: &Scratch<'_>,
    tool: Tool,
    options: &[&str],
    file: &Path,
) -> anyhow::Result<f64> {
    let used = scratch.path("used");
    let used_text = used.display().to_string();
    let helper = scratch.setting.workload("used");
    let record = scratch.recorder(tool, file);
    let rest = [
        &["-q", "-F", "999", "-e", "cpu-clock"][..],
        options,
        &["--", &helper, &used_text, "sh", "-c", DEEP],
    ];
    let recorded = run(&[record, words(&rest.concat())].concat())?;
    let text = std::fs::read_to_string(&used)?;
    let command_us: f64 = text.split_whitespace().next().context("the command's time")?.parse()?;
    Ok(recorded.cpu_ns as f64 / 1e9 - command_us / 1e6)
}
