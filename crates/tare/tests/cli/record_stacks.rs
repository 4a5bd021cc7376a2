//! Compares recorded and unwound stacks with programs whose call chain is known at each sample
//! (`workloads/known`).

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::recorded::RecordingFolder;
use crate::support::{document, is_root, stderr, tare};
use crate::symbols::compile;
use crate::trace::can_trace;

/// The number of stacks that equal one of the program's chains, and of all stacks. By frame pointers,
/// chains needn't reach the start of their thread: the C library keeps none.
fn judged(program: &Path, place: &RecordingFolder, how: &str) -> (u64, u64, String) {
    let output = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", stderr(&output));
        output.stdout
    };
    let chains = place.folder.path().join("chains");
    let script = place.folder.path().join("script");
    std::fs::write(&chains, output(Command::new(program).arg("--chains"))).unwrap();
    let fields = ["script", "--no-inline", "-F", "ip,sym,dso", "-i"];
    std::fs::write(&script, output(tare().args(fields).arg(place.file()))).unwrap();
    let judge = program.with_file_name("known-chains.awk");
    let words = [Path::new("-f"), &judge, &chains, &script];
    let ends = if how == "fp" { "ends=0" } else { "ends=1" };
    let text = output(Command::new("awk").args(["-v", "show=3", "-v", ends]).args(words));
    let text = String::from_utf8_lossy(&text).into_owned();
    let last = text.lines().last().unwrap();
    let (good, all) = last.split_once(' ').unwrap();
    (good.parse().unwrap(), all.parse().unwrap(), text)
}

