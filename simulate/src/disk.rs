//! A disk in memory, with files that have names, and with faults: it gets full, fails, takes a part
//! of a write, is slow, and shows what it would hold had the recorder been killed within a call.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::io::Errno;
use tare_kernel::file_window::{FileWindow, WindowError, WindowStep};
use tare_record::output::disk::{DirectFile, Disk, DiskFile, FileState, OpenDestination};
use tare_record::output::{self, Destination};

use crate::clock::VirtualClock;

/// Bytes of a page: a write that is killed ends with one.
const PAGE: u64 = 4096;

/// Bytes of a block: what goes past the page cache consists of such.
const BLOCK: usize = 4096;

/// What is wrong with a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// All files together become no longer; `None`: there is room.
    pub room: Option<u64>,
    /// A write takes no more bytes at once.
    pub most: usize,
    /// From this call on, calls that change something fail with this error: one of them, or all.
    pub failing: Option<Failing>,
    /// How long each write takes.
    pub takes: Duration,
    /// The call within which the recorder would be killed.
    pub cut_at: Option<u64>,
}

/// None.
impl Default for Faults {
    fn default() -> Self {
        Self { room: None, most: usize::MAX, failing: None, takes: Duration::ZERO, cut_at: None }
    }
}

/// Calls that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failing {
    /// The first.
    pub from: u64,
    /// Whether those after it fail, too.
    pub for_good: bool,
    /// How.
    pub errno: Errno,
}

/// What the disk holds at a moment: the files by name, and the mark that was set last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The files' bytes.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    /// See [`SimulatedDisk::mark`].
    pub mark: usize,
}

/// The disk. Clones are the same one.
#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    shared: Arc<DiskState>,
}

#[derive(Debug)]
struct DiskState {
    faults: Faults,
    clock: Arc<VirtualClock>,
    state: Mutex<State>,
    is_stream: bool,
}

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<PathBuf, usize>,
    files: Vec<Vec<u8>>,
    calls: u64,
    mark: usize,
    cut: Option<Snapshot>,
}

thread_local! {
    static MEANWHILE: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
}

/// Has something happen whenever this thread is within a write: the kernel goes on. `None`: nothing
/// more.
pub(crate) fn happens_meanwhile(what: Option<Box<dyn FnMut()>>) {
    MEANWHILE.set(what);
}

fn meanwhile() {
    // It is taken out for the call: what happens may not happen within itself.
    if let Some(mut what) = MEANWHILE.take() {
        what();
        MEANWHILE.set(Some(what));
    }
}

impl SimulatedDisk {
    /// An empty disk. `is_stream`: its only file is a FIFO.
    #[must_use]
    pub fn new(faults: Faults, clock: Arc<VirtualClock>, is_stream: bool) -> Self {
        Self { shared: Arc::new(DiskState { faults, clock, state: Mutex::default(), is_stream }) }
    }

    /// Has the snapshot of a cut say how far the recording was when it was made.
    pub fn mark(&self, mark: usize) {
        self.shared.lock().mark = mark;
    }

    /// What it holds.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.shared.lock().snapshot()
    }

    /// What it held when the recorder would have been killed, if it came to that.
    #[must_use]
    pub fn cut(&self) -> Option<Snapshot> {
        self.shared.lock().cut.clone()
    }

    /// Bytes of memory that the disk takes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let state = self.shared.lock();
        let cut = state.cut.iter().flat_map(|cut| cut.files.values());
        state.files.iter().chain(cut).map(Vec::capacity).sum()
    }

    fn new_file(&self, path: &Path) -> Arc<dyn DiskFile> {
        let mut state = self.shared.lock();
        state.files.push(Vec::new());
        let number = state.files.len() - 1;
        state.names.insert(path.to_owned(), number);
        Arc::new(SimulatedFile { shared: Arc::clone(&self.shared), number, is_direct: false })
    }
}

impl DiskState {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call that changes something: counts it, and fails it where it is to fail. `partial`
    /// is what a killed recorder may leave of a write: to which file, where, what.
    fn begin(&self, partial: Option<(usize, u64, &[u8])>) -> Result<MutexGuard<'_, State>, Errno> {
        self.clock.advance(self.faults.takes);
        let mut state = self.lock();
        let call = state.calls;
        state.calls += 1;
        if self.faults.cut_at == Some(call) {
            let mut cut = state.snapshot();
            if let Some((number, offset, bytes)) = partial
                && let Some(name) = state.name_of(number)
                && let Some(file) = cut.files.get_mut(&name)
            {
                // Pages are copied one after the other.
                let end = (offset + bytes.len() as u64 / 2) / PAGE * PAGE;
                let len = usize::try_from(end.saturating_sub(offset)).unwrap_or(0);
                put(file, offset, &bytes[..len]);
            }
            state.cut = Some(cut);
        }
        match self.faults.failing {
            Some(Failing { from, for_good, errno }) if call == from || for_good && call > from => {
                Err(errno)
            }
            _ => Ok(state),
        }
    }
}

impl State {
    fn snapshot(&self) -> Snapshot {
        let file = |(name, number): (&PathBuf, &usize)| (name.clone(), self.files[*number].clone());
        Snapshot { files: self.names.iter().map(file).collect(), mark: self.mark }
    }

    fn name_of(&self, number: usize) -> Option<PathBuf> {
        self.names.iter().find(|(_, of)| **of == number).map(|(name, _)| name.clone())
    }

    fn used(&self) -> u64 {
        self.names.values().map(|number| self.files[*number].len() as u64).sum()
    }
}

