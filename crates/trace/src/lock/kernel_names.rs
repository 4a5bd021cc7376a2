//! Names of kernel addresses, and which of them belong to lock code.

use std::collections::{BTreeSet, HashMap};

use tare_kernel::bpf::LockFunction;
use tare_symbols::{KallsymsLine, LOCK_SECTIONS};

use super::flags::{MUTEX, PERCPU, READ, RT, WRITE};

/// Prefixes of the functions that a lock calls to run a tracing program.
const TRACER_PREFIXES: [&[u8]; 3] = [b"bpf_", b"__bpf_trace_", b"__traceiter_"];

/// Functions that return with a lock (`kernel/locking/`), and the flags that `lock:contention_begin`
/// has in them.
const LOCK_FUNCTIONS: [(&[u8], u32); 24] = [
    (b"mutex_lock", MUTEX),
    (b"mutex_lock_interruptible", MUTEX),
    (b"mutex_lock_io", MUTEX),
    (b"mutex_lock_killable", MUTEX),
    (b"mutex_lock_nested", MUTEX),
    (b"ww_mutex_lock", MUTEX),
    (b"ww_mutex_lock_interruptible", MUTEX),
    (b"down_read", READ),
    (b"down_read_interruptible", READ),
    (b"down_read_killable", READ),
    (b"down_read_nested", READ),
    (b"down_write", WRITE),
    (b"down_write_killable", WRITE),
    (b"down_write_killable_nested", WRITE),
    (b"down_write_nested", WRITE),
    (b"__percpu_down_read", PERCPU | READ),
    (b"percpu_down_write", PERCPU | WRITE),
    (b"rt_mutex_lock", RT),
    (b"rt_mutex_lock_interruptible", RT),
    (b"rt_mutex_lock_killable", RT),
    (b"down", 0),
    (b"down_interruptible", 0),
    (b"down_killable", 0),
    (b"down_timeout", 0),
];

/// A kernel function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelName {
    pub(super) name: String,
    /// Whether it belongs to lock code.
    pub(super) is_lock_code: bool,
    /// Whether it belongs to the tracing program, or leads from the lock to it.
    pub(super) is_tracer: bool,
}

impl KernelName {
    /// Classifies a function by its name; `is_lock_code`: it belongs to lock code.
    #[must_use]
    pub fn new(name: String, is_lock_code: bool) -> Self {
        let is_tracer = TRACER_PREFIXES.iter().any(|prefix| name.as_bytes().starts_with(prefix));
        Self { name, is_lock_code, is_tracer }
    }
}

/// Returns the functions that contain these addresses, from the text of `/proc/kallsyms`. Addresses
/// that it hides or doesn't know are missing.
pub(super) fn names(kallsyms: &[u8], addresses: &BTreeSet<u64>) -> HashMap<u64, KernelName> {
    let mut symbols: Vec<(u64, &[u8])> = Vec::new();
    let mut bounds = [[0; 2]; LOCK_SECTIONS.len()];
    for line in kallsyms.split(|byte| *byte == b'\n') {
        let Some(line) = KallsymsLine::parse(line).filter(|line| line.address != 0) else {
            continue;
        };
        for (bounds, (start, end)) in bounds.iter_mut().zip(LOCK_SECTIONS) {
            if line.name == start {
                bounds[0] = line.address;
            } else if line.name == end {
                bounds[1] = line.address;
            }
        }
        if matches!(line.kind.to_ascii_uppercase(), b'T' | b'W') {
            symbols.push((line.address, line.name));
        }
    }
    symbols.sort_by_key(|(address, _)| *address);
    let name = |address: &u64| {
        let at = symbols.partition_point(|(start, _)| start <= address).checked_sub(1)?;
        let start = symbols[at].0;
        // If an address has several names, the first one counts.
        let first = symbols.partition_point(|(address, _)| *address < start);
        let name = symbols[first].1;
        let is_within = bounds.iter().any(|[start, end]| (start..end).contains(&address));
        let name = String::from_utf8_lossy(name).into_owned();
        Some((*address, KernelName::new(name, is_within)))
    };
    addresses.iter().filter_map(name).collect()
}

/// Returns the functions that return with a lock, from the text of `/proc/kallsyms`.
pub(super) fn lock_functions(kallsyms: &[u8]) -> Vec<LockFunction> {
    let mut starts = Vec::new();
    let mut found = Vec::new();
    for line in kallsyms.split(|byte| *byte == b'\n') {
        let Some(line) = KallsymsLine::parse(line).filter(|line| line.address != 0) else {
            continue;
        };
        if !matches!(line.kind.to_ascii_uppercase(), b'T' | b'W') {
            continue;
        }
        starts.push(line.address);
        let known = LOCK_FUNCTIONS.iter().find(|(name, _)| *name == line.name);
        found.extend(known.map(|(_, flags)| (line.address, *flags)));
    }
    starts.sort_unstable();
    let with_end = |(start, flags): (u64, u32)| {
        let end = starts.get(starts.partition_point(|other| *other <= start)).copied();
        LockFunction { start, end: end.unwrap_or(start), flags }
    };
    found.into_iter().map(with_end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_functions_that_return_with_a_lock() {
        let text = b"0 T mutex_lock\n1000 T mutex_lock\n1200 t mutex_lock.cold\n2000 T down_read\n3000 D data\n3100 T other\n4000 T down\n";
        let found: Vec<_> = lock_functions(text)
            .into_iter()
            .map(|function| (function.start, function.end, function.flags))
            .collect();
        let wanted = [(0x1000, 0x1200, MUTEX), (0x2000, 0x3100, READ), (0x4000, 0x4000, 0)];
        assert_eq!(found, wanted);
    }

    #[test]
    fn recognizes_lock_code_by_its_section() {
        let text = b"0 T hidden\n1000 T __sched_text_start\n1000 T mutex_lock\n2000 T __sched_text_end\n3000 t fdget_pos\n3000 t other\n4000 t bpf_prog_x\t[bpf]\n5000 D data\n";
        let found = names(text, &BTreeSet::from([0xfff, 0x1010, 0x3001, 0x4001]));
        let of = |address| {
            found.get(&address).map(|name| (name.name.as_str(), name.is_lock_code, name.is_tracer))
        };
        assert_eq!(of(0xfff), None);
        assert!(of(0x1010).unwrap().1);
        assert_eq!(of(0x3001), Some(("fdget_pos", false, false)));
        assert_eq!(of(0x4001), Some(("bpf_prog_x", false, true)));
    }
}
