//! Formats of tracepoints, and the section that a recording has them in.

use std::hint::black_box;

use tare_format::Endian;
use tare_format::tracepoint::{Format, NoNames, TracingData};

/// A format with each kind of field and of expression.
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

/// A sample of it; `name` lies at 36, `list` behind it.
fn sample() -> Vec<u8> {
    let mut raw = vec![1, 0, 0, 0, 1, 0, 0, 0];
    raw.extend_from_slice(b"sh\0xxxxx\x11\0\0\0\0\0\0\0");
    raw.extend_from_slice(&(36_u32 | 4 << 16).to_le_bytes());
    raw.extend_from_slice(&[1, 2, 3, 4]);
    raw.extend_from_slice(&(4_u32 | 4 << 16).to_le_bytes());
    raw.extend_from_slice(b"abc\0\x01\0\x02\0");
    raw
}

/// The first byte is the length of a sample, which comes next; the rest is its tracepoint's format.
pub(crate) fn format(input: &[u8]) {
    let Some((raw, text)) = split(input) else { return };
    let Some(format) = Format::parse(&String::from_utf8_lossy(text)) else { return };
    for endian in [Endian::Little, Endian::Big] {
        let mut out = Vec::new();
        format.print(raw, endian, &mut NoNames, &mut out);
        black_box(out);
    }
}

/// The same, with a whole section behind the sample.
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

pub(crate) fn sections() -> Vec<Vec<u8>> {
    let sized = |text: &[u8]| [&(text.len() as u64).to_le_bytes()[..], text].concat();
    let sized32 =
        |text: &[u8]| [&u32::try_from(text.len()).unwrap_or(0).to_le_bytes()[..], text].concat();
    let one = 1_u32.to_le_bytes();
    let parts: [&[u8]; 12] = [
        b"\x17\x08\x44tracing0.6\0\x00\x08\x00\x10\x00\x00",
        b"header_page\0",
        &sized(b"field: u64 timestamp;"),
        b"header_event\0",
        &sized(b"# compressed entry header"),
        &[0; 4],
        &one,
        b"sched\0",
        &one,
        &sized(FORMAT.as_bytes()),
        &sized32(b"ffffffff81000000 T _text\n"),
        &sized32(b"0x1 : \"text\\n\"\n"),
    ];
    vec![behind_a_sample(&parts.concat())]
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
