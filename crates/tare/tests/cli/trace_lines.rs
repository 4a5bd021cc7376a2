//! `tare trace` without `-s`: a line for each system call, compared with strace's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::{ProcessGuard, sh, status, stderr, tare, workload};
use crate::trace::can_trace;

fn trace(args: &[&str]) -> Output {
    tare().arg("trace").args(args).output().unwrap()
}

/// Returns the lines of a tracer on stderr, without the parts that differ between runs: addresses
/// (even with a fixed layout, because tracers leave different data on the stack), process ids and
/// random bytes.
fn lines(tracer: &[&str], program: &[&str]) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("setarch");
    command.arg("-R").args(tracer).args(program).current_dir(folder.path());
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).output().ok()?;
    let place = folder.path().canonicalize().ok()?.display().to_string();
    let text = stderr(&output).replace(&place, "/FOLDER");
    let mut ids: BTreeMap<String, usize> = BTreeMap::new();
    Some(text.lines().map(|line| plain(line, &mut ids)).collect())
}

/// Returns the duration of a call in seconds, which `-T` prints at the end of the line.
fn duration(line: &str) -> Option<f64> {
    line.strip_suffix('>')?.rsplit_once('<')?.1.parse().ok()
}

/// Replaces what differs between runs: addresses, inodes, random bytes, and the ids of tasks, of at
/// least three digits, by the order of their first appearance.
fn plain(line: &str, ids: &mut BTreeMap<String, usize>) -> String {
    let is_task = ["getpid(", "set_tid_address(", "fork(", "clone", "fork resumed", "getpgid("];
    if is_task.iter().any(|call| line.contains(call))
        && let Some((_, id)) = line.rsplit_once("= ")
        && id.len() > 2
        && id.bytes().all(|byte| byte.is_ascii_digit())
    {
        let next = ids.len() + 1;
        ids.entry(id.to_owned()).or_insert(next);
    }
    if let Some((id, _)) = line.strip_prefix("[pid").and_then(|rest| rest.split_once(']')) {
        let next = ids.len() + 1;
        ids.entry(id.trim().to_owned()).or_insert(next);
    }
    let mut out = String::new();
    let mut word = String::new();
    for c in line.chars().chain([' ']) {
        if c.is_ascii_alphanumeric() {
            word.push(c);
            continue;
        }
        match ids.get(&word) {
            Some(id) => out.push_str(&format!("P{id}")),
            None if word.starts_with("0x") && word.len() > 7 => out.push_str("ADDRESS"),
            None => out.push_str(&word),
        }
        word.clear();
        if c != ' ' || !out.ends_with(' ') {
            out.push(c);
        }
    }
    if line.contains("getrandom(") { "getrandom".to_owned() } else { without_inodes(&out) }
}

/// Replaces the numbers of inodes and ports, which differ between runs: `<pipe:[4711]>`,
/// `<TCP:[127.0.0.1:4711]>`.
fn without_inodes(line: &str) -> String {
    let mut parts = line.split(":[");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (inside, rest) = part.split_once(']').unwrap_or((part, ""));
        let digits = |c: char| c.is_ascii_digit();
        let inside = match inside.split_once("->") {
            None if inside.chars().all(digits) => "INODE".to_owned(),
            _ => inside.split(':').map(|word| if word.len() > 3 { "N" } else { word }).collect(),
        };
        out += &format!(":[{inside}]{rest}");
    }
    out
}

/// Counts the lines that both have, each as often as both have it.
fn in_common(ours: &[String], theirs: &[String]) -> usize {
    let mut left = theirs.to_vec();
    let found = |line: &&String| {
        let at = left.iter().position(|other| other == *line);
        at.map(|at| left.swap_remove(at)).is_some()
    };
    ours.iter().filter(found).count()
}

fn pairs(lines: &[String]) -> BTreeSet<&str> {
    lines.iter().filter_map(|line| line.rsplit_once(" = ")).map(|(call, _)| call).collect()
}

/// Returns the name of a call: `read` for `[pid P1] read(0, "x", 1)`.
fn call_name(pair: &str) -> Option<&str> {
    let is_of_child = pair.starts_with("[pid");
    let call = if is_of_child { pair.split_once("] ")?.1 } else { pair };
    let name = call.split_once('(')?.0;
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_').then_some(name)
}

