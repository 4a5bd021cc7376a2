//! Memory of a live replay of large programs, in a process of its own.
#![allow(clippy::unwrap_used, reason = "all of this file is tests")]

#[path = "../examples/live_memory/played.rs"]
mod played;

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

const PROGRAMS: u64 = 30;
const SYMBOLS: usize = 100_000;

/// A library with many functions of one byte.
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

/// Each is run for some seconds and then no more: as when a project is built and tested.
#[test]
fn symbols_of_programs_that_are_gone_are_given_back() {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path());
    let path = |number| folder.path().join(format!("program-{number}")).display().to_string();
    for number in 0..PROGRAMS {
        std::fs::copy(folder.path().join("many.so"), path(number)).unwrap();
    }
    // Two at a time, for ten seconds each pair; what is older than ten seconds is forgotten.
    let played = played::play(2 * 990 * PROGRAMS, 2 * PROGRAMS, |number| path(number % PROGRAMS));
    let played = played.unwrap();
    // What is looked at first has symbols of a few already; without forgetting there are 30 then.
    let grown = played.end.resident.saturating_sub(played.warm.resident);
    assert!(grown <= 16 << 20, "{played}");
}
