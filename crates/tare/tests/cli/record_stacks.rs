//! Programs whose call chains are known at each sample (`workloads/known`): what is recorded and
//! unwound is held against them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::recorded::RecordingFolder;
use crate::support::{stderr, tare};

/// Of stacks, how many are exactly one of the program's chains, and how many there are.
fn judged(program: &Path, place: &RecordingFolder) -> (u64, u64, String) {
    let output = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", stderr(&output));
        output.stdout
    };
    let (chains, script) = (place.folder.path().join("chains"), place.folder.path().join("script"));
    std::fs::write(&chains, output(Command::new(program).arg("--chains"))).unwrap();
    let fields = ["script", "-F", "ip,sym,dso", "-i"];
    std::fs::write(&script, output(tare().args(fields).arg(place.file()))).unwrap();
    let judge = program.with_file_name("known-chains.awk");
    let words = [Path::new("-f"), &judge, &chains, &script];
    let text = output(Command::new("awk").args(["-v", "show=3"]).args(words));
    let text = String::from_utf8_lossy(&text).into_owned();
    let last = text.lines().last().unwrap();
    let (good, all) = last.split_once(' ').unwrap();
    (good.parse().unwrap(), all.parse().unwrap(), text)
}

/// Records a program for some tenths of a second, in user mode.
fn known(program: &Path, seconds: &str, options: &[&str]) -> RecordingFolder {
    let place = RecordingFolder::new();
    let begin = ["-e", "cpu-clock:u", "-F", "4000"];
    let command = [program.to_str().unwrap(), seconds];
    let output = place.run(&[&begin[..], options, &["--"], &command].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    place
}

/// A program of `workloads/known`, compiled if need be; `None` where there is no compiler for it.
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

/// Depths of 1 to 60, on two threads, through a signal handler, a stub, a tail call, C++ exceptions,
/// Rust's panics and goroutines. (`./x bench unwind` has more samples and a narrower bound.)
#[test]
fn chains_are_exactly_those_of_the_program() {
    if !cfg!(target_arch = "x86_64") {
        return println!("skipped: the programs' bounds are those of x86-64");
    }
    for (name, how) in [
        ("known", "dwarf,16384"),
        ("known-fp", "fp"),
        ("throws", "dwarf"),
        ("known-rust", "dwarf"),
        ("known-go", "dwarf"),
    ] {
        let Some(program) = program(name) else { continue };
        let place = known(&program, "0.4", &["--call-graph", how]);
        let (good, all, others) = judged(&program, &place);
        println!("{name} by {how}: {good} of {all}");
        assert!(all >= 100 && good * 100 >= all * 98, "{name} by {how}: {others}");
    }
}

/// Of a copy that is too small, frame pointers know the rest, and its size is known.
#[test]
fn frame_pointers_mend_what_a_small_copy_lacks() {
    let Some(program) = program("known-fp") else { return };
    let shares = |options: &[&str]| {
        let place = known(&program, "0.3", options);
        let (good, all, _) = judged(&program, &place);
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

/// What is printed doesn't depend on the number of CPUs that it may use.
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
    let (one, several) = (printed("0"), printed(&format!("0-{}", all - 1)));
    assert!(one.stdout == several.stdout && one.stderr == several.stderr);
    assert!(one.stdout.len() > 10_000);
}

/// A report says which files' code keeps no frame pointers, where call chains hang on these.
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
    assert!(line.contains(" known ") && line.contains("--call-graph dwarf"), "{line}");
    assert_eq!(said("known-fp"), None);
}
