//! Code from just-in-time compilers: perf maps and jitdumps of a test program and of the installed
//! runtimes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{ProcessGuard, is_root, stderr, tare};

/// Runs one piece of code for a second, or for twice the milliseconds of the second argument. A
/// jitdump gives it one name for the first half of that time, and another for the second half.
const REPLACES: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <fcntl.h>
#include <time.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__x86_64__)
static const unsigned char code[] = {0x48,0x89,0xf8,0x48,0xff,0xc8,0x75,0xfb,0xc3};
#else
static const unsigned code[] = {0xf1000400,0x54ffffe1,0xd65f03c0};
#endif
static uint64_t ns(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}
static void load(int dump, char *at, uint64_t index, const char *name) {
    struct { uint32_t id, size; uint64_t time; uint32_t pid, tid; uint64_t vma, addr, bytes, index; } r =
        { 0, 56 + strlen(name) + 1 + sizeof code, ns(CLOCK_MONOTONIC), getpid(), getpid(),
          (uint64_t)at, (uint64_t)at, sizeof code, index };
    write(dump, &r, sizeof r); write(dump, name, strlen(name) + 1); write(dump, code, sizeof code);
}
static void lines(int dump, char *at) {
    struct { uint32_t id, size; uint64_t time, addr, entries, at; uint32_t line, column; char file[8]; } r =
        { 2, 56, 0, (uint64_t)at, 1, (uint64_t)at, 42, 7, "made.js" };
    write(dump, &r, sizeof r);
}
int main(int argc, char **argv) {
    char path[4096];
    snprintf(path, sizeof path, "%s/jit-%d.dump", argv[1], (int)getpid());
    int dump = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    struct { uint32_t magic, version, size, machine, pad, pid; uint64_t time, flags; } h =
        { 0x4a695444, 1, 40, 62, 0, getpid(), ns(CLOCK_MONOTONIC), 0 };
    write(dump, &h, sizeof h);
    mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, dump, 0);
    char *at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(at, code, sizeof code);
    mprotect(at, 4096, PROT_READ | PROT_EXEC);
    __builtin___clear_cache(at, at + 4096);
    const char *names[] = { "compiled_first", "compiled_later" };
    uint64_t half = argc > 2 ? atol(argv[2]) * 1000000ull : 500000000;
    for (int i = 0; i < 2; i++) {
        if (i) lines(dump, at);
        load(dump, at, i, names[i]);
        for (uint64_t end = ns(CLOCK_MONOTONIC) + half; ns(CLOCK_MONOTONIC) < end;)
            ((void (*)(unsigned long))at)(2000000);
    }
    return 0;
}
"#;

/// Writes a perf map for its code, makes it as old as the second argument says, in seconds, prints
/// its path, and runs the code.
const STALE_MAP: &str = r#"
#include <stdlib.h>
#include <sys/stat.h>
int main(int argc, char **argv) {
    char *at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(at, code, sizeof code);
    mprotect(at, 4096, PROT_READ | PROT_EXEC);
    __builtin___clear_cache(at, at + 4096);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "w");
    fprintf(map, "%lx 100 from_the_map\n", (long)at);
    fclose(map);
    struct timespec times[2];
    clock_gettime(CLOCK_REALTIME, times);
    times[0].tv_sec -= atoi(argv[2]);
    times[1] = times[0];
    utimensat(AT_FDCWD, path, times, 0);
    puts(path);
    for (uint64_t end = ns(CLOCK_MONOTONIC) + 700000000; ns(CLOCK_MONOTONIC) < end;)
        ((void (*)(unsigned long))at)(2000000);
    return 0;
}
"#;

fn compile(folder: &Path) -> PathBuf {
    compile_text(folder, "replaces", REPLACES)
}

fn compile_text(folder: &Path, name: &str, program: &str) -> PathBuf {
    let text = folder.join(format!("{name}.c"));
    let binary = folder.join(name);
    std::fs::write(&text, program).unwrap();
    let built = Command::new("cc").args(["-O1", "-w", "-o"]).arg(&binary).arg(&text).status();
    assert!(built.unwrap().success(), "a machine without a C compiler can't build tare either");
    binary
}

