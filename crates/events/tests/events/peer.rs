//! Compares parsed events with those of `perf`.

use std::process::Command;

use tare_events::{Sources, parse};
use tare_format::abi::{Attr, Flags};
use tare_kernel::host::Host;

/// Texts that `perf` and this grammar must turn into the same events.
const TEXTS: [&str; 27] = [
    "task-clock",
    "cs",
    "migrations:u",
    "faults:uk",
    "cgroup-switches:k",
    "{cs:u,faults}:k",
    "cycles:ku",
    "cycles:h",
    "cycles:I",
    "cycles:De",
    "cycles:upp",
    "stalled-cycles-backend",
    "L1-dcache-load-misses",
    "LLC-misses-stores",
    "Data-TLB-load",
    "bpu",
    "node-prefetch-misses",
    "r1a8:u",
    "1:2",
    "1:0xa:k",
    "mem:0x1000",
    "mem:0x1000/8:x",
    "mem:16/2:w:uk",
    "msr/tsc/",
    "msr/event=0x4/u",
    "raw_syscalls:*",
    "sched:sched_s*",
];

/// Formats the parts of an attribute that both tools must agree on. perf 6.1 sets `exclude_guest`
/// unasked; this grammar doesn't.
fn comparable(attr: &Attr) -> String {
    let counting = Flags::DISABLED | Flags::INHERIT | Flags::ENABLE_ON_EXEC | Flags::EXCLUDE_GUEST;
    Attr {
        flags: attr.flags - counting,
        read_format: Default::default(),
        sample_type: 0,
        ..attr.clone()
    }
    .to_string()
}

/// Returns the comparable parts of the attributes that `perf stat -vv` prints. perf prints an event
/// again when it retries without a feature that `comparable` ignores, so equal neighbours are one
/// event.
fn read_perf_attrs(text: &str) -> Option<Vec<String>> {
    let output = Command::new("perf").args(["stat", "-vv", "-e", text, "true"]).output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let blocks =
        said.split("perf_event_attr:").skip(1).filter_map(|rest| rest.split("-----").next());
    let mut attrs: Vec<String> = blocks.map(|block| comparable(&parse_attr(block))).collect();
    attrs.dedup();
    Some(attrs)
}

/// Parses an attribute as `perf` prints it: `name value` on each line.
fn parse_attr(block: &str) -> Attr {
    let mut attr = Attr::default();
    for line in block.lines() {
        let Some((name, value)) = line.trim().rsplit_once(char::is_whitespace) else { continue };
        let number = value
            .strip_prefix("0x")
            .map_or_else(|| value.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok())
            .unwrap_or(0);
        let name = name.trim();
        match name {
            "type" => attr.kind = u32::try_from(number).expect("a type"),
            "config" => attr.config = number,
            "{ bp_addr, config1 }" => attr.config1 = number,
            "{ bp_len, config2 }" => attr.config2 = number,
            "bp_type" => attr.bp_type = u32::try_from(number).expect("a kind of access"),
            "precise_ip" => attr.precise_ip = u8::try_from(number).expect("0 to 3"),
            _ => {
                if let Some(flag) = Flags::from_name(&name.to_uppercase()) {
                    attr.flags.set(flag, number != 0);
                }
            }
        }
    }
    attr
}

#[test]
fn perf_reads_the_same_events() {
    let sources = Sources::new(Host::default());
    let mut compared = 0;
    let mut wrong = String::new();
    for text in TEXTS {
        let ours = match parse(text, &sources) {
            Ok(groups) => groups,
            Err(error) => {
                println!("{text} skipped: {error}");
                continue;
            }
        };
        let Some(mut theirs) = read_perf_attrs(text) else {
            println!("skipped: no perf here");
            return;
        };
        if theirs.is_empty() {
            println!("{text} skipped: perf opens nothing");
            continue;
        }
        let mut ours: Vec<_> = ours
            .iter()
            .flat_map(|group| &group.events)
            .map(|event| comparable(&event.attr))
            .collect();
        // perf takes the tracepoints of a pattern in the order of the folder.
        ours.sort_unstable();
        theirs.sort_unstable();
        if ours != theirs {
            wrong.push_str(&format!("{text}\nours   {ours:?}\nperf's {theirs:?}\n"));
        }
        compared += 1;
    }
    println!("{compared} of {} texts compared", TEXTS.len());
    assert!(wrong.is_empty(), "{wrong}");
}
