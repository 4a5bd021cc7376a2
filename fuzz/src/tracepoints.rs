//! Targets for tracepoint formats and their section in a recording.

use std::hint::black_box;

use tare_format::Endian;
use tare_format::tracepoint::{Format, NoNames, TracingData};

use crate::seeds;

/// A format with many kinds of fields and expressions.
const FORMAT: &str = r#"name: example
ID: 1
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:char comm[8];	offset:8;	size:8;	signed:0;
	field:long number;	offset:16;	size:8;	signed:1;
	field:__data_loc char[] name;	offset:24;	size:4;	signed:0;
	field:u8 mac[4];	offset:28;	size:4;	signed:0;
	field:__rel_loc u16[] list;	offset:32;	size:4;	signed:0;

print fmt: "%s %-5s %*d %#llx %c %pS %pM %02u%% %s %s %s %s %s", REC->comm, __get_str(name), 7, REC->number, REC->number << 3, 'a', (void *)REC->number, REC->mac, (u8)REC->mac[1] & ~3, REC->number > 1 ? "yes" : "no", __print_flags(REC->number, "|", { 1, "A" }, { 1UL << 4, "B" }), __print_symbolic(REC->number, { 0, "zero" }, { 5, "five" }), __print_hex(REC->mac, 4), __print_array(__get_dynamic_array(list), __get_dynamic_array_len(list) / 2, 2)
"#;

/// A sample of [`FORMAT`]; `name` is at offset 36, followed by `list`.
fn sample() -> Vec<u8> {
    let mut raw = vec![1, 0, 0, 0, 1, 0, 0, 0];
    raw.extend_from_slice(b"sh\0xxxxx\x11\0\0\0\0\0\0\0");
    raw.extend_from_slice(&(36_u32 | 4 << 16).to_le_bytes());
    raw.extend_from_slice(&[1, 2, 3, 4]);
    raw.extend_from_slice(&(4_u32 | 4 << 16).to_le_bytes());
    raw.extend_from_slice(b"abc\0\x01\0\x02\0");
    raw
}

/// The first byte is the length of the sample that follows; the rest is the tracepoint's format.
pub(crate) fn format(input: &[u8]) {
    let Some((raw, text)) = split(input) else { return };
    let Some(format) = Format::parse(&String::from_utf8_lossy(text)) else { return };
    for endian in [Endian::Little, Endian::Big] {
        let mut out = Vec::new();
        format.print(raw, endian, &mut NoNames, &mut out);
        black_box(out);
    }
}

/// Like [`format`], with a whole section after the sample.
pub(crate) fn section(input: &[u8]) {
    let Some((raw, section)) = split(input) else { return };
    let Ok(data) = TracingData::parse(section) else { return };
    for id in 0..4 {
        let mut out = Vec::new();
        if let Some(format) = data.format(id) {
            format.print(raw, data.endian, &mut NoNames, &mut out);
        }
        black_box((out, data.name(id), data.printk(id).is_some()));
    }
}

fn split(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = input.split_first()?;
    rest.split_at_checked(usize::from(*len)).or(Some((rest, &[])))
}

fn behind_a_sample(rest: &[u8]) -> Vec<u8> {
    let raw = sample();
    [&[u8::try_from(raw.len()).unwrap_or(0)][..], &raw, rest].concat()
}

pub(crate) fn formats() -> Vec<Vec<u8>> {
    vec![behind_a_sample(FORMAT.as_bytes())]
}

