//! Targets for records of BPF ring buffers. Those of system calls are printed as text and as JSON,
//! which strict readers check.

use std::hint::black_box;

use tare_kernel::bpf::{Call, CallPlan, CallRecord, CopyRule, SchedRecord, StackPieces};
use tare_kernel::functions::ProbeCall;
use tare_trace::{
    CallSelection, DescriptorInfo, HexStrings, LineOptions, LineStamps, LineTime, Lines,
    SignalSelection, TraceRecord,
};

use crate::strict;

/// First slot of the second table of calls.
const COMPAT: u16 = 512;

fn options(json: bool) -> LineOptions {
    LineOptions {
        calls: CallSelection::default(),
        string: 40,
        durations: true,
        failures: false,
        min_duration_ns: 0,
        json,
        descriptors: DescriptorInfo::Details,
        signals: SignalSelection::default(),
        stamps: LineStamps { time: LineTime::Microsecond, is_relative: true },
        paths: Vec::new(),
        hex: HexStrings::NotText,
        environments: true,
        numbers: true,
    }
}

/// Splits the input into records, each preceded by its length in two bytes.
fn records(mut input: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = input.split_first_chunk()?;
        let (record, rest) = rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len()));
        input = rest;
        Some(record)
    })
}

fn framed<'a>(records: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let one = |record: &Vec<u8>| {
        let len = u16::try_from(record.len()).unwrap_or(u16::MAX);
        [&len.to_le_bytes()[..], record].concat()
    };
    records.into_iter().flat_map(one).collect()
}

/// Reads records of system calls.
pub(crate) fn calls(input: &[u8]) {
    for json in [false, true] {
        let mut lines = Lines::new(options(json));
        let mut text = String::new();
        for record in records(input).filter_map(CallRecord::parse) {
            lines.add(&TraceRecord::Task { record, cgroup: 0 }, &mut text);
            lines.print_waiting_call(record.time_ns.saturating_add(1 << 30), &mut text);
        }
        lines.finish(&mut text);
        black_box(lines.unreadable());
        let check = if json { strict::json_lines } else { strict::plain };
        assert_eq!(check(text.as_bytes()), Ok(()), "{text:.300}");
    }
}

/// Reads records of switches, wake-ups, copied stacks and function calls.
pub(crate) fn others(input: &[u8]) {
    let mut pieces = StackPieces::default();
    for record in records(input) {
        black_box((SchedRecord::parse(record), pieces.add(record).is_some()));
        let Some(call) = ProbeCall::parse(record) else { continue };
        for number in 0..tare_kernel::functions::ARGUMENTS {
            black_box((call.argument(number, true), call.argument(number, false)));
        }
        if let Some(stack) = call.stack {
            black_box((stack.bytes.len(), stack.kernel().count(), stack.replaced().count()));
        }
    }
}

/// Encodes a `struct record`.
fn record(kind: u16, slot: u16, values: [u64; 6], memory: &[u8]) -> Vec<u8> {
    let words: [&[u8]; 7] = [
        &1_000_000_u64.to_ne_bytes(),
        &7_u32.to_ne_bytes(),
        &7_u32.to_ne_bytes(),
        &kind.to_ne_bytes(),
        &slot.to_ne_bytes(),
        &0_u32.to_ne_bytes(),
        &0_u64.to_ne_bytes(),
    ];
    [words.concat(), values.map(u64::to_ne_bytes).concat(), memory.to_vec()].concat()
}

fn chunk(argument: u8, what: u8, index: u16, bytes: &[u8]) -> Vec<u8> {
    let len = u32::try_from(bytes.len()).unwrap_or(0);
    let mut chunk =
        [&len.to_ne_bytes()[..], &[argument, what], &index.to_le_bytes(), bytes].concat();
    chunk.resize(chunk.len().next_multiple_of(8), 0);
    chunk
}