/// Records a command at 999 Hz, and returns its stdout.
fn record(file: &Path, options: &[&str], command: &mut Command) -> Option<String> {
    let mut record = tare();
    record.args(["record", "-e", "cpu-clock:u", "-F", "999", "-o"]).arg(file).args(options);
    record.arg("--").arg(command.get_program()).args(command.get_args());
    record.current_dir(file.parent().unwrap()).stdin(Stdio::null());
    let output = record.output().unwrap();
    if !output.status.success() {
        println!("skipped: can't record here: {}", stderr(&output));
        return None;
    }
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn show(arguments: &[&str], file: &Path) -> String {
    let mut show = tare();
    let output = show.args(arguments).arg("-i").arg(file).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The functions of the samples in time order.
fn in_time(file: &Path) -> Vec<String> {
    let text = show(&["script", "-F", "ip,sym"], file);
    text.lines().filter_map(|line| Some(line.trim().split_once(' ')?.1.to_owned())).collect()
}

fn report(file: &Path) -> String {
    show(&["report", "--no-children", "-g", "none"], file)
}

/// The sum of the shares on a report's lines that contain a text, in percent.
fn share(report: &str, symbol: &str) -> f64 {
    let shares = report.lines().filter(|line| line.contains(symbol) && !line.starts_with('#'));
    let percent = |line: &str| line.trim().split('%').next().unwrap().parse::<f64>();
    shares.filter_map(|line| percent(line).ok()).sum()
}

/// Records with the default clock, with the dump's clock by name, with one that is decades ahead,
/// and as root also the whole machine.
#[test]
fn code_that_was_replaced_has_the_name_of_each_samples_time() {
    let folder = tempfile::tempdir().unwrap();
    let binary = compile(folder.path());
    let clocks: [&[&str]; 4] = [&[], &["-k", "mono"], &["-k", "CLOCK_REALTIME"], &["-a"]];
    for options in clocks.iter().filter(|options| **options != ["-a"] || is_root()) {
        let file = folder.path().join("perf.data");
        if record(&file, options, Command::new(&binary).arg(folder.path())).is_none() {
            return;
        }
        let names = in_time(&file);
        let compiled: Vec<_> = names.iter().filter(|name| name.starts_with("compiled_")).collect();
        let first = compiled.iter().filter(|name| **name == "compiled_first").count();
        let later = compiled.len() - first;
        assert!(first > 20 && later > 20, "{options:?}: {first} and {later}");
        let is_mixed = compiled.iter().skip(first).any(|name| *name == "compiled_first");
        assert!(!is_mixed, "{options:?}: a name of another time");
        assert!(!report(&file).contains("no common clock"), "{options:?}");
    }
}

/// The program's clock is ahead by a day. A reader needs the difference, which the recorder notes.
#[test]
fn code_of_a_time_namespace_has_the_name_of_each_samples_time() {
    let folder = tempfile::tempdir().unwrap();
    let binary = compile(folder.path());
    let file = folder.path().join("perf.data");
    let mut unshare = Command::new("unshare");
    unshare.args(["-T", "--monotonic", "86400"]);
    let is_possible = unshare.arg("true").output().is_ok_and(|output| output.status.success());
    if !is_possible {
        return println!("skipped: can't make a time namespace");
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["-T", "--monotonic", "86400"]).arg(&binary).arg(folder.path());
    if record(&file, &[], &mut unshare).is_none() {
        return;
    }
    let names = in_time(&file);
    let compiled: Vec<_> = names.iter().filter(|name| name.starts_with("compiled_")).collect();
    let first = compiled.iter().filter(|name| **name == "compiled_first").count();
    assert!(first > 20 && compiled.len() - first > 20, "{first} of {}", compiled.len());
    assert!(!compiled.iter().skip(first).any(|name| *name == "compiled_first"), "another time");
}

/// A process with the id of an earlier one, whose map is still there.
#[test]
fn a_perf_map_older_than_its_process_names_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let text = REPLACES.replace("int main(", "int replaces(") + STALE_MAP;
    let binary = compile_text(folder.path(), "stale", &text);
    let file = folder.path().join("perf.data");
    for (age, is_believed) in [("0", true), ("1000", false)] {
        let mut command = Command::new(&binary);
        command.arg(folder.path()).arg(age);
        let Some(map) = record(&file, &["--keep-binaries"], &mut command) else { return };
        let report = report(&file);
        std::fs::remove_file(map.trim()).unwrap();
        assert_eq!(share(&report, "from_the_map") > 50.0, is_believed, "{report}");
        let says = report.contains("the perf map is older than its process");
        assert_eq!(says, !is_believed, "{report}");
    }
}

/// A perf recording uses CLOCK_MONOTONIC only on request.
#[test]
fn without_a_common_clock_the_last_name_is_shown_and_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let binary = compile(folder.path());
    let file = folder.path().join("perf.data");
    for (options, is_known) in [(&["-q"][..], false), (&["-q", "-k", "mono"], true)] {
        let mut perf = Command::new("perf");
        perf.args(["record", "-e", "cpu-clock:u", "-o"]).arg(&file).args(options).arg("--");
        let recorded = perf.arg(&binary).arg(folder.path()).output();
        if !recorded.is_ok_and(|output| output.status.success()) {
            return println!("skipped: no perf that can record");
        }
        let report = report(&file);
        assert_eq!(report.contains("compiled_first"), is_known, "{report}");
        assert!(report.contains("compiled_later"), "{report}");
        assert_eq!(!report.contains("no common clock"), is_known, "{report}");
    }
}

