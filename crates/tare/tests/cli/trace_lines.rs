//! `tare trace` without `-s`: a line for each system call, compared with strace's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::{ProcessGuard, sh, status, stderr, tare, wait_until, workload};
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

/// Replaces inode numbers, as in `<pipe:[4711]>`, and in endpoints of sockets each word between
/// colons of more than three characters. So neither IPv4 addresses nor long ports are compared:
/// `<TCP:[127.0.0.1:4711]>` becomes `<TCP:[NN]>`.
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
    let sums = stderr(&trace(&["-s", program.to_str().unwrap()]));
    assert!(sums.lines().next().is_some_and(|line| line.ends_with("  abi      call")), "{sums}");
    assert!(sums.lines().any(|line| line.ends_with("  i386     getppid")), "{sums}");
}

/// Compiles C; `None` if that fails.
fn compiled(folder: &Path, name: &str, code: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = folder.join(format!("{name}.c"));
    let program = folder.join(name);
    std::fs::write(&source, code).unwrap();
    let mut build = Command::new("cc");
    let built = build.args(["-w", "-o"]).arg(&program).arg(&source).args(flags).status();
    if !built.is_ok_and(|status| status.success()) {
        println!("skipped: {name}.c can't be compiled");
        return None;
    }
    Some(program)
}

