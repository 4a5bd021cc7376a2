//! Debug info of the files looked up last.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::budget::Reservation;
use crate::cache::KeptAnswers;
use crate::dso::DsoId;
use crate::line_source::LineSource;

/// Number of files whose debug info stays open: enough for the files of most programs. An open file
/// takes a list of its units, its decompressed sections, and a mapping.
const MAX_OPEN: usize = 32;

/// What is known about the addresses of a file beside their symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineDetail {
    Nothing,
    /// Source files, from a symbol table.
    Files,
    /// Lines and inlined functions, from debug info or Go's tables.
    Functions,
}

/// Sources of lines and inlined functions of a file. `None` in a part: it doesn't exist, can't be
/// read, or exceeds the limit on memory.
#[derive(Debug, Default)]
pub(super) struct FileLines {
    /// Answers of debug info from earlier runs.
    kept: OnceLock<Option<ReservedPart<KeptAnswers>>>,
    /// Debug info, or Go's tables.
    source: OnceLock<Option<ReservedPart<LineSource>>>,
}

/// A value and the memory reserved for it.
#[derive(Debug)]
pub(super) struct ReservedPart<T> {
    pub(super) value: T,
    pub(super) _memory: Reservation,
}

impl FileLines {
    pub(super) fn kept(
        &self,
        open: impl FnOnce() -> Option<ReservedPart<KeptAnswers>>,
    ) -> Option<&KeptAnswers> {
        self.kept.get_or_init(open).as_ref().map(|part| &part.value)
    }

    pub(super) fn source(
        &self,
        open: impl FnOnce() -> Option<ReservedPart<LineSource>>,
    ) -> Option<&LineSource> {
        self.source.get_or_init(open).as_ref().map(|part| &part.value)
    }

    /// Returns the source if it is open.
    pub(super) fn open_source(&self) -> Option<&LineSource> {
        self.source.get()?.as_ref().map(|part| &part.value)
    }
}

/// The files used last.
///
/// Invariant: it has at most [`MAX_OPEN`] files, the one used last at the end.
#[derive(Debug, Default)]
pub(super) struct OpenLines(Mutex<Vec<(DsoId, Arc<FileLines>)>>);

impl OpenLines {
    /// Returns the sources of a file. Closes those of the file that wasn't used for longest.
    pub(super) fn get(&self, dso: DsoId) -> Arc<FileLines> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = files.iter().rposition(|(open, _)| *open == dso);
        let file = match at {
            Some(at) => files.remove(at),
            None => {
                if files.len() >= MAX_OPEN {
                    files.remove(0);
                }
                (dso, Arc::default())
            }
        };
        let lines = Arc::clone(&file.1);
        files.push(file);
        lines
    }

    /// Closes all files.
    pub(super) fn close(&mut self) {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closes_the_file_that_was_not_used_for_longest() {
        let open = OpenLines::default();
        let dso = |number: usize| DsoId::from_index(u32::try_from(number).unwrap());
        let first = open.get(dso(0));
        let second = open.get(dso(1));
        for number in 2..=MAX_OPEN {
            open.get(dso(number));
            assert!(Arc::ptr_eq(&open.get(dso(0)), &first));
        }
        assert!(!Arc::ptr_eq(&open.get(dso(1)), &second));
        assert_eq!(Arc::strong_count(&second), 1);
        assert_eq!(open.0.lock().unwrap().len(), MAX_OPEN);
    }
}
