//! The part of the kernel's BTF that relocations of an object need: the types with the names of the
//! object's own, and the types within these.
//!
//! For each type of an object, aya compares its name with all of the kernel's, more than 100,000.
//! That took most of the time of loading.

use std::collections::{HashMap, HashSet};

use super::btf::{BtfTypes, encode, tail};

// Kinds of types, `include/uapi/linux/btf.h`.
const INTEGER: u32 = 1;
const POINTER: u32 = 2;
const ARRAY: u32 = 3;
const STRUCTURE: u32 = 4;
const UNION: u32 = 5;
const ENUMERATION: u32 = 6;
const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const RESTRICT: u32 = 11;
const FLOAT: u32 = 16;
const TYPE_TAG: u32 = 18;
const WIDE_ENUMERATION: u32 = 19;

/// First bytes of the types of a compiled object: magic number, version, flags and the length of
/// the header, which is longer in the section with line numbers.
const OBJECT_TYPES: [u8; 8] = [0x9f, 0xeb, 1, 0, 24, 0, 0, 0];

/// Returns the names of an object's types, without what follows three underscores, which relocation
/// ignores.
fn names_of_types(object: &[u8]) -> Option<HashSet<&[u8]>> {
    let start = object.windows(OBJECT_TYPES.len()).position(|bytes| bytes == OBJECT_TYPES)?;
    let types = BtfTypes::read(object.get(start..)?)?;
    let names = types.iter().filter_map(|btf_type| {
        let name = types.name(btf_type.name)?;
        let flavor = name.windows(3).position(|bytes| bytes == b"___");
        Some(&name[..flavor.unwrap_or(name.len())]).filter(|name| !name.is_empty())
    });
    Some(names.collect())
}

/// Returns BTF with those of the kernel's types that an object's relocations may need; `None` if
/// either can't be read.
pub(super) fn subset_for(object: &[u8], kernel: &[u8]) -> Option<Vec<u8>> {
    let names = names_of_types(object)?;
    let kernel = BtfTypes::read(kernel)?;
    let starts: Vec<usize> = kernel.starts().collect();
    let mut subset =
        Subset { kernel: &kernel, starts: &starts, ids: HashMap::new(), order: vec![] };
    for (id, start) in (1_u32..).zip(&starts) {
        let kind = kernel.word(start + 4)? >> 24 & 0x1f;
        let is_named =
            matches!(kind, INTEGER | STRUCTURE..=ENUMERATION | TYPEDEF | WIDE_ENUMERATION);
        let name = kernel.word(*start).and_then(|name| kernel.name(name));
        if is_named && name.is_some_and(|name| names.contains(name)) {
            subset.add(id);
        }
    }
    subset.encode()
}

/// The chosen types, with new ids.
struct Subset<'k> {
    kernel: &'k BtfTypes<'k>,
    /// Where each of the kernel's types begins.
    starts: &'k [usize],
    /// New ids by the kernel's.
    ids: HashMap<u32, u32>,
    /// The kernel's ids in the order of the new ones.
    order: Vec<u32>,
}

