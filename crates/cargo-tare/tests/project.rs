//! `cargo tare` in a scratch package: with cargo, tare and the kernel.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this file is tests, the helpers too"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const CARGO_TARE: &str = env!("CARGO_BIN_EXE_cargo-tare");

/// Spins in a function for 0.3 s of CPU time at most, or ends with the status in its argument.
const SPIN: &str = r#"
#[inline(never)]
pub fn spin_inner(end: std::time::Instant) -> u64 {
    let mut sum = 0u64;
    while std::time::Instant::now() < end {
        for i in 0..10_000u64 { sum = std::hint::black_box(sum.wrapping_add(i * i)); }
    }
    sum
}
pub fn spin() -> u64 {
    spin_inner(std::time::Instant::now() + std::time::Duration::from_millis(300))
}
"#;

/// A package with two programs, an example, a test, a benchmark and the library's own test.
struct Project(tempfile::TempDir);

impl Project {
    fn new() -> Self {
        let project = Self(tempfile::tempdir().unwrap());
        project.write(
            "Cargo.toml",
            "[package]\nname = \"scratch\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n\
             [profile.release]\nstrip = true\n[[bench]]\nname = \"measure\"\nharness = false\n",
        );
        let unit = "#[test]\nfn unit() { assert!(spin() > 0); }\n";
        project.write("src/lib.rs", &format!("{SPIN}{unit}"));
        let main = "fn main() { scratch::spin(); \
                    let code = std::env::args().nth(1).map_or(0, |code| code.parse().unwrap()); \
                    std::process::exit(code); }";
        project.write("src/bin/first.rs", main);
        project.write("src/bin/second.rs", main);
        project.write("examples/shown.rs", "fn main() { scratch::spin(); }");
        let test = "#[test]\nfn whole() { assert!(std::path::Path::new(\"Cargo.toml\").exists()); \
                    scratch::spin(); }";
        project.write("tests/whole.rs", test);
        let bench = "fn main() { assert!(std::env::args().any(|word| word == \"--bench\")); \
                     scratch::spin(); }";
        project.write("benches/measure.rs", bench);
        fs::create_dir(project.path("elsewhere")).unwrap();
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    /// Runs `cargo tare` in the folder `elsewhere`, as cargo does.
    fn run(&self, tare: &Path, args: &[&str]) -> Output {
        let mut command = Command::new(CARGO_TARE);
        command.args(["tare", "--manifest-path", "../Cargo.toml"]).args(args);
        command.current_dir(self.path("elsewhere")).env("TARE", tare);
        command.env("CARGO_TARGET_DIR", self.path("target")).env("CARGO_NET_OFFLINE", "true");
        command.output().unwrap()
    }
}

/// The program `tare` of the same build.
fn tare() -> Option<PathBuf> {
    let path = Path::new(CARGO_TARE).with_file_name("tare");
    if !path.exists() {
        println!("skipped: {} is not built", path.display());
        return None;
    }
    Some(path)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn draws_a_program_that_is_named_and_passes_its_arguments_and_status() {
    let Some(tare) = tare() else { return };
    let project = Project::new();
    let several = project.run(&tare, &[]);
    assert_eq!(several.status.code(), Some(125), "{several:?}");
    assert!(text(&several.stderr).contains("name one target"), "{several:?}");
    let output = project.run(&tare, &["--bin", "second", "--", "7"]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let page = fs::read_to_string(project.path("elsewhere/flame.html")).unwrap();
    assert!(page.contains("spin_inner"), "no function in {output:?}");
    assert!(project.path("elsewhere/perf.data").exists());
    let picture = project.run(&tare, &["--bin", "first", "--dev", "-o", "first.svg"]);
    assert!(picture.status.success(), "{picture:?}");
    let picture = fs::read_to_string(project.path("elsewhere/first.svg")).unwrap();
    assert!(picture.starts_with("<") && picture.contains("spin_inner"));
}

#[test]
fn every_kind_of_target_is_built_and_recorded() {
    let Some(tare) = tare() else { return };
    let project = Project::new();
    for args in [
        &["--example", "shown"][..],
        &["--test", "whole"],
        &["--bench", "measure"],
        &["--unit-test"],
    ] {
        let output = project.run(&tare, &[args, &["--report"]].concat());
        assert!(output.status.success(), "{args:?}: {output:?}");
        assert!(text(&output.stdout).contains("spin_inner"), "{args:?}: {output:?}");
    }
}

#[test]
fn the_only_program_or_the_default_one_needs_no_name() {
    let project = Project::new();
    // Shows what it is called with, and records nothing.
    let fake = project.path("fake");
    fs::write(&fake, "#!/bin/sh\necho \"$@\"\n").unwrap();
    fs::set_permissions(&fake, PermissionsExt::from_mode(0o755)).unwrap();
    let manifest = fs::read_to_string(project.path("Cargo.toml")).unwrap();
    let with_default = manifest.replace("edition", "default-run = \"second\"\nedition");
    project.write("Cargo.toml", &with_default);
    let output = project.run(&fake, &["--dev", "-F", "99", "--", "-x"]);
    let called = text(&output.stdout);
    let wanted = called.contains(" -F 99 -- ") && called.contains("/debug/second -x");
    assert!(output.status.success() && wanted, "{output:?}");
    project.write("Cargo.toml", &manifest);
    fs::remove_file(project.path("src/bin/second.rs")).unwrap();
    let output = project.run(&fake, &["--dev"]);
    assert!(text(&output.stdout).contains("/debug/first"), "{output:?}");
}

#[test]
fn the_manual_lists_each_option() {
    let output = Command::new(CARGO_TARE).args(["tare", "--help"]).output().unwrap();
    let help = text(&output.stdout);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cargo.md");
    let page = fs::read_to_string(page).unwrap();
    let is_apart = |letter: char| !letter.is_ascii_alphanumeric() && letter != '-';
    let words = help.split(is_apart).filter(|word| word.starts_with("--"));
    let options: Vec<&str> = words.filter(|word| word.len() > 2).collect();
    assert!(options.len() > 15, "{help}");
    for option in options.iter().filter(|option| !["--help", "--version"].contains(option)) {
        assert!(page.contains(option), "docs/cargo.md lacks {option}");
    }
}

#[test]
fn a_missing_tare_is_named_before_the_build() {
    let project = Project::new();
    let output = project.run(Path::new("/nonexistent/tare"), &["--bin", "first"]);
    assert_eq!(output.status.code(), Some(125));
    let message = text(&output.stderr);
    assert!(message.contains("cargo install --locked tare-perf"), "{message}");
    assert!(!project.path("target").exists());
}
