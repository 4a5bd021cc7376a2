//! Copies the memory that a call's arguments point to from a stopped or waiting thread, in the form
//! that the BPF programs write.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::plan::{CallPlan, CopyRule};

/// Most bytes of a chunk.
const MOST: usize = 4096;
/// Most strings copied from a vector, and most strings counted in one.
const STRINGS: u16 = 33;
const COUNTED_STRINGS: u16 = 2048;
/// Most vectors of `struct iovec`.
const VECTORS: u16 = 16;
/// Bytes of `struct msghdr` of 64-bit programs.
const MESSAGE: usize = 56;

// Contents of a chunk, as in `bpf/calls.bpf.c`.
const WHOLE: u8 = 0;
const ELEMENT: u8 = 1;
const NAME: u8 = 2;
const CONTROL: u8 = 3;
const UNREADABLE: u8 = 0x80;

/// When memory is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyMoment {
    /// At the beginning of a call.
    Enter,
    /// At its end, with its result.
    Exit(i64),
}

/// The memory of a process.
#[derive(Debug)]
pub struct UserMemory {
    file: File,
    /// Bytes of a pointer.
    pointer: usize,
}

/// Where a chunk belongs.
#[derive(Clone, Copy)]
struct ChunkLabel {
    argument: u8,
    part: u8,
    index: u16,
}

impl UserMemory {
    /// Opens the memory of a thread's process; `None` if this user may not read it. `compat`:
    /// whether the process runs a 32-bit program.
    #[must_use]
    pub fn open(tid: i32, compat: bool) -> Option<Self> {
        let file = File::open(format!("/proc/{tid}/mem")).ok()?;
        Some(Self { file, pointer: if compat { 4 } else { 8 } })
    }

    /// Copies what a plan requests at this moment, as chunks. Files of descriptors are left out.
    #[must_use]
    pub fn copy(&self, plan: &CallPlan, values: &[u64; 6], moment: CopyMoment) -> Vec<u8> {
        let mut payload = Vec::new();
        for (argument, (rule, time)) in (0_u8..).zip(plan.arguments) {
            let (is_due, returned) = match moment {
                CopyMoment::Enter => (time.enter, u64::MAX),
                CopyMoment::Exit(result) => match u64::try_from(result) {
                    Ok(result) => (time.success, result),
                    Err(_) => (time.failure, 0),
                },
            };
            if is_due && values[usize::from(argument)] != 0 {
                self.copy_argument(&mut payload, argument, rule, values, returned);
            }
        }
        payload
    }

    fn copy_argument(
        &self,
        payload: &mut Vec<u8>,
        argument: u8,
        rule: CopyRule,
        values: &[u64; 6],
        returned: u64,
    ) {
        let address = values[usize::from(argument)];
        let value = |at: u8| values.get(usize::from(at)).copied().unwrap_or(0);
        let whole = ChunkLabel { argument, part: WHOLE, index: 0 };
        match rule {
            CopyRule::Nothing | CopyRule::Descriptor | CopyRule::Descriptors => {}
            CopyRule::Text(most) => self.push_text(payload, address, most, whole),
            CopyRule::Bytes(size) => self.push(payload, address, size.into(), whole),
            CopyRule::Items { count, size, most } => {
                let bytes = value(count).saturating_mul(size.into()).min(most.into());
                self.push(payload, address, bytes, whole);
            }
            CopyRule::Returned { size, most } => {
                let bytes = returned.saturating_mul(size.into()).min(most.into());
                self.push(payload, address, bytes, whole);
            }
            CopyRule::Texts(most) => {
                for (index, string) in (0..STRINGS).zip(self.pointers(address)) {
                    let label = ChunkLabel { argument, part: ELEMENT, index };
                    match string {
                        Some(0) => break,
                        Some(string) => self.push_text(payload, string, most, label),
                        None => {
                            push_chunk(payload, None, label);
                            break;
                        }
                    }
                }
            }
            CopyRule::TextCount => {
                let strings = self.pointers(address).take(usize::from(COUNTED_STRINGS));
                let count = strings.take_while(|string| !matches!(string, Some(0) | None)).count();
                let index = u16::try_from(count).unwrap_or(u16::MAX);
                push_chunk(payload, Some(&[]), ChunkLabel { index, ..whole });
            }
            CopyRule::Vectors { count, most } => {
                self.push_vectors(payload, argument, [address, value(count), returned], most);
            }
            CopyRule::Message(most) => {
                self.push_message(payload, address, argument, returned, most);
            }
            CopyRule::Counted { count, most } => {
                let Some(bytes) = self.read::<4>(value(count)).map(u32::from_ne_bytes) else {
                    return;
                };
                let index = u16::try_from(bytes & 0xffff).unwrap_or(0);
                let wanted = u64::from(bytes).min(most.into());
                self.push(payload, address, wanted, ChunkLabel { index, ..whole });
            }
        }
    }

