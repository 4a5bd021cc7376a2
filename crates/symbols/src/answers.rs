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

/// The frames of an address of which debug info knows nothing: its symbol is all there is.
pub(crate) const SILENT: &[AnswerFrame] =
    &[AnswerFrame { name: None, file: None, line: 0, column: 0, is_inlined: false }];

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
    /// Those of further addresses, with the same texts: what other threads put together stays where
    /// it is.
    behind: Vec<Self>,
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
        self.frames.len() + self.behind.iter().map(Self::frame_count).sum::<usize>()
    }

    /// Adds the frames of the next address, the innermost first.
    pub(crate) fn push(&mut self, frames: impl IntoIterator<Item = AnswerFrame>) {
        if let Some(last) = self.behind.last_mut() {
            return last.push(frames);
        }
        self.frames.extend(frames);
        self.ends.push(u32::try_from(self.frames.len()).unwrap_or(u32::MAX));
    }

    /// Adds answers, as they are, that have the same numbers for texts.
    pub(crate) fn add_behind(&mut self, further: Self) {
        self.behind.push(further);
    }

    /// The frames of the address with a number, the innermost first; none where nothing is known.
    pub(crate) fn get(&self, number: usize) -> &[AnswerFrame] {
        let Some(mut number) = number.checked_sub(self.ends.len()) else {
            return self.frames.get(self.range(number)).unwrap_or_default();
        };
        for further in &self.behind {
            let Some(rest) = number.checked_sub(further.len()) else { return further.get(number) };
            number = rest;
        }
        &[]
    }

    /// Where the frames of an address lie that is not behind.
    fn range(&self, number: usize) -> Range<usize> {
        let begin = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied();
        let end = self.ends.get(number).copied().unwrap_or(0) as usize;
        begin.unwrap_or(0) as usize..end
    }

    /// The outermost frame of an address that is not behind.
    pub(crate) fn outermost(&mut self, number: usize) -> Option<&mut AnswerFrame> {
        let range = self.range(number);
        self.frames.get_mut(range)?.last_mut()
    }

    /// How many addresses there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len() + self.behind.iter().map(Self::len).sum::<usize>()
    }

    /// Adds all answers of another, in their order.
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

    /// The answers with these numbers, in this order.
    pub(crate) fn in_order(&self, numbers: impl Iterator<Item = usize>) -> Self {
        let mut answers = Self::new(self.texts.clone());
        numbers.for_each(|number| answers.push(self.get(number).iter().copied()));
        answers
    }
}
