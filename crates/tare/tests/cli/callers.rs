//! Names of callers in call chains: calls that don't return, signal handlers, compiled code in
//! files, text on huge pages, and Go that calls C; and chains that lack their outermost callers.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{ProcessGuard, stderr, tare};
use crate::symbols::compile;

/// `event_loop` and `run_server` end in calls that don't return, so a return address lies in the
/// next function.
const NEVER_RETURNS: &str = r"
#include <stdlib.h>
volatile unsigned long sink;
__attribute__((noinline)) void spin(unsigned long n) {
    for (unsigned long i = 0; i < n; i++) sink += i;
}
__attribute__((noinline, noreturn)) void event_loop(void) {
    for (int i = 0; i < 4; i++) spin(60000000);
    _Exit(0);
}
__attribute__((noinline, noreturn)) void run_server(void) { sink++; event_loop(); }
__attribute__((noinline)) void never_called(void) { sink--; sink--; }
int main(int argc, char **argv) { if (argc > 5) never_called(); run_server(); }
";

/// A signal handler interrupts `raises` and takes all the time.
const HANDLER: &str = r"
#include <signal.h>
volatile unsigned long sink;
__attribute__((noinline)) void spin(void) { for (long i = 0; i < 150000000; i++) sink += i; }
__attribute__((noinline)) void handler(int number) { spin(); sink++; }
__attribute__((noinline)) void raises(void) { raise(SIGUSR1); sink++; }
int main(void) { signal(SIGUSR1, handler); raises(); return 0; }
";

/// Runs three functions in the mapping of a file, and names them in a perf map. The first argument
/// is the kind of file: `memfd`, `unlinked`, or anything else for a file that stays.
const COMPILED_INTO_FILE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
/* push rbp; mov rbp, rsp; mov rcx, rdi; 1: dec rcx; jnz 1b; pop rbp; ret */
static unsigned char code[] = {0x55,0x48,0x89,0xe5,0x48,0x89,0xf9,0x48,0xff,0xc9,0x75,0xfb,0x5d,0xc3};
int main(int argc, char **argv) {
    const char *kind = argv[1], *map = argv[2];
    int fd = strcmp(kind, "memfd") ? open("Some.dll", O_RDWR | O_CREAT, 0600) : memfd_create("x", 0);
    if (!strcmp(kind, "unlinked")) unlink("Some.dll");
    ftruncate(fd, 8192);
    pwrite(fd, "MZ", 2, 0);
    for (int i = 0; i < 3; i++) pwrite(fd, code, sizeof code, 4096 + i * 256);
    char *at = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 4096);
    char name[64];
    sprintf(name, "/tmp/perf-%d.map", getpid());
    FILE *out = fopen(name, "w");
    for (int i = 0; i < 3; i++) fprintf(out, "%lx 40 Managed::Method%d\n", (long)(at + i * 256), i);
    fclose(out);
    symlink(name, map);
    for (int r = 0; r < 3; r++)
        for (int i = 0; i < 3; i++) ((void (*)(long))(at + i * 256))(60000000);
    return 0;
}
"#;

/// Replaces the pages of a hot function by a copy in memory, as programs do that move their text to
/// huge pages, and runs it there. The first argument is the kind of memory, `anon` or `memfd`.
/// With a second one, the program writes a line and waits for one before it runs the function.
const MOVES_ITS_TEXT: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
volatile unsigned long sink;
static unsigned long parts;
__attribute__((noinline)) void caller(void (*function)(void)) { function(); sink++; }
__attribute__((noinline, aligned(65536))) void moved(void) {
    for (unsigned long p = 0; p < parts; p++)
        for (unsigned long i = 0; i < 40000000; i++) sink += i;
}
__attribute__((noinline, aligned(65536))) void follows(void) { sink--; }
static char copy[65536];
int main(int argc, char **argv) {
    char *text = (char *)moved;
    memcpy(copy, text, sizeof copy);
    if (!strcmp(argv[1], "memfd")) {
        int fd = memfd_create("text", 0);
        write(fd, copy, sizeof copy);
        mmap(text, sizeof copy, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0);
    } else {
        int flags = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS;
        mmap(text, sizeof copy, PROT_READ | PROT_WRITE, flags, -1, 0);
        memcpy(text, copy, sizeof copy);
        mprotect(text, sizeof copy, PROT_READ | PROT_EXEC);
    }
    parts = argc > 2 ? 1000000 : 8;
    if (argc > 2) { puts("moved"); fflush(stdout); }
    caller(moved);
    if (argc > 9) follows();
    return 0;
}
"#;

