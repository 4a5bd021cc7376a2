//! Describes `data_src` of a sample in words, such as the level of the memory hierarchy that had
//! the data.
//!
//! Source: `union perf_mem_data_src` of `include/uapi/linux/perf_event.h`; the words are those of
//! `tools/perf/util/mem-events.c`, except that level numbers without a name here are shown as `L`
//! and the number.

use std::fmt;

/// `data_src` of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataSource(pub u64);

const LEVELS: [&str; 14] = [
    "N/A",
    "HIT",
    "MISS",
    "L1",
    "LFB/MAB",
    "L2",
    "L3",
    "Local RAM",
    "Remote RAM (1 hop)",
    "Remote RAM (2 hops)",
    "Remote Cache (1 hop)",
    "Remote Cache (2 hops)",
    "I/O",
    "Uncached",
];
const OPERATIONS: [&str; 5] = ["N/A", "LOAD", "STORE", "PFETCH", "EXEC"];
const SNOOPS: [&str; 5] = ["N/A", "None", "Hit", "Miss", "HitM"];
const TLBS: [&str; 7] = ["N/A", "HIT", "MISS", "L1", "L2", "Walker", "Fault"];
const HOPS: [&str; 5] =
    ["N/A", "core, same node", "node, same socket", "socket, same board", "board"];

/// The bits for hits and misses in the fields for levels and TLBs.
const HIT: u64 = 1 << 1;
const MISS: u64 = 1 << 2;

impl DataSource {
    fn field(self, from: u32, bits: u32) -> u64 {
        self.0 >> from & ((1 << bits) - 1)
    }

    /// Returns the level of the memory hierarchy, such as `L1 hit`.
    #[must_use]
    pub fn level(self) -> String {
        let bits = self.field(5, 14);
        let mut words = Vec::new();
        let mut front = if self.field(37, 1) == 1 { "Remote ".to_owned() } else { String::new() };
        // The distance says more than the level.
        match usize::try_from(self.field(43, 3)) {
            Ok(hops @ 1..) => front = format!("{front}{} ", HOPS.get(hops).unwrap_or(&"N/A")),
            _ => words.extend(names_of_set_bits(bits & !(HIT | MISS), &LEVELS).map(str::to_owned)),
        }
        match self.field(33, 4) {
            0 => {}
            0x9 => words.push("CXL".to_owned()),
            0xa => words.push("I/O".to_owned()),
            0xb => words.push("Any cache".to_owned()),
            0xc => words.push("LFB/MAB".to_owned()),
            0xd => words.push("RAM".to_owned()),
            0xe => words.push("PMEM".to_owned()),
            0xf => words.push("N/A".to_owned()),
            number => words.push(format!("L{number}")),
        }
        let text = format!("{front}{}", words.join(" or "));
        with_outcome(if text.is_empty() { "N/A".to_owned() } else { text }, bits)
    }

    /// Returns the result of asking other caches, such as `None` or `HitM`.
    #[must_use]
    pub fn snoop(self) -> String {
        let mut words: Vec<_> = names_of_set_bits(self.field(19, 5), &SNOOPS).collect();
        words.extend(names_of_set_bits(self.field(38, 2), &["Fwd", "Peer"]));
        if words.is_empty() { "N/A".to_owned() } else { words.join(" or ") }
    }

    /// Returns the TLB level, such as `L1 or L2 hit`.
    #[must_use]
    pub fn tlb(self) -> String {
        let bits = self.field(26, 7);
        let words: Vec<_> = names_of_set_bits(bits & !(HIT | MISS), &TLBS).collect();
        with_outcome(if words.is_empty() { "N/A".to_owned() } else { words.join(" or ") }, bits)
    }

    /// Returns whether the access was locked: `Yes`, `No` or `N/A`.
    #[must_use]
    pub fn locked(self) -> &'static str {
        match self.field(24, 2) {
            bits if bits & 1 != 0 => "N/A",
            bits if bits & 2 != 0 => "Yes",
            _ => "No",
        }
    }

    /// Returns the causes that blocked the access: ` Data`, ` Addr` or both, else ` N/A`. As in
    /// perf, each starts with a space.
    #[must_use]
    pub fn blocked(self) -> String {
        let bits = self.field(40, 3);
        if bits & !1 == 0 || bits & 1 == 1 {
            return " N/A".to_owned();
        }
        names_of_set_bits(bits, &["", " Data", " Addr"]).collect()
    }

    /// Returns the kind of access, such as `LOAD` or `STORE`.
    #[must_use]
    pub fn operation(self) -> &'static str {
        names_of_set_bits(self.field(0, 5), &OPERATIONS).next().unwrap_or("No")
    }
}

/// Prints all fields, like `perf script -F data_src`.
impl fmt::Display for DataSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.level();
        let snoop = self.snoop();
        let tlb = self.tlb();
        write!(f, "|OP {}|LVL {level}|SNP {snoop}|TLB {tlb}", self.operation())?;
        write!(f, "|LCK {}|BLK {}", self.locked(), self.blocked())
    }
}

/// Returns the names of the bits that are set.
fn names_of_set_bits<'a>(bits: u64, names: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    names.iter().enumerate().filter(move |(bit, _)| bits >> bit & 1 == 1).map(|(_, name)| *name)
}

fn with_outcome(mut text: String, bits: u64) -> String {
    text.push_str(if bits & HIT != 0 { " hit" } else { "" });
    text.push_str(if bits & MISS != 0 { " miss" } else { "" });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses the value that an Intel CPU records for a load that hits the first cache, and the words
    /// that perf script prints for it.
    #[test]
    fn describes_a_load_from_the_first_cache_like_perf() {
        let source = DataSource(0x6810_0142);
        assert_eq!((source.level().as_str(), source.snoop().as_str()), ("L1 hit", "None"));
        assert_eq!((source.tlb().as_str(), source.locked()), ("L1 or L2 hit", "No"));
        assert_eq!(source.blocked(), " N/A");
        let words = "|OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A";
        assert_eq!(source.to_string(), words);
    }
}