/// A 64-bit argument takes two registers of a 32-bit call, mmap2(2) counts in pages, and clone(2)
/// has its arguments in another order.
#[test]
fn prints_the_arguments_of_32_bit_calls() {
    if !can_trace() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let code = "#include <fcntl.h>\n#include <unistd.h>\n#include <sys/wait.h>
        static long call(long n, long a, long b, long c, long d, long e, long f) {
            long r; register long last __asm__(\"r8\") = f;
            __asm__ volatile(\"push %%rbp; mov %%r8, %%rbp; int $0x80; pop %%rbp\" : \"=a\"(r), \"+r\"(last)
                : \"a\"(n), \"b\"(a), \"c\"(b), \"d\"(c), \"S\"(d), \"D\"(e) : \"memory\", \"r9\", \"r10\", \"r11\");
            return r;
        }
        static char text[] = \"abc\"; static int id;
        int main(int argc, char **argv) {
            int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
            if (call(64, 0, 0, 0, 0, 0, 0) < 0) return 1;
            call(181, fd, (long)text, 3, 2, 1, 0);
            call(324, fd, 0, 0, 1, 4096, 0);
            call(192, 0, 4096, 1, 1, fd, 1);
            call(19, fd, -1, 0, 0, 0, 0);
            if (!call(120, 0x1000011, 0, 0, 0, (long)&id, 0)) _exit(0);
            wait(0);
            return 0;
        }";
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-static", "-no-pie", "-O1", "-mno-red-zone"];
    let Some(program) = compiled(folder.path(), "compat", code, &flags) else { return };
    let file = folder.path().join("file");
    let output = trace(&[program.to_str().unwrap(), file.to_str().unwrap()]);
    if status(&output) != 0 {
        return println!("skipped: this kernel has no 32-bit system calls");
    }
    let text = stderr(&output);
    for says in [
        "pwrite64(3, \"abc\", 3, 4294967298)",
        "fallocate(3, 0, 4294967296, 4096)",
        "mmap2(NULL, 4096, PROT_READ, MAP_SHARED, 3, 0x1000)",
        "lseek(3, -1, SEEK_SET)",
        "clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD, child_tidptr=0x",
    ] {
        assert!(text.contains(says), "{says}: {text}");
    }
}

/// Calls of many kinds, most of which fail at once, have their own arguments.
#[test]
fn prints_the_arguments_of_rare_calls_as_strace_does() {
    if !can_trace() || !has_strace() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let code = "#define _GNU_SOURCE\n#include <sys/syscall.h>\n#include <unistd.h>
        #define S(n, ...) syscall(SYS_##n, __VA_ARGS__);
        int main(void) { long z[8] = {0}; char b[64]; int i;
        S(shmat, -1, 0, 010000) S(shmctl, -1, 2, 0) S(shmdt, 0) S(semget, 5, 1, 02600) S(semop, -1, 0, 0)
        S(msgsnd, -1, 0, 0, 04000) S(msgrcv, -1, 0, 0, 0, 04000) S(msgctl, -1, 2, 0) S(setns, -1, 0x20000000)
        S(open_tree, -100, \"/x\", 0x80001) S(move_mount, -1, \"a\", -100, \"b\", 4) S(fsopen, \"nofs\", 1)
        S(fsconfig, -1, 1, \"k\", \"v\", 0) S(fsmount, -1, 1, 2) S(fspick, -100, \"/x\", 1) S(bpf, 99, 0, 0)
        S(perf_event_open, 0, 0, -1, -1, 8) S(sendmmsg, -1, 0, 0, 0x4000) S(recvmmsg, -1, 0, 0, 0, 0)
        S(unshare, 0) S(sched_rr_get_interval, 0, z) S(ptrace, 0x4206, -1, 0, 0) S(mbind, 0, 0, 2, 0, 0, 0)
        S(mq_unlink, \"q\") S(ioprio_get, 9, 0) S(fanotify_mark, -1, 1, 8, -100, \"/x\") S(kcmp, 1, 1, 0, 0, 0)
        S(name_to_handle_at, -100, \"/x\", 0, 0, 0x400) S(process_vm_readv, -1, 0, 0, 0, 0, 0)
        S(preadv2, -1, 0, 0, 5, 0, 8) S(pwritev2, -1, 0, 0, 5, 0, 16) S(pkey_free, 99) S(pidfd_getfd, -1, 3, 0)
        S(process_madvise, -1, 0, 0, 20, 0) S(mount_setattr, -100, \"/x\", 0x8000, 0, 0)
        S(landlock_add_rule, -1, 1, 0, 0) S(process_mrelease, -1, 0) S(sync_file_range, -1, 1, 2, 7)
        S(readahead, -1, 4294967298, 5) S(acct, \"/x\") S(swapoff, \"/x\") S(delete_module, \"nomod\", 0x800)
        S(utimes, \"/x\", 0) S(futimesat, -100, \"/x\", 0) S(io_setup, 0, 0) S(clock_adjtime, 0, 0)
        S(prctl, 15, \"hello\", 0, 0, 0) S(prctl, 16, b, 0, 0, 0) S(prctl, 1, 15, 0, 0, 0) S(prctl, 2, &i, 0, 0, 0)
        S(prctl, 4, 1, 0, 0, 0) S(prctl, 8, 0, 0, 0, 0) S(prctl, 7, 0, 0, 0, 0) S(prctl, 23, 21, 0, 0, 0)
        S(prctl, 36, 1, 0, 0, 0) S(prctl, 37, &i, 0, 0, 0) S(prctl, 29, 60000, 0, 0, 0) S(prctl, 30, 0, 0, 0, 0)
        S(prctl, 25, &i, 0, 0, 0) S(prctl, 26, 1, 0, 0, 0) S(prctl, 41, 0, 0, 0, 0) S(prctl, 42, 0, 0, 0, 0)
        S(prctl, 47, 1, 21, 0, 0) S(prctl, 47, 4, 0, 0, 0) S(prctl, 53, 0, 2, 0, 0) S(prctl, 33, 1, 1, 0, 0)
        S(prctl, 35, 7, 0x1000, 0, 0) S(prctl, 38, 1, 0, 0, 0) S(prctl, 39, 0, 0, 0, 0) S(prctl, 9999, 1, 2, 3, 4)
        return 0; }";
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "rare", code, &[]) else { return };
    let program = program.to_str().unwrap();
    let from_first = |lines: Option<Vec<String>>| -> Vec<String> {
        let lines = lines.unwrap_or_default();
        lines.into_iter().skip_while(|line| !line.starts_with("shmat")).collect()
    };
    let tare = env!("CARGO_BIN_EXE_tare");
    let ours = from_first(lines(&[tare, "trace"], &[program]));
    let theirs = from_first(lines(&["strace", "-f", "-q"], &[program]));
    assert!(theirs.len() > 60, "{theirs:?}");
    let differ: Vec<_> = ours.iter().zip(&theirs).filter(|(ours, theirs)| ours != theirs).collect();
    // An older strace doesn't know all of these calls.
    assert!(ours.len() == theirs.len() && differ.len() <= 4, "{differ:#?}");
}

/// A thread that executes a program takes over the id of its process; a sleep that was interrupted
/// is resumed by another call.
#[test]
fn follows_a_thread_that_executes_a_program_and_a_resumed_sleep() {
    if !can_trace() {
        return;
    }
    let code = "#include <pthread.h>\n#include <unistd.h>\n#include <signal.h>\n#include <time.h>\n#include <sys/wait.h>
        static void *thread(void *none) { execl(\"/bin/true\", \"true\", (char *)0); return none; }
        int main(void) {
            pid_t child = fork();
            if (!child) { struct timespec time = {0, 600000000}; nanosleep(&time, 0); _exit(0); }
            usleep(200000); kill(child, SIGSTOP); usleep(50000); kill(child, SIGCONT); waitpid(child, 0, 0);
            pthread_t id; pthread_create(&id, 0, thread, 0); pthread_join(id, 0); return 1;
        }";
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "executes", code, &["-pthread"]) else { return };
    let program = program.to_str().unwrap();
    let text = stderr(&trace(&[program]));
    assert!(text.contains("superseded by execve in pid "), "{text}");
    assert!(text.contains("\"/bin/true\", [\"true\"]"), "{text}");
    let resumed = "restart_syscall(<... resuming interrupted clock_nanosleep ...>";
    assert!(text.contains(resumed), "{text}");
    assert_eq!(text.matches("+++ exited with 0 +++").count(), 2, "{text}");
    let output = trace(&["--json", program]);
    let text = String::from_utf8(output.stdout).unwrap();
    let objects: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let executed: Vec<_> = objects.iter().filter(|object| object["call"] == "execve").collect();
    assert_eq!(executed.len(), 2, "{executed:?}");
    assert_eq!(executed[0]["tid"], executed[1]["tid"]);
    let ends = objects.iter().filter(|object| object["end"].is_string()).count();
    assert_eq!(ends, 2, "{text}");
}

/// The kernel replaces a signal that ends the process by SIGKILL, so it never arrives.
#[test]
fn prints_the_signal_that_ends_the_process_and_numbers_of_unknown_calls() {
    if !can_trace() {
        return;
    }
    let code = "#include <signal.h>\n#include <unistd.h>\n#include <sys/syscall.h>
        int main(void) { syscall(0x3e7, 1, 2, 3, 4, 5, 6); kill(getpid(), SIGTERM); pause(); return 0; }";
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "ends", code, &[]) else { return };
    let program = program.to_str().unwrap();
    let text = stderr(&trace(&[program]));
    let says = "--- SIGTERM {si_signo=SIGTERM, si_code=SI_USER, si_pid=";
    assert_eq!(text.matches(says).count(), 1, "{text}");
    assert!(text.ends_with("} ---\n+++ killed by SIGTERM +++\n"), "{text}");
    assert!(text.contains("syscall_0x3e7(0x1, 0x2, 0x3, 0x4, 0x5, 0x6) "), "{text}");
    let output = trace(&["--json", program]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\"signal\":\"SIGTERM\",\"ignored\":false"), "{text}");
    // A signal that arrives is printed once.
    let code = "#include <signal.h>\n#include <unistd.h>\n#include <stdlib.h>
        static void none(int number) {}
        int main(void) { signal(SIGUSR1, none); kill(getpid(), SIGUSR1); abort(); }";
    let Some(program) = compiled(folder.path(), "aborts", code, &[]) else { return };
    let text = stderr(&trace(&[program.to_str().unwrap()]));
    assert_eq!(text.matches("--- SIGUSR1 ").count(), 1, "{text}");
    assert_eq!(text.matches("--- SIGABRT ").count(), 1, "{text}");
    assert!(text.contains("+++ killed by SIGABRT"), "{text}");
}

/// Tasks that end while the ring buffer is full can't state what they lost themselves.
#[test]
fn missing_records_in_the_lines_add_up_to_the_total_after_the_reader_stalled() {
    if !can_trace() {
        return;
    }
    let calls = workload("calls");
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let script = format!(
        "touch begun; until test -e go; do sleep 0.05; done; {0} 1 0 200000; touch done; until test -e end; do sleep 0.05; done; {0} 1 0 10",
        calls.display()
    );
    let mut command = tare();
    command.args(["trace", "--ring-size", "64K", "-o", "lines", "--", "sh", "-c", &script]);
    let tracer = command.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::piped());
    let tracer = tracer.spawn().unwrap();
    wait_until("the command runs", || at("begun").exists());
    crate::support::signal(&tracer, rustix::process::Signal::STOP);
    std::fs::write(at("go"), "").unwrap();
    wait_until("the program has ended", || at("done").exists());
    crate::support::signal(&tracer, rustix::process::Signal::CONT);
    std::fs::write(at("end"), "").unwrap();
    let output = tracer.wait_with_output().unwrap();
    let text = stderr(&output);
    let said = text.lines().find_map(|line| line.strip_prefix("tare: ")?.split_once(" record"));
    let said: u64 = said.map(|(number, _)| number.replace(',', "").parse().unwrap()).unwrap();
    let lines = std::fs::read_to_string(at("lines")).unwrap();
    let missing = lines.lines().filter_map(|line| {
        line.split_once("<... ")?.1.split_once(" record")?.0.parse::<u64>().ok()
    });
    assert_eq!(missing.sum::<u64>(), said, "{text}");
    assert!(said > 100_000, "{text}");
}

/// Lost records are counted in the lines where they are missing, and at the end.
#[test]
fn counts_the_records_that_a_full_ring_buffer_loses() {
    if !can_trace() {
        return;
    }
    let calls = workload("calls");
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let script = format!(
        "echo $$ >pid; mv pid begun; until test -e go; do sleep 0.05; done; exec {} 1 0 400000",
        calls.display()
    );
    let mut command = tare();
    command.args(["trace", "--ring-size", "64K", "-e", "getppid", "--", "sh", "-c", &script]);
    let tracer = command.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::piped());
    let tracer = tracer.spawn().unwrap();
    wait_until("the command runs", || at("begun").exists());
    let pid = std::fs::read_to_string(at("begun")).unwrap();
    // A reader that always gets a CPU in time would lose nothing, so it is stopped for a while.
    crate::support::signal(&tracer, rustix::process::Signal::STOP);
    std::fs::write(at("go"), "").unwrap();
    wait_until("thousands of calls were made", || has_run_for_20_ms(pid.trim()));
    crate::support::signal(&tracer, rustix::process::Signal::CONT);
    let output = tracer.wait_with_output().unwrap();
    let text = stderr(&output);
    let missing: u64 = text
        .lines()
        .filter_map(|line| line.split_once("<... ")?.1.split_once(" record")?.0.parse::<u64>().ok())
        .sum();
    let said = text.lines().find_map(|line| line.strip_prefix("tare: ")?.split_once(" record"));
    let said: u64 = said.map(|(number, _)| number.replace(',', "").parse().unwrap()).unwrap();
    let returned = text.lines().filter(|line| line.contains("getppid")).count();
    assert!(0 < missing && missing == said && returned > 100, "{missing} {said} {returned}");
}

/// Whether the workload `calls` has had a CPU for 20 ms, or has ended.
fn has_run_for_20_ms(pid: &str) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    let Some((comm, rest)) = stat.rsplit_once(')') else { return false };
    // Fields 14 and 15 of proc(5), in ticks of 10 ms.
    let ticks = rest.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    comm.ends_with("(calls") && ticks >= 2
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
