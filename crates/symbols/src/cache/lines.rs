//! Answers of debug info in the cache, as four tables: addresses, ends of their frames, frames,
//! texts.

use std::collections::{BTreeMap, HashMap};

use super::blocks::{self, Blocks, MAX_FILE_BYTES};
use crate::answers::{AnswerFrame, Answers};
use crate::texts::{TextId, Texts};

/// The numbers of the tables.
const ADDRESSES: usize = 0;
const ENDS: usize = 1;
const FRAMES: usize = 2;
const TEXTS: usize = 3;

/// Words of a frame: name, file, line, column, and the line of the function's declaration. The
/// lowest bit of the column's word marks an inlined function.
const WORDS: usize = 5;

/// Bytes of a frame.
const FRAME: usize = 4 * WORDS;

/// Offset for a missing text.
const NONE: u32 = u32::MAX;

/// Limit on the frames of an address; an answer with more counts as damaged.
const MAX_FRAMES: u32 = 1 << 12;

/// Kept answers, read in part.
#[derive(Debug)]
pub(crate) struct KeptAnswers(Blocks);

impl KeptAnswers {
    pub(super) fn new(blocks: Blocks) -> Self {
        Self(blocks)
    }

    /// Bytes of memory if all of it is read.
    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Returns the frames of an address as numbers; `None` if they aren't kept, or are damaged.
    fn find(&self, address: u64) -> Option<Vec<[u32; WORDS]>> {
        let at = self.0.count_up_to(ADDRESSES, address)?.checked_sub(1)?;
        if self.0.u64(ADDRESSES, at)? != address {
            return None;
        }
        let begin = match at.checked_sub(1) {
            Some(before) => self.0.u32(ENDS, before)?,
            None => 0,
        };
        let end = self.0.u32(ENDS, at)?;
        end.checked_sub(begin).filter(|frames| *frames <= MAX_FRAMES)?;
        (begin..end).map(|frame| self.frame(frame)).collect()
    }

    fn frame(&self, number: u32) -> Option<[u32; WORDS]> {
        // A frame may continue in the next block, a word doesn't.
        let first = (number as usize).checked_mul(WORDS)?;
        let mut frame = [0; WORDS];
        for (at, word) in (first..).zip(&mut frame) {
            *word = self.0.u32(FRAMES, at)?;
        }
        let is_text = |at: u32| at == NONE || self.0.text(TEXTS, at).is_some();
        (is_text(frame[0]) && is_text(frame[1])).then_some(frame)
    }

    fn addresses(&self) -> impl Iterator<Item = u64> {
        (0..self.0.len(ADDRESSES, 8)).filter_map(|at| self.0.u64(ADDRESSES, at))
    }
}

/// Joins kept answers with fresh ones.
///
/// Invariant: `numbers` has an entry for each address of the lookup. `answers` has the kept answers
/// alone, in the order of the lookup.
#[derive(Debug)]
pub(crate) struct AnswerMerge {
    answers: Answers,
    /// By address: the number of its kept answer.
    numbers: Vec<Option<usize>>,
}

impl AnswerMerge {
    /// Looks addresses up among the kept answers.
    pub(crate) fn look_up(kept: Option<&KeptAnswers>, addresses: &[u64]) -> Self {
        // A cache file is smaller, so none of its texts is shortened as overlapping ones are.
        let texts = Texts::new(usize::try_from(MAX_FILE_BYTES).unwrap_or(usize::MAX));
        let mut answers = Answers::new(texts);
        let mut ids = HashMap::default();
        let numbers = addresses
            .iter()
            .map(|address| {
                let number = answers.len();
                add_kept(kept?, *address, &mut answers, &mut ids).then_some(number)
            })
            .collect();
        Self { answers, numbers }
    }

    /// Returns the addresses without a kept answer; `addresses` are those of the lookup.
    pub(crate) fn missing(&self, addresses: &[u64]) -> Vec<u64> {
        let pairs = addresses.iter().zip(&self.numbers);
        pairs.filter(|(_, number)| number.is_none()).map(|(address, _)| *address).collect()
    }

    /// Returns the answers of all addresses. `fresh` answers the missing ones, in their order;
    /// without it they have no frames. `None` if there is no answer at all.
    pub(crate) fn finish(mut self, fresh: Option<Answers>) -> Option<Answers> {
        let kept = self.answers.len();
        if kept == self.numbers.len() {
            return Some(self.answers);
        }
        let Some(fresh) = fresh else {
            self.answers.push([]);
            let numbers = self.numbers.iter().map(|number| number.unwrap_or(kept));
            return (kept > 0).then(|| self.answers.in_order(numbers));
        };
        if kept == 0 {
            return Some(fresh);
        }
        self.answers.append(&fresh);
        let mut next = kept..;
        let numbers = self.numbers.iter().map(|number| number.or_else(|| next.next()));
        Some(self.answers.in_order(numbers.map(Option::unwrap_or_default)))
    }
}

