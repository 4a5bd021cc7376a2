//! The cache of earlier runs, and what this run adds to it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::answers::Answers;
use crate::cache::{KeptAnswers, KeptTable, NewAnswers, SymbolCache};
use crate::dso::{BuildId, Dso, DsoKind};
use crate::search::SymbolOptions;
use crate::table::SymbolTable;

/// Reads the symbol cache, and writes new answers when it is dropped.
///
/// Invariant: it has only results from ELF files of this machine, by build id. It ignores files of
/// `--symfs` and of archives: someone else wrote these, and could claim any build id.
#[derive(Debug)]
pub(super) struct LookupCache {
    /// `None` if nothing may be kept.
    cache: Option<SymbolCache>,
    demangle: bool,
    new_answers: Mutex<HashMap<BuildId, NewAnswers>>,
}

impl LookupCache {
    pub(super) fn new(options: &SymbolOptions) -> Self {
        let is_trusted = options.is_here() && options.unpacked.is_none();
        Self {
            cache: options.cache.clone().filter(|_| is_trusted),
            demangle: options.demangle,
            new_answers: Mutex::default(),
        }
    }

    fn key(&self, dso: &Dso) -> Option<(&SymbolCache, BuildId)> {
        self.cache.as_ref().zip(dso.build_id).filter(|_| dso.kind == DsoKind::Elf)
    }

    /// Returns the kept symbols of a DSO.
    pub(super) fn table(&self, dso: &Dso) -> Option<KeptTable> {
        let (cache, build_id) = self.key(dso)?;
        cache.table(build_id, self.demangle)
    }

    /// Keeps the symbols of a DSO if they are complete.
    pub(super) fn keep_table(&self, dso: &Dso, table: &SymbolTable) {
        if let Some((cache, build_id)) = self.key(dso).filter(|_| table.is_full()) {
            cache.keep_table(build_id, self.demangle, table);
        }
    }

    /// Removes the kept symbols of a DSO.
    pub(super) fn remove_table(&self, dso: &Dso) {
        if let Some((cache, build_id)) = self.key(dso) {
            cache.remove_table(build_id, self.demangle);
        }
    }

    /// Opens the kept answers of a DSO.
    pub(super) fn answers(&self, dso: &Dso) -> Option<KeptAnswers> {
        let (cache, build_id) = self.key(dso)?;
        cache.answers(build_id)
    }

    /// Adds answers, one for each address, to be written at the end.
    pub(super) fn add_answers(&self, dso: &Dso, addresses: &[u64], answers: &Answers) {
        let Some((_, build_id)) = self.key(dso) else { return };
        let mut all = self.new_answers.lock().unwrap_or_else(PoisonError::into_inner);
        let new = all.entry(build_id).or_default();
        for (number, address) in addresses.iter().enumerate() {
            new.add(*address, answers, number);
        }
    }
}

impl Drop for LookupCache {
    fn drop(&mut self) {
        let all = self.new_answers.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(cache) = &self.cache {
            all.drain().for_each(|(build_id, new)| cache.keep_answers(build_id, new));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::texts::Texts;

    fn dso(kind: DsoKind, build_id: Option<&[u8]>) -> Dso {
        Dso { kind, name: b"/bin/x".to_vec(), build_id: build_id.and_then(BuildId::new) }
    }

    fn options(folder: &std::path::Path) -> SymbolOptions {
        let uid = folder.metadata().unwrap().uid();
        let cache = SymbolCache { folder: folder.into(), max_bytes: 1 << 20, uid };
        SymbolOptions { cache: Some(cache), ..SymbolOptions::default() }
    }

    #[test]
    fn keeps_only_elf_files_of_this_machine_with_a_build_id() {
        let folder = tempfile::tempdir().unwrap();
        let here = options(folder.path());
        let elsewhere = SymbolOptions { symfs: folder.path().into(), ..here.clone() };
        let elf = dso(DsoKind::Elf, Some(b"id"));
        let cache = LookupCache::new(&here);
        assert!(cache.key(&elf).is_some());
        assert!(cache.key(&dso(DsoKind::Elf, None)).is_none());
        assert!(cache.key(&dso(DsoKind::Kernel, Some(b"id"))).is_none());
        assert!(LookupCache::new(&elsewhere).key(&elf).is_none());
    }

    #[test]
    fn writes_new_answers_when_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let options = options(folder.path());
        let elf = dso(DsoKind::Elf, Some(b"id"));
        let mut answers = Answers::new(Texts::new(0));
        answers.push([]);
        let cache = LookupCache::new(&options);
        cache.add_answers(&elf, &[0x1000], &answers);
        assert!(cache.answers(&elf).is_none());
        drop(cache);
        assert!(LookupCache::new(&options).answers(&elf).is_some());
    }
}
