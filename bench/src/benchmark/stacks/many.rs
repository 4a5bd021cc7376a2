//! Commands with many processes and with many waits: losses and whole chains.

use std::process::{Command, Stdio};

use anyhow::Context;
use serde_json::{Value, json};

use super::cost::BusyProcesses;
use super::{finding, ledger, number, record, whole_share, words};
use crate::benchmark::unwind::known;
use crate::report::{Bound, Report};
use crate::run::succeed;
use crate::scratch::Scratch;

/// Processes that the command starts.
const PROCESSES: u32 = 2000;

/// A shell loop over programs of several packages.
const MANY: &str = "i=0; while [ $i -lt 500 ]; do i=$((i+1)); /bin/ls / >/dev/null; \
                    /usr/bin/expr $i + 1 >/dev/null; echo $i | /bin/sed s/1/2/ >/dev/null; done";

/// Threads and processes that wait: for time, for each other, and for a file.
const WAITS: &str = "/usr/bin/python3 -c 'import threading, time
def wait():
    for i in range(200): time.sleep(0.002)
all = [threading.Thread(target=wait) for i in range(4)]
[one.start() for one in all]
[one.join() for one in all]' & seq 1 100000 | xz -6 -T1 | wc -c; git log --stat -n 50 | wc -c; wait";

/// A command with many processes.
pub(super) fn processes(scratch: &Scratch<'_>, report: &mut Report) -> anyhow::Result<Value> {
    let mut document =
        record(scratch, &["-e", "cpu-clock", "-g", "-F", "999"], &["sh", "-c", MANY])?;
    let ledger = &document["ledger"];
    let rate = f64::from(PROCESSES) / (number(&ledger["recorded_ns"])? / 1e9);
    let losses = &document["loss"];
    let lost = number(&losses["lost_records"])? + number(&losses["lost_samples"])?;
    report.findings.extend([
        finding("many processes: a second".to_owned(), rate, Bound::AtLeast(200.0)),
        finding("many processes: lost samples".to_owned(), lost, Bound::AtMost(0.0)),
        finding(
            "many processes: whole chains, without those in execve".to_owned(),
            whole_share(ledger)?,
            Bound::AtLeast(0.97),
        ),
    ]);
    Ok(document["ledger"].take())
}

/// A command with many waits.
pub(super) fn waits(scratch: &Scratch<'_>, report: &mut Report) -> anyhow::Result<Value> {
    let mut ledger = ledger(scratch, &["-g", "--off-cpu", "-F", "99"], &["sh", "-c", WAITS])?;
    let reach = &ledger["unwound"]["off_cpu"];
    let share = number(&reach["whole_ns"])? / number(&reach["ns"])?;
    let what = "waiting time whose chain reaches the start of the thread".to_owned();
    report.findings.push(finding(what, share, Bound::AtLeast(0.95)));
    Ok(ledger.take())
}

/// The live report, and the system calls of a command.
pub(super) fn live(scratch: &Scratch<'_>, report: &mut Report) -> anyhow::Result<Value> {
    known::build(&scratch.setting.workloads)?;
    let program = Command::new(scratch.setting.workload("known"))
        .arg("3600")
        .stdout(Stdio::null())
        .spawn()?;
    let pid = program.id().to_string();
    let program = BusyProcesses(vec![program]);
    let tare = scratch.setting.tare();
    let top = [&tare, "top", "--json", "-g", "-d", "1", "--timeout", "5000", "-E", "1", "-p", &pid];
    let documents = succeed(&words(&top))?.stdout;
    drop(program);
    let last: Value = serde_json::from_str(documents.lines().last().context("a document")?)?;
    let stacks = &last["loss"]["copied_stacks"];
    let top = number(&stacks["whole"])? / number(&stacks["stacks"])?;
    let what = "top: stacks that reach the start of the thread".to_owned();
    report.findings.push(finding(what, top, Bound::AtLeast(0.95)));
    let options = ["-g", "-e", "raw_syscalls:sys_enter", "-c", "1"];
    let calls = record(scratch, &options, &["git", "log", "--stat", "-n", "50"])?;
    let calls = whole_share(&calls["ledger"])?;
    let what = "system calls: stacks that reach the start of the thread".to_owned();
    report.findings.push(finding(what, calls, Bound::AtLeast(0.95)));
    Ok(json!({ "top": stacks, "calls": calls }))
}
