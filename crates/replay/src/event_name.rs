//! Names events that a recording doesn't name: those of the kernel's own types as perf does
//! (`evsel__name` in `tools/perf/util/evsel.c`), others by number.

use tare_format::abi::bindings::{
    PERF_TYPE_BREAKPOINT, PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE, PERF_TYPE_RAW, PERF_TYPE_SOFTWARE,
};
use tare_format::abi::{Attr, Flags};

/// Names by `enum perf_hw_id`.
const HARDWARE: [&str; 10] = [
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
];

/// Names by `enum perf_sw_ids`.
const SOFTWARE: [&str; 12] = [
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
];

/// Names by `enum perf_hw_cache_id`.
const CACHES: [&str; 7] = ["L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"];

/// Names by `enum perf_hw_cache_op_id`, singular and plural.
const CACHE_ACCESSES: [(&str, &str); 3] =
    [("load", "loads"), ("store", "stores"), ("prefetch", "prefetches")];

pub(crate) fn from_attr(attr: &Attr) -> String {
    let number = attr.config;
    let index = usize::try_from(number).unwrap_or(usize::MAX);
    let name = match attr.kind {
        PERF_TYPE_HARDWARE => HARDWARE.get(index).map(|name| (*name).to_owned()),
        PERF_TYPE_SOFTWARE => SOFTWARE.get(index).map(|name| (*name).to_owned()),
        PERF_TYPE_HW_CACHE => cache_event_name(number),
        PERF_TYPE_RAW => Some(format!("raw {number:#x}")),
        PERF_TYPE_BREAKPOINT => Some(format!("mem:{:#x}", attr.config1)),
        _ => None,
    };
    match name {
        Some(name) => name + &format_modifiers(attr),
        None => format!("type {} config {number:#x}", attr.kind),
    }
}

fn cache_event_name(config: u64) -> Option<String> {
    let byte = |shift: u32| usize::try_from(config >> shift & 0xff).unwrap_or(usize::MAX);
    let cache = CACHES.get(byte(0))?;
    let access = CACHE_ACCESSES.get(byte(8))?;
    Some(match byte(16) {
        0 => format!("{cache}-{}", access.1),
        1 => format!("{cache}-{}-misses", access.0),
        _ => return None,
    })
}

/// Returns modifiers such as `:u` or `:kpp`: the modes that aren't excluded, if any is, and the
/// precision.
fn format_modifiers(attr: &Attr) -> String {
    let excludes = |flag| attr.flags.contains(flag);
    let mut letters = String::new();
    let mut say = |flag, letter| letters.extend((!excludes(flag)).then_some(letter));
    if [Flags::EXCLUDE_KERNEL, Flags::EXCLUDE_USER, Flags::EXCLUDE_HV].into_iter().any(excludes) {
        say(Flags::EXCLUDE_KERNEL, 'k');
        say(Flags::EXCLUDE_USER, 'u');
        say(Flags::EXCLUDE_HV, 'h');
    }
    letters.extend((0..attr.precise_ip).map(|_| 'p'));
    if letters.is_empty() { letters } else { format!(":{letters}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attr(kind: u32, config: u64, flags: Flags) -> Attr {
        Attr { kind, config, flags, ..Attr::default() }
    }

    #[test]
    fn names_equal_perfs() {
        let name = |kind, config, flags| from_attr(&attr(kind, config, flags));
        assert_eq!(name(PERF_TYPE_HARDWARE, 0, Flags::empty()), "cycles");
        assert_eq!(
            name(PERF_TYPE_HARDWARE, 1, Flags::EXCLUDE_KERNEL | Flags::EXCLUDE_HV),
            "instructions:u"
        );
        assert_eq!(name(PERF_TYPE_SOFTWARE, 2, Flags::empty()), "page-faults");
        assert_eq!(name(PERF_TYPE_HW_CACHE, 0x1_0003, Flags::empty()), "dTLB-load-misses");
        assert_eq!(name(PERF_TYPE_HW_CACHE, 0x1_00, Flags::empty()), "L1-dcache-stores");
        assert_eq!(name(PERF_TYPE_RAW, 0xc0, Flags::empty()), "raw 0xc0");
        assert_eq!(name(9, 0xc0, Flags::empty()), "type 9 config 0xc0");
    }
}
