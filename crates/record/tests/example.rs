//! Runs the example as a user would.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this file is tests")]

use std::process::Command;

#[test]
fn the_hottest_functions_of_a_closure_are_named() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut run = Command::new(cargo);
    run.args(["run", "-q", "--offline", "--example", "hottest_functions"]);
    let output = run.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    if said.contains("NotPermitted") {
        return println!("skipped: events need perf_event_paranoid 2 or less");
    }
    assert!(output.status.success(), "{said}");
    assert!((1..=10).contains(&text.lines().count()), "{text}");
    // Without optimization the iterator's functions are about as hot as the closure's.
    let is_work = |line: &str| line.contains("pow") || line.contains("hottest_functions");
    assert!(text.lines().take(3).any(is_work), "{text}");
}
