//! `tare trace --probe`, `--kprobe` and `--usdt`: calls of functions of real programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::{
    ProcessGuard, Unprivileged, is_root, status, stderr, tare, wait_until, workload,
};
use crate::symbols::{compile, compile_with};

fn trace(args: &[&str]) -> Output {
    tare().arg("trace").args(args).output().unwrap()
}

/// Whether functions can be probed here; if not, prints why the test is skipped.
fn can_probe() -> bool {
    if !Path::new("/sys/bus/event_source/devices/uprobe").exists() {
        println!("skipped: this kernel has no uprobes by perf events");
        return false;
    }
    crate::trace::can_trace()
}

/// A copy of a workload, on which other tests have no probes.
fn own_copy(folder: &tempfile::TempDir, name: &str) -> PathBuf {
    let copy = folder.path().join(name);
    std::fs::copy(workload(name), &copy).unwrap();
    copy
}

/// Whether the kernel's lists of probes name the program.
fn has_probes(program: &str) -> bool {
    ["kprobe_events", "uprobe_events"].iter().any(|name| {
        std::fs::read_to_string(format!("/sys/kernel/tracing/{name}"))
            .is_ok_and(|probes| probes.contains(program))
    })
}

/// Returns the JSON that tare writes to a file, and the other output of tare and its command. The
/// workloads are linked statically, so tare times their calls on request only.
fn json_and_output(args: &[&str]) -> (String, Output) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("calls.json");
    let returns: &[&str] = if args.contains(&"--probe") { &["--probe-returns"] } else { &[] };
    let output = trace(&[&["--json", "-o", file.to_str().unwrap()], returns, args].concat());
    assert_eq!(status(&output), 0, "{output:?}");
    (std::fs::read_to_string(file).unwrap(), output)
}

