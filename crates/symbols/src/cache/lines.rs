//! What debug info said of addresses as it is kept: addresses, ends of their frames, frames, texts.

use std::collections::{BTreeMap, HashMap};

use super::blocks::{self, Blocks, LARGEST};
use crate::answers::{AnswerFrame, Answers};
use crate::texts::{TextId, Texts};

/// The numbers of the tables.
const ADDRESSES: usize = 0;
const ENDS: usize = 1;
const FRAMES: usize = 2;
const TEXTS: usize = 3;

/// Bytes of a frame: name, file, line, and column with the lowest bit for what was inlined.
const FRAME: usize = 16;

/// No text.
const NONE: u32 = u32::MAX;

/// Frames of an address; a hostile file could have any number.
const MOST_FRAMES: u32 = 1 << 12;

/// Answers that are read in part.
#[derive(Debug)]
pub(crate) struct KeptAnswers(Blocks);

impl KeptAnswers {
    pub(super) fn new(blocks: Blocks) -> Self {
        Self(blocks)
    }

    /// The most memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// The frames of an address as numbers; `None` where it wasn't asked for, or is damaged.
    fn find(&self, address: u64) -> Option<Vec<[u32; 4]>> {
        let at = self.0.not_above(ADDRESSES, address)?.checked_sub(1)?;
        if self.0.u64(ADDRESSES, at)? != address {
            return None;
        }
        let begin = match at.checked_sub(1) {
            Some(before) => self.0.u32(ENDS, before)?,
            None => 0,
        };
        let end = self.0.u32(ENDS, at)?;
        end.checked_sub(begin).filter(|frames| *frames <= MOST_FRAMES)?;
        (begin..end).map(|frame| self.frame(frame)).collect()
    }

    fn frame(&self, number: u32) -> Option<[u32; 4]> {
        let bytes = self.0.get(FRAMES, (number as usize).checked_mul(FRAME)?, FRAME)?;
        let words: &[[u8; 4]; 4] = bytes.as_chunks().0.first_chunk()?;
        let frame = words.map(u32::from_ne_bytes);
        let is_text = |at: u32| at == NONE || self.0.text(TEXTS, at).is_some();
        (is_text(frame[0]) && is_text(frame[1])).then_some(frame)
    }

    fn addresses(&self) -> impl Iterator<Item = u64> {
        (0..self.0.len(ADDRESSES, 8)).filter_map(|at| self.0.u64(ADDRESSES, at))
    }
}

/// Answers of one file from two places, and the texts of those that come from its cache.
#[derive(Debug)]
pub(crate) struct MergedAnswers {
    pub(crate) answers: Answers,
    texts: HashMap<u32, TextId, foldhash::fast::RandomState>,
}

impl MergedAnswers {
    /// None yet.
    pub(crate) fn new() -> Self {
        // What is kept was cut before.
        let texts = Texts::new(usize::try_from(LARGEST).unwrap_or(usize::MAX));
        Self { answers: Answers::new(texts), texts: HashMap::default() }
    }

    /// Adds the kept frames of an address; `false`: there are none.
    pub(crate) fn add_kept(&mut self, kept: &KeptAnswers, address: u64) -> bool {
        let Some(frames) = kept.find(address) else { return false };
        let mut text = |at: u32| {
            let (text, _) = kept.0.text(TEXTS, at).filter(|_| at != NONE)?;
            Some(*self.texts.entry(at).or_insert_with(|| self.answers.texts.add(text)))
        };
        let frames: Vec<_> = frames
            .iter()
            .map(|&[name, file, line, column]| AnswerFrame {
                name: text(name),
                file: text(file),
                line,
                column: column >> 1,
                is_inlined: column & 1 == 1,
            })
            .collect();
        self.answers.push(frames);
        true
    }
}

/// What became known of a file's addresses, to be kept.
#[derive(Debug, Default)]
pub(crate) struct NewAnswers {
    by_address: BTreeMap<u64, Vec<[u32; 4]>>,
    frames: usize,
    texts: blocks::Texts,
    known: HashMap<Box<[u8]>, u32, foldhash::fast::RandomState>,
    is_full: bool,
}

impl NewAnswers {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }

    /// Adds what was found of an address.
    pub(crate) fn add(&mut self, address: u64, answers: &Answers, number: usize) {
        let frames = answers.get(number).iter().map(|frame| {
            let mut text = |id: Option<TextId>| match id {
                Some(id) => self.text(answers.texts.get(id).as_bytes()),
                None => Some(NONE),
            };
            let column = frame.column << 1 | u32::from(frame.is_inlined);
            Some([text(frame.name)?, text(frame.file)?, frame.line, column])
        });
        let frames: Option<Vec<_>> = frames.collect();
        match frames {
            Some(frames) => self.insert(address, frames),
            None => self.is_full = true,
        }
    }

    fn insert(&mut self, address: u64, frames: Vec<[u32; 4]>) {
        let bytes = 12 * self.by_address.len() + FRAME * self.frames + self.texts.0.len();
        self.is_full |= bytes as u64 > LARGEST / 2;
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

    /// Adds what was kept before, as far as there is room.
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
                .map(|&[name, file, line, column]| {
                    Some([text(self, name)?, text(self, file)?, line, column])
                })
                .collect();
            match frames {
                Some(frames) => self.insert(address, frames),
                None => self.is_full = true,
            }
        }
    }

    /// The tables' bytes.
    pub(super) fn tables(self) -> [Vec<u8>; 4] {
        let mut addresses = Vec::new();
        let mut ends = Vec::new();
        let mut frames = Vec::new();
        let mut end = 0_u32;
        for (address, of_address) in &self.by_address {
            addresses.extend(address.to_ne_bytes());
            end = end.saturating_add(u32::try_from(of_address.len()).unwrap_or(u32::MAX));
            ends.extend(end.to_ne_bytes());
            frames.extend(of_address.iter().flatten().flat_map(|word| word.to_ne_bytes()));
        }
        [addresses, ends, frames, self.texts.0]
    }
}
