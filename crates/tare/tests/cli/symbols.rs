//! Sources of function names: `report` and `script` of programs that were rebuilt, stripped or
//! compiled at run time, and of other kernels.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::{is_root, stderr, tare};

/// A program that spins in its own function and makes system calls, so that the kernel has samples
/// too.
pub(crate) const SPIN: &str = r#"
#include <unistd.h>
#include <sys/syscall.h>
volatile unsigned long n;
__attribute__((noinline)) void hot_function(void) {
    for (long i = 0; i < 150000000; i++) {
        n++;
        if (!(i & 0x3ff)) syscall(SYS_getppid);
    }
}
int main(void) { hot_function(); return 0; }
"#;

/// A program that runs code in anonymous memory, at its start and at 0x800, and prints the address.
const JIT: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__x86_64__)
static const unsigned char code[] = {0x48,0x89,0xf8,0x48,0xff,0xc8,0x75,0xfb,0xc3};
#else
static const unsigned code[] = {0xf1000400,0x54ffffe1,0xd65f03c0};
#endif
int main(void) {
    char *at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(at, code, sizeof code);
    memcpy(at + 0x800, code, sizeof code);
    mprotect(at, 4096, PROT_READ | PROT_EXEC);
    __builtin___clear_cache(at, at + 4096);
    printf("%d %lx\n", (int)getpid(), (unsigned long)at);
    fflush(stdout);
    for (int i = 0; i < 2; i++) ((void (*)(unsigned long))(at + 0x800 * i))(300000000);
    return 0;
}
"#;

/// A program that spins in template functions: with an empty pack, with a dependent result type,
/// and with numbers.
const TEMPLATES: &str = r#"
volatile unsigned long n;
inline void spin() { for (long i = 0; i < 60000000; i++) n++; }
template <class T> struct is { static const bool value = true; };
template <bool, class T> struct enable { typedef T type; };
template <class T, class... U> __attribute__((noinline)) int look(T, U...) { spin(); return 1; }
template <class T> __attribute__((noinline)) typename enable<is<T>::value, int>::type
expression(T) { spin(); return 2; }
template <unsigned long N> __attribute__((noinline)) int number() { spin(); return N; }
int main() { return look(1) + expression(2) + number<15>() - 18; }
"#;

/// Compiles C. Without a compiler, prints the reason and returns `None`.
pub(crate) fn compile(folder: &Path, source: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    compile_with("cc", folder, source, &format!("{name}.c"), flags)
}

pub(crate) fn compile_with(
    compiler: &str,
    folder: &Path,
    source: &str,
    name: &str,
    flags: &[&str],
) -> Option<PathBuf> {
    let text = folder.join(name);
    let binary = folder.join(name).with_extension("");
    std::fs::write(&text, source).unwrap();
    let mut cc = Command::new(compiler);
    let built = cc.args(["-O1", "-o"]).arg(&binary).arg(&text).args(flags).status();
    if built.is_ok_and(|status| status.success()) {
        return Some(binary);
    }
    println!("skipped: no {compiler}");
    None
}

pub(crate) fn record(command: &Path, to: &Path) -> Option<Output> {
    let mut record = tare();
    let output =
        record.args(["record", "-e", "cpu-clock", "-o"]).arg(to).arg("--").arg(command).output();
    let output = output.unwrap();
    if !output.status.success() {
        println!("skipped: can't record here: {}", stderr(&output));
        return None;
    }
    Some(output)
}

/// The functions in tare's output, in its order, without consecutive repetitions.
pub(crate) fn names(
    command: &str,
    file: &Path,
    home: Option<&Path>,
    options: &[&str],
) -> Vec<String> {
    let mut tare = tare();
    tare.args([command, "-i"]).arg(file).args(options).stdin(Stdio::null()).env_remove("HOME");
    match command {
        "report" => tare.args(["--no-children", "-g", "none", "--sort", "sym"]),
        _ => tare.args(["-F", "ip,sym"]),
    };
    home.map(|home| tare.env("HOME", home));
    let output = tare.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    // Lines look like `12.34%  [.] name` or `  ffff1234 name`.
    let skip = if command == "report" { 2 } else { 1 };
    let name = |line: &str| line.split_whitespace().skip(skip).collect::<Vec<_>>().join(" ");
    let mut names: Vec<String> = lines.map(name).collect();
    names.dedup();
    names
}

pub(crate) fn has(names: &[String], wanted: &str) -> bool {
    names.iter().any(|name| name == wanted)
}

/// Asserts that `report` and `script` agree on whether they show a function.
pub(crate) fn both_show(
    file: &Path,
    home: Option<&Path>,
    options: &[&str],
    function: &str,
) -> bool {
    let [report, script] = ["report", "script"].map(|command| names(command, file, home, options));
    assert_eq!(has(&report, function), has(&script, function), "{report:?} {script:?}");
    has(&report, function)
}

