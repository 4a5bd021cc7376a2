//! The numbers of a few of the kernel's types, without taking all of its BTF apart.
//!
//! A program names its tracepoint by the number of a type, `btf_trace_sys_enter`. The loader parses
//! the kernel's BTF for its relocations, which takes most of the start-up; a second time for these
//! numbers would be as much again. Layout: `include/uapi/linux/btf.h`.

use std::collections::HashMap;

use aya::{Btf, BtfError, Endianness};

const MAGIC: u16 = 0xeb9f;
const HEADER: usize = 24;
/// `BTF_KIND_FWD` and `BTF_KIND_TYPEDEF`: nothing follows their 12 bytes.
const FWD: u32 = 7;
const TYPEDEF: u32 = 8;

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
    usize::try_from(u32::from_ne_bytes(bytes)).ok()
}

/// How many bytes follow the 12 that each type begins with.
fn tail(kind: u32, count: usize) -> Option<usize> {
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

/// The numbers of types with these names (of kind TYPEDEF); those that there are.
fn type_ids<'a>(btf: &[u8], names: &[&'a str]) -> Option<HashMap<&'a str, u32>> {
    let header = btf.get(..HEADER)?;
    if u16::from_ne_bytes([header[0], header[1]]) != MAGIC {
        return None;
    }
    let start = word(header, 4)?;
    let (types, types_length) = (start + word(header, 8)?, word(header, 12)?);
    let (strings, strings_length) = (start + word(header, 16)?, word(header, 20)?);
    let types = btf.get(types..types.checked_add(types_length)?)?;
    let strings = btf.get(strings..strings.checked_add(strings_length)?)?;
    let mut found = HashMap::new();
    let (mut at, mut id) = (0, 1);
    while at < types.len() && found.len() < names.len() {
        let (name, info) = (word(types, at)?, u32::try_from(word(types, at + 4)?).ok()?);
        let kind = info >> 24 & 0x1f;
        if kind == TYPEDEF {
            let text = strings.get(name..)?;
            let is_it = |wanted: &&&str| {
                text.strip_prefix(wanted.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
            };
            found.extend(names.iter().find(is_it).map(|name| (*name, id)));
        }
        at += 12 + tail(kind, (info & 0xffff) as usize)?;
        id += 1;
    }
    Some(found)
}

/// BTF in which the types of these tracepoints have the numbers that they have in the kernel's, and
/// all others are nothing. It is for `aya`, which asks for no other.
///
/// # Errors
/// These bytes are not BTF.
pub(super) fn of_tracepoints(btf: &[u8], tracepoints: &[&str]) -> Result<Btf, BtfError> {
    let names: Vec<String> = tracepoints.iter().map(|name| format!("btf_trace_{name}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // What isn't understood is for the loader to complain about.
    let Some(ids) = type_ids(btf, &names) else { return Btf::parse(btf, Endianness::default()) };
    let count = ids.values().max().copied().unwrap_or(0) as usize;
    let nothing = [0_u32, FWD << 24, 0];
    let mut types = nothing.repeat(count);
    let mut strings = vec![0];
    for (name, id) in ids {
        let at = 3 * (id as usize - 1);
        types[at] = u32::try_from(strings.len()).unwrap_or(0);
        types[at + 1] = TYPEDEF << 24;
        strings.extend_from_slice(name.as_bytes());
        strings.push(0);
    }
    let length = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    let (types_length, strings_length) = (length(4 * types.len()), length(strings.len()));
    let mut bytes = Vec::with_capacity(HEADER + 4 * types.len() + strings.len());
    bytes.extend(MAGIC.to_ne_bytes());
    bytes.extend([1, 0]); // version and flags
    let header = [length(HEADER), 0, types_length, types_length, strings_length];
    bytes.extend(header.iter().chain(&types).flat_map(|word| word.to_ne_bytes()));
    bytes.extend(strings);
    Btf::parse(&bytes, Endianness::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel() -> Option<Vec<u8>> {
        let bytes = std::fs::read("/sys/kernel/btf/vmlinux").ok();
        if bytes.is_none() {
            println!("skipped: this kernel has no BTF");
        }
        bytes
    }

    /// What the loader takes the number of: a program of each tracepoint can be loaded, which
    /// `tests/cli/trace.rs` of the binary has. Here the way there and back.
    #[test]
    fn numbers_are_those_of_the_whole() {
        let Some(bytes) = kernel() else { return };
        let names = ["btf_trace_sys_enter", "btf_trace_sys_exit", "btf_trace_sched_switch"];
        let whole = type_ids(&bytes, &names).unwrap();
        assert_eq!(whole.len(), 3);
        let small = of_tracepoints(&bytes, &["sys_enter", "sys_exit", "sched_switch"]).unwrap();
        assert_eq!(type_ids(&small.to_bytes(), &names).unwrap(), whole);
    }

    #[test]
    fn damaged_bytes_are_no_panic() {
        let mut bytes = [0; 64];
        bytes[..2].copy_from_slice(&MAGIC.to_ne_bytes());
        bytes[4] = 24;
        for length in 0..64 {
            let _ = of_tracepoints(&bytes[..length], &["sys_enter"]);
            for at in 0..length {
                let mut damaged = bytes[..length].to_vec();
                damaged[at] = 0xff;
                let _ = of_tracepoints(&damaged, &["sys_enter"]);
            }
        }
        let Some(mut bytes) = kernel() else { return };
        bytes.truncate(bytes.len() / 2);
        let _ = type_ids(&bytes, &["btf_trace_sys_enter"]);
    }
}