    /// `place`: the vectors' address, their number, and the bytes that the call has moved.
    fn push_vectors(&self, payload: &mut Vec<u8>, argument: u8, place: [u64; 3], most: u16) {
        let [address, count, mut left] = place;
        let count = u16::try_from(count).unwrap_or(VECTORS).min(VECTORS);
        let whole = ChunkLabel { argument, part: WHOLE, index: 0 };
        self.push(payload, address, u64::from(count) * 16, whole);
        for index in 0..count {
            let Some(vector) = self.read::<16>(address + 16 * u64::from(index)) else { break };
            let long =
                |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| vector[at + byte]));
            if left == 0 {
                break;
            }
            let bytes = long(8).min(left).min(most.into());
            self.push(payload, long(0), bytes, ChunkLabel { argument, part: ELEMENT, index });
            left = left.saturating_sub(long(8));
        }
    }

    fn push_message(
        &self,
        payload: &mut Vec<u8>,
        address: u64,
        argument: u8,
        returned: u64,
        most: u16,
    ) {
        let whole = ChunkLabel { argument, part: WHOLE, index: 0 };
        let Some(message) = self.read::<MESSAGE>(address) else {
            return push_chunk(payload, None, whole);
        };
        push_chunk(payload, Some(&message), whole);
        let long = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| message[at + byte]));
        for (part, place, length, limit) in
            [(NAME, long(0), long(8) & 0xffff_ffff, 128), (CONTROL, long(32), long(40), 256)]
        {
            if place != 0 {
                self.push(payload, place, length.min(limit), ChunkLabel { part, ..whole });
            }
        }
        self.push_vectors(payload, argument, [long(16), long(24), returned], most);
    }

    /// Reads consecutive pointers; `None` where memory can't be read.
    fn pointers(&self, address: u64) -> impl Iterator<Item = Option<u64>> + '_ {
        let step = self.pointer as u64;
        (0..).map(move |at| {
            let place = address.checked_add(at * step)?;
            match self.pointer {
                4 => self.read::<4>(place).map(|bytes| u32::from_ne_bytes(bytes).into()),
                _ => self.read::<8>(place).map(u64::from_ne_bytes),
            }
        })
    }

    fn read<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.file.read_exact_at(&mut bytes, address).ok()?;
        Some(bytes)
    }

    /// Reads up to this many bytes; `None` if not even the first can be read.
    fn read_most(&self, address: u64, most: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; most.min(MOST)];
        if bytes.is_empty() {
            return Some(bytes);
        }
        let length = self.file.read_at(&mut bytes, address).ok().filter(|length| *length > 0)?;
        bytes.truncate(length);
        Some(bytes)
    }

    fn push(&self, payload: &mut Vec<u8>, address: u64, bytes: u64, label: ChunkLabel) {
        let bytes = usize::try_from(bytes).unwrap_or(MOST);
        push_chunk(payload, self.read_most(address, bytes).as_deref(), label);
    }

    fn push_text(&self, payload: &mut Vec<u8>, address: u64, most: u16, label: ChunkLabel) {
        let mut bytes = self.read_most(address, most.into());
        if let Some(bytes) = &mut bytes
            && let Some(end) = bytes.iter().position(|byte| *byte == 0)
        {
            bytes.truncate(end + 1);
        }
        push_chunk(payload, bytes.as_deref(), label);
    }
}

/// Appends a chunk; without `bytes` its memory couldn't be read.
fn push_chunk(payload: &mut Vec<u8>, bytes: Option<&[u8]>, label: ChunkLabel) {
    let unreadable = if bytes.is_some() { 0 } else { UNREADABLE };
    let bytes = bytes.unwrap_or_default();
    payload.extend(u32::try_from(bytes.len()).unwrap_or(0).to_ne_bytes());
    payload.extend([label.argument, label.part | unreadable]);
    payload.extend(label.index.to_le_bytes());
    payload.extend(bytes);
    payload.resize(payload.len().next_multiple_of(8), 0);
}
