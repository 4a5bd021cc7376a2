//! The numbers of a few of the kernel's types, without taking all of its BTF apart.
//!
//! A program names its tracepoint by the number of a type, `btf_trace_sys_enter`. The loader parses
//! the kernel's BTF for its relocations, which takes most of the start-up; a second time for these
//! numbers would be as much again. Layout: `include/uapi/linux/btf.h`.

use std::collections::HashMap;

use aya::{Btf, BtfError, Endianness};

use super::btf::{FORWARD, FUNCTION, TYPEDEF, Types, written};

/// The numbers of types of a kind with these names; `None` where one isn't found.
fn type_ids<'a>(btf: &[u8], kind: u32, names: &[&'a str]) -> Option<HashMap<&'a str, u32>> {
    let types = Types::read(btf)?;
    let mut found = HashMap::new();
    for (id, of) in (1..).zip(types.iter()).filter(|(_, of)| of.kind == kind) {
        let Some(text) = types.text(of) else { continue };
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

/// BTF in which the types of these tracepoints have the numbers that they have in the kernel's, and
/// all others are nothing. It is for `aya`, which asks for no other.
///
/// # Errors
/// These bytes are not BTF.
pub(super) fn of_tracepoints(btf: &[u8], tracepoints: &[&str]) -> Result<Btf, BtfError> {
    let names: Vec<String> = tracepoints.iter().map(|name| format!("btf_trace_{name}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    only(btf, TYPEDEF, &names)
}

/// The same for the function that an iterator of this kind stands for.
///
/// # Errors
/// These bytes are not BTF.
pub(super) fn of_iterator(btf: &[u8], kind: &str) -> Result<Btf, BtfError> {
    only(btf, FUNCTION, &[&format!("bpf_iter_{kind}")])
}

fn only(btf: &[u8], kind: u32, names: &[&str]) -> Result<Btf, BtfError> {
    // What isn't found or understood is for the loader to complain about.
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
    Btf::parse(&written(&types, &strings), Endianness::default())
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
        let whole = type_ids(&bytes, TYPEDEF, &names).unwrap();
        assert_eq!(whole.len(), 3);
        let small = of_tracepoints(&bytes, &["sys_enter", "sys_exit", "sched_switch"]).unwrap();
        assert_eq!(type_ids(&small.to_bytes(), TYPEDEF, &names).unwrap(), whole);
        let whole = type_ids(&bytes, FUNCTION, &["bpf_iter_task"]).unwrap();
        let small = of_iterator(&bytes, "task").unwrap();
        assert_eq!(type_ids(&small.to_bytes(), FUNCTION, &["bpf_iter_task"]).unwrap(), whole);
    }

    #[test]
    fn damaged_bytes_are_no_panic() {
        let mut bytes = [0; 64];
        bytes[..2].copy_from_slice(&0xeb9f_u16.to_ne_bytes());
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
        let _ = type_ids(&bytes, TYPEDEF, &["btf_trace_sys_enter"]);
    }
}
