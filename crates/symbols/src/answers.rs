//! What debug info says of addresses, as numbers and texts: what is looked up, handed on, and may
//! be kept.

use std::ops::Range;

use crate::texts::{TextId, Texts};

/// A function that an address lies in, and where in its source: a row of [`Answers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnswerFrame {
    /// Its name as the file has it.
    pub(crate) name: Option<TextId>,
    /// The path of its source file.
    pub(crate) file: Option<TextId>,
    /// Counted from 1; 0 is none.
    pub(crate) line: u32,
    /// Counted from 1; 0 is none, or the line's beginning.
    pub(crate) column: u32,
    /// It was inlined into the frame behind it.
    pub(crate) is_inlined: bool,
}

/// The frames of addresses, each address's behind those of the one before.
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
    /// What the frames' numbers mean.
    pub(crate) texts: Texts,
}

impl Answers {
    /// None yet; their texts are numbered here.
    pub(crate) fn new(texts: Texts) -> Self {
        Self { texts, ..Self::default() }
    }

    /// Makes room for further addresses with so many frames together.
    pub(crate) fn reserve(&mut self, addresses: usize, frames: usize) {
        self.ends.reserve(addresses);
        self.frames.reserve(frames);
    }

    /// How many frames all addresses have together.
    pub(crate) fn frame_count(&self) -> usize {
        self.frames.len()
    }

    /// Adds the frames of the next address, the innermost first.
    pub(crate) fn push(&mut self, frames: impl IntoIterator<Item = AnswerFrame>) {
        self.frames.extend(frames);
        self.ends.push(u32::try_from(self.frames.len()).unwrap_or(u32::MAX));
    }

    /// The frames of the address with a number, the innermost first; none where nothing is known.
    pub(crate) fn get(&self, number: usize) -> &[AnswerFrame] {
        let begin = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied();
        let end = self.ends.get(number).copied().unwrap_or(0) as usize;
        self.frames.get(begin.unwrap_or(0) as usize..end).unwrap_or_default()
    }

    /// How many addresses there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Adds answers of another that has the same numbers for texts, those of the addresses with these
    /// numbers.
    pub(crate) fn extend(&mut self, other: &Self, numbers: Range<usize>) {
        let end = |number: usize| number.checked_sub(1).and_then(|at| other.ends.get(at)).copied();
        let (first, last) = (end(numbers.start).unwrap_or(0), end(numbers.end).unwrap_or(0));
        let before = u32::try_from(self.frames.len()).unwrap_or(u32::MAX);
        self.frames.extend_from_slice(&other.frames[first as usize..last as usize]);
        let ends = other.ends[numbers].iter();
        self.ends.extend(ends.map(|end| (end - first).saturating_add(before)));
    }

    /// Adds all answers of another, in their order.
    pub(crate) fn append(&mut self, other: &Self) {
        let ids = self.texts.append(&other.texts);
        let id = |id: TextId| ids.get(id.number() as usize).copied();
        for number in 0..other.ends.len() {
            self.push(other.get(number).iter().map(|frame| AnswerFrame {
                name: frame.name.and_then(id),
                file: frame.file.and_then(id),
                ..*frame
            }));
        }
    }

    /// The answers with these numbers, in this order.
    pub(crate) fn in_order(&self, numbers: impl Iterator<Item = usize>) -> Self {
        let mut answers = Self::new(self.texts.clone());
        numbers.for_each(|number| answers.push(self.get(number).iter().copied()));
        answers
    }
}
