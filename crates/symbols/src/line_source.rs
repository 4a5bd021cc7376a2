//! What says which lines and inlined functions addresses of a file have.

use std::num::NonZeroUsize;

use crate::answers::{AnswerFrame, Answers};
use crate::debug_info::DebugInfo;
use crate::elf::GoFunctions;
use crate::search::SymbolOptions;
use crate::texts::Texts;
use crate::unresolved::Unresolved;

/// Steps of Go's tables for each address, on average: most functions have some hundred.
const STEPS: usize = 1 << 12;

/// Debug info, or where there is none what Go's runtime knows.
#[derive(Debug)]
pub(crate) enum LineSource {
    Dwarf(Box<DebugInfo>),
    Go(GoFunctions),
}

impl LineSource {
    /// Whether what it answers holds for good: nothing was missing.
    pub(crate) fn is_complete(&self) -> bool {
        match self {
            Self::Dwarf(debug_info) => debug_info.is_complete(),
            // Debug info may be found later.
            Self::Go(_) => false,
        }
    }

    /// Bytes of memory that stay as long as it does.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Dwarf(debug_info) => debug_info.bytes(),
            Self::Go(functions) => functions.bytes(),
        }
    }

    /// What is known of sorted addresses, in the file's own terms.
    ///
    /// # Errors
    /// As [`DebugInfo::answers`].
    pub(crate) fn answers(
        &self,
        options: &SymbolOptions,
        addresses: &[u64],
        threads: NonZeroUsize,
    ) -> Result<Answers, Unresolved> {
        match self {
            Self::Dwarf(debug_info) => debug_info.answers(options, addresses, threads),
            Self::Go(functions) => Ok(of_go(functions, addresses)),
        }
    }
}

fn of_go(functions: &GoFunctions, addresses: &[u64]) -> Answers {
    let mut answers = Answers::new(Texts::new(functions.bytes()));
    let mut left = addresses.len().saturating_mul(STEPS).saturating_add(1 << 20);
    for address in addresses {
        let frames = functions.frames(*address, &mut left);
        let frames: Vec<_> = frames
            .iter()
            .map(|frame| AnswerFrame {
                name: Some(answers.texts.add(frame.name)),
                file: frame.file.map(|file| answers.texts.add(file)),
                line: frame.line,
                column: 0,
                is_inlined: frame.is_inlined,
            })
            .collect();
        answers.push(frames);
    }
    answers
}
