//! Compares the list of loaded programs with the kernel's list of symbols.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this file is tests, the helpers too"
)]

use std::collections::{HashMap, HashSet};

use tare_kernel::bpf::{CallSummary, FollowedTasks, LoadedProgram, SumKey, loaded_programs};

fn ids(programs: &[LoadedProgram]) -> HashSet<u32> {
    programs.iter().map(|program| program.id).collect()
}

/// Other tests may load and unload programs meanwhile.
#[test]
fn functions_of_programs_have_the_names_of_kallsyms() {
    let summary = match CallSummary::start(SumKey::Call, &FollowedTasks::All(None)) {
        Ok(summary) => summary,
        Err(error) => return println!("skipped: no program can be loaded: {error}"),
    };
    let programs = loaded_programs();
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let still = ids(&loaded_programs());
    drop(summary);
    let bpf_lines = symbols.lines().filter(|line| line.ends_with("\t[bpf]"));
    let listed: HashMap<u64, &str> = bpf_lines
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let start = u64::from_str_radix(words.next()?, 16).ok()?;
            Some((start, words.nth(1)?))
        })
        .collect();
    if listed.keys().all(|start| *start == 0) {
        return println!("skipped: addresses are hidden, or the kernel compiles no programs");
    }
    let stayed = programs.iter().filter(|program| still.contains(&program.id));
    let functions: Vec<_> = stayed.flat_map(|program| &program.functions).collect();
    assert!(functions.len() > 1, "at least this test's functions");
    for function in functions {
        let name = String::from_utf8_lossy(&function.name);
        assert_eq!(listed.get(&function.start), Some(&&*name), "{:x}", function.start);
        assert!(function.len > 0);
    }
}