/// Adds the kept answer of an address to `answers`; `false` if the cache has no answer. `ids` has
/// the texts added so far, by their offsets in the cache.
fn add_kept(
    kept: &KeptAnswers,
    address: u64,
    answers: &mut Answers,
    ids: &mut HashMap<u32, TextId, foldhash::fast::RandomState>,
) -> bool {
    let Some(frames) = kept.find(address) else { return false };
    let mut text = |at: u32| {
        let (text, _) = kept.0.text(TEXTS, at).filter(|_| at != NONE)?;
        Some(*ids.entry(at).or_insert_with(|| answers.texts.add(text)))
    };
    let frames: Vec<_> = frames
        .iter()
        .map(|&[name, file, line, column, first_line]| AnswerFrame {
            name: text(name),
            file: text(file),
            line,
            column: column >> 1,
            first_line,
            is_inlined: column & 1 == 1,
        })
        .collect();
    answers.push(frames);
    true
}

/// New answers for a file, to be kept.
#[derive(Debug, Default)]
pub(crate) struct NewAnswers {
    by_address: BTreeMap<u64, Vec<[u32; WORDS]>>,
    frames: usize,
    texts: blocks::TextTable,
    known: HashMap<Box<[u8]>, u32, foldhash::fast::RandomState>,
    is_full: bool,
}

impl NewAnswers {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }

    /// Adds the answer of an address: the one with this number in `answers`.
    pub(crate) fn add(&mut self, address: u64, answers: &Answers, number: usize) {
        let frames = answers.get(number).iter().map(|frame| {
            let mut text = |id: Option<TextId>| match id {
                Some(id) => self.text(answers.texts.get(id).as_bytes()),
                None => Some(NONE),
            };
            let column = frame.column << 1 | u32::from(frame.is_inlined);
            Some([text(frame.name)?, text(frame.file)?, frame.line, column, frame.first_line])
        });
        let frames: Option<Vec<_>> = frames.collect();
        match frames {
            Some(frames) => self.insert(address, frames),
            None => self.is_full = true,
        }
    }

    fn insert(&mut self, address: u64, frames: Vec<[u32; WORDS]>) {
        let bytes = 12 * self.by_address.len() + FRAME * self.frames + self.texts.0.len();
        self.is_full |= bytes as u64 > MAX_FILE_BYTES / 2;
        if !self.is_full {
            self.frames += frames.len();
            self.by_address.insert(address, frames);
        }
    }

    fn text(&mut self, text: &[u8]) -> Option<u32> {
        if let Some(at) = self.known.get(text) {
            return Some(*at);
        }
        let at = self.texts.add(text, 0)?;
        self.known.insert(text.into(), at);
        Some(at)
    }

    /// Adds the answers kept before, as far as there is room.
    pub(super) fn add_old(&mut self, old: &KeptAnswers) {
        for address in old.addresses() {
            if self.is_full {
                return;
            }
            let Some(frames) =
                old.find(address).filter(|_| !self.by_address.contains_key(&address))
            else {
                continue;
            };
            let text = |new: &mut Self, at: u32| match old.0.text(TEXTS, at) {
                Some((text, _)) if at != NONE => new.text(text),
                _ => Some(NONE),
            };
            let frames: Option<Vec<_>> = frames
                .iter()
                .map(|&[name, file, line, column, first_line]| {
                    Some([text(self, name)?, text(self, file)?, line, column, first_line])
                })
                .collect();
            match frames {
                Some(frames) => self.insert(address, frames),
                None => self.is_full = true,
            }
        }
    }

    /// Returns the bytes of the tables.
    pub(super) fn tables(self) -> [Vec<u8>; 4] {
        let mut addresses = Vec::new();
        let mut ends = Vec::new();
        let mut frames = Vec::new();
        let mut end = 0_u32;
        for (address, address_frames) in &self.by_address {
            addresses.extend(address.to_ne_bytes());
            end = end.saturating_add(u32::try_from(address_frames.len()).unwrap_or(u32::MAX));
            ends.extend(end.to_ne_bytes());
            frames.extend(address_frames.iter().flatten().flat_map(|word| word.to_ne_bytes()));
        }
        [addresses, ends, frames, self.texts.0]
    }
}
