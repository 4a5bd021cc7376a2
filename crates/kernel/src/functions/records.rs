//! Parses the records of `bpf/probes.bpf.c`.

use super::ARGUMENTS;
use super::registers::{COUNT, Register};

const TEXT: usize = 64;
const OUTER: usize = 16;
const KERNEL_FRAMES: usize = 32;

/// Sizes of `struct call` and `struct texts`, and offsets within the record of a slow call.
pub(super) const CALL: usize = 112;
const TEXTS: usize = ARGUMENTS * TEXT;
const REGISTERS: usize = CALL + TEXTS;
const RETURNS: usize = REGISTERS + 8 * COUNT;
const KERNEL: usize = RETURNS + 16 * OUTER;
const COPIED: usize = KERNEL + 8 * KERNEL_FRAMES;
const STACK: usize = COPIED + 8;

/// The value of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgumentValue<'a> {
    /// The number, or the address of the string; `None` if memory could not be read.
    pub value: Option<u64>,
    /// The string up to its NUL byte, at most 63 bytes; empty for a number.
    pub text: &'a [u8],
}

/// A call of a function, or a pass of a place.
#[derive(Clone, Copy, Debug)]
pub struct ProbeCall<'a> {
    /// Index of the place.
    pub place: usize,
    /// Its beginning by `CLOCK_MONOTONIC`, in nanoseconds.
    pub time_ns: u64,
    /// Its duration in nanoseconds; 0 for a place that is only passed.
    pub duration_ns: u64,
    /// The thread, in the initial pid namespace.
    pub tid: u32,
    /// Its process.
    pub process: u32,
    /// The thread's name, up to its NUL byte.
    pub comm: &'a [u8],
    /// Its caller's stack, if it is one of the slowest.
    pub stack: Option<CopiedStack<'a>>,
    bytes: &'a [u8],
}

/// Registers and stack of a thread at a function's return: the user's, and for a function of the
/// kernel also the kernel's return addresses.
#[derive(Clone, Copy, Debug)]
pub struct CopiedStack<'a> {
    /// The stack, from the stack pointer upwards.
    pub bytes: &'a [u8],
    record: &'a [u8],
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_ne_bytes(*b))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_ne_bytes(*b))
}

fn up_to_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

impl<'a> ProbeCall<'a> {
    /// Parses a record; `None` if it is too short or of unknown kind.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() < CALL + TEXTS {
            return None;
        }
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let stack = match half(24) {
            1 => None,
            2 => {
                let copied = usize::try_from(long(bytes, COPIED)).ok()?;
                let copy = bytes.get(STACK..)?.get(..copied)?;
                Some(CopiedStack { bytes: copy, record: bytes })
            }
            _ => return None,
        };
        Some(Self {
            place: half(26).into(),
            time_ns: long(bytes, 0),
            duration_ns: long(bytes, 8),
            tid: word(bytes, 16),
            process: word(bytes, 20),
            comm: up_to_nul(&bytes[32..48]),
            stack,
            bytes,
        })
    }

    /// Returns an argument, counted from 0, with its string if it is one.
    #[must_use]
    pub fn argument(&self, number: usize, is_text: bool) -> ArgumentValue<'a> {
        let unreadable = word(self.bytes, 28) >> number & 1 != 0;
        let text = &self.bytes[CALL + number % ARGUMENTS * TEXT..][..TEXT];
        ArgumentValue {
            value: (!unreadable).then(|| long(self.bytes, 48 + 8 * (number % ARGUMENTS))),
            text: if is_text && !unreadable { up_to_nul(text) } else { &[] },
        }
    }
}

impl<'a> CopiedStack<'a> {
    /// Returns a register's value.
    #[must_use]
    pub fn register(&self, register: Register) -> u64 {
        let all = std::array::from_fn(|at| long(self.record, REGISTERS + 8 * at));
        register.value_in(&all)
    }

    /// Iterates over the kernel's return addresses, innermost first, if the function is the
    /// kernel's.
    pub fn kernel(&self) -> impl Iterator<Item = u64> + 'a {
        let record = self.record;
        (0..KERNEL_FRAMES)
            .map(move |at| long(record, KERNEL + 8 * at))
            .take_while(|address| *address != 0)
    }

    /// Iterates over the places on the stack where the kernel put its own return address: the
    /// place, and the original address.
    pub fn replaced(&self) -> impl Iterator<Item = (u64, u64)> + 'a {
        let record = self.record;
        let pair = move |at| (long(record, RETURNS + 16 * at), long(record, RETURNS + 16 * at + 8));
        (0..OUTER).map(pair).filter(|(at, original)| *at != 0 && *original != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_records_are_rejected() {
        let mut bytes = vec![0; STACK + 8192];
        bytes[24] = 2;
        bytes[28] = 2;
        bytes[48] = 7;
        bytes[CALL..CALL + 3].copy_from_slice(b"abc");
        bytes[COPIED + 1] = 32;
        let whole = ProbeCall::parse(&bytes).unwrap();
        assert_eq!(whole.stack.unwrap().bytes.len(), 8192);
        assert_eq!(whole.argument(0, true), ArgumentValue { value: Some(7), text: b"abc" });
        assert_eq!(whole.argument(1, true), ArgumentValue { value: None, text: b"" });
        assert_eq!(whole.stack.unwrap().kernel().count(), 0);
        assert_eq!(whole.stack.unwrap().replaced().count(), 0);
        for length in (0..STACK + 100).step_by(7) {
            assert!(ProbeCall::parse(&bytes[..length]).is_none(), "{length}");
        }
    }
}