/// Records a program, to which it passes one argument, in user mode.
fn known(program: &Path, seconds: &str, options: &[&str]) -> RecordingFolder {
    let place = RecordingFolder::new();
    let begin = ["-e", "cpu-clock:u", "-F", "4000"];
    let command = [program.to_str().unwrap(), seconds];
    let output = place.run(&[&begin[..], options, &["--"], &command].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    place
}

/// A compiled program of `workloads/known`; `None` without a compiler for it.
fn program(name: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("workloads");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/known/build.sh");
    let built = Command::new(script).arg(&folder).status().expect("bash is there");
    assert!(built.success(), "{script} failed");
    let path = folder.join(name);
    if !path.exists() {
        println!("skipped: {name} has no compiler here");
    }
    path.exists().then_some(path)
}

/// Depths of 1 to 60, with up to 64 KiB of stack, on two threads, through a signal handler, a stub, a tail call, C++
/// exceptions, Rust's panics and goroutines; linked statically, for 32 bits, with musl, with tables
/// for debuggers alone and with none, and in assembly. (`./x bench unwind` has more samples and a narrower
/// bound.)
#[test]
fn chains_are_exactly_those_of_the_program() {
    if !cfg!(target_arch = "x86_64") {
        return println!("skipped: the programs' bounds are those of x86-64");
    }
    for (name, how) in [
        ("known", "auto"),
        ("known-large", "auto"),
        ("known-short", "auto"),
        ("known-fp", "auto"),
        ("throws", "auto"),
        ("known-rust", "auto"),
        ("known-go", "auto"),
        ("known-static", "auto"),
        ("known-static-pie", "auto"),
        ("known-musl", "auto"),
        ("known-32", "auto"),
        ("known-debug-frame", "auto"),
        ("known-no-tables", "auto"),
        ("known-assembly", "auto"),
        ("known", "dwarf,16384"),
        ("known-fp", "fp"),
        ("throws", "dwarf"),
        ("known-rust", "dwarf"),
        ("known-go", "dwarf"),
    ] {
        let Some(program) = program(name) else { continue };
        // A busy machine leaves it few samples, of which two may be of its start. Deep stacks aren't copied
        // before the program for them is loaded, some 20 ms later.
        let shortest = if name == "known-large" { "4" } else { "0.4" };
        for seconds in [shortest, "4", "20"] {
            let place = known(&program, seconds, &["--call-graph", how]);
            let (good, all, others) = judged(&program, &place, how);
            println!("{name} by {how}: {good} of {all}");
            if all < 100 && seconds != "20" {
                continue;
            }
            assert!(all >= 100 && (good + 2) * 100 >= all * 98, "{name} by {how}: {others}");
            break;
        }
    }
}

/// The recorder unwinds: the file holds call chains, which perf prints too, and no copies.
#[test]
fn a_recording_that_is_unwound_at_once_holds_chains_and_no_copies() {
    let Some(program) = program("known") else { return };
    let place = known(&program, "0.4", &["--call-graph", "auto"]);
    let run = |args: &[&str]| tare().args(args).arg("-i").arg(place.file()).output().unwrap();
    let events = String::from_utf8(run(&["evlist", "-v"]).stdout).unwrap();
    assert!(events.contains("CALLCHAIN") && !events.contains("STACK_USER"), "{events}");
    assert!(!events.contains("REGS_USER") && !events.contains("mmap_data"), "{events}");
    let document = document(&run(&["report", "--json"]));
    let stacks = &document["loss"]["copied_stacks"];
    let number = |name: &str| stacks[name].as_u64().unwrap();
    assert!(number("stacks") >= 100 && number("whole") * 100 >= number("stacks") * 98, "{stacks}");
    assert_eq!(document["loss"]["frame_pointers"], serde_json::Value::Null, "{document}");
    let bytes = std::fs::metadata(place.file()).unwrap().len();
    assert!(bytes < 1000 * number("stacks"), "{bytes} bytes of {stacks}");
    let Some(lines) = crate::recorded::perf_script(&["-F", "ip"], &place.file()) else { return };
    let addresses = |lines: &mut dyn Iterator<Item = &str>| -> Vec<u64> {
        let hex = |line: &str| u64::from_str_radix(line.trim().trim_start_matches("0x"), 16);
        lines.filter_map(|line| hex(line).ok()).collect()
    };
    let script = String::from_utf8(run(&["script", "-F", "ip"]).stdout).unwrap();
    let ours = addresses(&mut script.lines());
    assert!(ours.len() > 1000);
    assert_eq!(ours, addresses(&mut lines.iter().map(String::as_str)));
}

/// Records a shell's commands, and returns the number of whole stacks, and of all.
fn whole_stacks(commands: &[&str]) -> (u64, u64) {
    let place = RecordingFolder::new();
    let begin = ["-e", "cpu-clock:u", "-F", "4000", "-g", "--"];
    let output = place.run(&[&begin[..], commands].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let report = tare().args(["report", "--json", "-i"]).arg(place.file()).output().unwrap();
    let document = document(&report);
    let stacks = &document["loss"]["copied_stacks"];
    let number = |name: &str| stacks[name].as_u64().unwrap();
    println!("{commands:?}: {stacks}");
    (number("whole"), number("stacks"))
}

/// A program that is copied while the recorder runs has a younger time than the recording.
#[test]
fn programs_that_are_made_during_the_recording_are_unwound() {
    let Some(program) = program("known") else { return };
    let folder = tempfile::tempdir().unwrap();
    let new = folder.path().join("new");
    let run = format!("cp {} {1} && exec {1} 0.4", program.display(), new.display());
    let (whole, all) = whole_stacks(&["sh", "-c", &run]);
    assert!(all >= 20 && whole * 100 >= all * 90, "{whole} of {all}");
}

/// The program is at a path that only its own mount namespace has, as in a container.
#[test]
fn programs_of_another_mount_namespace_are_unwound() {
    let Some(program) = program("known") else { return };
    let can_unshare = Command::new("unshare").args(["-m", "true"]).output();
    if !can_unshare.is_ok_and(|output| output.status.success()) {
        return println!("skipped: needs root, and unshare");
    }
    let folder = tempfile::tempdir().unwrap();
    let run = format!(
        "mount -t tmpfs none {0} && cp {1} {0}/new && exec {0}/new 0.4",
        folder.path().display(),
        program.display()
    );
    let (whole, all) = whole_stacks(&["unshare", "-m", "sh", "-c", &run]);
    assert!(all >= 20 && whole * 100 >= all * 90, "{whole} of {all}");
}

/// perf asks addr2line for inlined functions where it unwinds copies, which takes minutes.
#[test]
fn perf_report_starts_no_addr2line_for_a_recording_that_is_unwound_at_once() {
    use std::os::unix::fs::PermissionsExt;
    let Some(program) = program("known") else { return };
    let place = known(&program, "0.2", &["--call-graph", "auto"]);
    let folder = place.folder.path();
    let [marker, fake] = ["started", "addr2line"].map(|name| folder.join(name));
    std::fs::write(&fake, format!("#!/bin/sh\ntouch {}\n", marker.display())).unwrap();
    std::fs::set_permissions(&fake, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut perf = Command::new("perf");
    perf.args(["report", "--stdio", "-g", "caller", "-i"]).arg(place.file()).env("PATH", path);
    match perf.output() {
        Err(error) => println!("skipped: perf can't be run: {error}"),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains("work") && text.contains("main"), "{text} {}", stderr(&output));
            assert!(!marker.exists(), "addr2line was started");
        }
    }
}

/// If the copy is too small, frame pointers supply the rest, and the report names the size that
/// would do.
#[test]
fn frame_pointers_mend_what_a_small_copy_lacks() {
    let Some(program) = program("known-fp") else { return };
    let shares = |options: &[&str]| {
        let place = known(&program, "0.3", options);
        let (good, all, _) = judged(&program, &place, "fp");
        let said = tare().args(["script", "-i"]).arg(place.file()).output().unwrap();
        (good as f64 / all as f64, stderr(&said))
    };
    let (alone, said) = shares(&["--call-graph", "dwarf,512"]);
    assert!(alone < 0.6, "{alone}");
    assert!(said.contains("the copy ended"), "{said}");
    let size = said.split("--call-graph dwarf,").nth(1).expect("a size that would do");
    let size = size.split(' ').next().unwrap();
    let (whole, _) = shares(&["--call-graph", &format!("dwarf,{size}")]);
    assert!(whole > 0.98, "{size} bytes: {whole}");
    let (spliced, said) = shares(&["--call-graph", "dwarf+fp,512"]);
    assert!(spliced > 0.9, "{spliced}");
    assert!(said.contains("continued by frame pointers"), "{said}");
}

/// The output doesn't depend on the number of CPUs that tare may use.
#[test]
fn one_cpu_unwinds_as_several() {
    let Some(program) = program("known") else { return };
    let place = known(&program, "0.3", &["--call-graph", "dwarf"]);
    let printed = |cpus: &str| {
        let mut command = Command::new("taskset");
        command.args(["-c", cpus, env!("CARGO_BIN_EXE_tare"), "script", "-i"]);
        let output = command.arg(place.file()).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        output
    };
    let all = std::thread::available_parallelism().unwrap().get();
    let one = printed("0");
    let several = printed(&format!("0-{}", all - 1));
    assert!(one.stdout == several.stdout && one.stderr == several.stderr);
    assert!(one.stdout.len() > 10_000);
}

/// A report names the files without frame pointers if call chains depend on them.
#[test]
fn chains_that_miss_callers_are_named() {
    if !cfg!(target_arch = "x86_64") {
        return println!("skipped: code for other processors keeps frame pointers anyway");
    }
    let said = |name: &str| {
        let place = known(&program(name)?, "0.3", &["--call-graph", "fp"]);
        let output = tare().args(["report", "-i"]).arg(place.file()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().find(|line| line.contains("user call chains")).map(str::to_owned)
    };
    let line = said("known").expect("a line that says so");
    assert!(line.contains(" known ") && line.contains("record with -g"), "{line}");
    assert_eq!(said("known-fp"), None);
}

/// An assembly leaf function without unwind tables or a return instruction, and a recursion of
/// `kilobytes`.
const ASSEMBLY_AND_DEPTH: &str = r#"
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
__asm__(".text\n.globl bare\n.type bare, @function\nbare: push %rbx\n1: dec %rdi\njnz 1b\npop %rbx\npop %rcx\njmp *%rcx\n.size bare, .-bare\n");
#else
__asm__(".text\n.globl bare\n.type bare, %function\nbare: 1: subs x0, x0, #1\nb.ne 1b\nret\n.size bare, .-bare\n");
#endif
void bare(unsigned long);
__attribute__((noinline)) long deep(long kilobytes) {
    volatile char room[1000];
    memset((char *)room, kilobytes, sizeof room);
    if (kilobytes > 0) return deep(kilobytes - 1) + room[5];
    for (volatile long i = 0; i < 100000000; i++) {}
    return 1;
}
int main(int argc, char **argv) {
    long kilobytes = atol(argv[1]);
    if (kilobytes == 0) bare(400000000);
    else deep(kilobytes);
    return 0;
}
"#;

/// The report's text and JSON about copied stacks.
fn said_of_copies(program: &Path, kilobytes: &str, how: &str) -> (String, serde_json::Value) {
    let place = known(program, kilobytes, &["--call-graph", how]);
    let read = |args: &[&str]| {
        let output = tare().args(args).arg("-i").arg(place.file()).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        output
    };
    let text = String::from_utf8(read(&["report", "--stdio"]).stdout).unwrap();
    let line = text.lines().find(|line| line.contains("copied user stacks")).unwrap_or_default();
    let document = document(&read(&["report", "--json"]));
    let copied = document["loss"]["copied_stacks"].clone();
    let script = stderr(&read(&["script"]));
    assert!(line.is_empty() || script.contains(line.trim_start_matches("# ")), "{script}");
    (line.to_owned(), copied)
}

/// Code without unwind tables ends a stack, and the report names the file.
#[test]
fn assembly_without_call_frames_truncates_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let compiled = compile(folder.path(), ASSEMBLY_AND_DEPTH, "bare", &[]);
    let Some(program) = compiled else { return };
    let (line, copied) = said_of_copies(&program, "0", "dwarf");
    assert!(line.contains("code without call frames in a file that has them, most in"), "{line}");
    assert!(line.contains("/bare") && !line.contains("--call-graph"), "{line}");
    let number = |name: &str| copied[name].as_u64().unwrap();
    assert!(number("truncated") * 10 > number("stacks") * 9, "{copied}");
    assert_eq!((&copied["sufficient"], number("stacks") > 100), (&serde_json::Value::Null, true));
    let reason = &copied["reasons"][0];
    assert!(reason["dso"].as_str().unwrap().ends_with("/bare"), "{copied}");
}

/// The report names a size that would have held the stacks, or states that the kernel can't copy as
/// much.
#[test]
fn the_size_that_would_have_sufficed_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let compiled = compile(folder.path(), ASSEMBLY_AND_DEPTH, "deep", &[]);
    let Some(program) = compiled else { return };
    let (line, copied) = said_of_copies(&program, "20", "dwarf");
    let bytes = copied["sufficient"]["bytes"].as_u64().expect("a size");
    assert!((20_000..40_000).contains(&bytes), "{line}");
    assert!(line.contains(&format!("--call-graph dwarf,{bytes} would have held")), "{line}");
    let (line, copied) = said_of_copies(&program, "20", &format!("dwarf,{bytes}"));
    let number = |name: &str| copied[name].as_u64().unwrap();
    assert!(number("whole") * 100 >= number("stacks") * 98, "{line}");
    // The stack grows beyond its initial mapping.
    let (line, copied) = said_of_copies(&program, "900", "dwarf");
    assert!(line.contains("is the largest copy: dwarf+fp"), "{line}");
    assert_eq!(copied["sufficient"]["bytes"], 65_528, "{copied}");
}