/// Nests 1,000 calls, and then runs.
const RECURSES: &str = r"
volatile unsigned long sink;
__attribute__((noinline)) void recurse(int depth) {
    if (depth) { recurse(depth - 1); sink++; return; }
    for (long i = 0; i < 200000000; i++) sink += i;
}
int main(void) { recurse(1000); return 0; }
";

/// musl's memcpy(3) has neither unwind tables nor a frame pointer.
const COPIES: &str = r"
#include <stdlib.h>
#include <string.h>
volatile unsigned long sink;
__attribute__((noinline)) void copier(char *to, char *from, int bytes) {
    for (int i = 0; i < 2500; i++) { memcpy(to, from, bytes); sink += to[i]; }
}
int main(void) {
    char *to = malloc(1 << 20), *from = malloc(1 << 20);
    memset(from, 1, 1 << 20);
    copier(to, from, 1 << 20);
    return 0;
}
";

/// Spends its time in a function, and in a system call.
const IN_32_BITS: &str = r#"
#include <fcntl.h>
#include <unistd.h>
volatile unsigned long sink;
static char bytes[1 << 20];
__attribute__((noinline)) void spin(void) { for (long i = 0; i < 100000000; i++) sink += i; }
__attribute__((noinline)) void reads(int file) {
    for (int i = 0; i < 4000; i++) sink += read(file, bytes, sizeof bytes);
}
__attribute__((noinline)) void outer(int file) { spin(); reads(file); sink++; }
int main(void) { outer(open("/dev/zero", O_RDONLY)); return 0; }
"#;

const GO_CALLS_C: &str = r#"
package main

/*
#include <stdint.h>
static volatile uint64_t sink;
__attribute__((noinline)) static void c_leaf(uint64_t n) { for (uint64_t i = 0; i < n; i++) sink += i; }
__attribute__((noinline)) static void c_entry(uint64_t n) { c_leaf(n); sink++; }
*/
import "C"

//go:noinline
func goCaller(n int) {
	for i := 0; i < n; i++ {
		C.c_entry(20000000)
	}
}

func main() { goCaller(15) }
"#;

/// Records a program with these call chains; `None` if that isn't possible here.
fn record(folder: &Path, call_graph: &str, command: &[&str]) -> Option<PathBuf> {
    let file = folder.join("perf.data");
    let mut tare = tare();
    tare.args(["record", "-q", "-e", "cpu-clock:u", "--call-graph", call_graph, "-o"]);
    tare.arg(&file).args((command[0] != "-p").then_some("--")).args(command);
    let output = tare.current_dir(folder).output().unwrap();
    if !output.status.success() {
        println!("skipped: can't record here: {}", stderr(&output));
        return None;
    }
    Some(file)
}