/// How many lines of two tracers agree.
#[derive(Debug, Default)]
struct Likeness {
    /// strace's calls.
    calls: BTreeSet<String>,
    /// Those of which a line agrees.
    same_calls: BTreeSet<String>,
    all: usize,
    same: usize,
    all_pairs: usize,
    same_pairs: usize,
    differences: String,
}

impl Likeness {
    /// Traces a program with both, with these options.
    fn add(&mut self, program: &[&str], strace: &[&str], tare: &[&str]) {
        let theirs = lines(&[&["strace", "-f", "-q"], strace].concat(), program).unwrap();
        let tare = [&[env!("CARGO_BIN_EXE_tare"), "trace"], tare].concat();
        let ours = lines(&tare, program).unwrap();
        let common = in_common(&ours, &theirs);
        self.all += ours.len().max(theirs.len());
        self.same += common;
        let our_pairs = pairs(&ours);
        let their_pairs = pairs(&theirs);
        self.all_pairs += our_pairs.union(&their_pairs).count();
        self.same_pairs += our_pairs.intersection(&their_pairs).count();
        let names = |pair: &&str| call_name(pair).map(str::to_owned);
        self.calls.extend(their_pairs.iter().filter_map(names));
        self.same_calls.extend(our_pairs.intersection(&their_pairs).filter_map(names));
        for line in ours.iter().filter(|line| !theirs.contains(line)) {
            self.differences += &format!("tare   {line}\n");
        }
        for line in theirs.iter().filter(|line| !ours.contains(line)) {
            self.differences += &format!("strace {line}\n");
        }
    }

    /// Asserts that for each system call of strace's, at least one line agrees up to its result, so
    /// that a single wrong decoder can't hide among the lines that may differ.
    fn includes_every_call(&self) {
        let other: Vec<_> = self.calls.difference(&self.same_calls).collect();
        assert!(other.is_empty(), "no line of {other:?} is strace's\n{}", self.differences);
    }

    fn is_95_percent(&self, at_least: usize) {
        let Self { all, same, all_pairs, same_pairs, differences, .. } = self;
        println!("{same} of {all} lines, {same_pairs} of {all_pairs} pairs\n{differences}");
        assert!(*all > at_least && same * 100 >= all * 95, "{same} of {all} lines\n{differences}");
        assert!(same_pairs * 100 >= all_pairs * 95, "{same_pairs} of {all_pairs}\n{differences}");
    }
}

fn has_strace() -> bool {
    let has = Path::new("/usr/bin/strace").exists();
    if !has {
        println!("skipped: strace isn't installed");
    }
    has
}

#[test]
fn prints_lines_as_strace_does() {
    if !can_trace() || !has_strace() {
        return;
    }
    let syscalls = workload("syscalls");
    let program = syscalls.to_str().unwrap();
    let topics = String::from_utf8(Command::new(program).output().unwrap().stdout).unwrap();
    let mut programs: Vec<Vec<&str>> = topics.lines().map(|topic| vec![program, topic]).collect();
    programs.extend([vec!["ls", "/"], vec!["cat", "/etc/passwd"]]);
    assert_eq!(programs.len(), 25);
    let mut likeness = Likeness::default();
    programs.iter().for_each(|program| likeness.add(program, &[], &[]));
    likeness.is_95_percent(600);
    likeness.includes_every_call();
}

#[test]
fn prints_descriptors_as_strace_does() {
    if !can_trace() || !has_strace() {
        return;
    }
    let syscalls = workload("syscalls");
    let program = syscalls.to_str().unwrap();
    for (option, topics) in [
        ("-y", &["files", "folders", "pipes", "epoll", "descriptors", "locks", "tcp"][..]),
        ("-yy", &["tcp", "udp6", "files", "pipes"]),
    ] {
        let mut likeness = Likeness::default();
        for topic in topics {
            likeness.add(&[program, topic], &[option], &[option]);
        }
        likeness.add(&["cat", "/etc/passwd"], &[option], &[option]);
        likeness.is_95_percent(100);
    }
}

