//! Command lines of `tare stat` and the `perf_event_attr` that the kernel gets for them:
//! crates/tare/tests/golden/stat_attr.txt. Tests of crates/events cover events of other machines.

use crate::support::{is_root, sh, stderr};

const GOLDEN: &str = include_str!("../golden/stat_attr.txt");

/// The output of `-vv`, one event per line: `name: field value, field value`.
fn attributes(line: &str) -> String {
    let command =
        line.replacen("tare stat", &format!("{} stat -vv", env!("CARGO_BIN_EXE_tare")), 1);
    let text = stderr(&sh(&command));
    let blocks = text.split("perf_event_attr of ").skip(1);
    let event = |block: &str| {
        let (name, rest) = block.split_once(":\n").unwrap_or_else(|| panic!("{block}"));
        let fields: Vec<&str> = rest.lines().take_while(|line| !line.is_empty()).collect();
        format!("  {name}: {}\n", fields.join(", "))
    };
    blocks.map(event).collect()
}

#[test]
fn every_command_line_gives_its_attributes() {
    if !is_root() {
        return;
    }
    let lines: Vec<&str> = GOLDEN.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    assert!(lines.len() > 10);
    let now: String = lines.iter().map(|line| format!("$ {line}\n{}", attributes(line))).collect();
    let expected: String = GOLDEN
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(now, expected, "what the command lines give now:\n{now}");
}