/// tare ignores another user's files, except those of the recorded process's user.
#[test]
fn dumps_of_the_processs_user_are_believed() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let binary = compile(folder.path());
    let file = folder.path().join("perf.data");
    let mut command = as_another_user(&binary, folder.path());
    if record(&file, &[], &mut command).is_none() {
        return println!("skipped: no setpriv");
    }
    assert!(share(&report(&file), "compiled_") > 50.0, "{}", report(&file));
    let dump = find_dump(folder.path()).unwrap();
    std::os::unix::fs::chown(dump, Some(65533), None).unwrap();
    let report = report(&file);
    assert!(!report.contains("compiled_"), "another user's");
    assert!(report.contains("the perf map or jitdump is not trusted"), "{report}");
}

/// Returns the program as another user's command that writes its dump to the folder.
fn as_another_user(program: &Path, folder: &Path) -> Command {
    let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder, everyone).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.arg(program).arg(folder);
    command
}

/// Returns the first jitdump in a folder.
fn find_dump(folder: &Path) -> Option<PathBuf> {
    let mut dumps = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    dumps.find(|path| path.extension().is_some_and(|end| end == "dump"))
}

/// The recorder describes the mapping of the dump, without a time, so the reader opens the dump as
/// soon as it reads that. It must know the process's user by then.
#[test]
fn dumps_mapped_before_the_recording_are_believed() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let binary = compile(folder.path());
    let file = folder.path().join("perf.data");
    let mut command = as_another_user(&binary, folder.path());
    let command = command.arg("600000").stdin(Stdio::null());
    let Ok(is_there) = Command::new("setpriv").arg("--version").output() else {
        return println!("skipped: no setpriv");
    };
    assert!(is_there.status.success());
    let process = ProcessGuard::spawn(command);
    let end = Instant::now() + Duration::from_secs(60);
    let has_code =
        || find_dump(folder.path()).is_some_and(|dump| dump.metadata().unwrap().len() > 100);
    while !has_code() {
        assert!(Instant::now() < end, "the process writes its dump");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = process.id().to_string();
    if record(&file, &["-p", &pid], Command::new("sleep").arg("1")).is_none() {
        return;
    }
    let report = report(&file);
    assert!(share(&report, "compiled_first") > 50.0, "{report}");
}

#[test]
fn kept_dumps_outlive_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let binary = compile(folder.path());
    let file = folder.path().join("perf.data");
    let kept = folder.path().join("kept").display().to_string();
    let options = format!("--keep-binaries={kept}");
    if record(&file, &[&options], Command::new(&binary).arg(folder.path())).is_none() {
        return;
    }
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "dump") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let gone = report(&file);
    assert!(!gone.contains("compiled_"), "{gone}");
    assert!(gone.contains("the jitdump of compiled code is gone"), "{gone}");
    assert!(
        gone.contains(
            "would have a function name: tare record --keep-binaries (the recorded build of /"
        ),
        "{gone}"
    );
    let report = show(&["report", "--no-children", "-g", "none", "--buildid-dir", &kept], &file);
    assert!(share(&report, "compiled_first") > 10.0, "{report}");
    assert!(share(&report, "compiled_later") > 10.0, "{report}");
}

