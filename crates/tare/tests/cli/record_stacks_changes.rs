//! Chains of `tare record -g` while the mappings of a program change, and where its code is in no
//! ordinary file.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::recorded::RecordingFolder;
use crate::support::{document, stderr, tare};
use crate::symbols::compile;

/// `PATH(x)` defines two functions without frame pointers; `work(x_mid, ms)` calls them for a time.
const PATHS: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define APART __attribute__((noinline, noipa))
#define PATH(N) \
    APART long N##_leaf(long n) { \
        volatile long sum = 0; \
        for (long i = 0; i < n; i++) sum += i; \
        return sum; \
    } \
    APART long N##_mid(long n) { \
        volatile char room[sizeof #N * 24]; \
        room[0] = (char)n; \
        return N##_leaf(n) + room[0]; \
    }
APART void work(long (*function)(long), int ms) {
    clock_t end = clock() + ms * (CLOCKS_PER_SEC / 1000);
    while (clock() < end) function(20000);
}
"#;

/// Compiles a program that begins with [`PATHS`]; `None` without a compiler.
fn program(folder: &Path, name: &str, text: &str, flags: &[&str]) -> Option<PathBuf> {
    let flags = [&["-O2", "-fomit-frame-pointer", "-pthread", "-w"], flags].concat();
    compile(folder, &format!("{PATHS}{text}"), name, &flags)
}

/// Records a command with whole stacks in user mode.
fn record(command: &[&str]) -> Option<RecordingFolder> {
    let place = RecordingFolder::new();
    let options = ["-e", "cpu-clock:u", "-F", "2000", "-g", "--"];
    let output = place.run(&[&options[..], command].concat());
    let said = stderr(&output);
    if said.contains("not permitted") || said.contains("perf_event_paranoid") {
        println!("skipped: can't record here: {said}");
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(place)
}

/// The functions of each sample, innermost first, with a space behind each.
fn chains(place: &RecordingFolder) -> Vec<String> {
    let script = tare().args(["script", "-F", "ip,sym", "-i"]).arg(place.file()).output().unwrap();
    let text = String::from_utf8(script.stdout).unwrap();
    let name = |line: &str| line.split_whitespace().nth(1).map(|name| format!("{name} "));
    text.split("\n\n").map(|sample| sample.lines().filter_map(name).collect()).collect()
}

/// Asserts that almost all samples in the first of these functions have the others as callers.
fn assert_callers(all: &[String], wanted: &str) {
    let leaf = wanted.split(' ').next().unwrap();
    let here: Vec<_> = all.iter().filter(|chain| chain.starts_with(&format!("{leaf} "))).collect();
    let good = here.iter().filter(|chain| chain.starts_with(&format!("{wanted} "))).count();
    let other = here.iter().find(|chain| !chain.starts_with(&format!("{wanted} ")));
    assert!(here.len() >= 10, "{} samples in {leaf} of {}", here.len(), all.len());
    assert!(good * 100 >= here.len() * 95, "{wanted}: {good} of {}: {other:?}", here.len());
}

/// Asserts that almost all chains reach the start of their thread.
fn assert_whole(place: &RecordingFolder) {
    let report = ["report", "--json", "-g", "none", "-i"];
    let document = document(&tare().args(report).arg(place.file()).output().unwrap());
    let stacks = &document["loss"]["copied_stacks"];
    let number = |name: &str| stacks[name].as_u64().unwrap();
    assert!(number("stacks") >= 10 && number("whole") * 100 >= number("stacks") * 95, "{stacks}");
}

/// Libraries take the place of others at the same address, with other functions and frames there.
#[test]
fn libraries_that_come_and_go_are_unwound_by_their_own_tables() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for name in ["one", "another"] {
        let flags = ["-shared", "-fPIC"];
        if program(folder, name, &format!("PATH({name})"), &flags).is_none() {
            return;
        }
    }
    let main = r#"
int main(int argc, char **argv) {
    for (int round = 0; round < 20; round++) {
        char path[4096], name[64];
        const char *which = round % 2 ? "one" : "another";
        snprintf(path, sizeof path, "%s/%s", argv[1], which);
        snprintf(name, sizeof name, "%s_mid", which);
        void *library = dlopen(path, RTLD_NOW);
        if (!library) return 1;
        work((long (*)(long))dlsym(library, name), 20);
        dlclose(library);
    }
    return 0;
}"#;
    let Some(main) = program(folder, "main", main, &["-ldl"]) else { return };
    let words = [main.to_str().unwrap(), folder.to_str().unwrap()];
    let Some(place) = record(&words) else { return };
    let all = chains(&place);
    assert_callers(&all, "one_leaf one_mid work main");
    assert_callers(&all, "another_leaf another_mid work main");
    assert_whole(&place);
}

/// While execve(2) replaces a program, its stack is gone, but the thread's registers are still those
/// of the call.
#[test]
fn stacks_that_execve_has_removed_are_told_from_copies_that_ended() {
    let place = RecordingFolder::new();
    let options = ["-e", "cpu-clock", "-F", "10000", "-g", "--", "sh", "-c"];
    let run =
        "for i in 1 2 3 4 5 6 7 8 9 10; do for j in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done; done";
    let output = place.run(&[&options[..], &[run]].concat());
    if !output.status.success() {
        return println!("skipped: can't record the kernel here: {}", stderr(&output));
    }
    let report = ["report", "--json", "-g", "none", "-i"];
    let document = document(&tare().args(report).arg(place.file()).output().unwrap());
    let reasons = document["loss"]["copied_stacks"]["reasons"].as_array().unwrap();
    let count = |why: &str| -> u64 {
        let same = reasons.iter().filter(|reason| reason["why"] == why);
        same.filter_map(|reason| reason["stacks"].as_u64()).sum()
    };
    let replaced = count("execve was replacing the program");
    assert!(replaced > 0 && count("the copy ended") * 4 <= replaced, "{reasons:?}");
}

