//! Properties of the parser: on random texts, of events' names, of errors, and of the files read.

use crate::machines;

use tare_events::parse;

/// Pieces of the grammar, and texts that are invalid in it.
const PIECES: [&str; 48] = [
    "cycles",
    "cs",
    "task-clock",
    "L1-dcache-loads",
    "LLC",
    "r1a8",
    "r",
    "0",
    "1",
    "0x1a8",
    "4294967296",
    "18446744073709551616",
    "mem",
    "mem-loads",
    "cpu",
    "uncore_imc",
    "imc",
    "*imc*",
    "event",
    "umask",
    "ldlat",
    "cas_count_read",
    "lookups",
    "slice",
    "sched",
    "sched_switch",
    "raw_syscalls",
    "name",
    "period",
    "freq",
    "call-graph",
    "fp",
    "u",
    "kp",
    "GHe",
    "*",
    "[",
    "]",
    "?",
    "'",
    " ",
    "-",
    "é",
    "\u{7}",
    "\0",
    "..",
    "%",
    "nr",
];
const MARKS: [&str; 9] = [":", "/", ",", "{", "}", "=", ":", "/", ""];

#[test]
fn parses_any_text_without_panic() {
    let machine = machines::intel();
    let sources = machine.sources();
    let mut random = fastrand::Rng::with_seed(7);
    let mut accepted = 0;
    for _ in 0..10_000 {
        let length = random.usize(0..9);
        let text: String = (0..length)
            .map(|_| {
                [PIECES[random.usize(..PIECES.len())], MARKS[random.usize(..MARKS.len())]].concat()
            })
            .collect();
        match parse(&text, &sources) {
            Ok(groups) => {
                accepted += 1;
                assert!(groups.iter().all(|group| !group.events.is_empty()), "{text:?}");
                assert_eq!(parse(&text, &sources).ok().as_ref(), Some(&groups), "{text:?}");
            }
            Err(error) => {
                assert!(text.is_char_boundary(error.offset), "{text:?}: {}", error.offset);
                assert!(error.pointer().ends_with('^'), "{text:?}");
            }
        }
    }
    assert!(accepted > 50, "only {accepted} of the texts were events: the generator is off");
}

/// Parsing an event's name yields the same event.
#[test]
fn names_parse_as_their_events() {
    for machine in [machines::vm(), machines::intel(), machines::hybrid(), machines::arm64()] {
        let sources = machine.sources();
        for text in [
            "cs",
            "cycles:u",
            "0:1:k",
            "r1a8",
            "LLC-loads:pp",
            "sched:*",
            "mem:0x10/2:w",
            "uncore_imc/clockticks/",
            "mem-stores",
            "cpu/event=1/u",
        ] {
            for event in parse(text, &sources).into_iter().flatten().flat_map(|group| group.events)
            {
                let again = parse(&event.name, &sources)
                    .unwrap_or_else(|error| panic!("{}: {error}", event.name));
                assert!(
                    again.iter().any(|group| group.events == [event.clone()]),
                    "{} is {again:?}",
                    event.name
                );
            }
        }
    }
}

/// The offset is that of the invalid word.
#[test]
fn an_error_has_one_line_with_its_position_and_a_mark() {
    let machine = machines::vm();
    let error = parse("cs,page-fualts:u", &machine.sources()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "event at character 4: unknown event 'page-fualts' (`tare list` shows the events of this machine); nearest: page-faults"
    );
    assert_eq!(error.pointer(), "  cs,page-fualts:u\n     ^");
    let sched = parse("{cs,schéd:x}", &machine.sources()).unwrap_err();
    assert_eq!((sched.offset, sched.pointer().as_str()), (4, "  {cs,schéd:x}\n      ^"));
}

#[test]
fn sysfs_and_tracefs_are_read_only_when_a_name_needs_them() {
    let nothing = machines::bare();
    let events = "task-clock,cs,cpu-migrations,page-faults,cycles,instructions,branches,branch-misses,0:1:u,r1a8,mem:0x10";
    assert_eq!(parse(events, &nothing.sources()).unwrap().len(), 11);
    let refused = |text| parse(text, &nothing.sources()).unwrap_err().to_string();
    assert_eq!(
        refused("sched:sched_switch"),
        "event at character 1: tracepoint sched:sched_switch: tracefs is not mounted (as root: mount -t tracefs tracefs /sys/kernel/tracing)"
    );
    assert_eq!(refused("msr/tsc/"), "event at character 1: this machine has no PMU 'msr'");
}