/// Writes to a place in a file, with zeros before where it was shorter.
fn put(file: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let at = usize::try_from(offset).unwrap_or(usize::MAX);
    let end = at.saturating_add(bytes.len());
    if !bytes.is_empty() {
        file.resize(file.len().max(end), 0);
        file[at..end].copy_from_slice(bytes);
    }
}

impl Disk for SimulatedDisk {
    fn open(&self, to: &Destination) -> output::Result<OpenDestination> {
        let Destination::File(path) = to else { return Err(Errno::INVAL.into()) };
        let file = self.new_file(path);
        Ok(if self.shared.is_stream {
            OpenDestination::Stream(file)
        } else {
            OpenDestination::File { file, path: path.clone() }
        })
    }

    fn create(&self, path: &Path) -> output::Result<Arc<dyn DiskFile>> {
        drop(self.shared.begin(None)?);
        Ok(self.new_file(path))
    }

    fn stamp(&self, path: &Path, now: SystemTime) -> Result<PathBuf, Errno> {
        let mut state = self.shared.begin(None)?;
        let number = state.names.remove(path).ok_or(Errno::NOENT)?;
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let stamped = |more: usize| {
            PathBuf::from(format!("{}.{:020}-{more:04}", path.display(), since.as_nanos()))
        };
        let mut free = (0..).map(stamped).filter(|name| !state.names.contains_key(name));
        let name = free.next().ok_or(Errno::EXIST)?;
        state.names.insert(name.clone(), number);
        Ok(name)
    }

    fn write_anew(
        &self,
        _file: &dyn DiskFile,
        _path: &Path,
        _now: SystemTime,
    ) -> Result<PathBuf, Errno> {
        // Nobody deletes files here.
        Err(Errno::NOENT)
    }

    fn sync_folder(&self, _of: &Path) -> Result<(), Errno> {
        self.shared.begin(None).map(drop)
    }

    fn remove(&self, path: &Path) -> Result<(), Errno> {
        let mut state = self.shared.begin(None)?;
        state.names.remove(path).map(drop).ok_or(Errno::NOENT)
    }
}

#[derive(Debug)]
struct SimulatedFile {
    shared: Arc<DiskState>,
    number: usize,
    /// Past the page cache.
    is_direct: bool,
}

impl SimulatedFile {
    /// What the kernel wants of a write past the page cache.
    fn fits_blocks(pieces: &[IoSlice<'_>], offset: u64) -> bool {
        let filled = pieces.iter().filter(|piece| !piece.is_empty());
        offset.is_multiple_of(BLOCK as u64)
            && filled.into_iter().all(|piece| {
                piece.len().is_multiple_of(BLOCK) && piece.as_ptr().align_offset(BLOCK) == 0
            })
    }

    /// `offset`: `None` for the end.
    fn put(&self, pieces: &[IoSlice<'_>], offset: Option<u64>) -> Result<usize, Errno> {
        meanwhile();
        let all: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        let end = self.shared.lock().files[self.number].len() as u64;
        let offset = offset.unwrap_or(end);
        let mut state = self.shared.begin(Some((self.number, offset, &all)))?;
        let left =
            self.shared.faults.room.map_or(u64::MAX, |room| room.saturating_sub(state.used()));
        let room = end.saturating_add(left).saturating_sub(offset);
        let len = all.len().min(self.shared.faults.most);
        let len = len.min(usize::try_from(room).unwrap_or(usize::MAX));
        if len == 0 && !all.is_empty() {
            return Err(Errno::NOSPC);
        }
        put(&mut state.files[self.number], offset, &all[..len]);
        Ok(len)
    }
}

impl DiskFile for SimulatedFile {
    fn write_at(&self, pieces: &[IoSlice<'_>], offset: u64) -> Result<usize, Errno> {
        if self.is_direct && !Self::fits_blocks(pieces, offset) {
            return Err(Errno::INVAL);
        }
        self.put(pieces, Some(offset))
    }

    fn write(&self, pieces: &[IoSlice<'_>]) -> Result<usize, Errno> {
        self.put(pieces, None)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let state = self.shared.lock();
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = state.files[self.number].get(at..).unwrap_or_default();
        let len = rest.len().min(into.len());
        into[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn state(&self) -> Result<FileState, Errno> {
        let state = self.shared.lock();
        let is_deleted = !state.names.values().any(|number| *number == self.number);
        Ok(FileState { bytes: state.files[self.number].len() as u64, is_deleted })
    }

    fn set_len(&self, bytes: u64) -> Result<(), Errno> {
        let mut state = self.shared.begin(None)?;
        state.files[self.number].resize(usize::try_from(bytes).map_err(|_| Errno::FBIG)?, 0);
        Ok(())
    }

    fn sync(&self) -> Result<(), Errno> {
        self.shared.begin(None).map(drop)
    }

    fn direct(&self) -> Result<DirectFile, String> {
        let shared = Arc::clone(&self.shared);
        let file = Self { shared, number: self.number, is_direct: true };
        Ok(DirectFile { file: Arc::new(file), block: BLOCK })
    }

    fn forget(&self, _bytes: u64) {}

    fn allocate(&self, _offset: u64, _len: u64) -> Result<(), Errno> {
        self.shared.begin(None).map(drop)
    }

    fn window(&self, _offset: u64, _len: usize) -> Result<FileWindow, WindowError> {
        Err(WindowError::NotSupported { step: WindowStep::Map, error: Errno::OPNOTSUPP })
    }
}