#[test]
fn prints_the_files_of_descriptors() {
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let name = "a<b>\u{1b}[2J é";
    std::fs::write(folder.path().join(name), "x").unwrap();
    let mut command = tare();
    command.args(["trace", "-y", "-e", "read,unlinkat,unlink", "sh", "-c"]);
    command.arg("exec 3<\"$0\"; rm \"$0\"; read x <&3").arg(name).current_dir(folder.path());
    let text = stderr(&command.output().unwrap());
    let path = folder.path().canonicalize().unwrap();
    let shown = format!("<{}/a\\74b\\76\\33[2J \\303\\251>", path.display());
    assert!(text.contains(&format!("{shown}(deleted), \"x\", 1)")), "{shown}\n{text}");
    assert!(text.contains(&format!("AT_FDCWD<{}>", path.display())), "{text}");
}

/// With BPF programs and with perf events alone.
#[test]
fn call_chains_reach_the_programs_first_function() {
    if !can_trace() {
        return;
    }
    let program = workload("syscalls").display().to_string();
    let tare = env!("CARGO_BIN_EXE_tare");
    let words = format!("{tare} trace -k -e pipe2,exit_group {program} pipes");
    let without_btf =
        format!("unshare -m sh -c 'mount -t tmpfs none /sys/kernel/btf && exec {words}'");
    for command in [&words, &without_btf] {
        let output = sh(command);
        let text = stderr(&output);
        assert_eq!(status(&output), 0, "{text}");
        let mut chains = text.split("pipe2(").skip(1);
        let chain = chains.next().unwrap_or_else(|| panic!("no pipe2 in\n{text}"));
        let frames: Vec<_> = chain.lines().skip(1).take_while(|l| l.starts_with(" > ")).collect();
        let at = |what: &str| frames.iter().position(|frame| frame.contains(what));
        let order =
            (at("pipe+0x"), at(&format!("{program}(pipes+0x")), at("(main+0x"), at("(_start+0x"));
        assert!(order.0.is_some() && order.0 < order.1, "{text}");
        assert!(order.1 < order.2 && order.2 < order.3, "{text}");
        let last = text.split("exit_group(0)").nth(1).unwrap_or_default();
        assert!(last.contains("(_start+0x"), "{text}");
    }
    let objects = trace(&["--json", "-k", "-e", "pipe2", &program, "pipes"]);
    let objects = String::from_utf8(objects.stdout).unwrap();
    let first: Value = serde_json::from_str(objects.lines().next().unwrap()).unwrap();
    let stack = first["stack"].as_array().unwrap();
    assert!(stack.iter().any(|frame| frame.as_str().unwrap().contains("(main+0x")), "{first}");
}

#[test]
fn prints_events_between_calls() {
    if !can_trace() {
        return;
    }
    let options = ["-F", "all", "--switches", "-e", "clock_nanosleep,sched:sched_process_e*"];
    let text = stderr(&trace(&[&options[..], &["sleep", "0.1"]].concat()));
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no '{what}' in\n{text}"));
    let begins = at("clock_nanosleep(");
    let out = at("--- switched out {waits} ---");
    let resumed = at("<... clock_nanosleep resumed>");
    let end = at("sched:sched_process_exit {comm=");
    assert!(begins < end && begins < resumed && resumed < end && out < end, "{text}");
    let between = &text[begins..resumed];
    assert!(between.contains("switched out {waits}"), "{text}");
    assert!(between.contains("switched in {off_cpu=0.1"), "{text}");
    assert!(text.contains("--- minor-fault {addr=0x"), "{text}");
    // Nothing of the child before its execve is traced, and it exits once.
    assert_eq!(text.matches("+++ exited with 0 +++").count(), 1, "{text}");
    let objects = trace(&[&["--json"], &options[..], &["sleep", "0.01"]].concat());
    let objects = String::from_utf8(objects.stdout).unwrap();
    let objects: Vec<Value> =
        objects.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let switched = objects.iter().find(|object| object["event"] == "switch-in");
    assert!(switched.is_some_and(|object| object["off_cpu_ns"].as_u64() > Some(0)), "{objects:?}");
    let times = objects.iter().filter_map(|object| object["time_ns"].as_u64());
    assert!(times.clone().count() > 5 && objects.iter().any(|o| o["event"] == "minor-faults"));
    let unknown = trace(&["-e", "sched:no_such", "true"]);
    let said = stderr(&unknown);
    assert!(status(&unknown) == 125 && said.lines().count() == 1, "{said}");
    assert!(said.contains("no_such"), "{said}");
}

