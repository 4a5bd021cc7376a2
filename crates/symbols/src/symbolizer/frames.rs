//! The functions at addresses, inlined ones too, and their source lines.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use super::{Symbol, Symbolizer};
use crate::answers::{AnswerFrame, Answers, SYMBOL_ONLY};
use crate::demangle::demangle;
use crate::dso::{DsoAddress, DsoId, DsoTable};
use crate::name_source::NameSource;
use crate::once_vec::OnceVec;
use crate::texts::TextId;
use crate::unresolved::Unresolved;

/// Addresses per additional thread.
const THREAD_ADDRESSES: usize = 1 << 14;

/// A place in a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceLocation<'a> {
    /// Path when the file was compiled. Untrusted.
    pub file: &'a str,
    /// Counted from 1; 0 where the compiler gave none.
    pub line: u32,
    /// Counted from 1; 0 where the compiler gave none.
    pub column: u32,
}

/// A function at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Name of the function, or the reason why it is unknown. Untrusted.
    pub name: Result<&'a str, Unresolved>,
    /// Name of the function in its file, if that differs. Untrusted.
    pub linkage_name: Option<&'a str>,
    /// Source of the name; [`NameSource::Dwarf`] if the name is unknown.
    pub source: NameSource,
    /// Symbol of a function that isn't inlined.
    pub symbol: Option<Symbol>,
    /// Whether the compiler inlined the function into that of the next frame.
    pub is_inlined: bool,
    /// Source line of the address; in a function with another inlined, of the call.
    pub location: Option<SourceLocation<'a>>,
    /// Line of the function's declaration, counted from 1; 0 if unknown.
    pub first_line: u32,
}

/// Result of [`Symbolizer::frames`].
#[derive(Debug)]
pub struct ResolvedFrames<'a> {
    symbolizer: &'a Symbolizer,
    /// Lookups in the order of the addresses, a chunk for each thread.
    chunks: Vec<Vec<AddressLookup>>,
    /// Addresses of a chunk; the last one may have fewer.
    chunk_len: usize,
    answers: Vec<DsoAnswers>,
}

/// Result of looking up an address.
#[derive(Clone, Copy, Debug)]
struct AddressLookup {
    symbol: Result<Symbol, Unresolved>,
    /// Index of the DSO in [`ResolvedFrames::answers`], and number of the address there.
    answer: Option<(u32, u32)>,
}

/// Answers of debug info for the addresses of a DSO.
#[derive(Debug)]
struct DsoAnswers {
    answers: Answers,
    /// Demangled names, by the ids of the mangled ones.
    demangled: OnceVec<Box<str>>,
}

