//! Answers of debug info to a list of addresses, as numbers and interned texts.

use std::ops::Range;

use crate::texts::{TextId, Texts};

/// A function at an address, and the place in its source: a row of [`Answers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnswerFrame {
    /// Name as it is in the file.
    pub(crate) name: Option<TextId>,
    /// Path of the source file.
    pub(crate) file: Option<TextId>,
    /// Line, counted from 1; 0 if unknown.
    pub(crate) line: u32,
    /// Column, counted from 1; 0 if unknown, or for the start of the line.
    pub(crate) column: u32,
    /// Line of the function's declaration, counted from 1; 0 if unknown.
    pub(crate) first_line: u32,
    /// Whether the function was inlined into the next frame.
    pub(crate) is_inlined: bool,
}

/// Frames of an address without debug info: it has only its symbol.
pub(crate) const SYMBOL_ONLY: &[AnswerFrame] =
    &[AnswerFrame { name: None, file: None, line: 0, column: 0, first_line: 0, is_inlined: false }];

/// Frames of addresses, one address after the other.
///
/// ```text
/// addresses  a           b   c
/// frames     inner outer  -   only
/// ends             2      2   3
/// ```
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    frames: Vec<AnswerFrame>,
    ends: Vec<u32>,
    /// Answers of the addresses that follow, with the same texts. Other threads made them; they are
    /// not copied.
    rest: Vec<Self>,
    /// Texts that the frames refer to.
    pub(crate) texts: Texts,
}

impl Answers {
    /// Creates an empty list whose frames refer to these texts.
    pub(crate) fn new(texts: Texts) -> Self {
        Self { texts, ..Self::default() }
    }

    /// Reserves room for a number of addresses, with a number of frames in total.
    pub(crate) fn reserve(&mut self, addresses: usize, frames: usize) {
        self.ends.reserve(addresses);
        self.frames.reserve(frames);
    }

    /// Number of frames of all addresses.
    pub(crate) fn frame_count(&self) -> usize {
        self.frames.len() + self.rest.iter().map(Self::frame_count).sum::<usize>()
    }

    /// Appends the frames of the next address, innermost first.
    pub(crate) fn push(&mut self, frames: impl IntoIterator<Item = AnswerFrame>) {
        if let Some(last) = self.rest.last_mut() {
            return last.push(frames);
        }
        self.frames.extend(frames);
        self.ends.push(u32::try_from(self.frames.len()).unwrap_or(u32::MAX));
    }

    /// Appends answers that refer to the same texts, without copying them.
    pub(crate) fn append_shared(&mut self, further: Self) {
        self.rest.push(further);
    }

    /// Returns the frames of an address by its number, innermost first; empty if nothing is known.
    pub(crate) fn get(&self, number: usize) -> &[AnswerFrame] {
        let Some(mut number) = number.checked_sub(self.ends.len()) else {
            return self.frames.get(self.range(number)).unwrap_or_default();
        };
        for further in &self.rest {
            let Some(rest) = number.checked_sub(further.len()) else { return further.get(number) };
            number = rest;
        }
        &[]
    }

    /// Returns the range of an address's frames in `self.frames`.
    fn range(&self, number: usize) -> Range<usize> {
        let begin = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied();
        let end = self.ends.get(number).copied().unwrap_or(0) as usize;
        begin.unwrap_or(0) as usize..end
    }

    /// Returns the outermost frame of an address that is not in `self.rest`.
    pub(crate) fn outermost(&mut self, number: usize) -> Option<&mut AnswerFrame> {
        let range = self.range(number);
        self.frames.get_mut(range)?.last_mut()
    }

    /// Number of addresses.
    pub(crate) fn len(&self) -> usize {
        self.ends.len() + self.rest.iter().map(Self::len).sum::<usize>()
    }

    /// Appends all answers of another list, and interns their texts.
    pub(crate) fn append(&mut self, other: &Self) {
        let ids = self.texts.append(&other.texts);
        let id = |id: TextId| ids.get(id.number() as usize).copied();
        for number in 0..other.len() {
            self.push(other.get(number).iter().map(|frame| AnswerFrame {
                name: frame.name.and_then(id),
                file: frame.file.and_then(id),
                ..*frame
            }));
        }
    }

    /// Returns the answers with these numbers, in this order.
    pub(crate) fn in_order(&self, numbers: impl Iterator<Item = usize>) -> Self {
        let mut answers = Self::new(self.texts.clone());
        numbers.for_each(|number| answers.push(self.get(number).iter().copied()));
        answers
    }
}