#[test]
fn selects_calls_failures_and_durations() {
    if !can_trace() {
        return;
    }
    let chosen = trace(&["-e", "trace=%file,!execve", "cat", "/no/such/file"]);
    let text = stderr(&chosen);
    assert_eq!(status(&chosen), 1, "{text}");
    assert!(text.contains("openat(AT_FDCWD, \"/no/such/file\", O_RDONLY) = -1 ENOENT (No such file or directory)\n"), "{text}");
    assert!(!text.contains("execve(") && !text.contains("mmap("), "{text}");
    // cat and tare would mix their output on stderr, so the trace goes to a file.
    let file = tempfile::NamedTempFile::new().unwrap();
    trace(&["-o", file.path().to_str().unwrap(), "--failures", "cat", "/no/such/file"]);
    let failed = std::fs::read_to_string(file.path()).unwrap();
    assert!(failed.lines().all(|line| line.contains(" = -1 ")), "{failed}");
    assert!(failed.contains("/no/such/file"), "{failed}");
    let slow = stderr(&trace(&["-T", "--min-duration", "100ms", "sleep", "0.2"]));
    // On a busy machine other calls may take as long, too.
    let durations = slow.lines().map(|line| (line, duration(line).unwrap()));
    let (naps, others): (Vec<_>, Vec<_>) =
        durations.partition(|(line, _)| line.starts_with("clock_nanosleep("));
    assert!(matches!(naps[..], [(line, 0.2..)] if line.contains(" = 0 <")), "{slow}");
    assert!(others.iter().all(|(_, seconds)| *seconds >= 0.1), "{slow}");
    let short = stderr(&trace(&["--string-limit", "3", "-e", "write", "echo", "abcdef"]));
    assert!(short.contains("write(1, \"abc\"..., 7) "), "{short}");
    for wrong in [&["--min-duration", "7", "true"][..], &["--ring-size", "100K", "true"]] {
        assert_eq!(status(&trace(wrong)), 2, "{wrong:?}");
    }
}

/// The words of a command whose five getppid(2) calls a seccomp filter answers with `EPERM`.
fn refused() -> Vec<String> {
    let number =
        sh("printf '#include <sys/syscall.h>\nSYS_getppid\n' | cc -E -P - | tail -1").stdout;
    let number = String::from_utf8(number).unwrap().trim().to_owned();
    let program = |name| workload(name).display().to_string();
    let words = [program("refuse"), number, "1".into(), program("calls")];
    words.into_iter().chain(["0", "1", "5"].map(str::to_owned)).collect()
}

fn trace_refused(options: &[&str]) -> Output {
    tare().arg("trace").args(options).args(refused()).output().unwrap()
}