fn summary(args: &[&str]) -> (Value, Output) {
    let (text, output) = json_and_output(args);
    (serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")), output)
}

fn ns(probe: &Value, name: &str) -> f64 {
    probe[name].as_f64().unwrap_or_else(|| panic!("{name}: {probe}"))
}

/// Whether a value is within this many percent of the expected one.
fn near(percent: f64, wanted: f64, got: f64) -> bool {
    (got / wanted - 1.0).abs() * 100.0 <= percent
}

#[test]
fn measures_the_durations_that_the_program_measures() {
    if !can_probe() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let latency = own_copy(&folder, "latency");
    let program = latency.to_str().unwrap();
    let probe = format!("{program}:work");
    let (document, output) = summary(&["--probe", &probe, "--", program, "60"]);
    let mut own: Vec<f64> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    own.sort_by(f64::total_cmp);
    let seen = &document["probes"][0];
    assert_eq!((&seen["calls"], &seen["returned"]), (&Value::from(60), &Value::from(60)));
    assert!(near(5.0, own.iter().sum::<f64>(), ns(seen, "total_ns")), "{seen}");
    assert!(near(5.0, own[59], ns(seen, "max_ns")), "{own:?} {seen}");
    // The median lies between the two durations in the middle; each occurs three times.
    let p50 = ns(seen, "p50_ns");
    assert!(own[29] * 0.95 <= p50 && p50 <= own[30] * 1.05, "{own:?} {p50}");
    let p99 = ns(seen, "p99_ns");
    assert!(own[58] * 0.95 <= p99 && p99 <= own[59] * 1.05, "{own:?} {p99}");
    assert_eq!(document["missing_records"], 0);
    assert!(ns(&document, "probe_ns_per_call") > 0.0);
    assert!(!has_probes(program));
}

#[test]
fn prints_arguments_and_callers_of_the_slowest_calls() {
    if !can_probe() {
        return;
    }
    let latency = workload("latency");
    let program = latency.to_str().unwrap();
    let probe = format!("{program}:work ms=$arg1:s32 name=+0($arg2):string back=$retval:s32");
    let (document, _) = summary(&["--probe", &probe, "--slowest", "5", "--", program, "20"]);
    let slowest = document["probes"][0]["slowest"].as_array().unwrap();
    assert_eq!(slowest.len(), 5);
    let longer = |pair: &[Value]| ns(&pair[0], "duration_ns") >= ns(&pair[1], "duration_ns");
    assert!(slowest.windows(2).all(longer), "{slowest:?}");
    for call in slowest {
        let arguments = &call["arguments"];
        let ms: i32 = arguments["ms"].as_str().unwrap().parse().unwrap();
        assert!((1..=20).contains(&ms), "{call}");
        assert_eq!(arguments["back"], format!("{}", -ms));
        assert_eq!(arguments["name"], if ms % 2 == 1 { "\"odd\"" } else { "\"even\"" });
        assert!(ns(call, "duration_ns") >= 1e6 * f64::from(ms), "{call}");
        let stack = call["stack"].to_string();
        assert!(stack.contains("(caller+") && stack.contains("(main+"), "{call}");
        assert_eq!(call["comm"], "latency");
    }
}

#[test]
fn a_probed_caller_of_a_probed_function_is_in_its_stack() {
    if !can_probe() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let latency = workload("latency");
    let program = latency.to_str().unwrap();
    let work = format!("{program}:work");
    let caller = format!("{program}:caller");
    let main = format!("{program}:main");
    let (document, _) =
        summary(&["--probe", &work, "--probe", &caller, "--probe", &main, "--", program, "3"]);
    let calls = |at: usize| document["probes"][at]["returned"].as_u64().unwrap();
    assert_eq!([calls(0), calls(1), calls(2)], [3, 3, 1], "{document}");
    for call in document["probes"][0]["slowest"].as_array().unwrap() {
        let stack = call["stack"].to_string();
        assert!(stack.contains("(caller+") && stack.contains("(main+"), "{call}");
    }
}

#[test]
fn counts_calls_exactly() {
    if !can_probe() {
        return;
    }
    let latency = workload("latency");
    let program = latency.to_str().unwrap();
    let probe = format!("{program}:quick");
    let (document, _) =
        summary(&["--probe", &probe, "--slowest", "0", "--", program, "20000", "quick"]);
    let seen = &document["probes"][0];
    assert_eq!((&seen["calls"], &seen["returned"]), (&20_000.into(), &20_000.into()));
    let buckets = seen["histogram"].as_array().unwrap();
    let in_buckets: u64 = buckets.iter().map(|bucket| bucket[2].as_u64().unwrap()).sum();
    assert_eq!(in_buckets, 20_000);
}

#[test]
fn follows_children_and_no_other_process() {
    if !can_probe() {
        return;
    }
    let latency = workload("latency");
    let program = latency.to_str().unwrap();
    // A process outside the command runs the same file.
    let mut other = Command::new(program);
    let _other = ProcessGuard::spawn(other.arg("100000").stdout(Stdio::null()));
    let probe = format!("{program}:work");
    let line = format!("{program} 2; {program} 3 & wait");
    let (document, _) = summary(&["--probe", &probe, "--", "sh", "-c", &line]);
    assert_eq!(document["probes"][0]["calls"], 5);
}

#[test]
fn traces_running_processes() {
    if !can_probe() {
        return;
    }
    let latency = workload("latency");
    let program = latency.to_str().unwrap();
    let mut command = Command::new(program);
    let running = ProcessGuard::spawn(command.arg("100000").stdout(Stdio::null()));
    let probe = format!("{program}:work $arg1:u8");
    let pid = running.id().to_string();
    let output = trace(&["--each", "--probe", &probe, "-p", &pid, "--timeout", "1000"]);
    assert_eq!(status(&output), 0, "{output:?}");
    let text = stderr(&output);
    let calls = text.lines().filter(|line| line.contains(&format!("latency/{pid} "))).count();
    assert!(calls > 3 && text.contains(":work($arg1="), "{text}");
    // Calls without times have no empty function to compare with.
    assert!(text.contains("us to each\n"), "{text}");
}

#[test]
fn prints_each_call_as_a_json_object() {
    if !can_probe() {
        return;
    }
    let latency = workload("latency");
    let program = latency.to_str().unwrap();
    let probe = format!("{program}:work ms=%si:string");
    let (text, _) = json_and_output(&["--each", "--probe", &probe, "--", program, "4"]);
    let objects: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 5, "{objects:?}");
    assert!(objects[..4].iter().all(|call| call["type"] == "call" && call["tid"].is_u64()));
    assert_eq!((&objects[4]["type"], &objects[4]["version"]), (&"summary".into(), &1.into()));
}

