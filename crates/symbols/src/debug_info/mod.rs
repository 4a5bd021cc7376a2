//! Debug info (DWARF 4 and 5): addresses of an ELF file to functions, inlined ones too, and source
//! lines.
//!
//! ```text
//! addresses, sorted --Units--> by unit --threads--> lines, functions, names --> Answers
//! ```
//! All addresses are known before a unit is read. Its rows and entries are compared with them as
//! they are parsed, and not kept. Apart from the list of units and decompressed sections, memory
//! depends on the number of addresses, not on the size of the debug info; pages of the file are
//! released from time to time.

mod compressed;
mod file;
mod front;
mod functions;
mod inlined;
mod lines;
mod merge;
mod names;
mod relocations;
mod split;
mod units;
mod worker;

use std::fs::File;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::answers::Answers;
use crate::elf::LoadedModule;
use crate::search::SymbolOptions;
use crate::search::find;
use crate::texts::Texts;
use crate::unresolved::Unresolved;
use file::DebugFile;
pub(crate) use inlined::count_inlined;
use split::SplitFiles;
use units::{AddressRun, Units};
use worker::{Worker, WorkerContext};

/// Bytes of units per additional thread.
const THREAD_BYTES: usize = 1 << 20;

/// Bytes of units after which pages are released. If a page is needed again, the kernel maps it
/// from the page cache, together with up to 15 neighbours.
const GIVE_BACK_BYTES: usize = 1 << 24;

/// The debug info of a file.
#[derive(Debug)]
pub(crate) struct DebugInfo {
    main: DebugFile,
    units: OnceLock<Units>,
    alternative: Option<(DebugFile, OnceLock<Units>)>,
    split: SplitFiles,
}

/// A unit, and its addresses.
struct UnitTask {
    runs: Vec<AddressRun>,
    bytes: usize,
    with_lines: bool,
}

/// Answers of one thread's tasks, and their texts.
struct ThreadAnswers {
    answers: Vec<(usize, Answers)>,
    texts: Texts,
}

impl DebugInfo {
    /// Opens a file with debug info, and the file with its shared debug info.
    ///
    /// # Errors
    /// [`Unresolved::Stripped`] if it has no debug info; another reason if it can't be read.
    pub(crate) fn open(
        options: &SymbolOptions,
        file: &File,
        path: &Path,
    ) -> Result<Self, Unresolved> {
        Self::from_file(options, DebugFile::open(file, path)?)
    }

