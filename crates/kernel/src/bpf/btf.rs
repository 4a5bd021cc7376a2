//! The types of the kernel and of its programs (BTF, `Documentation/bpf/btf.rst`).
//!
//! aya's loader parses the kernel's BTF for relocations, which takes most of the start-up. To load
//! the programs aya also needs the ids of a few types (`btf_trace_sys_enter`); parsing all of BTF
//! again would double that time, so this module finds these ids itself. It also reads the names of
//! a loaded program's functions from the program's BTF.

use std::collections::HashMap;

use aya::{Btf, BtfError, Endianness};

const MAGIC: u16 = 0xeb9f;

// Kinds of types, `include/uapi/linux/btf.h`.
const FORWARD: u32 = 7;
const TYPEDEF: u32 = 8;
const FUNCTION: u32 = 12;

/// A type: its kind, and where its name begins among the strings.
#[derive(Clone, Copy, Debug)]
pub(super) struct BtfType {
    pub(super) kind: u32,
    pub(super) name: u32,
}

/// A BTF blob: types and their strings.
#[derive(Debug)]
pub(super) struct BtfTypes<'b> {
    types: &'b [u8],
    strings: &'b [u8],
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Returns how many bytes follow the 12 that each type begins with; `None` for an unknown kind.
pub(super) fn tail(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        // INT, VAR, DECL_TAG
        1 | 14 | 17 => 4,
        // PTR, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FLOAT, TYPE_TAG
        2 | 7..=12 | 16 | 18 => 0,
        // ARRAY
        3 => 12,
        // STRUCT, UNION, DATASEC, ENUM64
        4 | 5 | 15 | 19 => 12 * count,
        // ENUM, FUNC_PROTO
        6 | 13 => 8 * count,
        _ => return None,
    })
}

impl<'b> BtfTypes<'b> {
    /// Reads the header; `None` if the header is truncated or its magic number is wrong. Input that
    /// is truncated later has fewer types.
    pub(super) fn read(bytes: &'b [u8]) -> Option<Self> {
        if u16::from_ne_bytes(*bytes.first_chunk()?) != MAGIC {
            return None;
        }
        let header = word(bytes, 4)? as usize;
        let part = |offset: usize, len: usize| {
            let start = header.checked_add(word(bytes, offset)? as usize)?.min(bytes.len());
            let len = word(bytes, len)? as usize;
            bytes.get(start..start.saturating_add(len).min(bytes.len()))
        };
        Some(Self { types: part(8, 12)?, strings: part(16, 20)? })
    }

    /// Iterates over the types, whose ids begin at 1, up to the first truncated or unknown one.
    pub(super) fn iter(&self) -> impl Iterator<Item = BtfType> + '_ {
        self.starts().filter_map(|start| {
            let kind = self.word(start + 4)? >> 24 & 0x1f;
            Some(BtfType { kind, name: self.word(start)? })
        })
    }

    /// Iterates over the places of the types, as [`Self::iter`].
    pub(super) fn starts(&self) -> impl Iterator<Item = usize> + '_ {
        let mut at = Some(0);
        std::iter::from_fn(move || {
            let start = at?;
            let info = self.word(start + 4)?;
            at = tail(info >> 24 & 0x1f, (info & 0xffff) as usize).map(|tail| start + 12 + tail);
            Some(start)
        })
    }

    /// Returns a word of the types.
    pub(super) fn word(&self, at: usize) -> Option<u32> {
        word(self.types, at)
    }

    pub(super) fn name(&self, at: u32) -> Option<&'b [u8]> {
        self.strings.get(at as usize..)?.split(|byte| *byte == 0).next()
    }

    /// Returns the text from a type's name on; the name ends at the first zero.
    pub(super) fn text(&self, btf_type: BtfType) -> Option<&'b [u8]> {
        self.strings.get(btf_type.name as usize..)
    }
}

/// Encodes types and strings as a blob.
pub(super) fn encode(types: &[u32], strings: &[u8]) -> Vec<u8> {
    const HEADER: u32 = 24;
    let length = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    let types_length = length(4 * types.len());
    let strings_length = length(strings.len());
    let mut bytes = MAGIC.to_ne_bytes().to_vec();
    bytes.extend([1, 0]); // version and flags
    let header = [HEADER, 0, types_length, types_length, strings_length];
    bytes.extend(header.iter().chain(types).flat_map(|word| word.to_ne_bytes()));
    bytes.extend(strings);
    bytes
}

/// The names of the functions among a blob's types.
#[derive(Debug)]
pub(super) struct FunctionNames {
    /// By type id, from 1.
    names: Vec<Option<Box<[u8]>>>,
}

impl FunctionNames {
    /// Reads a blob; `None` if the header is truncated or its magic number is wrong.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let types = BtfTypes::read(bytes)?;
        let name = |btf_type: BtfType| {
            let text = types.text(btf_type).filter(|_| btf_type.kind == FUNCTION)?;
            text.split(|byte| *byte == 0).next().filter(|name| !name.is_empty())
        };
        Some(Self { names: types.iter().map(|btf_type| name(btf_type).map(Into::into)).collect() })
    }

    /// Returns the name of the function with this type id.
    pub(super) fn get(&self, number: u32) -> Option<&[u8]> {
        self.names.get((number as usize).checked_sub(1)?)?.as_deref()
    }
}

