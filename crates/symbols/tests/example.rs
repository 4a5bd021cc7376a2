//! Runs the example of the unwinder as a user would.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this file is tests")]

use std::process::Command;

/// The registers of one moment and the stack's copy give all callers: the recursion, `main`, the
/// start of the runtime and that of the thread.
#[test]
fn a_thread_unwinds_a_snapshot_of_its_own_stack() {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return println!("skipped: the example reads registers of x86-64 and ARM");
    }
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut run = Command::new(cargo);
    run.args(["run", "-q", "--offline", "--example", "own_stack"]);
    let output = run.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names: Vec<_> = text.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
    let own: Vec<_> = names.iter().filter_map(|name| name.strip_prefix("own_stack::")).collect();
    let outer = ["outer"; 4];
    let expected = [&["Snapshot>::take", "print_chain"][..], &outer, &["main"]].concat();
    assert!(own.len() == expected.len() && own[1..] == expected[1..], "{text}");
    assert!(names[0].contains("take"), "{text}");
    assert_eq!(names.last(), Some(&"whole"), "{text}");
    assert!(names.iter().rev().nth(1).is_some_and(|name| name.starts_with("_start")), "{text}");
}
