//! DSOs that get other numbers, or are forgotten, while the rest goes on.

use std::sync::atomic::Ordering;

use super::{DsoSymbols, Source, Symbolizer};
use crate::cache::KeptAnswers;
use crate::dso::{DsoId, RenumberedDsos};
use crate::line_source::LineSource;
use crate::once_vec::OnceVec;

/// The least that is freed for the memory to be given back at once.
const GIVEN_BACK: usize = 4 << 20;

impl Symbolizer {
    /// Takes over the numbers that [`crate::DsoTable::retain`] gave. What was read of DSOs without
    /// one is given up. So is what just-in-time compilers have written and what could not be read:
    /// it is read again when it is next asked for, as there may be more of it by then.
    pub fn renumber(&mut self, now: &RenumberedDsos) {
        let before = std::mem::take(&mut self.dsos);
        let bytes_before = self.bytes();
        let kept = OnceVec::default();
        for (number, symbols) in before.into_values() {
            match (now.number(number), symbols) {
                (Some(after), Ok(symbols)) if !symbols.grows() => {
                    kept.get_or_init(after, || Ok(symbols));
                }
                (_, Ok(symbols)) => {
                    let bytes = self.bytes.get_mut();
                    *bytes = bytes.saturating_sub(symbols.accounted_bytes());
                }
                (_, Err(_)) => {}
            }
        }
        self.dsos = kept;
        if bytes_before.saturating_sub(self.bytes()) >= GIVEN_BACK {
            tare_kernel::heap::return_freed_memory();
        }
    }

    /// Bytes of the tables that were read of all DSOs.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the tables that were read of these DSOs.
    #[must_use]
    pub fn bytes_of(&self, is_asked: impl Fn(DsoId) -> bool) -> usize {
        let read = self.dsos.iter().filter(|(number, _)| is_asked(DsoId::from_index(*number)));
        read.filter_map(|(_, symbols)| symbols.as_ref().ok()).map(DsoSymbols::accounted_bytes).sum()
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
        let symbols = match &self.source {
            Source::Table(table) => table.bytes(),
            Source::Kept(table) => table.bytes(),
            Source::PerfMap(map) => map.bytes(),
            Source::JitDump(dump) => dump.bytes(),
            Source::Kernel | Source::Module { .. } | Source::Ksymbol(..) => 0,
        };
        let answers =
            self.kept_answers.get().and_then(Option::as_ref).map_or(0, KeptAnswers::bytes);
        let debug_info = self.debug_info.get().and_then(Option::as_ref);
        symbols + answers + debug_info.map_or(0, LineSource::bytes)
    }
}
