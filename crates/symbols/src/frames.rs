//! From addresses to the functions that they lie in, inlined ones too, and to lines of source.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use crate::answers::{AnswerFrame, Answers, SILENT};
use crate::demangle::demangle;
use crate::dso::{DsoAddress, DsoId, DsoTable};
use crate::name_source::NameSource;
use crate::once_vec::OnceVec;
use crate::symbolizer::{Symbol, Symbolizer};
use crate::texts::TextId;
use crate::unresolved::Unresolved;

/// Addresses that another thread is started for.
const THREAD_ADDRESSES: usize = 1 << 14;

/// A place in a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Location<'a> {
    /// The path, as it was when the file was compiled. Untrusted.
    pub file: &'a str,
    /// Counted from 1; 0 where the compiler gave none.
    pub line: u32,
    /// Counted from 1; 0 where the compiler gave none.
    pub column: u32,
}

/// A function that an address lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The function's name, or the reason why there is none. Untrusted.
    pub name: Result<&'a str, Unresolved>,
    /// Where the name comes from.
    pub source: NameSource,
    /// The symbol, of a function that was not inlined.
    pub symbol: Option<Symbol>,
    /// The compiler put it into the function of the frame behind it.
    pub is_inlined: bool,
    /// Where in the source the address lies; of a function with another inlined, where that is
    /// called.
    pub location: Option<Location<'a>>,
}

/// What [`Symbolizer::frames`] found.
#[derive(Debug)]
pub struct Frames<'a> {
    symbolizer: &'a Symbolizer,
    /// In the order of the addresses, as threads looked them up: so many at a time, and the rest.
    asked: Vec<Vec<FrameRequest>>,
    each: usize,
    parts: Vec<Part>,
}

/// An address that was asked for.
#[derive(Clone, Copy, Debug)]
struct FrameRequest {
    symbol: Result<Symbol, Unresolved>,
    /// The DSO's place in [`Frames::parts`], and the address's number there.
    answer: Option<(u32, u32)>,
}

/// What debug info says of the addresses of a DSO.
#[derive(Debug)]
struct Part {
    answers: Answers,
    /// Names as in source code, by their texts.
    demangled: OnceVec<Box<str>>,
}

impl Symbolizer {
    /// The functions that addresses lie in, with lines of source, for all addresses that are needed
    /// at once: a file's debug info is gone through once for all of them, by as many threads as are
    /// allowed. Whoever needs no lines and no inlined functions is better served by
    /// [`Symbolizer::find`], which looks at no debug info.
    #[must_use]
    pub fn frames(
        &self,
        dsos: &DsoTable,
        addresses: &[DsoAddress],
        threads: NonZeroUsize,
    ) -> Frames<'_> {
        let mut by_dso: BTreeMap<DsoId, Vec<u64>> = BTreeMap::new();
        for at in addresses {
            by_dso.entry(at.dso).or_default().push(at.address);
        }
        let mut parts = Vec::new();
        let mut sorted = BTreeMap::new();
        for (dso, mut addresses) in by_dso {
            addresses.sort_unstable();
            addresses.dedup();
            if let Some(answers) = self.answers(dsos, dso, &addresses, threads) {
                let number = u32::try_from(parts.len()).unwrap_or(u32::MAX);
                parts.push(Part { answers, demangled: OnceVec::default() });
                sorted.insert(dso, (number, addresses));
            }
        }
        let look_up = |addresses: &[DsoAddress]| -> Vec<FrameRequest> {
            let asked = addresses.iter().map(|at| FrameRequest {
                symbol: self.find(dsos, at.dso, at.address),
                answer: sorted.get(&at.dso).and_then(|(part, addresses)| {
                    let number = addresses.binary_search(&at.address).ok()?;
                    Some((*part, u32::try_from(number).ok()?))
                }),
            });
            asked.collect()
        };
        let threads = threads.get().min(1 + addresses.len() / THREAD_ADDRESSES);
        let each = addresses.len().div_ceil(threads).max(1);
        let asked = std::thread::scope(|scope| {
            let mut chunks = addresses.chunks(each);
            let own = chunks.next().unwrap_or_default();
            let spawned: Vec<_> = chunks.map(|chunk| scope.spawn(|| look_up(chunk))).collect();
            let mut asked = vec![look_up(own)];
            for thread in spawned {
                match thread.join() {
                    Ok(found) => asked.push(found),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            asked
        });
        Frames { symbolizer: self, asked, each, parts }
    }
}

impl Frames<'_> {
    /// How many addresses were asked for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.asked.iter().map(Vec::len).sum()
    }

    /// Whether none was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The frames of the address that was asked for at this place, at least one: the innermost first,
    /// as in a call chain. The last one is the function that has the symbol.
    pub fn get(&self, place: usize) -> impl Iterator<Item = Frame<'_>> {
        let nothing = FrameRequest { symbol: Err(Unresolved::NoMapping), answer: None };
        let asked = self.asked.get(place / self.each).and_then(|of| of.get(place % self.each));
        let asked = asked.copied().unwrap_or(nothing);
        let (part, frames) = self.answer(&asked);
        let frames = if frames.is_empty() { SILENT } else { frames };
        frames.iter().map(move |frame| self.frame(part, frame, &asked))
    }

    fn answer(&self, asked: &FrameRequest) -> (Option<&Part>, &[AnswerFrame]) {
        let found = asked.answer.and_then(|(part, number)| {
            let part = self.parts.get(part as usize)?;
            Some((Some(part), part.answers.get(number as usize)))
        });
        found.unwrap_or_default()
    }

    fn frame<'f>(
        &'f self,
        part: Option<&'f Part>,
        frame: &AnswerFrame,
        asked: &FrameRequest,
    ) -> Frame<'f> {
        let symbol = asked.symbol.ok().filter(|_| !frame.is_inlined);
        let own = frame.name.zip(part).map(|(name, part)| self.name(part, name));
        // A function that is there is called as its symbol, whatever debug info calls it.
        let (name, source) = match (symbol, own) {
            (Some(symbol), _) => {
                let source = self.symbolizer.name_source(symbol).unwrap_or(NameSource::Symtab);
                (Ok(self.symbolizer.name(symbol)), source)
            }
            (None, Some(name)) => (Ok(name), self.source_of_inlined(asked)),
            (None, None) => {
                (Err(asked.symbol.err().unwrap_or(Unresolved::NoSymbol)), NameSource::Dwarf)
            }
        };
        let location = frame.file.zip(part).map(|(file, part)| Location {
            file: part.answers.texts.get(file),
            line: frame.line,
            column: frame.column,
        });
        Frame { name, source, symbol, is_inlined: frame.is_inlined, location }
    }

    /// Where the names of functions come from that were inlined at an address.
    fn source_of_inlined(&self, asked: &FrameRequest) -> NameSource {
        let outer = asked.symbol.ok().and_then(|symbol| self.symbolizer.name_source(symbol));
        // A file that has no better names has no debug info.
        outer.filter(|source| *source == NameSource::Pclntab).unwrap_or(NameSource::Dwarf)
    }

    fn name<'f>(&'f self, part: &'f Part, name: TextId) -> &'f str {
        let text = part.answers.texts.get(name);
        if !self.symbolizer.demangles() {
            return text;
        }
        part.demangled.get_or_init(name.number(), || demangle(text.as_bytes()).into())
    }
}
