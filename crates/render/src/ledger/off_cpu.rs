//! Off-CPU time in words.

use tare_format::ledger::OffCpu;

use super::{count, seconds};

/// Formats the recorded off-CPU time, the waits that were too short or are missing, and the late
/// copies.
pub(super) fn line(off_cpu: &OffCpu) -> String {
    let mut line = format!("off-CPU: {} in {}", seconds(off_cpu.ns), count(off_cpu.waits, "wait"));
    if off_cpu.short_waits > 0 {
        let short = count(off_cpu.short_waits, "shorter wait");
        line.push_str(&format!(", without {} in {short}", seconds(off_cpu.short_ns)));
    }
    if off_cpu.missing_waits > 0 {
        let missing = count(off_cpu.missing_waits, "wait");
        line.push_str(&match off_cpu.missing_ns {
            0 => format!(", {missing} LOST: no record of their end"),
            ns => format!(", {} in {missing} LOST: the kernel's tables were full", seconds(ns)),
        });
    }
    if off_cpu.missing_copies > 0 {
        line.push_str(&format!(
            ", {} copied late: the buffer was full",
            count(off_cpu.missing_copies, "stack")
        ));
    }
    if off_cpu.missing_stacks > 0 {
        line.push_str(&format!(
            ", {} LOST: the table of stacks was full",
            count(off_cpu.missing_stacks, "call chain")
        ));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_lost_waits_are_listed() {
        let off_cpu = OffCpu { waits: 1, ns: 2_000_000_000, ..OffCpu::default() };
        assert_eq!(line(&off_cpu), "off-CPU: 2.000 s in 1 wait");
        let off_cpu =
            OffCpu { missing_waits: 1200, missing_ns: 5_000_000, short_waits: 3, ..off_cpu };
        assert_eq!(
            line(&off_cpu),
            "off-CPU: 2.000 s in 1 wait, without 0.000 s in 3 shorter waits, 0.005 s in 1,200 waits LOST: the kernel's tables were full"
        );
        let off_cpu = OffCpu { missing_waits: 1, waits: 1, ns: 2_000_000_000, ..OffCpu::default() };
        assert_eq!(
            line(&off_cpu),
            "off-CPU: 2.000 s in 1 wait, 1 wait LOST: no record of their end"
        );
        let off_cpu = OffCpu { missing_stacks: 2, waits: 1, ..OffCpu::default() };
        assert_eq!(
            line(&off_cpu),
            "off-CPU: 0.000 s in 1 wait, 2 call chains LOST: the table of stacks was full"
        );
    }
}