/// A child without exec shares its parent's mappings, and a thread's exec replaces all of them.
#[test]
fn forks_and_the_exec_of_a_thread_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"
PATH(parent) PATH(child) PATH(thread) PATH(after)
static char **arguments;
APART void *start(void *none) {
    work(thread_mid, 50);
    execl("/proc/self/exe", arguments[0], "again", NULL);
    return none;
}
int main(int argc, char **argv) {
    if (argc > 1) {
        work(after_mid, 50);
        return 0;
    }
    arguments = argv;
    work(parent_mid, 50);
    if (fork() == 0) {
        work(child_mid, 50);
        _exit(0);
    }
    wait(NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, start, NULL);
    for (;;) pause();
}"#;
    let Some(program) = program(folder.path(), "tasks", text, &[]) else { return };
    let Some(place) = record(&[program.to_str().unwrap()]) else { return };
    let all = chains(&place);
    assert_callers(&all, "parent_leaf parent_mid work main");
    assert_callers(&all, "child_leaf child_mid work main");
    assert_callers(&all, "thread_leaf thread_mid work start");
    assert_callers(&all, "after_leaf after_mid work main");
    assert_whole(&place);
}

/// The file of running code is deleted, and a process lives for a few milliseconds.
#[test]
fn deleted_programs_and_short_processes_have_whole_chains() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"
PATH(deleted) PATH(brief)
int main(int argc, char **argv) {
    if (argc > 1) {
        work(brief_mid, 4);
        return 0;
    }
    unlink("/proc/self/exe");
    unlink(argv[0]);
    work(deleted_mid, 200);
    return 0;
}"#;
    let Some(program) = program(folder.path(), "gone", text, &[]) else { return };
    let path = program.to_str().unwrap();
    let line = format!("i=0; while [ $i -lt 30 ]; do i=$((i+1)); {path} brief; done; {path}");
    let Some(place) = record(&["sh", "-c", &line]) else { return };
    assert!(!program.exists());
    assert_whole(&place);
}

/// A program in another mount namespace, at a path where the recorder has no file. It runs longer
/// than the rings wait to be read: its file is read while it runs.
#[test]
fn programs_of_containers_are_read_below_their_root() {
    let folder = tempfile::tempdir().unwrap();
    let text = "PATH(inside) int main(void) { work(inside_mid, 1500); return 0; }";
    let Some(program) = program(folder.path(), "inside", text, &[]) else { return };
    let root = folder.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let can = Command::new("unshare").args(["--mount", "true"]).status();
    if !can.is_ok_and(|status| status.success()) {
        return println!("skipped: mount namespaces need more rights");
    }
    let [root, program] = [&root, &program].map(|path| path.to_str().unwrap());
    let line = format!("mount --bind $(dirname {program}) {root} && {root}/inside");
    let Some(place) = record(&["unshare", "--mount", "sh", "-c", &line]) else { return };
    assert!(!Path::new(root).join("inside").exists());
    assert_whole(&place);
}

/// Code that is in no file, with a perf map, between functions of a program: kernel, compiled and
/// generated frames are in order.
#[test]
fn generated_code_joins_its_callers_and_callees() {
    if !cfg!(target_arch = "x86_64") {
        return println!("skipped: the program writes code for x86-64");
    }
    let folder = tempfile::tempdir().unwrap();
    let text = r#"
PATH(native)
APART long reads(long n) {
    static char room[1 << 16];
    int file = fileno(fopen("/dev/zero", "r"));
    long sum = 0;
    for (int i = 0; i < 20; i++) sum += read(file, room, sizeof room);
    close(file);
    return sum;
}
typedef long (*Generated)(long (*)(long), long);
int main(void) {
    /* push %rbp; mov %rsp,%rbp; mov %rdi,%rax; mov %rsi,%rdi; call *%rax; pop %rbp; ret */
    static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0xff, 0xd0, 0x5d, 0xc3};
    char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(memory, code, sizeof code);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(path, "w");
    fprintf(map, "%lx %zx generated\n", (unsigned long)memory, sizeof code);
    fclose(map);
    clock_t end = clock() + CLOCKS_PER_SEC / 5;
    while (clock() < end) {
        ((Generated)memory)(native_mid, 20000);
        ((Generated)memory)(reads, 1);
    }
    printf("%s\n", path);
    return 0;
}"#;
    let Some(program) = program(folder.path(), "generates", text, &[]) else { return };
    let place = RecordingFolder::new();
    let options = ["-e", "cpu-clock", "-F", "2000", "-g", "--"];
    let output = place.run(&[&options[..], &[program.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let all = chains(&place);
    let map = String::from_utf8(output.stdout).unwrap();
    std::fs::remove_file(map.trim()).unwrap();
    assert_callers(&all, "native_leaf native_mid generated main");
    // The kernel's frames come before those of the program.
    let of_read: Vec<_> = all.iter().filter(|chain| chain.contains(" reads ")).collect();
    let is_ordered = |chain: &&&String| {
        let at = |name: &str| chain.split(' ').position(|other| other.starts_with(name));
        at("reads") < at("generated") && at("generated") < at("main") && at("main").is_some()
    };
    let ordered = of_read.iter().filter(is_ordered).count();
    assert!(of_read.len() >= 10 && ordered * 100 >= of_read.len() * 95, "{of_read:?}");
    let has_kernel = |chain: &&&String| chain.contains("do_syscall_64 ");
    assert!(of_read.iter().filter(has_kernel).count() >= 5, "{of_read:?}");
}
