//! The time that tasks were not on a CPU, in words.

use tare_format::ledger::OffCpu;

use super::{count, grouped, seconds};

/// What is in the recording, and what is not.
pub(super) fn line(of: &OffCpu) -> String {
    let mut line = format!("off-CPU: {} in {}", seconds(of.ns), count(of.waits, "wait"));
    if of.short_waits > 0 {
        let short = count(of.short_waits, "shorter one");
        line.push_str(&format!(", {} in {short} left out", seconds(of.short_ns)));
    }
    if of.missing_waits > 0 {
        let missing = count(of.missing_waits, "wait");
        line.push_str(&format!(
            ", {} in {missing} found NO ROOM in the kernel's tables",
            seconds(of.missing_ns)
        ));
    }
    if of.missing_copies > 0 {
        line.push_str(&format!(
            ", {} times a stack was copied later, for want of room",
            grouped(of.missing_copies)
        ));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said() {
        let of = OffCpu { waits: 1, ns: 2_000_000_000, ..OffCpu::default() };
        assert_eq!(line(&of), "off-CPU: 2.000 s in 1 wait");
        let of = OffCpu { missing_waits: 1200, missing_ns: 5_000_000, short_waits: 3, ..of };
        assert_eq!(
            line(&of),
            "off-CPU: 2.000 s in 1 wait, 0.000 s in 3 shorter ones left out, 0.005 s in 1,200 waits found NO ROOM in the kernel's tables"
        );
    }
}