impl Subset<'_> {
    /// Adds a type. Returns its new id; 0 stays 0.
    fn add(&mut self, id: u32) -> u32 {
        if id == 0 {
            return 0;
        }
        let next = u32::try_from(self.order.len()).unwrap_or(u32::MAX).saturating_add(1);
        *self.ids.entry(id).or_insert_with(|| {
            self.order.push(id);
            next
        })
    }

    /// Encodes the types, and all types that they contain. What a pointer points to isn't contained:
    /// it becomes `void`.
    fn encode(mut self) -> Option<Vec<u8>> {
        let mut words = Vec::new();
        let mut strings = vec![0];
        let mut at = 0;
        while let Some(id) = self.order.get(at).copied() {
            at += 1;
            self.encode_type(id, &mut words, &mut strings)?;
        }
        Some(encode(&words, &strings))
    }

    fn encode_type(&mut self, id: u32, words: &mut Vec<u32>, strings: &mut Vec<u8>) -> Option<()> {
        let start = *self.starts.get(id as usize - 1)?;
        let info = self.kernel.word(start + 4)?;
        let kind = info >> 24 & 0x1f;
        let count = (info & 0xffff) as usize;
        let bytes = 12 + tail(kind, count)?;
        let mut own = Vec::with_capacity(bytes / 4);
        for offset in (0..bytes).step_by(4) {
            own.push(self.kernel.word(start + offset)?);
        }
        own[0] = self.copy_name(own[0], strings)?;
        match kind {
            INTEGER | FLOAT => {}
            ARRAY => {
                own[3] = self.add(own[3]);
                own[4] = self.add(own[4]);
            }
            STRUCTURE | UNION => {
                for member in own[3..].chunks_exact_mut(3) {
                    member[0] = self.copy_name(member[0], strings)?;
                    member[1] = self.add(member[1]);
                }
            }
            ENUMERATION | WIDE_ENUMERATION => {
                let size = if kind == ENUMERATION { 2 } else { 3 };
                for value in own[3..].chunks_exact_mut(size) {
                    value[0] = self.copy_name(value[0], strings)?;
                }
            }
            TYPEDEF..=RESTRICT | TYPE_TAG => own[2] = self.add(own[2]),
            POINTER => own[2] = 0,
            // Other kinds only stand behind pointers.
            _ => own = vec![0, VOLATILE << 24, 0],
        }
        words.extend(own);
        Some(())
    }

    /// Copies a name. Returns its place among the new strings.
    fn copy_name(&self, name: u32, strings: &mut Vec<u8>) -> Option<u32> {
        let name = self.kernel.name(name)?;
        if name.is_empty() {
            return Some(0);
        }
        let at = u32::try_from(strings.len()).ok()?;
        strings.extend_from_slice(name);
        strings.push(0);
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::object;
    use super::*;

    /// Returns the name of each member of a structure, with its offset in bits.
    fn members(types: &BtfTypes<'_>, wanted: &[u8]) -> Vec<(Vec<u8>, u32)> {
        let is_it = |start: &usize| {
            let kind = types.word(start + 4).unwrap() >> 24 & 0x1f;
            kind == STRUCTURE && types.name(types.word(*start).unwrap()) == Some(wanted)
        };
        let start = types.starts().find(is_it).unwrap();
        let count = (types.word(start + 4).unwrap() & 0xffff) as usize;
        let member = |at: usize| {
            let at = start + 12 + 12 * at;
            let name = types.name(types.word(at).unwrap()).unwrap();
            (name.to_vec(), types.word(at + 8).unwrap())
        };
        (0..count).map(member).collect()
    }

    #[test]
    fn structures_of_the_subset_are_those_of_the_kernel() {
        let Ok(kernel) = std::fs::read("/sys/kernel/btf/vmlinux") else {
            return println!("skipped: this kernel has no BTF");
        };
        let whole = BtfTypes::read(&kernel).unwrap();
        for object in [object::CALLS, object::LOCK, object::SUMMARY, object::OFF_CPU] {
            let subset = subset_for(object, &kernel).unwrap();
            let small = BtfTypes::read(&subset).unwrap();
            assert!(10 * small.iter().count() < whole.iter().count(), "it is small");
            assert_eq!(members(&small, b"task_struct"), members(&whole, b"task_struct"));
            let last = u32::try_from(small.iter().count()).unwrap();
            for start in small.starts() {
                let kind = small.word(start + 4).unwrap() >> 24 & 0x1f;
                if matches!(kind, TYPEDEF..=RESTRICT | TYPE_TAG) {
                    assert!(small.word(start + 8).unwrap() <= last);
                }
            }
        }
    }

    #[test]
    fn damaged_types_are_read_without_panic() {
        let Ok(mut kernel) = std::fs::read("/sys/kernel/btf/vmlinux") else {
            return println!("skipped: this kernel has no BTF");
        };
        for length in [0, 8, 24, 100, 10_000, kernel.len() / 2] {
            let _ = subset_for(object::CALLS, &kernel[..length]);
        }
        for at in (24..100_000.min(kernel.len())).step_by(997) {
            kernel[at] ^= 0xff;
        }
        let _ = subset_for(object::CALLS, &kernel);
        assert_eq!(subset_for(b"no object", &kernel), None);
    }
}
