//! What just-in-time compilers left of a process's code.

use std::fs::File;

use super::{Source, Symbolizer};
use crate::answers::{AnswerFrame, Answers};
use crate::dso::{Dso, DsoId, DsoTable};
use crate::jit_file::{self, RecordedProcesses};
use crate::jitdump::JitDump;
use crate::texts::Texts;
use crate::unresolved::Unresolved;

impl Symbolizer {
    /// What the recording says of its processes, to be completed before their code is asked for.
    pub fn recorded_processes(&mut self) -> &mut RecordedProcesses {
        &mut self.recorded_processes
    }

    /// Opens the perf map or the jitdump that a DSO stands for, if it is to be believed.
    ///
    /// # Errors
    /// [`Unresolved::NoFile`], [`Unresolved::NotReadable`], [`Unresolved::NotTrusted`].
    pub fn jit_file(&self, dso: &Dso) -> Result<File, Unresolved> {
        jit_file::open(&self.options, &self.recorded_processes, dso)
    }

    /// The jitdump of a DSO, which is read when it is first asked for.
    ///
    /// # Errors
    /// There is none: see [`Unresolved`].
    pub fn jitdump(&self, dsos: &DsoTable, dso: DsoId) -> Result<&JitDump<File>, Unresolved> {
        match &self.symbols(dsos, dso)?.source {
            Source::JitDump(dump) => Ok(dump),
            _ => Err(Unresolved::NoJitDump),
        }
    }
}

/// The lines that addresses in a jitdump were compiled from.
pub(super) fn lines(dump: &JitDump<File>, addresses: &[u64]) -> Answers {
    let mut answers = Answers::new(Texts::new(dump.bytes()));
    for address in addresses {
        let line = dump.line(*address).map(|found| AnswerFrame {
            name: None,
            file: Some(answers.texts.add(&found.file)),
            line: found.line,
            column: found.column,
            is_inlined: false,
        });
        answers.push(line);
    }
    answers
}
