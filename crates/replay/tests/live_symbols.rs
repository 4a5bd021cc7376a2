//! Memory of a live replay of large programs, measured in a separate process.
#![allow(clippy::unwrap_used, reason = "all of this file is tests")]

#[path = "../examples/live_memory/played.rs"]
mod played;

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

const PROGRAMS: u64 = 30;
const SYMBOLS: usize = 100_000;

/// Builds a library with many functions of one byte.
fn build(folder: &Path) {
    let mut code = String::new();
    for number in 0..SYMBOLS {
        writeln!(code, ".globl a_function_of_this_name_{number}").unwrap();
        writeln!(code, ".type a_function_of_this_name_{number}, @function").unwrap();
        writeln!(code, "a_function_of_this_name_{number}: .byte 0").unwrap();
    }
    std::fs::write(folder.join("many.s"), code).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-nostdlib", "-Wl,--build-id=none", "-o", "many.so", "many.s"]);
    assert!(compiler.current_dir(folder).status().unwrap().success());
}

/// Each of many programs runs twice, for ten seconds, like the compilers and tests of a build.
#[test]
fn symbols_of_exited_programs_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path());
    let path = |number| folder.path().join(format!("program-{number}")).display().to_string();
    for number in 0..PROGRAMS {
        std::fs::copy(folder.path().join("many.so"), path(number)).unwrap();
    }
    // Two programs at a time run for ten seconds; records older than ten seconds are dropped.
    let played = played::play(2 * 990 * PROGRAMS, 2 * PROGRAMS, |number| path(number % PROGRAMS));
    let played = played.unwrap();
    // The first measurement includes a few programs' symbols; without dropping there would be 30 at
    // the end.
    let grown = played.end.resident.saturating_sub(played.warm.resident);
    assert!(grown <= 16 << 20, "{played}");
}
