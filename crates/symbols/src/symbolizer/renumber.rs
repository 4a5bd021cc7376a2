//! DSOs that get other numbers, or are forgotten, while the rest goes on.

use std::sync::atomic::Ordering;

use super::{DsoSymbols, Source, Symbolizer};
use crate::dso::RenumberedDsos;
use crate::once_vec::OnceVec;

impl Symbolizer {
    /// Takes over the numbers that [`crate::DsoTable::retain`] gave. What was read of DSOs without
    /// one is given up. So is what just-in-time compilers have written and what could not be read:
    /// it is read again when it is next asked for, as there may be more of it by then.
    pub fn renumber(&mut self, now: &RenumberedDsos) {
        let before = std::mem::take(&mut self.dsos);
        let kept = OnceVec::default();
        for (number, symbols) in before.into_values() {
            match (now.number(number), symbols) {
                (Some(after), Ok(symbols)) if !symbols.grows() => {
                    kept.get_or_init(after, || Ok(symbols));
                }
                (_, Ok(symbols)) => {
                    self.bytes.fetch_sub(symbols.accounted_bytes(), Ordering::Relaxed);
                }
                (_, Err(_)) => {}
            }
        }
        self.dsos = kept;
    }

    /// Forgets what a recording knew of a process that is gone.
    pub fn forget_process(&mut self, pid: i32) {
        self.recorded_processes.remove(&pid);
    }
}

impl DsoSymbols {
    /// Whether its file may have more by now.
    fn grows(&self) -> bool {
        matches!(self.source, Source::PerfMap(_) | Source::JitDump(_))
    }

    /// What it takes of [`crate::limits::TABLE_BYTES`].
    fn accounted_bytes(&self) -> usize {
        match &self.source {
            Source::Table(table) => table.bytes(),
            Source::PerfMap(map) => map.bytes(),
            Source::JitDump(dump) => dump.bytes(),
            Source::Kept(_) | Source::Kernel | Source::Module { .. } | Source::Ksymbol(..) => 0,
        }
    }
}