#[test]
fn counts_static_probes() {
    if !can_probe() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let usdt = own_copy(&folder, "usdt");
    let program = usdt.to_str().unwrap();
    if Command::new(program).arg("0").status().unwrap().code() == Some(77) {
        return println!("skipped: there is no sys/sdt.h (systemtap-sdt-dev)");
    }
    // Without a file, the command's own is probed. The second probe has a semaphore.
    let (document, output) =
        summary(&["--usdt", "tare:turn", "--usdt", "tare:watched", "--", program, "5001"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.trim(), "5001 5001");
    assert_eq!(document["probes"][0]["calls"], 5001);
    assert_eq!(document["probes"][1]["calls"], 5001);
    let place = format!("{program}:tare:turn arg2:string arg1");
    let output = trace(&["--each", "--usdt", &place, "--", program, "3"]);
    let text = stderr(&output);
    for says in ["(arg2=\"even\", arg1=0)", "(arg2=\"odd\", arg1=1)", "(arg2=\"even\", arg1=2)"] {
        assert!(text.contains(says), "{says}: {text}");
    }
    let refused = trace(&["--usdt", "tare:trun", "--", program, "3"]);
    assert!(stderr(&refused).contains("it has tare:turn or tare:watched"), "{refused:?}");
    assert!(!has_probes(program));
}

#[test]
fn names_the_missing_kernel_option_without_kprobes() {
    if !crate::trace::can_trace() {
        return;
    }
    let output = trace(&["--kprobe", "vfs_read $arg3", "true"]);
    let text = stderr(&output);
    if Path::new("/sys/bus/event_source/devices/kprobe").exists() {
        assert_eq!(status(&output), 0, "{text}");
        assert!(text.contains("vfs_read"), "{text}");
        return;
    }
    assert_eq!(status(&output), 125, "{text}");
    assert_eq!(text, "tare: vfs_read: this kernel has no kprobes (CONFIG_KPROBES)\n");
}

#[test]
fn refuses_invalid_probes_and_options() {
    let latency = workload("latency");
    let program = latency.to_str().unwrap();
    let place = |text: &str| format!("{program}:{text}");
    for (args, says) in [
        (vec!["--probe".to_owned(), place("wrok")], "nearest: work"),
        (vec!["--probe".to_owned(), place("work ms")], "C variables aren't supported"),
        (vec!["--probe".to_owned(), place("work %nothing")], "no such register"),
        (vec!["--probe".to_owned(), "work".to_owned()], "give FILE:FUNCTION"),
        (vec!["--usdt".to_owned(), "x".to_owned()], "give PROVIDER:NAME"),
        (vec!["--kprobe".to_owned(), "a b".to_owned()], "C variables aren't supported"),
        (vec!["--probe".to_owned(), place("work"), "-k".to_owned()], "cannot be used with"),
        (vec!["--each".to_owned()], "--probe"),
    ] {
        let output = tare().arg("trace").args(&args).args(["--", "true"]).output().unwrap();
        assert_eq!(status(&output), 2, "{args:?}: {output:?}");
        assert!(stderr(&output).contains(says), "{args:?}: {}", stderr(&output));
    }
    if let Some(nobody) = Unprivileged::new() {
        let output = nobody.tare("trace", &["--kprobe", "vfs_read", "true"]);
        assert!(stderr(&output).contains("with CAP_BPF and CAP_PERFMON"), "{output:?}");
    }
}

#[test]
fn killed_tracers_leave_no_probe() {
    if !can_probe() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let latency = own_copy(&folder, "latency");
    let program = latency.to_str().unwrap();
    let probe = format!("{program}:work");
    for wait_ms in [0, 60, 200] {
        let mut command = tare();
        command.args(["trace", "--probe", &probe, "-o", "/dev/null", "--", program, "50"]);
        let mut tracer = ProcessGuard::spawn(command.stdout(Stdio::null()));
        std::thread::sleep(std::time::Duration::from_millis(wait_ms));
        tracer.end();
    }
    // The function's first byte is restored, so the program succeeds.
    let bare = Command::new(program).arg("2").output().unwrap();
    assert!(bare.status.success());
    wait_until("the probes are gone", || !has_probes(program));
    let quick = format!("{program}:quick");
    let (document, _) = summary(&["--probe", &quick, "--", program, "100", "quick"]);
    assert_eq!(document["probes"][0]["calls"], 100);
}

/// Compiles a program; `None` with a message if its compiler is missing.
fn compiled(folder: &Path, compiler: &str, name: &str, code: &str) -> Option<PathBuf> {
    let source = folder.join(name);
    let program = folder.join("program");
    std::fs::write(&source, code).unwrap();
    let mut build = Command::new(compiler);
    let built = build.args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source).status();
    if !built.is_ok_and(|status| status.success()) {
        println!("skipped: {compiler} can't compile {name}");
        return None;
    }
    Some(program)
}