#[test]
fn calls_that_a_seccomp_filter_answers_have_lines_and_fail() {
    if !can_trace() {
        return;
    }
    for options in [&["-e", "getppid", "-T"][..], &["-e", "getppid", "--failures"]] {
        let text = stderr(&trace_refused(options));
        let lines = text.lines().filter(|line| line.contains("getppid()"));
        let lines: Vec<_> = lines.collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[0].ends_with("= -1 EPERM (Operation not permitted)"), "{text}");
    }
    let output = trace_refused(&["-e", "getppid", "--json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let first = text.lines().find(|line| line.contains("getppid")).unwrap();
    let first: Value = serde_json::from_str(first).unwrap();
    assert!(first["executed"] == false && first["duration_ns"].is_null(), "{first}");
    let sums = stderr(&trace_refused(&["-s", "-e", "getppid"]));
    assert!(sums.contains("getppid: EPERM 5\n"), "{sums}");
}

#[test]
fn prints_a_json_object_per_line() {
    if !can_trace() {
        return;
    }
    let output = trace(&["--json", "sh", "-c", "cat /no/such/file; exit 4"]);
    assert_eq!(status(&output), 4, "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let objects: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let failed = objects
        .iter()
        .find(|object| {
            object["arguments"].as_str().is_some_and(|text| text.contains("/no/such/file\", O_"))
        })
        .unwrap();
    assert_eq!((&failed["call"], &failed["error"]), (&"openat".into(), &"ENOENT".into()));
    assert!(failed["duration_ns"].as_u64().unwrap() > 0 && failed["result"] == -2, "{failed}");
    assert!(objects.iter().any(|object| object["end"] == "exited with 4"), "{text}");
}

/// The program opens 2,000 names of arbitrary bytes and makes 2,000 calls with invalid pointers.
#[test]
fn escapes_bytes_of_hostile_programs() {
    if !can_trace() {
        return;
    }
    let syscalls = workload("syscalls");
    let folder = tempfile::tempdir().unwrap();
    let argument = format!("{}\u{1b}[2J", "\u{9b}x".repeat(30_000));
    for options in [&[][..], &["--json"], &["-yy", "-e", "!prctl,sched:sched_process_exec"]] {
        let mut command = tare();
        command.arg("trace").args(options).args([syscalls.to_str().unwrap(), "hostile", &argument]);
        let output = command.current_dir(folder.path()).output().unwrap();
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        let text = if options == ["--json"] { &output.stdout } else { &output.stderr };
        let raw = text.iter().find(|byte| !matches!(byte, b' '..=b'~' | b'\n'));
        assert_eq!(raw, None);
        assert!(text.split(|&byte| byte == b'\n').count() > 4000);
    }
}

#[test]
fn names_32_bit_calls() {
    if !can_trace() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("compat.c");
    let program = folder.path().join("compat");
    let code = "int main(void) { int r; __asm__ volatile(\"int $0x80\" : \"=a\"(r) : \"a\"(64), \"b\"(0)); return r < 0; }";
    std::fs::write(&source, code).unwrap();
    let built = Command::new("cc").arg("-o").arg(&program).arg(&source).status().unwrap();
    assert!(built.success());
    let output = trace(&[program.to_str().unwrap()]);
    if status(&output) != 0 {
        return println!("skipped: this kernel has no 32-bit system calls");
    }
    assert!(stderr(&output).contains("getppid() "), "{output:?}");
}

/// Lost records are counted in the lines where they are missing, and at the end.
#[test]
fn counts_the_records_that_a_full_ring_buffer_loses() {
    if !can_trace() {
        return;
    }
    let calls = workload("calls");
    let mut command = tare();
    command.args(["trace", "--ring-size", "64K", "-e", "getppid"]);
    command.args([calls.to_str().unwrap(), "1", "0", "200000"]);
    let output = command.output().unwrap();
    let text = stderr(&output);
    let missing: u64 = text
        .lines()
        .filter_map(|line| line.split_once("<... ")?.1.split_once(" record")?.0.parse::<u64>().ok())
        .sum();
    let said = text.lines().find_map(|line| line.strip_prefix("tare: ")?.split_once(" record"));
    let said: u64 = said.map(|(number, _)| number.replace(',', "").parse().unwrap()).unwrap();
    let returned = text.lines().filter(|line| line.contains("getppid")).count();
    assert!(0 < missing && missing <= said && returned > 100, "{missing} {said} {returned}");
}

#[test]
fn traces_the_whole_machine_except_the_tracer() {
    if !can_trace() {
        return;
    }
    let mut busy = ProcessGuard::spawn(
        Command::new("sh")
            .args(["-c", "while :; do cat /proc/self/comm; done"])
            .stdout(Stdio::null()),
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    let mut tracer = tare();
    tracer.args(["trace", "-a", "-e", "openat", "--timeout", "300", "-o", file.to_str().unwrap()]);
    let tracer = ProcessGuard::spawn(&mut tracer);
    let id = tracer.id();
    drop(tracer_end(tracer));
    busy.end();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("/proc/self/comm"), "{}", &text[..text.len().min(2000)]);
    assert!(!text.contains(&format!("[pid {id:5}]")));
}

fn tracer_end(mut tracer: ProcessGuard) -> ProcessGuard {
    tracer.wait().unwrap();
    tracer
}