pub(crate) fn build_id(binary: &Path) -> String {
    let notes = Command::new("readelf").arg("-n").arg(binary).output().unwrap();
    let text = String::from_utf8(notes.stdout).unwrap();
    text.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).unwrap().to_owned()
}

pub(crate) fn run(program: &str, args: &[&str], folder: &Path) {
    let status = Command::new(program).args(args).current_dir(folder).status().unwrap();
    assert!(status.success(), "{program} {args:?}");
}

#[test]
fn both_commands_find_a_rebuilt_program_in_the_build_id_cache() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let folder = folder.path();
    let Some(binary) = compile(folder, SPIN, "spin", &["-Wl,--build-id=sha1"]) else { return };
    if record(&binary, &file).is_none() {
        return;
    }
    let id = build_id(&binary);
    let kept = folder.join(format!("home/.debug/.build-id/{}/{}", &id[..2], &id[2..]));
    std::fs::create_dir_all(&kept).unwrap();
    std::fs::copy(&binary, kept.join("elf")).unwrap();
    let rebuilt = SPIN.replace("hot_function", "other_function_now");
    compile(folder, &rebuilt, "spin", &["-Wl,--build-id=sha1"]).unwrap();
    assert!(both_show(&file, Some(&folder.join("home")), &[], "hot_function"));
    assert!(!both_show(&file, None, &[], "hot_function"));
    assert!(!both_show(&file, None, &[], "other_function_now"), "names of another build");
}

#[test]
fn a_stripped_programs_debug_file_is_found_by_its_link() {
    for (place, is_damaged) in
        [("spin.debug", false), (".debug/spin.debug", false), ("lib", false), ("spin.debug", true)]
    {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("perf.data");
        let folder = folder.path();
        let Some(binary) = compile(folder, SPIN, "spin", &["-Wl,--build-id=none"]) else { return };
        run("objcopy", &["--only-keep-debug", "spin", "spin.debug"], folder);
        run("objcopy", &["--strip-all", "--add-gnu-debuglink=spin.debug", "spin"], folder);
        if record(&binary, &file).is_none() {
            return;
        }
        let root = folder.join("root");
        let program = root.join(binary.strip_prefix("/").unwrap());
        let beside = program.parent().unwrap();
        let debug = match place {
            "lib" => root
                .join("usr/lib/debug")
                .join(beside.strip_prefix(&root).unwrap())
                .join("spin.debug"),
            _ => beside.join(place),
        };
        std::fs::create_dir_all(beside).unwrap();
        std::fs::create_dir_all(debug.parent().unwrap()).unwrap();
        std::fs::rename(&binary, &program).unwrap();
        let mut bytes = std::fs::read(folder.join("spin.debug")).unwrap();
        if is_damaged {
            bytes.push(0);
        }
        std::fs::write(&debug, bytes).unwrap();
        let symfs = ["--symfs", root.to_str().unwrap()];
        let is_shown = both_show(&file, None, &symfs, "hot_function");
        assert_eq!(is_shown, !is_damaged, "{place}: the link's checksum");
    }
}

/// A recording of [`JIT`], its process and the address of its code.
pub(crate) fn record_jit(folder: &Path) -> Option<(PathBuf, String, u64)> {
    let file = folder.join("perf.data");
    let binary = compile(folder, JIT, "jit", &[])?;
    let output = record(&binary, &file)?;
    let said = String::from_utf8(output.stdout).unwrap();
    let (pid, address) = said.trim().split_once(' ').unwrap();
    Some((file, pid.to_owned(), u64::from_str_radix(address, 16).unwrap()))
}

/// Writes the perf map of a process below a folder, and returns its path.
fn with_map(folder: &Path, pid: &str, text: &str) -> PathBuf {
    let map = folder.join(format!("tmp/perf-{pid}.map"));
    std::fs::create_dir_all(map.parent().unwrap()).unwrap();
    std::fs::write(&map, text).unwrap();
    map
}

#[test]
fn the_later_line_of_a_perf_map_wins() {
    let folder = tempfile::tempdir().unwrap();
    let Some((file, pid, at)) = record_jit(folder.path()) else { return };
    let text = format!(
        "{at:x} 40 a_longer_name_that_was_there_before\n{:x} 100 older_and_inside\n{at:x} 40 now\n{:x} 300 newer_and_around\n",
        at + 0x7f8,
        at + 0x700
    );
    with_map(folder.path(), &pid, &text);
    let symfs = ["--symfs", folder.path().to_str().unwrap()];
    for name in ["now", "newer_and_around"] {
        assert!(
            both_show(&file, None, &symfs, name),
            "{name}: {:?}",
            names("report", &file, None, &symfs)
        );
    }
    assert!(!both_show(&file, None, &symfs, "older_and_inside"));
}

