//! What debug info says of addresses: looked up, or as it was kept.

use std::num::NonZeroUsize;
use std::sync::PoisonError;

use super::{DsoSymbols, Source, Symbolizer};
use crate::answers::Answers;
use crate::binary::{self, Binary};
use crate::cache::{KeptAnswers, KeptTable, MergedAnswers, SymbolCache};
use crate::dso::{BuildId, Dso, DsoId, DsoKind, DsoTable, RecordedDso};
use crate::line_source::LineSource;
use crate::table::Table;

impl Symbolizer {
    /// What debug info says of addresses in a DSO, which are sorted: one answer for each.
    pub(crate) fn answers(
        &self,
        dsos: &DsoTable,
        dso: DsoId,
        addresses: &[u64],
        threads: NonZeroUsize,
    ) -> Option<Answers> {
        let symbols = self.symbols(dsos, dso).ok()?;
        if let Source::JitDump(dump) = &symbols.source {
            return Some(super::jit::lines(dump, addresses));
        }
        let recorded = dsos.recorded(dso)?;
        let fresh = |addresses: &[u64]| self.fresh_answers(symbols, &recorded, addresses, threads);
        let Some((cache, build_id)) = self.cache(recorded.dso) else { return fresh(addresses) };
        let open = || {
            let kept = cache.answers(build_id)?;
            self.account(kept.bytes(), false).is_ok().then_some(kept)
        };
        let kept = symbols.kept_answers.get_or_init(open).as_ref();
        let mut merged = MergedAnswers::new();
        let mut known = vec![false; addresses.len()];
        let mut numbers = vec![0; addresses.len()];
        let mut number = 0;
        for (at, address) in addresses.iter().enumerate() {
            if kept.is_some_and(|kept: &KeptAnswers| merged.add_kept(kept, *address)) {
                (known[at], numbers[at], number) = (true, number, number + 1);
            }
        }
        let unknown = || addresses.iter().zip(&known).filter(|(_, known)| !**known);
        let missing: Vec<u64> = unknown().map(|(address, _)| *address).collect();
        if missing.is_empty() {
            return Some(merged.answers);
        }
        let Some(found) = fresh(&missing) else {
            // Without debug info there is what was known, and nothing of the rest.
            merged.answers.push([]);
            let rest = |at: usize| if known[at] { numbers[at] } else { number };
            return (number > 0).then(|| merged.answers.in_order((0..known.len()).map(rest)));
        };
        self.note_answers(symbols, build_id, &missing, &found);
        if number == 0 {
            return Some(found);
        }
        merged.answers.append(&found);
        let mut next = number;
        for (at, known) in known.iter().enumerate().filter(|(_, known)| !**known) {
            debug_assert!(!known);
            (numbers[at], next) = (next, next + 1);
        }
        Some(merged.answers.in_order(numbers.into_iter()))
    }

    /// What the file says itself.
    fn fresh_answers(
        &self,
        symbols: &DsoSymbols,
        recorded: &RecordedDso<'_>,
        addresses: &[u64],
        threads: NonZeroUsize,
    ) -> Option<Answers> {
        let (kernel_file, binary) = match recorded.dso.kind.has_kernel_file() {
            true => (self.kernel_file(symbols, recorded).ok(), None),
            false => (None, self.binary(symbols, recorded)),
        };
        let open = || {
            let of_kernel = kernel_file.and_then(|file| file.debug_info(&self.options, recorded));
            let of_binary = || binary.and_then(|binary| binary.lines(&self.options, recorded));
            let debug_info = of_kernel.map(Box::new).map(LineSource::Dwarf).or_else(of_binary)?;
            self.account(debug_info.bytes(), false).is_ok().then_some(debug_info)
        };
        let debug_info = symbols.debug_info.get_or_init(open).as_ref()?;
        let segments = kernel_file.map(|file| &file.own);
        let segments = segments.or_else(|| binary.map(|binary| &binary.segments))?;
        // Segments may lie in memory in another order than in the file.
        let own = |offset: &u64| segments.to_address(*offset).unwrap_or(0);
        let own: Vec<u64> = addresses.iter().map(own).collect();
        if own.is_sorted() {
            return debug_info.answers(&self.options, &own, threads).ok();
        }
        let mut sorted = own.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let answers = debug_info.answers(&self.options, &sorted, threads).ok()?;
        Some(answers.in_order(own.iter().map(|own| sorted.partition_point(|at| at < own))))
    }

    /// The file of a DSO, which is opened when it is first needed.
    pub(super) fn binary<'s>(
        &self,
        symbols: &'s DsoSymbols,
        recorded: &RecordedDso<'_>,
    ) -> Option<&'s Binary> {
        let is_elf = recorded.dso.kind == DsoKind::Elf;
        let open = || binary::open(&self.options, recorded).ok().filter(|_| is_elf);
        symbols.binary.get_or_init(open).as_ref()
    }

    /// The cache, and what it knows a DSO by. What somebody else packed or put into a folder says
    /// itself which build it is: it is neither looked up there nor kept.
    fn cache(&self, dso: &Dso) -> Option<(&SymbolCache, BuildId)> {
        let is_own = self.options.is_here() && self.options.unpacked.is_none();
        let is_known = is_own && dso.kind == DsoKind::Elf;
        self.options.cache.as_ref().zip(dso.build_id).filter(|_| is_known)
    }

    /// The symbols of a DSO as they were kept.
    pub(super) fn kept_table(&self, dso: &Dso) -> Option<KeptTable> {
        let (cache, build_id) = self.cache(dso)?;
        let table = cache.table(build_id, self.options.demangle)?;
        self.account(table.bytes(), false).is_ok().then_some(table)
    }

    /// Keeps the symbols of a DSO, if that are all that it has.
    pub(super) fn keep_table(&self, dso: &Dso, table: &Table) {
        if let Some((cache, build_id)) = self.cache(dso).filter(|_| table.is_full()) {
            cache.keep_table(build_id, self.options.demangle, table);
        }
    }

    /// Removes the symbols of a DSO from the cache.
    pub(super) fn forget_table(&self, dso: &Dso) {
        if let Some((cache, build_id)) = self.cache(dso) {
            cache.forget_table(build_id, self.options.demangle);
        }
    }

    /// Notes answers that are to be kept, if nothing was missing of the debug info.
    fn note_answers(&self, symbols: &DsoSymbols, id: BuildId, addresses: &[u64], found: &Answers) {
        let debug_info = symbols.debug_info.get().and_then(Option::as_ref);
        if debug_info.is_some_and(LineSource::is_complete) {
            let mut all = self.new_answers.lock().unwrap_or_else(PoisonError::into_inner);
            let new = all.entry(id).or_default();
            for (number, address) in addresses.iter().enumerate() {
                new.add(*address, found, number);
            }
        }
    }
}

/// What was looked up is kept when nobody asks any more.
impl Drop for Symbolizer {
    fn drop(&mut self) {
        let all = self.new_answers.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(cache) = &self.options.cache {
            all.drain().for_each(|(build_id, new)| cache.keep_answers(build_id, new));
        }
    }
}