/// The kernel replaces the return address of each call that is timed. An exception that passes the
/// call, or code that leaves it in another way, would end the program.
#[test]
fn a_probe_does_not_end_programs_that_leave_functions_without_a_return() {
    if !can_probe() {
        return;
    }
    let programs = [
        (
            "c++",
            "throws.cc",
            "extern \"C\" __attribute__((noinline)) int probed(int n) { asm volatile(\"\"); if (n % 2) throw n; return n; }
             int main() { int caught = 0; for (int i = 0; i < 10; i++) try { probed(i); } catch (int) { caught++; } return caught + 2; }",
        ),
        (
            "cc",
            "jumps.c",
            "#include <setjmp.h>
             static jmp_buf back; static volatile int jumped;
             __attribute__((noinline)) void probed(int n) { if (n % 2) longjmp(back, 1); }
             int main(void) { for (volatile int i = 0; i < 10; i++) if (setjmp(back)) jumped++; else probed(i); return jumped + 2; }",
        ),
        (
            "cc",
            "switches.c",
            "#include <ucontext.h>
             static ucontext_t all, other; static char stack[65536]; static volatile int turns;
             __attribute__((noinline)) void probed(void) { turns++; swapcontext(&other, &all); turns++; }
             int main(void) { getcontext(&other); other.uc_stack.ss_sp = stack; other.uc_stack.ss_size = sizeof stack; other.uc_link = &all;
               makecontext(&other, probed, 0); swapcontext(&all, &other); swapcontext(&all, &other); return turns + 5; }",
        ),
        (
            "cc",
            "cancels.c",
            "#include <pthread.h>\n#include <unistd.h>
             __attribute__((noinline)) void probed(void) { pause(); }
             static void *thread(void *none) { probed(); return none; }
             int main(void) { pthread_t id; void *end; pthread_create(&id, 0, thread, 0); usleep(100000); pthread_cancel(id); pthread_join(id, &end); return end == PTHREAD_CANCELED ? 7 : 1; }",
        ),
    ];
    for (compiler, name, code) in programs {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compiled(folder.path(), compiler, name, code) else { continue };
        let place = format!("{}:probed", program.display());
        let output = trace(&["--probe", &place, "--", program.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(7), "{name}: {said}");
        assert!(said.contains("counted without times"), "{name}: {said}");
        let refused = trace(&["--probe", &format!("{place} $retval"), "--", "true"]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{name}: {said}");
        assert!(said.contains("--probe-returns"), "{name}: {said}");
    }
}

/// Compiles a program of two C files, each with a function `helper`: 2 and 5 calls.
fn two_helpers(folder: &Path) -> Option<PathBuf> {
    let source =
        "__attribute__((noinline)) static int helper(int x) { asm volatile(\"\"); return x + 1; }
         int a(int x) { return helper(x) + helper(x); }";
    std::fs::write(folder.join("a.c"), source).unwrap();
    let source = "int a(int);
         __attribute__((noinline)) static int helper(int x) { asm volatile(\"\"); return x + 2; }
         int main(void) { int s = 0; for (int i = 0; i < 5; i++) s += helper(i); return s + a(1) == 0; }";
    compile(folder, source, "main", &[folder.join("a.c").to_str().unwrap()])
}

#[test]
fn functions_of_one_name_are_all_counted() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = can_probe().then(|| two_helpers(folder.path())).flatten() else { return };
    let program = program.to_str().unwrap();
    let place = format!("{program}:helper");
    let (document, output) = summary(&["--probe", &place, "--", program]);
    let mut calls: Vec<u64> = document["probes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|probe| probe["calls"].as_u64().unwrap())
        .collect();
    calls.sort_unstable();
    assert_eq!(calls, [2, 5], "{document}");
    let text = stderr(&output);
    assert!(text.contains("several functions have this name"), "{text}");
    // An event counts at one location.
    let refused = crate::support::stat(&["-e", &format!("uprobe:{place}"), "true"]);
    let text = stderr(&refused);
    assert!(status(&refused) == 2 && text.contains("2 functions match"), "{text}");
}

#[test]
fn functions_are_found_by_their_cpp_names_and_by_pattern() {
    let source = "namespace ns { struct Foo { __attribute__((noinline)) int bar(int x) { asm volatile(\"\"); return x + 1; } }; }
         __attribute__((noinline)) int over(const char *x) { asm volatile(\"\"); return *x; }
         __attribute__((noinline)) int over(int x) { asm volatile(\"\"); return x; }
         int main() { ns::Foo f; int s = 0; for (int i = 0; i < 3; i++) s += f.bar(i); return s + over(\"a\") + over(1) == 0; }";
    let folder = tempfile::tempdir().unwrap();
    let program =
        can_probe().then(|| compile_with("c++", folder.path(), source, "names.cc", &[])).flatten();
    let Some(program) = program else { return };
    let program = program.to_str().unwrap();
    for (name, wanted) in [
        ("ns::Foo::bar(int)", vec![3]),
        ("ns::Foo::bar", vec![3]),
        ("*Foo*", vec![3]),
        ("over(char const*)", vec![1]),
        ("over(const char *) $arg1:string", vec![1]),
        ("over", vec![1, 1]),
    ] {
        let place = format!("{program}:{name}");
        let (document, _) = summary(&["--probe", &place, "--slowest", "0", "--", program]);
        let probes = document["probes"].as_array().unwrap();
        let calls: Vec<_> = probes.iter().map(|probe| probe["calls"].as_u64().unwrap()).collect();
        assert_eq!(calls, wanted, "{name}: {document}");
    }
    let unknown = trace(&["--probe", &format!("{program}:bar"), "true"]);
    let text = stderr(&unknown);
    assert!(status(&unknown) == 2 && text.contains("nearest: ns::Foo::bar"), "{text}");
    let listed = tare().args(["list", &format!("{program}:*Foo*")]).output().unwrap();
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert_eq!(text, format!("for tare trace --probe:\n  {program}:ns::Foo::bar(int)\n"));
}

#[test]
fn functions_of_a_stripped_go_program_are_found_by_name() {
    let source = "package main
         //go:noinline
         func work(n int) int { return n + 1 }
         func main() { s := 0; for i := 0; i < 7; i++ { s += work(i) }; if s == 0 { panic(s) } }";
    let folder = tempfile::tempdir().unwrap();
    if !can_probe() {
        return;
    }
    let file = folder.path().join("main.go");
    let program = folder.path().join("program");
    std::fs::write(&file, source).unwrap();
    let mut build = Command::new("go");
    build.args(["build", "-ldflags=-s -w", "-o"]).arg(&program).arg(&file);
    let built = build.env("GO111MODULE", "off");
    if !built.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        return println!("skipped: no Go compiler");
    }
    let program = program.to_str().unwrap();
    let place = format!("{program}:main.work");
    let output = trace(&["--json", "--probe", &place, "--", program]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert_eq!(document["probes"][0]["calls"], 7, "{output:?}");
}

#[test]
fn names_the_library_that_has_an_imported_function() {
    let source = "#include <stdio.h>\nint main(void) { puts(\"x\"); return 0; }";
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), source, "imports", &[]) else { return };
    let output = trace(&["--probe", &format!("{}:puts", program.display()), "true"]);
    let text = stderr(&output);
    let says = "calls this function of a library: probe /";
    assert!(status(&output) == 2 && text.contains(says) && text.contains(":puts"), "{text}");
}

/// The C library has a selector under the name memcpy, an old version, and implementations.
#[test]
fn probes_the_implementation_that_the_linker_selects() {
    if !can_probe() || !cfg!(target_env = "gnu") {
        return;
    }
    let source = "#include <string.h>
         char from[64], to[64];
         volatile unsigned long bytes = 40;
         int main(void) { for (int i = 0; i < 500; i++) memcpy(to, from, bytes); return to[0]; }";
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), source, "copies", &["-fno-builtin"]) else {
        return;
    };
    let output = trace(&["--json", "--probe", "libc.so.6:memcpy", "--", program.to_str().unwrap()]);
    let text = stderr(&output);
    if text.contains("no such file") {
        return println!("skipped: {text}");
    }
    assert!(text.contains("the implementation that is selected on this machine"), "{text}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let probes = document["probes"].as_array().map_or(0, Vec::len);
    assert!(probes == 1 && document["probes"][0]["calls"].as_u64() >= Some(500), "{output:?}");
    // Another process may use another one, by its own settings.
    let source = "#include <string.h>\n#include <unistd.h>
         char from[64], to[64];
         volatile unsigned long bytes = 40;
         int main(void) { for (;;) { memcpy(to, from, bytes); usleep(1000); } }";
    let Some(program) = compile(folder.path(), source, "keeps", &["-fno-builtin"]) else { return };
    let settings = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX2,-AVX,-ERMS,-FSRM";
    let mut running = Command::new(&program);
    let running = ProcessGuard::spawn(running.env("GLIBC_TUNABLES", settings));
    let pid = running.id().to_string();
    wait_until("the C library is mapped", || {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"));
        maps.is_ok_and(|maps| maps.contains("libc.so.6"))
    });
    std::thread::sleep(std::time::Duration::from_millis(100));
    let words = ["--json", "--timeout", "300", "--probe", "libc.so.6:memcpy", "-p", &pid];
    let output = trace(&words);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert!(document["probes"][0]["calls"].as_u64() >= Some(5), "{output:?}");
}

#[test]
fn names_the_implementations_of_which_the_program_selects_one() {
    let source = "static int work_fast(int x) { return x + 1; }
         static int work_slow(int x) { return x + 2; }
         static int (*pick(void))(int) { return work_fast; }
         int work(int) __attribute__((ifunc(\"pick\")));
         int main(int c, char **v) { return work(c) + work_slow(c); }";
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), source, "picks", &["-O0"]) else { return };
    let output = trace(&["--probe", &format!("{}:work", program.display()), "true"]);
    let text = stderr(&output);
    let says = "probe one of work_fast, work_slow";
    assert!(status(&output) == 2 && text.contains(says), "{text}");
}

#[test]
fn says_at_how_many_places_a_function_is_inlined() {
    let source = "#include <stdlib.h>
         static inline __attribute__((always_inline)) int all(int x) { return x * 3 + rand(); }
         __attribute__((noinline)) int work(int x);
         int first(int x) { return work(x) + all(x); }
         int work(int x) { return all(x) + x; }
         int main(int argc, char **argv) { return first(argc) + work(argc) == 0; }";
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), source, "inlines", &["-g"]) else { return };
    let output = trace(&["--probe", &format!("{}:all", program.display()), "true"]);
    let text = stderr(&output);
    let says = "the compiler inlined this function at all ";
    assert!(status(&output) == 2 && text.contains(says), "{text}");
}

/// A process with a root folder of its own has another file at the same path.
#[test]
fn probes_the_file_that_the_process_has_at_that_path() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <unistd.h>
         __attribute__((noinline)) int work(int n) { asm volatile(\"\"); return n + 1; }
         int main(void) { for (int i = 0; i < 6000; i++) { work(i); usleep(5000); } return 0; }";
    let program = (can_probe() && is_root())
        .then(|| compile(folder.path(), source, "inside", &["-static"]))
        .flatten();
    let Some(program) = program else { return };
    let root = folder.path().join("root");
    let inside = root.join(program.strip_prefix("/").unwrap());
    std::fs::create_dir_all(inside.parent().unwrap()).unwrap();
    std::fs::copy(&program, &inside).unwrap();
    std::fs::copy(&program, root.join("new")).unwrap();
    let mut command = Command::new("chroot");
    let running = ProcessGuard::spawn(command.arg(&root).arg(&program));
    let pid = running.id().to_string();
    wait_until("the program runs in its root folder", || {
        std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == inside)
    });
    let probe = |place: String| {
        let output = trace(&[
            "--json",
            "--probe",
            &place,
            "-p",
            &pid,
            "--timeout",
            "500",
            "-o",
            "/dev/stdout",
        ]);
        let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (document["probes"][0]["calls"].as_u64(), stderr(&output))
    };
    let (calls, text) = probe(format!("{}:work", program.display()));
    assert!(calls.is_some_and(|calls| calls > 0), "{calls:?} {text}");
    // The process still maps the file that was there before.
    std::fs::rename(root.join("new"), &inside).unwrap();
    let (calls, text) = probe(format!("{}:work", program.display()));
    assert_eq!(calls, Some(0), "{text}");
    assert!(text.contains(&format!("not mapped by process {pid}")), "{text}");
}

/// `fill` writes into a buffer that holds a text, and into memory that isn't there before.
#[test]
fn arguments_are_read_at_the_return_where_asked_and_where_the_call_found_no_memory() {
    if !can_probe() {
        return;
    }
    let source = "#include <string.h>\n#include <sys/mman.h>
         static char known[64] = \"before\";
         int number = 1;
         __attribute__((noinline)) void fill(char *into, int *out) {
             asm volatile(\"\" : : : \"memory\");
             strcpy(into, \"after\");
             *out = 77;
         }
         int main(void) {
             fill(known, &number);
             fill(mmap(0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), &number);
             return 0;
         }";
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), source, "fills", &["-fno-builtin"]) else { return };
    let program = program.to_str().unwrap();
    let probe = |arguments: &str| format!("{program}:fill {arguments}");
    let place = probe("at=+0($arg1):string then=+0($arg1):string@return out=+0($arg2):s32@return");
    let options = ["--probe-returns", "--each", "--slowest", "1", "--probe", &place, "--", program];
    let output = trace(&options);
    let text = stderr(&output);
    assert!(text.contains(r#"at="before", then="after", out=77"#), "{text}");
    assert!(text.contains(r#"at="after", then="after", out=77"#), "{text}");
    assert!(!text.contains("(fault)"), "{text}");
    for (arguments, says) in [("$arg1@return", "reads memory"), ("+0($arg1):s32@exit", "types are")]
    {
        let text = stderr(&trace(&["--probe", &probe(arguments), "--", program]));
        assert!(text.contains(says), "{arguments}: {text}");
    }
    let inside = format!("{program}:fill+4 +0($arg1):string@return");
    let text = stderr(&trace(&["--probe", &inside, "--", program]));
    assert!(text.contains("probe it without an offset"), "{text}");
}

/// The probe on the return ends after the one on the entry, as it begins before it.
#[test]
fn calls_at_the_end_of_a_trace_have_their_returns() {
    if !can_probe() {
        return;
    }
    let source = "__attribute__((noinline)) int work(int n) { asm volatile(\"\"); return n + 1; }
         int main(void) { for (int n = 0;;) n = work(n); }";
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), source, "works", &[]) else { return };
    let process = ProcessGuard::spawn(&mut Command::new(&program));
    let place = format!("{}:work", program.display());
    let pid = process.id().to_string();
    let (document, _) = summary(&["--probe", &place, "-p", &pid, "--timeout", "200"]);
    let probe = &document["probes"][0];
    let open = probe["calls"].as_u64().unwrap() - probe["returned"].as_u64().unwrap();
    // The call in progress may end later.
    assert!(probe["calls"].as_u64() > Some(10) && open <= 1, "{document}");
}

/// The kernel emulates a push and steps over a subtraction, which takes much longer in virtual
/// machines.
#[test]
fn an_empty_function_is_measured_like_a_comparable_one() {
    if !can_probe() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let source = "void pushes(void), subtracts(void);
         asm(\".globl pushes, subtracts\\n.type pushes, @function\\n.type subtracts, @function\\n\"
             \"pushes: push %rbx; pop %rbx; ret\\n.size pushes, .-pushes\\n\"
             \"subtracts: sub $8, %rsp; add $8, %rsp; ret\\n.size subtracts, .-subtracts\");
         int main(void) { for (int i = 0; i < 1000; i++) { pushes(); subtracts(); } return 0; }";
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), source, "begins", &[]) else { return };
    let program = program.to_str().unwrap();
    for function in ["pushes", "subtracts"] {
        let place = format!("{program}:{function}");
        let ratios: Vec<f64> = (0..3)
            .map(|_| {
                let (document, _) = summary(&["--probe", &place, "--", program]);
                ns(&document["probes"][0], "p50_ns") / ns(&document, "empty_function_ns")
            })
            .collect();
        assert!(ratios.iter().any(|ratio| (0.4..2.5).contains(ratio)), "{function}: {ratios:?}");
    }
    let text = stderr(&trace(&["--kprobe", "__x64_sys_getpid", "-p", "1", "--timeout", "20"]));
    assert!(!text.contains("panicked"), "{text}");
}
