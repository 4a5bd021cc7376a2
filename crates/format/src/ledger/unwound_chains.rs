//! The call chains that the recorder unwound from copied stacks.

use serde::{Deserialize, Serialize};

/// How the user stacks ended that the recorder unwound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct UnwoundChains {
    /// Whether samples are unwound, and not only the stacks of off-CPU time.
    pub samples: bool,
    /// Number of stacks that reach the start of their thread.
    pub whole: u64,
    /// Valid inner frames, the rest is missing: the most frequent reason first.
    pub truncated: Vec<IncompleteChains>,
    /// The reason is a failure: the most frequent one first.
    pub failed: Vec<IncompleteChains>,
    /// Number of chains that stayed as the kernel recorded them, because unwinding fell behind.
    pub behind: u64,
    /// Bytes of the deepest stack whose copy ended before it; 0 if none.
    pub deepest_bytes: u64,
    /// Most bytes of a stack that are copied, beyond the copies in samples: by BPF programs; 0
    /// without these.
    pub copied_bytes: u64,
    /// Why BPF programs don't copy deep stacks, if none do; with `copied_bytes`, because the
    /// recording ended too early.
    pub copies_lack: Option<String>,
    /// Number of deep stacks that weren't copied, because the ring buffer for them lacked room.
    pub copies_missed: u64,
    /// Number of deep stacks that BPF programs copied.
    pub copies: u64,
    /// Time that these copies took from the sampled tasks, in nanoseconds.
    pub copies_ns: u64,
    /// The user stacks of off-CPU time.
    pub off_cpu: OffCpuReach,
}

/// How much of the off-CPU time has whole user stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct OffCpuReach {
    /// Off-CPU time, in nanoseconds.
    pub ns: u64,
    /// The part of it whose user stacks reach the start of their thread.
    pub whole_ns: u64,
}

/// Stacks that are incomplete for the same reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct IncompleteChains {
    /// The reason.
    pub reason: String,
    /// Number of stacks.
    pub stacks: u64,
    /// The file with most of them, if the file is the reason.
    pub file: Option<String>,
}

impl UnwoundChains {
    /// Adds the stacks of the next file.
    pub(super) fn and(&self, next: &Self) -> Self {
        let add = |earlier: &[IncompleteChains], later: &[IncompleteChains]| {
            let mut sum = earlier.to_vec();
            for chains in later {
                match sum.iter_mut().find(|known| known.reason == chains.reason) {
                    Some(known) => known.stacks += chains.stacks,
                    None => sum.push(chains.clone()),
                }
            }
            sum.sort_by_key(|chains| std::cmp::Reverse(chains.stacks));
            sum
        };
        Self {
            samples: self.samples || next.samples,
            whole: self.whole + next.whole,
            truncated: add(&self.truncated, &next.truncated),
            failed: add(&self.failed, &next.failed),
            behind: self.behind + next.behind,
            deepest_bytes: self.deepest_bytes.max(next.deepest_bytes),
            copied_bytes: self.copied_bytes.max(next.copied_bytes),
            copies_lack: self.copies_lack.clone().or_else(|| next.copies_lack.clone()),
            copies_missed: self.copies_missed + next.copies_missed,
            copies: self.copies + next.copies,
            copies_ns: self.copies_ns + next.copies_ns,
            off_cpu: OffCpuReach {
                ns: self.off_cpu.ns + next.off_cpu.ns,
                whole_ns: self.off_cpu.whole_ns + next.off_cpu.whole_ns,
            },
        }
    }
}