/// Returns the ids of types of one kind by name; `None` if one is missing.
fn type_ids<'a>(btf: &[u8], kind: u32, names: &[&'a str]) -> Option<HashMap<&'a str, u32>> {
    let types = BtfTypes::read(btf)?;
    let mut found = HashMap::new();
    for (id, btf_type) in (1..).zip(types.iter()).filter(|(_, found)| found.kind == kind) {
        let Some(text) = types.text(btf_type) else { continue };
        let is_it = |wanted: &&&str| {
            text.strip_prefix(wanted.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
        };
        found.extend(names.iter().find(is_it).map(|name| (*name, id)));
        if found.len() == names.len() {
            return Some(found);
        }
    }
    None
}

/// Returns BTF in which the types of these tracepoints have their ids in the kernel's BTF, and all
/// others are empty. aya looks up no other type. If a type is missing, returns the kernel's BTF.
///
/// # Errors
/// Fails if the bytes are not BTF.
pub(super) fn tracepoint_types(btf: &[u8], tracepoints: &[&str]) -> Result<Btf, BtfError> {
    let names: Vec<String> = tracepoints.iter().map(|name| format!("btf_trace_{name}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    select_types(btf, TYPEDEF, &names)
}

/// Returns BTF that is reduced in the same way to the function of an iterator of this kind.
///
/// # Errors
/// Fails if the bytes are not BTF.
pub(super) fn iterator_types(btf: &[u8], kind: &str) -> Result<Btf, BtfError> {
    select_types(btf, FUNCTION, &[&format!("bpf_iter_{kind}")])
}

fn select_types(btf: &[u8], kind: u32, names: &[&str]) -> Result<Btf, BtfError> {
    // If a type is missing, the full BTF lets aya report the error.
    let Some(ids) = type_ids(btf, kind, names) else {
        return Btf::parse(btf, Endianness::default());
    };
    let count = ids.values().max().copied().unwrap_or(0) as usize;
    let nothing = [0_u32, FORWARD << 24, 0];
    let mut types = nothing.repeat(count);
    let mut strings = vec![0];
    for (name, id) in ids {
        let at = 3 * (id as usize - 1);
        types[at] = u32::try_from(strings.len()).unwrap_or(0);
        types[at + 1] = kind << 24;
        strings.extend_from_slice(name.as_bytes());
        strings.push(0);
    }
    Btf::parse(&encode(&types, &strings), Endianness::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_their_names() {
        let strings = b"\0main\0member\0";
        let types = [
            [0, 1 << 24, 4, 32].as_slice(),
            &[0, 4 << 24 | 2, 8, 6, 1, 0, 6, 1, 32],
            &[0, 13 << 24 | 1, 1, 6, 1],
            &[1, 12 << 24, 3],
        ]
        .concat();
        let bytes = encode(&types, strings);
        let names = FunctionNames::read(&bytes).unwrap();
        let found: Vec<_> = (0..6).map(|number| names.get(number)).collect();
        assert_eq!(found, [None, None, None, None, Some(&b"main"[..]), None]);
        for cut in 0..bytes.len() {
            let names = FunctionNames::read(&bytes[..cut]);
            names.inspect(|names| _ = names.get(4));
        }
    }

    fn kernel() -> Option<Vec<u8>> {
        let bytes = std::fs::read("/sys/kernel/btf/vmlinux").ok();
        if bytes.is_none() {
            println!("skipped: this kernel has no BTF");
        }
        bytes
    }

    /// The reduced BTF keeps the ids. That programs load with it is tested by `tests/cli/trace.rs`
    /// of the binary.
    #[test]
    fn reduced_types_keep_their_ids() {
        let Some(bytes) = kernel() else { return };
        let names = ["btf_trace_sys_enter", "btf_trace_sys_exit", "btf_trace_sched_switch"];
        let whole = type_ids(&bytes, TYPEDEF, &names).unwrap();
        assert_eq!(whole.len(), 3);
        let small = tracepoint_types(&bytes, &["sys_enter", "sys_exit", "sched_switch"]).unwrap();
        assert_eq!(type_ids(&small.to_bytes(), TYPEDEF, &names).unwrap(), whole);
        let whole = type_ids(&bytes, FUNCTION, &["bpf_iter_task"]).unwrap();
        let small = iterator_types(&bytes, "task").unwrap();
        assert_eq!(type_ids(&small.to_bytes(), FUNCTION, &["bpf_iter_task"]).unwrap(), whole);
    }

    #[test]
    fn damaged_types_are_read_without_panic() {
        let mut bytes = [0; 64];
        bytes[..2].copy_from_slice(&0xeb9f_u16.to_ne_bytes());
        bytes[4] = 24;
        for length in 0..64 {
            let _ = tracepoint_types(&bytes[..length], &["sys_enter"]);
            for at in 0..length {
                let mut damaged = bytes[..length].to_vec();
                damaged[at] = 0xff;
                let _ = tracepoint_types(&damaged, &["sys_enter"]);
            }
        }
        let Some(mut bytes) = kernel() else { return };
        bytes.truncate(bytes.len() / 2);
        let _ = type_ids(&bytes, TYPEDEF, &["btf_trace_sys_enter"]);
    }
}