/// A program for a runtime, in its own folder.
struct Program {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Program {
    fn new(name: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        Self { folder, path }
    }

    fn report(&self, runtime: &Path, options: &[&str], recorded: &[&str]) -> Option<String> {
        self.report_with(&["--no-children"], runtime, options, recorded)
    }

    /// Records a runtime executing it and returns the report.
    fn report_with(
        &self,
        reported: &[&str],
        runtime: &Path,
        options: &[&str],
        recorded: &[&str],
    ) -> Option<String> {
        let file = self.folder.path().join("perf.data");
        let mut command = Command::new(runtime);
        let said = record(&file, recorded, command.args(options).arg(&self.path))?;
        let report = show(&[&["report", "-g", "none"], reported].concat(), &file);
        // The programs print their pid, and the runtimes leave their maps in /tmp.
        if let Some(pid) = said.lines().next().and_then(|line| line.parse::<u32>().ok()) {
            let _ = std::fs::remove_file(format!("/tmp/perf-{pid}.map"));
            let _ = std::fs::remove_file(format!("/tmp/jit-{pid}.dump"));
        }
        Some(report)
    }
}

/// The first program that accepts an option.
fn runtime(programs: &[&str], test: &[&str]) -> Option<PathBuf> {
    runtimes(programs.iter().map(PathBuf::from), test).into_iter().next()
}

/// The programs that accept an option.
fn runtimes(programs: impl Iterator<Item = PathBuf>, test: &[&str]) -> Vec<PathBuf> {
    let programs: Vec<_> = programs.collect();
    let works = |program: &&PathBuf| {
        let mut command = Command::new(program);
        command.args(test).stdin(Stdio::null()).output().is_ok_and(|out| out.status.success())
    };
    let found: Vec<_> = programs.iter().filter(works).cloned().collect();
    if found.is_empty() {
        println!("skipped: none of {programs:?} is here and does '{}'", test.join(" "));
    }
    found
}

/// The program in each installed version's folder.
fn versions(folder: &Path, program: &str) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let real = folders.filter_map(|folder| folder.path().canonicalize().ok());
    let real: std::collections::BTreeSet<_> = real.collect();
    let programs = real.into_iter().map(|folder| folder.join("bin").join(program));
    programs.filter(|program| program.exists()).collect()
}

// Measure CPU time: on a busy machine a second may pass during the runtime's start.
const JAVASCRIPT: &str = "
function hot_javascript(n) { let s = 0; for (let i = 0; i < n; i++) { s = (s * 31 + i) % 1000003; } return s; }
const used = () => { const cpu = process.cpuUsage(); return cpu.user + cpu.system; };
const end = used() + 1000000; let x = 0;
while (used() < end) x += hot_javascript(2000000);
console.log(process.pid);
";

#[test]
fn node_names_its_code_in_perf_maps_and_jitdumps() {
    let Some(node) = runtime(&["node"], &["--version"]) else { return };
    for option in ["--perf-basic-prof", "--perf-prof"] {
        let program = Program::new("hot.js", JAVASCRIPT);
        let Some(report) = program.report(&node, &[option], &[]) else { return };
        assert!(share(&report, "hot_javascript") > 30.0, "{option}: {report}");
    }
    let program = Program::new("hot.js", JAVASCRIPT);
    let Some(report) = program.report(&node, &[], &[]) else { return };
    assert!(!report.contains("hot_javascript"), "{report}");
    assert!(report.contains("Node.js wrote no perf map: node --perf-basic-prof"), "{report}");
}

const JAVA: &str = r#"
public class Hot {
    static final boolean RUNS_NO_JCMD = false;
    static long hotJava(int n) { long s = 0; for (int i = 0; i < n; i++) s = (s * 31 + i) % 1000003; return s; }
    public static void main(String[] a) throws Exception {
        String pid = Long.toString(ProcessHandle.current().pid());
        System.out.println(pid);
        var threads = java.lang.management.ManagementFactory.getThreadMXBean();
        long end = threads.getCurrentThreadCpuTime() + 1500000000L, x = 0;
        while (threads.getCurrentThreadCpuTime() < end) x += hotJava(2000000);
        if (x == 1) System.out.println(x);
        if (RUNS_NO_JCMD) return;
        String jcmd = System.getProperty("java.home") + "/bin/jcmd";
        new ProcessBuilder(jcmd, pid, "Compiler.perfmap").redirectErrorStream(true).start().waitFor();
    }
}
"#;

