//! Tracepoints in `tare script` compared with `perf script`.

use std::fs::File;
use std::process::Command;

use tare_format::file::Reader;
use tare_format::record::Sample;
use tare_format::tracepoint::Format;

use crate::script::{lines, record, same};
use crate::support::tare;

#[test]
fn tracepoints_are_printed_as_by_perf() {
    same(&["-a", "-e", "sched:*"], &[]);
    // On the whole machine, only kernel events: the tools demangle other programs' C++ names
    // differently.
    same(&["-a", "-e", "raw_syscalls:*", "-e", "context-switches"], &[]);
    same(&["-e", "syscalls:*"], &[]);
    same(&["-e", "kmem:*"], &[]);
    same(
        &[
            "-a",
            "-e",
            "irq:*",
            "-e",
            "timer:hrtimer_*",
            "-e",
            "signal:*",
            "-e",
            "task:*",
            "-e",
            "block:*",
        ],
        &[],
    );
    same(&["-g", "-e", "sched:sched_switch"], &[]);
    flags_of_timers_are_those_of_the_raw_bytes();
    same(
        &["-e", "writeback:*", "-e", "ext4:*", "-e", "filemap:*", "-e", "exceptions:*"],
        &["-F", "trace:comm,event,trace"],
    );
}

/// perf ignores the parentheses of `flags & (0x40000 | 0x80000 | 0x100000 | 0x200000)` in this
/// format, so it always prints names for the last three bits.
fn flags_of_timers_are_those_of_the_raw_bytes() {
    const NAMES: [(u32, &str); 4] =
        [(0x4_0000, "M"), (0x8_0000, "D"), (0x10_0000, "P"), (0x20_0000, "I")];
    let names = |flags: u32| {
        NAMES
            .iter()
            .filter(|(bit, _)| flags & bit != 0)
            .map(|(_, name)| *name)
            .collect::<Vec<_>>()
            .join("|")
    };
    let Some(recorded) = record(&["-a", "-e", "timer:timer_start"]) else { return };
    let [ours, theirs] = [tare(), Command::new("perf")]
        .map(|command| lines(command, &recorded.path, &["-F", "time,event,trace"]));
    let printed =
        |line: &String| line.rsplit_once(" flags=").map(|(_, flags)| flags.to_owned()).unwrap();
    let mut reader = Reader::open(File::open(&recorded.path).unwrap()).unwrap();
    let mut recorded = Vec::new();
    while let Some(entry) = reader.next_record().unwrap() {
        if let Ok(sample) = Sample::from_record(&entry.record, entry.description.lookup()) {
            // The field's offset in this event's format since Linux 6.6.
            recorded.extend(
                sample
                    .raw
                    .and_then(|raw| raw.get(48..52)?.try_into().ok())
                    .map(|flags| (sample.head.time_ns, u32::from_le_bytes(flags))),
            );
        }
    }
    recorded.sort_unstable();
    let flags = || recorded.iter().map(|(_, flags)| *flags);
    assert_eq!(
        ours.iter().map(printed).collect::<Vec<_>>(),
        flags().map(names).collect::<Vec<_>>()
    );
    let dropped: Vec<_> = flags().map(|flags| names(flags & 0x4_0000 | 0x38_0000)).collect();
    assert_eq!(
        theirs.iter().map(printed).collect::<Vec<_>>(),
        dropped,
        "perf keeps the brackets: docs/script.md says otherwise"
    );
}

/// tare parses at least 98% of this kernel's print formats.
#[test]
fn the_formats_of_this_kernel_are_understood() {
    let Ok(systems) = std::fs::read_dir("/sys/kernel/tracing/events") else {
        return println!("skipped: tracefs is not readable");
    };
    let events = systems
        .flatten()
        .flat_map(|system| std::fs::read_dir(system.path()).into_iter().flatten().flatten());
    let texts =
        events.filter_map(|event| std::fs::read_to_string(event.path().join("format")).ok());
    let formats: Vec<_> = texts.map(|text| Format::parse(&text).unwrap()).collect();
    let failed: Vec<_> = formats
        .iter()
        .filter(|format| !format.has_print())
        .map(|format| format.name.as_str())
        .collect();
    println!("{} of {} formats are not understood: {failed:?}", failed.len(), formats.len());
    assert!(failed.len() * 50 <= formats.len(), "{failed:?}");
}

/// Clears the bit of the feature with the tracepoints' formats, and its entry in the table.
fn without_formats(file: &mut [u8]) {
    let word = |file: &[u8], at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let table = usize::try_from(word(file, 40) + word(file, 48)).unwrap();
    let bits = word(file, 72);
    let entries = bits.count_ones() as usize;
    let place = (bits & 0b11).count_ones() as usize - 1;
    assert_eq!(bits & 0b10, 0b10, "HEADER_TRACING_DATA");
    file.copy_within(table + 16 * (place + 1)..table + 16 * entries, table + 16 * place);
    file[72..80].copy_from_slice(&(bits & !0b10).to_le_bytes());
}

#[test]
fn tracepoints_without_formats_are_reported_by_command_and_symbol() {
    let Some(recorded) = record(&["-e", "sched:sched_switch"]) else { return };
    let path = recorded.path.with_extension("bare");
    let mut file = std::fs::read(&recorded.path).unwrap();
    let report = |path: &std::path::Path| {
        let output = tare().args(["report", "--stdio", "-i"]).arg(path).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(report(&recorded.path).contains("Trace output"));
    without_formats(&mut file);
    std::fs::write(&path, file).unwrap();
    let bare = report(&path);
    assert!(bare.contains("Command  Shared Object") && !bare.contains("Trace output"), "{bare}");
    assert!(bare.contains(" of event 'sched:sched_switch'"), "{bare}");
}