/// Folded stacks with their numbers of samples.
fn folded(file: &Path) -> Vec<(String, u64)> {
    let output = tare().args(["export", "-f", "folded", "-i"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let parts = text.lines().map(|line| line.rsplit_once(' ').unwrap());
    parts.map(|(stack, weight)| (stack.to_owned(), weight.parse().unwrap())).collect()
}

/// The share of samples whose stack contains a text, in percent.
fn share(stacks: &[(String, u64)], part: &str) -> u64 {
    let all: u64 = stacks.iter().map(|(_, weight)| weight).sum();
    let matching = stacks.iter().filter(|(stack, _)| stack.contains(part));
    matching.map(|(_, weight)| weight).sum::<u64>() * 100 / all.max(1)
}

/// Each function keeps a frame pointer: optimization would remove those of functions without calls.
const FRAME_POINTERS: [&str; 2] = ["-O0", "-fno-omit-frame-pointer"];

#[test]
fn a_caller_that_ends_in_a_call_has_its_own_name() {
    let folder = tempfile::tempdir().unwrap();
    let own = ["-falign-functions=1", "-fno-toplevel-reorder"];
    let flags = [&FRAME_POINTERS[..], &own].concat();
    for (call_graph, debug) in [("fp", &[][..]), ("dwarf", &[]), ("fp", &["-g"])] {
        let flags = [&flags[..], debug].concat();
        let Some(program) = compile(folder.path(), NEVER_RETURNS, "server", &flags) else { return };
        let Some(file) = record(folder.path(), call_graph, &[program.to_str().unwrap()]) else {
            return;
        };
        let stacks = folded(&file);
        let wanted = share(&stacks, "main;run_server;event_loop;spin");
        assert!(wanted > 90 && share(&stacks, "never_called") == 0, "{call_graph}: {stacks:?}");
        let script = tare().args(["script", "-F", "ip,sym", "-i"]).arg(&file).output().unwrap();
        let script = String::from_utf8(script.stdout).unwrap();
        assert!(script.contains(" run_server\n") && !script.contains("never_called"), "{script}");
    }
}

/// A handler returns to the first byte of `__restore_rt`, which didn't call it.
#[test]
fn the_code_that_ends_a_signal_handler_has_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let flags = [&FRAME_POINTERS[..], &["-static"]].concat();
    let Some(program) = compile(folder.path(), HANDLER, "handler", &flags) else { return };
    for call_graph in ["fp", "dwarf"] {
        let Some(file) = record(folder.path(), call_graph, &[program.to_str().unwrap()]) else {
            return;
        };
        let stacks = folded(&file);
        assert!(share(&stacks, ";__restore_rt;handler;spin") > 90, "{call_graph}: {stacks:?}");
    }
}

/// .NET compiles into a memory file that it maps twice, and maps libraries that aren't ELF files.
#[test]
fn a_perf_map_names_code_in_files_that_are_no_elf_files() {
    if !cfg!(target_arch = "x86_64") {
        return println!("skipped: the program's code is for x86-64");
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), COMPILED_INTO_FILE, "into", &FRAME_POINTERS) else {
        return;
    };
    let program = program.to_str().unwrap();
    for kind in ["memfd", "unlinked", "dll"] {
        for call_graph in ["fp", "dwarf"] {
            let map = folder.path().join(format!("{kind}-{call_graph}"));
            let command = [program, kind, map.to_str().unwrap()];
            let Some(file) = record(folder.path(), call_graph, &command) else { return };
            let stacks = folded(&file);
            std::fs::remove_file(std::fs::read_link(&map).unwrap()).unwrap();
            let named = share(&stacks, ";main;Managed::Method");
            assert!(named > 80, "{kind} {call_graph}: {stacks:?}");
        }
    }
}

/// The text moves while it is recorded, or had moved before.
#[test]
fn text_on_huge_pages_has_the_names_of_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let flags = [&FRAME_POINTERS[..], &["-fno-toplevel-reorder"]].concat();
    let Some(program) = compile(folder.path(), MOVES_ITS_TEXT, "moves", &flags) else { return };
    let program = program.to_str().unwrap();
    for memory in ["anon", "memfd"] {
        let mut runs = Command::new(program);
        let mut runs = ProcessGuard::spawn(runs.args([memory, "waits"]).stdout(Stdio::piped()));
        let mut line = String::new();
        BufReader::new(runs.take_stdout()).read_line(&mut line).unwrap();
        let pid = runs.id().to_string();
        for call_graph in ["fp", "dwarf"] {
            let commands: [&[&str]; 2] = [&[program, memory], &["-p", &pid, "sleep", "0.5"]];
            for command in commands {
                let Some(file) = record(folder.path(), call_graph, command) else { return };
                let stacks = folded(&file);
                let named = share(&stacks, ";main;caller;moved");
                assert!(named > 80, "{command:?} {call_graph}: {stacks:?}");
            }
        }
    }
}

/// The kernel records 127 frames, and a small copy of the stack holds about as many.
#[test]
fn chains_that_lack_their_outermost_callers_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), RECURSES, "recurses", &FRAME_POINTERS) else {
        return;
    };
    let limit = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_stack").unwrap();
    let limit = limit.trim();
    if limit.parse::<usize>().unwrap() > 1000 {
        return println!("skipped: the kernel records {limit} frames here");
    }
    for call_graph in ["fp", "dwarf,4096"] {
        let Some(file) = record(folder.path(), call_graph, &[program.to_str().unwrap()]) else {
            return;
        };
        let stacks = folded(&file);
        assert!(share(&stacks, "recurses;[truncated];recurse;") > 90, "{call_graph}: {stacks:?}");
        let output = |arguments: &[&str]| {
            let output = tare().args(arguments).arg("-i").arg(&file).output().unwrap();
            assert!(output.status.success(), "{}", stderr(&output));
            String::from_utf8(output.stdout).unwrap()
        };
        let page = folder.path().join("page.svg");
        output(&["flame", "-o", page.to_str().unwrap()]);
        assert!(std::fs::read_to_string(page).unwrap().contains("[truncated]"), "{call_graph}");
        let report = output(&["report", "--no-children"]);
        assert!(report.contains(" truncated"), "{call_graph}: {report}");
        if call_graph == "fp" {
            let says = format!("truncated: the kernel recorded their innermost {limit} frames");
            assert!(report.contains(&says), "{report}");
            let json = output(&["report", "--json", "--no-children"]);
            let json: serde_json::Value = serde_json::from_str(&json).unwrap();
            let chains = &json["loss"]["truncated_chains"];
            assert_eq!(chains["max_frames"].to_string(), limit, "{chains}");
        }
    }
    // A chain of fewer frames is whole.
    let Some(program) = compile(folder.path(), NEVER_RETURNS, "whole", &FRAME_POINTERS) else {
        return;
    };
    let Some(file) = record(folder.path(), "fp", &[program.to_str().unwrap()]) else { return };
    assert_eq!(share(&folded(&file), "[truncated]"), 0);
}

