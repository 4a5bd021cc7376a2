//! The source of lines and inlined functions of a file: DWARF, or Go's tables.

use std::num::NonZeroUsize;

use crate::answers::{AnswerFrame, Answers};
use crate::debug_info::DebugInfo;
use crate::elf::GoFunctions;
use crate::search::SymbolOptions;
use crate::texts::Texts;
use crate::unresolved::Unresolved;

/// Average limit on the steps of Go's tables per address: most functions have some hundreds.
const STEPS_PER_ADDRESS: usize = 1 << 12;

/// Debug info; for a file without, the tables of Go's runtime, or the source files in its symbol
/// table.
#[derive(Debug)]
pub(crate) enum LineSource {
    Dwarf(Box<DebugInfo>),
    Go(GoFunctions),
}

impl LineSource {
    /// Whether answers are final: no part of the debug info was missing.
    pub(crate) fn is_complete(&self) -> bool {
        match self {
            Self::Dwarf(debug_info) => debug_info.is_complete(),
            // A later run may find debug info.
            Self::Go(_) => false,
        }
    }

    /// Whether it knows functions, inlined ones too, and not just source files.
    pub(crate) fn has_functions(&self) -> bool {
        match self {
            Self::Dwarf(debug_info) => debug_info.has_functions(),
            Self::Go(_) => true,
        }
    }

    /// Bytes of memory that it keeps.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Dwarf(debug_info) => debug_info.bytes(),
            Self::Go(functions) => functions.bytes(),
        }
    }

    /// Looks up sorted addresses of the file.
    ///
    /// # Errors
    /// Fails where [`DebugInfo::answers`] does.
    pub(crate) fn answers(
        &self,
        options: &SymbolOptions,
        addresses: &[u64],
        threads: NonZeroUsize,
    ) -> Result<Answers, Unresolved> {
        match self {
            Self::Dwarf(debug_info) => debug_info.answers(options, addresses, threads),
            Self::Go(functions) => Ok(go_answers(functions, addresses)),
        }
    }
}

fn go_answers(functions: &GoFunctions, addresses: &[u64]) -> Answers {
    let mut answers = Answers::new(Texts::new(functions.bytes()));
    let mut left = addresses.len().saturating_mul(STEPS_PER_ADDRESS).saturating_add(1 << 20);
    for address in addresses {
        let frames = functions.frames(*address, &mut left);
        let frames: Vec<_> = frames
            .iter()
            .map(|frame| AnswerFrame {
                name: Some(answers.texts.add(frame.name)),
                file: frame.file.map(|file| answers.texts.add(file)),
                line: frame.line,
                column: 0,
                first_line: frame.first_line,
                is_inlined: frame.is_inlined,
            })
            .collect();
        answers.push(frames);
    }
    answers
}
