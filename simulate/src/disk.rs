//! A simulated disk with named files and faults: it fills up, fails, accepts partial writes, is
//! slow, and keeps a snapshot of its contents as if the recorder had been killed inside a call.

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

/// Size of a page; a killed write ends at a page boundary.
const PAGE: u64 = 4096;

/// Size of a block; direct writes consist of whole blocks.
const BLOCK: usize = 4096;

/// Faults of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Limit of the total size of all files; `None` for no limit.
    pub room: Option<u64>,
    /// The most bytes that one write accepts.
    pub most: usize,
    /// Modifying calls that fail.
    pub failing: Option<Failing>,
    /// Duration of each modifying call.
    pub takes: Duration,
    /// The modifying call, counted from 0, inside which a snapshot is taken as if the recorder had
    /// been killed.
    pub cut_at: Option<u64>,
}

/// No faults.
impl Default for Faults {
    fn default() -> Self {
        Self { room: None, most: usize::MAX, failing: None, takes: Duration::ZERO, cut_at: None }
    }
}

/// Failing calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failing {
    /// The first failing call, counted from 0.
    pub from: u64,
    /// Whether all later calls fail too.
    pub for_good: bool,
    /// The error.
    pub errno: Errno,
}

/// The disk's contents at one moment, and the mark set last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Contents of the files by path.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    /// See [`SimulatedDisk::mark`].
    pub mark: usize,
}

/// The simulated disk. Clones share it.
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

/// Sets a callback that runs inside each write of this thread, to simulate a kernel that continues;
/// `None` removes it.
pub(crate) fn happens_meanwhile(what: Option<Box<dyn FnMut()>>) {
    MEANWHILE.set(what);
}

fn meanwhile() {
    // Taken out during the call, so that it doesn't recurse.
    if let Some(mut what) = MEANWHILE.take() {
        what();
        MEANWHILE.set(Some(what));
    }
}

impl SimulatedDisk {
    /// An empty disk. With `is_stream` the recording's destination opens as a FIFO.
    #[must_use]
    pub fn new(faults: Faults, clock: Arc<VirtualClock>, is_stream: bool) -> Self {
        Self { shared: Arc::new(DiskState { faults, clock, state: Mutex::default(), is_stream }) }
    }

    /// Sets the mark that later snapshots store: the recording's progress.
    pub fn mark(&self, mark: usize) {
        self.shared.lock().mark = mark;
    }

    /// The current contents.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.shared.lock().snapshot()
    }

    /// The contents as a recorder killed inside [`Faults::cut_at`] leaves them, if that call was
    /// made.
    #[must_use]
    pub fn cut(&self) -> Option<Snapshot> {
        self.shared.lock().cut.clone()
    }

    /// Memory that the disk uses, in bytes.
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

    /// Begins a modifying call: advances the clock, counts the call, takes the snapshot of a killed
    /// recorder if it is due, and fails if the call should fail. `partial` is the write's file,
    /// offset and bytes, of which a killed recorder leaves a part.
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
                // The kernel copies page by page.
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

/// Writes at an offset in a file and fills a gap with zeros.
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
        // No other process deletes files here.
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
    /// Whether writes bypass the page cache.
    is_direct: bool,
}

impl SimulatedFile {
    /// Whether a direct write is aligned as the kernel requires.
    fn fits_blocks(pieces: &[IoSlice<'_>], offset: u64) -> bool {
        let filled = pieces.iter().filter(|piece| !piece.is_empty());
        offset.is_multiple_of(BLOCK as u64)
            && filled.into_iter().all(|piece| {
                piece.len().is_multiple_of(BLOCK) && piece.as_ptr().align_offset(BLOCK) == 0
            })
    }

    /// Writes at `offset`, or at the end if it is `None`.
    fn put(&self, pieces: &[IoSlice<'_>], offset: Option<u64>) -> Result<usize, Errno> {
        meanwhile();
        let mut all = Vec::new();
        pieces.iter().for_each(|piece| all.extend_from_slice(piece));
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