#[test]
fn a_function_without_tables_and_frame_pointer_has_its_caller() {
    if !cfg!(target_arch = "x86_64") {
        return println!("skipped: the caller is found by instructions of x86-64");
    }
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("copies.c");
    std::fs::write(&text, COPIES).unwrap();
    for flags in [&["-static"][..], &[]] {
        let program = folder.path().join("copies");
        let mut musl = Command::new("musl-gcc");
        let built = musl.args(["-O2", "-o"]).arg(&program).arg(&text).args(flags).status();
        if !built.is_ok_and(|status| status.success()) {
            return println!("skipped: no musl-gcc");
        }
        let Some(file) = record(folder.path(), "dwarf", &[program.to_str().unwrap()]) else {
            return;
        };
        let stacks = folded(&file);
        assert!(share(&stacks, "main;copier;memcpy") > 80, "{flags:?}: {stacks:?}");
    }
}

/// Compiles a 32-bit program without frame pointers; `None` if that isn't possible here.
fn compile_32_bits(folder: &Path, flags: &[&str]) -> Option<PathBuf> {
    let text = folder.join("narrow.c");
    let program = folder.join("narrow");
    std::fs::write(&text, IN_32_BITS).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-m32", "-O1", "-fomit-frame-pointer", "-o"]).arg(&program).arg(&text).args(flags);
    let built = cc.output().is_ok_and(|output| output.status.success());
    if !built {
        println!("skipped: the compiler makes no 32-bit programs");
    }
    built.then_some(program)
}

#[test]
fn copied_stacks_of_32_bit_programs_are_unwound() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile_32_bits(folder.path(), &[]) else { return };
    let file = folder.path().join("perf.data");
    let mut command = tare();
    command.args(["record", "-q", "-e", "cpu-clock", "--call-graph", "dwarf", "-o"]).arg(&file);
    let output = command.arg("--").arg(program).output().unwrap();
    if !output.status.success() {
        return println!("skipped: can't record here: {}", stderr(&output));
    }
    let stacks = folded(&file);
    assert!(share(&stacks, "main;outer;") > 90, "{stacks:?}");
    assert!(share(&stacks, "main;outer;spin") > 5, "{stacks:?}");
    assert!(share(&stacks, "main;outer;reads;") > 5, "{stacks:?}");
}

#[test]
fn functions_of_a_stripped_32_bit_program_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile_32_bits(folder.path(), &["-s"]) else { return };
    let Some(file) = record(folder.path(), "dwarf", &[program.to_str().unwrap()]) else { return };
    let stacks = folded(&file);
    let spin = |stack: &str| stack.rsplit(';').next().unwrap().starts_with("fun_");
    let rows = stacks.iter().filter(|(stack, _)| spin(stack)).count();
    assert!(share(&stacks, ";fun_") > 90 && rows <= 4, "{stacks:?}");
}

/// Go runs C on another stack: its caller's frame isn't in the copy, and words of data follow.
#[test]
fn stacks_of_go_that_calls_c_have_no_frames_in_data() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("main.go"), GO_CALLS_C).unwrap();
    std::fs::write(folder.path().join("go.mod"), "module calls\ngo 1.21\n").unwrap();
    let mut go = Command::new("go");
    let go = go.args(["build", "-o", "calls", "."]).current_dir(folder.path());
    if !go.status().is_ok_and(|status| status.success()) {
        return println!("skipped: no Go compiler");
    }
    for call_graph in ["dwarf", "dwarf+fp"] {
        let program = folder.path().join("calls");
        let Some(file) = record(folder.path(), call_graph, &[program.to_str().unwrap()]) else {
            return;
        };
        let stacks = folded(&file);
        assert_eq!(share(&stacks, "[anon]"), 0, "{call_graph}: {stacks:?}");
        let wanted = if call_graph == "dwarf" { "runtime.asmcgocall" } else { ";main.goCaller;" };
        assert!(share(&stacks, wanted) > 90, "{call_graph}: {stacks:?}");
    }
}