/// Looks addresses up: their answers by DSO, then their symbols, on several threads.
pub(super) fn resolve<'s>(
    symbolizer: &'s Symbolizer,
    dsos: &DsoTable,
    addresses: &[DsoAddress],
    threads: NonZeroUsize,
) -> ResolvedFrames<'s> {
    let mut by_dso: BTreeMap<DsoId, Vec<u64>> = BTreeMap::new();
    for at in addresses {
        by_dso.entry(at.dso).or_default().push(at.address);
    }
    let mut answers_by_dso = Vec::new();
    let mut sorted = BTreeMap::new();
    for (dso, mut addresses) in by_dso {
        addresses.sort_unstable();
        addresses.dedup();
        if let Some(answers) = symbolizer.answers(dsos, dso, &addresses, threads) {
            let index = u32::try_from(answers_by_dso.len()).unwrap_or(u32::MAX);
            answers_by_dso.push(DsoAnswers { answers, demangled: OnceVec::default() });
            sorted.insert(dso, (index, addresses));
        }
    }
    let look_up = |addresses: &[DsoAddress]| -> Vec<AddressLookup> {
        let lookups = addresses.iter().map(|at| AddressLookup {
            symbol: symbolizer.find(dsos, at.dso, at.address),
            answer: sorted.get(&at.dso).and_then(|(index, addresses)| {
                let number = addresses.binary_search(&at.address).ok()?;
                Some((*index, u32::try_from(number).ok()?))
            }),
        });
        lookups.collect()
    };
    let threads = threads.get().min(1 + addresses.len() / THREAD_ADDRESSES);
    let chunk_len = addresses.len().div_ceil(threads).max(1);
    let chunks = std::thread::scope(|scope| {
        let mut chunks = addresses.chunks(chunk_len);
        let own = chunks.next().unwrap_or_default();
        let spawned: Vec<_> = chunks.map(|chunk| scope.spawn(|| look_up(chunk))).collect();
        let mut lookups = vec![look_up(own)];
        for thread in spawned {
            match thread.join() {
                Ok(chunk) => lookups.push(chunk),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        lookups
    });
    ResolvedFrames { symbolizer, chunks, chunk_len, answers: answers_by_dso }
}

impl ResolvedFrames<'_> {
    /// Number of addresses.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }

    /// Whether there are no addresses.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the frames of the address at an index, at least one: innermost first, as in a call
    /// chain. The last one is the function with the symbol.
    pub fn get(&self, index: usize) -> impl Iterator<Item = Frame<'_>> {
        let nothing = AddressLookup { symbol: Err(Unresolved::NoMapping), answer: None };
        let chunk = self.chunks.get(index / self.chunk_len);
        let lookup = chunk.and_then(|chunk| chunk.get(index % self.chunk_len));
        let lookup = lookup.copied().unwrap_or(nothing);
        let (answers, frames) = self.answer(&lookup);
        let frames = if frames.is_empty() { SYMBOL_ONLY } else { frames };
        frames.iter().map(move |frame| self.frame(answers, frame, &lookup))
    }

    fn answer(&self, lookup: &AddressLookup) -> (Option<&DsoAnswers>, &[AnswerFrame]) {
        let answer = lookup.answer.and_then(|(index, number)| {
            let answers = self.answers.get(index as usize)?;
            Some((Some(answers), answers.answers.get(number as usize)))
        });
        answer.unwrap_or_default()
    }

    fn frame<'f>(
        &'f self,
        answers: Option<&'f DsoAnswers>,
        frame: &AnswerFrame,
        lookup: &AddressLookup,
    ) -> Frame<'f> {
        let symbol = lookup.symbol.ok().filter(|_| !frame.is_inlined);
        let dwarf_name = frame.name.zip(answers).map(|(name, answers)| self.name(answers, name));
        // A function that isn't inlined has the name of its symbol, whatever debug info calls it.
        let (name, source) = match (symbol, dwarf_name) {
            (Some(symbol), _) => {
                let source = self.symbolizer.name_source(symbol).unwrap_or(NameSource::Symtab);
                (Ok(self.symbolizer.name(symbol)), source)
            }
            (None, Some(name)) => (Ok(name), self.inlined_name_source(lookup)),
            (None, None) => {
                (Err(lookup.symbol.err().unwrap_or(Unresolved::NoSymbol)), NameSource::Dwarf)
            }
        };
        let location = frame.file.zip(answers).map(|(file, answers)| SourceLocation {
            file: answers.answers.texts.get(file),
            line: frame.line,
            column: frame.column,
        });
        let linkage_name = match symbol {
            Some(symbol) => self.symbolizer.linkage_name(symbol),
            None => frame.name.zip(answers).map(|(name, answers)| answers.answers.texts.get(name)),
        };
        let linkage_name = linkage_name.filter(|linkage| name != Ok(*linkage));
        let AnswerFrame { is_inlined, first_line, .. } = *frame;
        Frame { name, linkage_name, source, symbol, is_inlined, location, first_line }
    }

    /// Returns where the names of functions inlined at an address come from.
    fn inlined_name_source(&self, lookup: &AddressLookup) -> NameSource {
        let outer = lookup.symbol.ok().and_then(|symbol| self.symbolizer.name_source(symbol));
        // A file whose symbols are Go's has no debug info.
        outer.filter(|source| *source == NameSource::Pclntab).unwrap_or(NameSource::Dwarf)
    }

    fn name<'f>(&'f self, answers: &'f DsoAnswers, name: TextId) -> &'f str {
        let text = answers.answers.texts.get(name);
        if !self.symbolizer.demangles() {
            return text;
        }
        answers.demangled.get_or_init(name.number(), || demangle(text.as_bytes()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dso::{Dso, DsoKind};
    use crate::search::SymbolOptions;

    #[test]
    fn each_address_has_at_least_its_symbol_in_the_given_order() {
        let mut dsos = DsoTable::default();
        let mut ids = [b"first", b"other"].map(|name| {
            let kind = DsoKind::Ksymbol { bytes: 64 };
            dsos.intern(Dso { kind, name: name.to_vec(), build_id: None }).unwrap()
        });
        ids.reverse();
        let symbolizer = Symbolizer::new(SymbolOptions::default());
        let addresses: Vec<DsoAddress> = (0..3 * THREAD_ADDRESSES)
            .map(|at| DsoAddress { dso: ids[at % 2], address: (at % 80) as u64 })
            .collect();
        for threads in [1, 3] {
            let threads = NonZeroUsize::new(threads).unwrap();
            let frames = symbolizer.frames(&dsos, &addresses, threads);
            assert_eq!(frames.len(), addresses.len());
            for (index, at) in addresses.iter().enumerate() {
                let found: Vec<Frame<'_>> = frames.get(index).collect();
                let name = if at.dso == ids[0] { "other" } else { "first" };
                let expected = (at.address < 64).then_some(name).ok_or(Unresolved::NoSymbol);
                assert_eq!((found.len(), found[0].name), (1, expected));
            }
        }
        let frames = symbolizer.frames(&dsos, &[], NonZeroUsize::MIN);
        let beyond: Vec<_> = frames.get(7).map(|frame| frame.name).collect();
        assert_eq!((frames.is_empty(), beyond), (true, vec![Err(Unresolved::NoMapping)]));
    }
}
