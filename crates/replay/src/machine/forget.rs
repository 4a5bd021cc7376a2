//! What a machine forgets that is recorded without an end.

use std::collections::HashSet;

use tare_symbols::{DsoId, DsoKind, RenumberedDsos};

use super::Machine;

/// So many DSOs may come before those are looked for that nothing is mapped of any more.
const MORE_DSOS: usize = 256;

/// So many bytes of symbols may stay that nothing needs. Those of one large program take as much.
const UNUSED_BYTES: usize = 16 << 20;

impl Machine {
    /// Mappings that were left out, as there were too many.
    pub(crate) fn left_out_mappings(&self) -> u64 {
        self.spaces.left_out()
    }

    /// Learns what a note of the recorder's own says.
    pub(crate) fn learn_note(&mut self, note: &[u8]) {
        self.jit.learn_note(note, self.symbolizer.recorded_processes());
    }

    /// Forgets threads that ended before a time, in nanoseconds of the recording's clock, and of
    /// processes all that is known of them.
    pub(crate) fn forget_ended_before(&mut self, time_ns: u64) {
        let Self { threads, spaces, jit, symbolizer, .. } = self;
        threads.forget_ended_before(time_ns, |pid, tid| {
            if pid == tid {
                spaces.remove(pid);
                // As at an execve, nothing of its code remains.
                jit.exec(pid);
                symbolizer.forget_process(pid);
            }
        });
    }

    /// Forgets DSOs of which nothing is mapped, and that `others` don't name, where there are many by
    /// now, much was read of them, or `is_wanted`. What just-in-time compilers wrote is read again
    /// when it is next asked for. `None`: all DSOs have the numbers that they had.
    pub(crate) fn forget_dsos(
        &mut self,
        others: impl Iterator<Item = DsoId>,
        is_wanted: bool,
    ) -> Option<RenumberedDsos> {
        let is_due = is_wanted
            || self.dsos.len() > self.kept_dsos * 2 + MORE_DSOS
            || self.dsos.iter().any(|dso| is_compiled(dso.kind));
        if !is_due && self.symbolizer.bytes() < UNUSED_BYTES {
            return None;
        }
        let mut used: HashSet<DsoId> = others.chain(self.kernel.map(|kernel| kernel.dso)).collect();
        self.spaces.each_dso(|dso| _ = used.insert(dso));
        self.jit.each_dso(|dso| _ = used.insert(dso));
        if !is_due && self.symbolizer.bytes_of(|dso| !used.contains(&dso)) < UNUSED_BYTES {
            return None;
        }
        let now = self.dsos.retain(|dso| used.contains(&dso));
        self.kept_dsos = self.dsos.len();
        self.spaces.renumber(&now);
        self.jit.renumber(&now);
        self.symbolizer.renumber(&now);
        if let Some(kernel) = &mut self.kernel {
            kernel.dso = now.get(kernel.dso).unwrap_or(kernel.dso);
        }
        Some(now)
    }

    /// Whether a DSO is code that a just-in-time compiler made.
    pub(crate) fn is_compiled(&self, dso: DsoId) -> bool {
        self.dsos.get(dso).is_some_and(|dso| is_compiled(dso.kind))
    }
}

fn is_compiled(kind: DsoKind) -> bool {
    matches!(kind, DsoKind::PerfMap { .. } | DsoKind::JitDump { .. })
}