    /// Opens the file of a kernel module, and relocates its debug info to the loaded addresses.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_module(
        options: &SymbolOptions,
        file: &File,
        path: &Path,
        loaded: &LoadedModule,
    ) -> Result<Self, Unresolved> {
        Self::from_file(options, DebugFile::open_module(file, path, loaded)?)
    }

    /// Opens a file without debug info, for the source files in its symbol table.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub(crate) fn from_symbols(file: &File, path: &Path) -> Result<Self, Unresolved> {
        let main = DebugFile::open(file, path)?;
        let alternative = None;
        Ok(Self { main, units: OnceLock::new(), alternative, split: SplitFiles::default() })
    }

    fn from_file(options: &SymbolOptions, main: DebugFile) -> Result<Self, Unresolved> {
        if !main.has_debug_info() {
            return Err(Unresolved::Stripped);
        }
        let alternative = alternative(options, &main).map(|file| (file, OnceLock::new()));
        Ok(Self { main, units: OnceLock::new(), alternative, split: SplitFiles::default() })
    }

    /// Whether it has debug info, and not just a symbol table.
    pub(crate) fn has_functions(&self) -> bool {
        self.main.has_debug_info()
    }

    /// Whether the answers may be cached: the file has debug info, and no lookup so far lacked
    /// another file.
    pub(crate) fn is_complete(&self) -> bool {
        let has_alternative = self.main.alternative.is_none() || self.alternative.is_some();
        self.main.has_debug_info() && has_alternative && self.split.is_complete()
    }

    /// Bytes of memory of decompressed sections.
    pub(crate) fn bytes(&self) -> usize {
        let alternative = self.alternative.as_ref().map(|(file, _)| file.decompressed_bytes());
        self.main.decompressed_bytes() + alternative.unwrap_or(0)
    }

    /// Looks up sorted addresses of the file with up to this many threads.
    ///
    /// # Errors
    /// [`Unresolved::NoFile`] if the file was truncated while mapped.
    pub(crate) fn answers(
        &self,
        options: &SymbolOptions,
        addresses: &[u64],
        threads: NonZeroUsize,
    ) -> Result<Answers, Unresolved> {
        let units = self.units.get_or_init(|| Units::read(&self.main.dwarf()));
        let alternative = self
            .alternative
            .as_ref()
            .map(|(file, units)| (file, units.get_or_init(|| Units::read(&file.dwarf()))));
        let seen = AtomicUsize::new(0);
        let passed = |bytes: usize| {
            let before = seen.fetch_add(bytes, Ordering::Relaxed);
            if before / GIVE_BACK_BYTES != (before + bytes) / GIVE_BACK_BYTES {
                self.main.release_pages();
            }
        };
        let main = &self.main;
        let split = &self.split;
        let shared = WorkerContext { options, main, units, alternative, split, passed: &passed };
        let tasks = tasks(units, addresses, self.main.line_bytes());
        let bytes: usize = tasks.iter().map(|task| task.bytes).sum();
        let threads = threads.get().min(tasks.len()).min(1 + bytes / THREAD_BYTES);
        let next = AtomicUsize::new(0);
        let done = Mutex::new(Vec::new());
        let work = || {
            let mut worker = Worker::new(shared);
            let mut found = Vec::new();
            while let Some(number) = Some(next.fetch_add(1, Ordering::Relaxed))
                && let Some(task) = tasks.get(number)
            {
                found.push((number, task.answers(&mut worker, addresses)));
            }
            let part = ThreadAnswers { answers: found, texts: worker.texts };
            done.lock().unwrap_or_else(PoisonError::into_inner).push(part);
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        self.main.release_pages();
        if self.main.is_torn() {
            return Err(Unresolved::NoFile);
        }
        let parts = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(merge::merge(&self.main, &tasks, parts, addresses, threads))
    }
}

impl UnitTask {
    fn answers(&self, worker: &mut Worker<'_>, addresses: &[u64]) -> Answers {
        let Some(first) = self.runs.first() else { return Answers::default() };
        if let [only] = self.runs.as_slice() {
            let own = &addresses[only.addresses.clone()];
            return worker.answers(first.unit, self.with_lines, own);
        }
        let runs = self.runs.iter().flat_map(|run| &addresses[run.addresses.clone()]);
        let own: Vec<u64> = runs.copied().collect();
        worker.answers(first.unit, self.with_lines, &own)
    }
}

/// Lists the units with addresses, largest first, so that the threads' last tasks are small. The
/// size of the file's last unit is unknown, so it comes last.
fn tasks(units: &Units, addresses: &[u64], line_bytes: usize) -> Vec<UnitTask> {
    let mut tasks: Vec<UnitTask> = Vec::new();
    // In a valid file, units with code don't share line number programs.
    let mut left = line_bytes.saturating_mul(4).saturating_add(1 << 24);
    for run in units.runs(addresses) {
        match tasks.last_mut() {
            Some(task) if task.runs[0].unit == run.unit => task.runs.push(run),
            _ => {
                let lines = units.line_bytes(run.unit);
                let with_lines = lines <= left;
                left = left.saturating_sub(lines);
                tasks.push(UnitTask { bytes: units.bytes(run.unit), runs: vec![run], with_lines });
            }
        }
    }
    tasks.sort_by_key(|task| std::cmp::Reverse(task.bytes));
    tasks
}

/// Opens the file with the shared debug info of a debug file.
fn alternative(options: &SymbolOptions, main: &DebugFile) -> Option<DebugFile> {
    let (link, build_id) = main.alternative.as_ref()?;
    let found = find::alternatives(options, &main.path, link, *build_id);
    let mut files =
        found.filter_map(|found| DebugFile::open(&found.file, &found.place.path()).ok());
    files.find(DebugFile::has_debug_info)
}