#[test]
fn members_of_a_group_are_read_with_copied_stacks() {
    let place = RecordingFolder::new();
    let busy = "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done";
    let options = ["-e", "{cpu-clock,page-faults}:S", "--call-graph", "dwarf"];
    let output = place.run(&[&options[..], &["--", "sh", "-c", busy]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let fields = ["script", "-G", "-F", "event,period,ip,sym", "-i"];
    let lines = tare().args(fields).arg(place.file()).output().unwrap();
    let text = String::from_utf8_lossy(&lines.stdout).into_owned();
    // Only the leader samples, with a call chain, and each sample has the counts of both.
    assert!(text.contains("cpu-clock"), "{text} {}", stderr(&lines));
    assert!(text.contains("page-faults"), "{text} {}", stderr(&lines));
}

/// Runs for a second of CPU time below as many frames of 1 KiB as its first argument states, on
/// a second thread, or with a second argument on the first.
const DEEP: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#define FUNCTION __attribute__((noinline)) void
FUNCTION spin(void) {
    while (clock() < CLOCKS_PER_SEC)
        for (volatile int i = 0; i < 100000; i++) { }
}
FUNCTION descend(int depth) {
    volatile char locals[1000];
    locals[0] = locals[999] = depth;
    if (depth > 1) descend(depth - 1);
    else spin();
    __asm__ volatile("" : : "r"(locals[0]));
}
static void *run(void *depth) { descend(atoi(depth)); return 0; }
int main(int count, char **words) {
    pthread_t thread;
    if (count > 2) return run(words[1]) != 0;
    pthread_create(&thread, 0, run, words[1]);
    pthread_join(thread, 0);
    return 0;
}
"#;

/// Runs or waits, as its third argument states, below as many frames as its first argument states,
/// each with an array that it never writes to; on a second thread, or on the first.
const HOLES: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#define FUNCTION __attribute__((noinline)) void
static const char *how;
FUNCTION spin(void) {
    struct timespec pause = {0, 2000000};
    if (!strcmp(how, "wait")) {
        for (int i = 0; i < 200; i++) nanosleep(&pause, 0);
        return;
    }
    while (clock() < CLOCKS_PER_SEC)
        for (volatile int i = 0; i < 100000; i++) { }
}
FUNCTION descend(int depth) {
    char locals[UNTOUCHED];
    __asm__ volatile("" : : "r"(locals) : "memory");
    if (depth > 1) descend(depth - 1);
    else spin();
    __asm__ volatile("" : : "r"(locals) : "memory");
}
static void *run(void *depth) { descend(atoi(depth)); return 0; }
int main(int count, char **words) {
    pthread_t thread;
    how = words[3];
    if (count < 4) return 1;
    if (!strcmp(words[2], "first")) return run(words[1]) != 0;
    pthread_create(&thread, 0, run, words[1]);
    pthread_join(thread, 0);
    return 0;
}
"#;

/// Compiles the program with arrays of `untouched` bytes.
fn compile_holes(folder: &Path, untouched: &str) -> Option<PathBuf> {
    let size = format!("-DUNTOUCHED={untouched}");
    let flags = ["-O2", "-fomit-frame-pointer", "-fno-stack-clash-protection", "-pthread", &size];
    compile(folder, HOLES, &format!("holes-{untouched}"), &flags)
}

/// Pages of arrays that a program never wrote to are in no memory. They end the kernel's copy of a
/// stack, and chains go on behind them.
#[test]
fn arrays_that_were_never_written_to_do_not_end_chains() {
    let folder = tempfile::tempdir().unwrap();
    for (untouched, depth, thread) in [
        ("20000", "3", "second"),
        ("20000", "1", "second"),
        ("20000", "3", "first"),
        ("150000", "5", "second"),
    ] {
        let Some(program) = compile_holes(folder.path(), untouched) else { return };
        let place = RecordingFolder::new();
        let said = record_deep(&program, &[depth, thread, "run"], &place);
        let report = tare().args(["report", "--json", "-i"]).arg(place.file()).output().unwrap();
        let unwound = &document(&report)["ledger"]["unwound"];
        if unwound["copied_bytes"] == 0 {
            return println!("skipped: {}", unwound["copies_lack"]);
        }
        let chains = chains_of_spin(&place.file());
        assert!(chains.len() >= 5, "{untouched}: {chains:?}");
        let depth: usize = depth.parse().unwrap();
        let is_exact = |chain: &&SpinChain| {
            let starts = ["start", "clone"].iter().any(|name| chain.start.contains(name));
            chain.descends == depth && starts
        };
        let exact = chains.iter().filter(is_exact).count();
        assert!(exact * 10 >= chains.len() * 9, "{untouched}: {exact} of {chains:?}: {said}");
    }
}

/// The same of stacks that are copied when a thread leaves its CPU.
#[test]
fn arrays_that_were_never_written_to_do_not_end_the_chains_of_waits() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile_holes(folder.path(), "20000") else { return };
    for thread in ["first", "second"] {
        let place = RecordingFolder::new();
        let options = ["-e", "cpu-clock:u", "-F", "49", "-g", "--off-cpu", "--"];
        let command = [program.to_str().unwrap(), "2", thread, "wait"];
        let output = place.run(&[&options[..], &command].concat());
        if stderr(&output).contains("BPF programs are not allowed") {
            return println!("skipped: {}", stderr(&output));
        }
        assert!(output.status.success(), "{}", stderr(&output));
        let report = tare().args(["report", "--json", "-i"]).arg(place.file()).output().unwrap();
        let off_cpu = &document(&report)["ledger"]["unwound"]["off_cpu"];
        let ns = |name: &str| off_cpu[name].as_u64().unwrap();
        // 400 ms; the first waits may precede the program.
        assert!(ns("ns") >= 300_000_000, "{off_cpu}");
        assert!(ns("whole_ns") * 100 >= ns("ns") * 95, "{thread}: {off_cpu}");
    }
}

/// A chain from `spin`.
#[derive(Debug)]
struct SpinChain {
    /// Number of frames of `descend`.
    descends: usize,
    /// The outermost function.
    start: String,
}

/// Returns the chains of the second half: the program that copies deep stacks is loaded in the first.
fn chains_of_spin(file: &Path) -> Vec<SpinChain> {
    let time = "--time=50%-100%";
    let words = ["script", "--max-stack=9000", time, "-F", "ip,sym", "-i"];
    let script = tare().args(words).arg(file).output().unwrap();
    let text = String::from_utf8_lossy(&script.stdout).into_owned();
    let chains = text.split("\n\n").filter(|chain| chain.contains(" spin\n"));
    let chain = |chain: &str| {
        let mut names = chain.lines().filter_map(|line| line.split_whitespace().nth(1));
        SpinChain {
            descends: names.clone().filter(|name| *name == "descend").count(),
            start: names.next_back().unwrap_or_default().to_owned(),
        }
    };
    chains.map(chain).collect()
}

/// Records the program at a rate at which copies of 1 MiB have room, even if the recorder waits for
/// a CPU. Returns the file, and the recorder's line about call chains.
fn record_deep(program: &Path, words: &[&str], place: &RecordingFolder) -> String {
    let options = ["-e", "cpu-clock:u", "-F", "49", "-g", "--", program.to_str().unwrap()];
    let output = place.run(&[&options[..], words].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let report = ["report", "--stdio", "-g", "none", "-i"];
    let output = tare().args(report).arg(place.file()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find(|line| line.contains("chains are complete")).unwrap_or_default().to_owned()
}

#[test]
fn stacks_of_up_to_1_mib_are_whole_and_deeper_ones_are_truncated_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-O2", "-fomit-frame-pointer", "-pthread"];
    let Some(program) = compile(folder.path(), DEEP, "deep", &flags) else { return };
    for (words, start) in [
        (&["200"][..], "start"),
        (&["200", "first"], "_start"),
        (&["900"], "start"),
        (&["900", "first"], "_start"),
        (&["3000"], ""),
    ] {
        let place = RecordingFolder::new();
        let said = record_deep(&program, words, &place);
        let report = tare().args(["report", "--json", "-i"]).arg(place.file()).output().unwrap();
        let unwound = &document(&report)["ledger"]["unwound"];
        if unwound["copied_bytes"] == 0 {
            return println!("skipped: {}", unwound["copies_lack"]);
        }
        assert_eq!(unwound["copies_lack"], serde_json::Value::Null);
        // Their time is part of the overhead.
        let copies_ns = unwound["copies_ns"].as_f64().unwrap();
        let samples_ns = &document(&report)["ledger"]["sampling"]["samples_ns"]["value"];
        assert!(unwound["copies"].as_u64().unwrap() >= 10 && copies_ns > 0.0, "{unwound}");
        assert!(samples_ns.as_f64().unwrap() > copies_ns, "{samples_ns} {unwound}");
        let chains = chains_of_spin(&place.file());
        assert!(chains.len() >= 5, "{words:?}: {chains:?}");
        let export = ["export", "--format", "folded", "-o", "-", "-i"];
        let folded = tare().args(export).arg(place.file()).output().unwrap().stdout;
        let marked = String::from_utf8_lossy(&folded).matches(";[truncated];").count();
        // A sample or two may precede the loading of the program.
        let has_marks = if start.is_empty() { marked > 0 } else { marked <= 2 };
        assert!(has_marks, "{words:?}: {marked} chains: {said}");
        if start.is_empty() {
            assert!(chains.iter().all(|chain| (900..1100).contains(&chain.descends)), "{chains:?}");
            assert!(said.contains("the copy ended"), "{said}");
            assert!(said.contains(" MiB, of which up to 1.0 MiB are copied"), "{said}");
            continue;
        }
        let depth: usize = words[0].parse().unwrap();
        let is_exact = |chain: &&SpinChain| {
            let starts = chain.start.contains(start) || chain.start.contains("clone");
            chain.descends == depth && starts
        };
        let exact = chains.iter().filter(is_exact).count();
        assert!(exact * 10 >= chains.len() * 9, "{words:?}: {exact} of {chains:?}: {said}");
    }
}

/// The program for deep stacks is loaded while events count, by a thread that a filter excludes.
#[test]
fn loading_the_program_for_deep_stacks_is_not_recorded() {
    if !is_root() || !can_trace() {
        return;
    }
    let place = RecordingFolder::new();
    let events = ["-a", "-F", "49", "-g", "-e", "cpu-clock", "-e", "syscalls:sys_enter_bpf"];
    let output = place.run(&[&events[..], &["--", "sleep", "1"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let report = tare().args(["report", "--json", "-i"]).arg(place.file()).output().unwrap();
    let ledger = &document(&report)["ledger"];
    let own: Vec<String> =
        ledger["recorder"]["tids"].as_array().unwrap().iter().map(ToString::to_string).collect();
    if ledger["unwound"]["copies_lack"] != serde_json::Value::Null {
        return println!("skipped: {}", ledger["unwound"]["copies_lack"]);
    }
    let script =
        tare().args(["script", "-F", "tid,event", "-i"]).arg(place.file()).output().unwrap();
    let text = String::from_utf8_lossy(&script.stdout).into_owned();
    let mut calls = text.lines().filter(|line| line.contains("sys_enter_bpf"));
    let of_recorder =
        |line: &&str| line.split_whitespace().any(|word| own.iter().any(|tid| tid == word));
    assert_eq!(calls.find(of_recorder), None, "{own:?}");
}

/// Without rights, chains end with the copy in the sample, and the report names the remedy.
#[test]
fn deep_stacks_are_truncated_without_rights_and_the_report_names_them() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-O2", "-fomit-frame-pointer", "-pthread"];
    let Some(program) = compile(folder.path(), DEEP, "deep", &flags) else { return };
    if !is_root() {
        return println!("skipped: the test gives up root's rights");
    }
    let file = folder.path().join("perf.data");
    let everyone = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), everyone).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_tare")]);
    command.args(["record", "-e", "cpu-clock:u", "-F", "49", "-g", "-o"]).arg(&file);
    let output = match command.arg("--").arg(&program).arg("900").output() {
        Ok(output) if output.status.success() => output,
        why => return println!("skipped: {why:?}"),
    };
    let report = ["report", "--stdio", "-g", "none", "-i"];
    let text = tare().args(report).arg(&file).output().unwrap();
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    let remedy =
        ": as root, or with CAP_BPF and CAP_PERFMON, tare copies up to 1.0 MiB of each stack";
    assert!(text.contains("; the deepest of them has 9"), "{text} {}", stderr(&output));
    assert!(text.contains(remedy), "{text}");
}