/// The argument memory that the BPF programs would copy.
fn memory(plan: &CallPlan) -> Vec<u8> {
    let text = b"/a/path\0";
    let bytes: Vec<u8> = (0..48).map(|at| at % 7).collect();
    let of = |(at, (copied, _)): (u8, &(CopyRule, _))| match copied {
        CopyRule::Nothing => Vec::new(),
        CopyRule::Text(_) => chunk(at, 0, 0, text),
        CopyRule::Bytes(size) | CopyRule::Items { size, .. } | CopyRule::Returned { size, .. } => {
            chunk(at, 0, 0, &bytes[..bytes.len().min(usize::from(*size))])
        }
        CopyRule::Texts(_) => [chunk(at, 1, 0, text), chunk(at, 1, 1, text)].concat(),
        CopyRule::TextCount => chunk(at, 0, 3, b""),
        CopyRule::Vectors { .. } | CopyRule::Message(_) => [
            chunk(at, 0, 0, &bytes),
            chunk(at, 1, 0, text),
            chunk(at, 2, 0, &bytes[..16]),
            chunk(at, 3, 0, &bytes[..20]),
        ]
        .concat(),
        CopyRule::Counted { .. } => chunk(at, 0, 0, &bytes[..16]),
        CopyRule::Descriptor | CopyRule::Descriptors => {
            [chunk(at, 4, 0, b"file\0"), chunk(at, 5, 0, &bytes)].concat()
        }
    };
    (0..6).zip(&plan.arguments).flat_map(of).collect()
}

/// Records of all calls with their returns, 24 calls per seed; threads, signals and exits of tasks.
pub(crate) fn call_records() -> Vec<Vec<u8>> {
    let lines = Lines::new(options(false));
    let slot = |call: Call| {
        let number = u16::try_from(call.number).unwrap_or(0);
        if call.compat { number + COMPAT } else { number }
    };
    let all: Vec<_> = lines.plans().collect();
    let pair = |(call, plan): &(Call, CallPlan)| {
        let memory = memory(plan);
        let result = if call.number % 5 == 0 { (-2_i64).cast_unsigned() } else { 3 };
        [
            record(1, slot(*call), [3, 0x1000, 2, 0x2000, 1, 0], &memory),
            record(2, slot(*call), [result, 500, 0, 0, 0, 0], &memory),
        ]
    };
    let mut seeds: Vec<_> = all
        .chunks(24)
        .map(|some| framed(some.iter().flat_map(pair).collect::<Vec<_>>().iter()))
        .collect();
    let tasks = [
        record(1, 0, [3; 6], b""),
        record(3, 0, [8, 7, 0, 0, 0, 0], b""),
        record(5, 0, [11, 0, 0, 0, 0, 0], &[11; 48]),
        record(5, 0, [17, 1, 0, 0, 0, 0], b""),
        record(4, 0, [256, 0, 0, 0, 0, 0], b""),
    ];
    seeds.push(framed(&tasks));
    seeds
}

/// Records of a switch, of a copied stack, and of a function call.
pub(crate) fn other_records() -> Vec<Vec<u8>> {
    let switch: Vec<u8> = [
        &5_u64.to_ne_bytes()[..],
        &1_u32.to_ne_bytes(),
        &1_u16.to_ne_bytes(),
        &3_u16.to_ne_bytes(),
        &[0; 8],
        b"\x07\0\0\0\x07\0\0\0name\0\0\0\0\0\0\0\0\0\0\0\0",
        b"\x08\0\0\0\x08\0\0\0other\0\0\0\0\0\0\0\0\0\0\0",
    ]
    .concat();
    let mut call = vec![0; 8192];
    call[24] = 2;
    let mut copy = vec![0; 400];
    copy[0] = 1;
    vec![framed(&[switch, copy]), framed(&[call])]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rejected seed would test only its first bytes.
    #[test]
    fn seeds_are_read() {
        for seed in call_records() {
            assert!(records(&seed).all(|record| CallRecord::parse(record).is_some()));
        }
        let others = other_records();
        assert!(records(&others[0]).any(|record| SchedRecord::parse(record).is_some()));
        assert!(records(&others[0]).any(|record| StackPieces::default().add(record).is_some()));
        assert!(records(&others[1]).any(|record| ProbeCall::parse(record).is_some()));
    }
}