/// A recording of the scheduler's and of locks' tracepoints, and of [`FORMAT`].
pub(crate) fn recording() -> Vec<u8> {
    let field = |name: &str, offset: usize, size: usize| {
        format!("\tfield:{name};\toffset:{offset};\tsize:{size};\tsigned:1;\n")
    };
    let task = |comm: &str, pid: &str, at: usize| {
        field(&format!("char {comm}[16]"), at, 16) + &field(&format!("int {pid}"), at + 16, 4)
    };
    let switch = task("prev_comm", "prev_pid", 8)
        + &field("long prev_state", 32, 8)
        + &task("next_comm", "next_pid", 40);
    let waking = task("comm", "pid", 8) + &field("int target_cpu", 28, 4);
    let begin = field("void * lock_addr", 8, 8) + &field("unsigned int flags", 16, 4);
    let end = field("void * lock_addr", 8, 8) + &field("int ret", 16, 4);
    let common = field("unsigned short common_type", 0, 2) + &field("int common_pid", 4, 4);
    let format = |name: &str, id: u64, fields: &str| {
        format!(
            "name: {name}\nID: {id}\nformat:\n{common}\n{fields}\nprint fmt: \"%d\", REC->common_pid\n"
        )
    };
    let sched = [format("sched_switch", 2, &switch), format("sched_waking", 3, &waking)];
    let lock = [format("contention_begin", 4, &begin), format("contention_end", 5, &end)];
    let raw = |number: u8| {
        let mut raw = [number; 60];
        raw[..8].copy_from_slice(&[number, 0, 0, 0, 7, 0, 0, 0]);
        raw[16..24].fill(0);
        raw
    };
    let mut data = Vec::new();
    let mut time_ns = 0;
    for id in [1, 2, 3, 2, 4, 5, 2, 3, 4, 5] {
        time_ns += 10;
        data.extend(seeds::sample_of(id, time_ns, &raw(u8::try_from(id).unwrap_or(0))));
    }
    let events = [
        ("sched:example", 1),
        ("sched:sched_switch", 2),
        ("sched:sched_waking", 3),
        ("lock:contention_begin", 4),
        ("lock:contention_end", 5),
    ];
    let [switch, waking] = &sched;
    let sections = section_of(&[
        ("sched", &[FORMAT, switch, waking]),
        ("lock", &lock.each_ref().map(String::as_str)),
    ]);
    seeds::traced(&events, sections, &data)
}

pub(crate) fn sections() -> Vec<Vec<u8>> {
    vec![behind_a_sample(&section_of(&[("sched", &[FORMAT])]))]
}

/// The section that describes these systems' tracepoints.
fn section_of(systems: &[(&str, &[&str])]) -> Vec<u8> {
    let sized = |text: &[u8]| [&(text.len() as u64).to_le_bytes()[..], text].concat();
    let sized32 =
        |text: &[u8]| [&u32::try_from(text.len()).unwrap_or(0).to_le_bytes()[..], text].concat();
    let number = |number: usize| u32::try_from(number).unwrap_or(0).to_le_bytes();
    let mut of_systems = number(systems.len()).to_vec();
    for (system, formats) in systems {
        of_systems.extend([system.as_bytes(), b"\0", &number(formats.len())].concat());
        of_systems.extend(formats.iter().flat_map(|format| sized(format.as_bytes())));
    }
    let parts: [&[u8]; 9] = [
        b"\x17\x08\x44tracing0.6\0\x00\x08\x00\x10\x00\x00",
        b"header_page\0",
        &sized(b"field: u64 timestamp;"),
        b"header_event\0",
        &sized(b"# compressed entry header"),
        &[0; 4],
        &of_systems,
        &sized32(b"ffffffff81000000 T _text\n"),
        &sized32(b"0x1 : \"text\\n\"\n"),
    ];
    parts.concat()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn seeds_are_read_to_their_end() {
        let format = Format::parse(FORMAT).unwrap();
        let mut out = Vec::new();
        format.print(&sample(), Endian::Little, &mut NoNames, &mut out);
        let text = String::from_utf8_lossy(&out).into_owned();
        assert!(
            format.has_print() && text.starts_with("sh abc ") && text.ends_with("{0x1,0x2}"),
            "{text}"
        );
        let seed = &sections()[0];
        let data = TracingData::parse(split(seed).unwrap().1).unwrap();
        assert_eq!(
            (data.error, data.name(1), data.printk(1)),
            (None, Some("sched:example".to_owned()), Some("text"))
        );
    }
}