/// Runs with each JVM in `/usr/lib/jvm` that has `jcmd`.
#[test]
fn a_jvm_names_its_code_when_jcmd_asks_it_to_or_at_its_end() {
    let installed = versions(Path::new("/usr/lib/jvm"), "java");
    let has_jcmd = |java: &PathBuf| java.with_file_name("jcmd").exists();
    let installed: Vec<_> = installed.into_iter().filter(has_jcmd).collect();
    for java in runtimes(installed.into_iter(), &["-version"]) {
        let program = Program::new("Hot.java", JAVA);
        let Some(report) = program.report(&java, &["-XX:+PreserveFramePointer"], &[]) else {
            return;
        };
        // The loop may be inlined into its caller.
        let compiled = share(&report, "Hot.hotJava") + share(&report, "Hot.main");
        assert!(compiled > 5.0, "{java:?}: {report}");
        let gone =
            Program::new("Hot.java", &JAVA.replace("RUNS_NO_JCMD = false", "RUNS_NO_JCMD = true"));
        let flags = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit"];
        let Some(report) = gone.report(&java, &flags, &[]) else { return };
        let compiled = share(&report, "Hot.hotJava") + share(&report, "Hot.main");
        assert!(compiled > 5.0, "{java:?} {flags:?}: {report}");
    }
}

const PYTHON: &str = "
import os, sys, time
def hot_python(n):
    s = 0
    for i in range(n): s = (s * 31 + i) % 1000003
    return s
def middle_python(n):
    return hot_python(n)
def outer_python(n):
    return sum(map(middle_python, [n] * 3))
print(os.getpid(), flush=True)
end = time.process_time() + 1
while time.process_time() < end: outer_python(5000)
";

/// The interpreter runs each function in its own trampoline, so call chains contain the names in
/// the right order, also if the interpreter has no frame pointers.
#[test]
fn python_names_its_functions_with_the_perf_trampoline() {
    let home = std::env::var_os("HOME").unwrap_or_default();
    let programs = ["python3", "python3.14", "python3.13", "python3.12"].map(PathBuf::from);
    let pyenv = versions(&Path::new(&home).join(".pyenv/versions"), "python3");
    let test = ["-c", "import sys; sys.activate_stack_trampoline"];
    for python in runtimes(programs.into_iter().chain(pyenv), &test) {
        let program = Program::new("hot.py", PYTHON);
        for how in ["dwarf,32768", "auto"] {
            let options = ["--call-graph", how];
            let reported = ["--children"];
            let Some(report) = program.report_with(&reported, &python, &["-X", "perf"], &options)
            else {
                return;
            };
            for function in ["hot_python", "middle_python", "outer_python", "<module>"] {
                let name = format!("py::{function}");
                assert!(share(&report, &name) > 30.0, "{python:?} by {how}: {name}: {report}");
            }
        }
    }
}

const WASM: &str = r#"
import os, time, wasmtime
config = wasmtime.Config()
config.profiler = "jitdump"
store = wasmtime.Store(wasmtime.Engine(config))
module = wasmtime.Module(store.engine, '''(module (func $hot_wasm (export "hot") (param i32) (result i32) (local i32)
  (loop $again
    (local.set 1 (i32.add (i32.mul (local.get 1) (i32.const 31)) (local.get 0)))
    (local.set 0 (i32.sub (local.get 0) (i32.const 1)))
    (br_if $again (local.get 0)))
  (local.get 1)))''')
hot = wasmtime.Instance(store, module, []).exports(store)["hot"]
end = time.process_time() + 1
while time.process_time() < end: hot(store, 1000000)
print(os.getpid())
"#;

#[test]
fn wasmtime_names_its_code_in_a_jitdump() {
    // `./x test` installs it there.
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/wasmtime/bin/python3");
    let Some(python) = runtime(&[kept, "python3"], &["-c", "import wasmtime"]) else { return };
    let program = Program::new("hot_wasm.py", WASM);
    let Some(report) = program.report(&python, &[], &[]) else { return };
    assert!(share(&report, "hot_wasm") > 30.0, "{report}");
}