#[test]
fn only_maps_of_root_and_of_the_reader_are_believed() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some((file, pid, at)) = record_jit(folder.path()) else { return };
    let map = with_map(folder.path(), &pid, &format!("{at:x} 1000 compiled\n"));
    let symfs = ["--symfs", folder.path().to_str().unwrap()];
    assert!(both_show(&file, None, &symfs, "compiled"));
    std::os::unix::fs::chown(&map, Some(65534), None).unwrap();
    assert!(!both_show(&file, None, &symfs, "compiled"), "a map of another user");
    std::os::unix::fs::chown(&map, Some(0), None).unwrap();
    let elsewhere = folder.path().join("elsewhere");
    std::fs::rename(&map, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &map).unwrap();
    assert!(!both_show(&file, None, &symfs, "compiled"), "a symbolic link");
}

#[test]
fn templates_are_named_as_in_the_source() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let folder = folder.path();
    let Some(binary) = compile_with("c++", folder, TEMPLATES, "templates.cpp", &[]) else { return };
    if record(&binary, &file).is_none() {
        return;
    }
    for name in ["look<int>", "expression<int>", "number<15ul>"] {
        assert!(both_show(&file, None, &[], name), "{:?}", names("report", &file, None, &[]));
    }
}

/// The number of kernel functions with names in a report.
fn kernel_names(file: &Path, options: &[&str]) -> usize {
    let mut all = vec!["--dsos", "[kernel.kallsyms]"];
    all.extend(options);
    let names = names("report", file, None, &all);
    names.iter().filter(|name| !name.starts_with("0x")).count()
}

/// Replaces each occurrence of some bytes in a file and returns their number.
fn patch(from: &Path, to: &Path, old: &[u8], new: &[u8]) -> usize {
    assert_eq!(old.len(), new.len());
    let mut bytes = std::fs::read(from).unwrap();
    let places: Vec<usize> =
        (0..=bytes.len() - old.len()).filter(|at| bytes[*at..].starts_with(old)).collect();
    for at in &places {
        bytes[*at..*at + old.len()].copy_from_slice(new);
    }
    std::fs::write(to, bytes).unwrap();
    places.len()
}

#[test]
fn another_kernels_recording_has_no_names_of_this_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let folder = folder.path();
    let Some(binary) = compile(folder, SPIN, "spin", &[]) else { return };
    if record(&binary, &file).is_none() {
        return;
    }
    if kernel_names(&file, &[]) == 0 {
        return println!("skipped: the kernel's symbols are not readable here");
    }
    let release = std::fs::read("/proc/sys/kernel/osrelease").unwrap();
    let release = [release.trim_ascii(), b"\0"].concat();
    let other_release = [&vec![b'9'; release.len() - 1][..], b"\0"].concat();
    let arch = [std::env::consts::ARCH.as_bytes(), b"\0"].concat();
    let other_arch = [&vec![b'z'; arch.len() - 1][..], b"\0"].concat();
    // Without the kernel's build id, which would identify it more precisely.
    let notes = std::fs::read("/sys/kernel/notes").unwrap_or_default();
    if let Some(at) = (0..notes.len()).find(|at| notes[*at..].starts_with(b"GNU\0")) {
        patch(&file, &file, &notes[at + 4..at + 24], &[0; 20]);
    }
    assert!(kernel_names(&file, &[]) > 0, "the release is this kernel's");
    let foreign = folder.join("foreign.data");
    for (old, new) in [(release, other_release), (arch, other_arch)] {
        assert!(patch(&file, &foreign, &old, &new) > 0, "the recording tells its kernel");
        assert_eq!(kernel_names(&foreign, &[]), 0);
        assert!(kernel_names(&foreign, &["--kallsyms", "/proc/kallsyms"]) > 0);
    }
}

#[test]
fn a_kernels_build_id_under_the_path_of_its_image_is_the_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let folder = folder.path();
    let Some(binary) = compile(folder, SPIN, "spin", &[]) else { return };
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-e", "cpu-clock", "-o"]).arg(&file).arg("--").arg(&binary);
    let recorded = perf.output().is_ok_and(|output| output.status.success());
    if !recorded || kernel_names(&file, &[]) == 0 {
        return println!("skipped: no perf, or the kernel's symbols are not readable here");
    }
    let listed = folder.join("listed.data");
    let name = b"[kernel.kallsyms]\0";
    if patch(&file, &listed, name, b"/boot/vmlinux-9.9\0") == 0 {
        return println!("skipped: perf lists no build id of the kernel");
    }
    assert!(kernel_names(&listed, &[]) > 0, "it is this kernel's");
    let mut bytes = std::fs::read(&listed).unwrap();
    let at = (0..bytes.len()).find(|at| bytes[*at..].starts_with(b"/boot/vmlinux-9.9")).unwrap();
    bytes[at - 24..at - 4].iter_mut().for_each(|byte| *byte = !*byte);
    std::fs::write(&listed, bytes).unwrap();
    assert_eq!(kernel_names(&listed, &[]), 0, "it is another kernel's");
}
