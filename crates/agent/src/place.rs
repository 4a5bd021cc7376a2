//! The agent's place on the machine: its store, locked against other agents, and the notes in it.

use std::fmt::{self, Display, Formatter};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tare_kernel::host::Host;
use tare_store::{SegmentInfo, Store, StoreError, StoreOptions};
use tare_symbols::{SymbolCache, SymbolOptions};
use thiserror::Error;

use crate::config::Config;
use crate::host_lock::{HostLock, HostLockError};
use crate::open_window::{OpenWindowFile, WindowNote};
use crate::window::now_us;

/// The folder of the agent's own files in a store.
pub const AGENT_FOLDER: &str = ".agent";

/// The file with the agent's figures.
pub const STATUS_FILE: &str = "status.json";

/// A store that no other agent writes into.
pub struct AgentPlace {
    /// The store.
    pub store: Store,
    /// Where its windows are recorded. Start and end are 0.
    pub info: SegmentInfo,
    /// The note of the open window.
    pub open_window: OpenWindowFile,
    /// Path of the agent's figures.
    pub status: PathBuf,
    /// Held by the agent as long as it runs.
    pub locks: AgentLocks,
}

/// What other agents can't have as long as this one runs.
pub struct AgentLocks {
    _store: File,
    /// `None` if it can't be locked.
    _host: Option<HostLock>,
}

/// What the user should know of a place.
#[derive(Debug)]
pub enum PlaceNotice {
    /// The last agent was killed.
    Gap {
        /// Time without an agent.
        seconds: i64,
        /// Samples that it had, at least.
        samples: u64,
    },
    /// Other agents of this host aren't seen: no folder is known that they share.
    NoSharedFolder,
    /// Other agents of this host aren't seen: the folder can't be used.
    NotLocked(PathBuf, io::Error),
}

impl Display for PlaceNotice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        const OTHERS: &str = "other agents may sample the same tasks";
        match self {
            Self::Gap { seconds, samples } => write!(
                f,
                "the last agent was killed: {seconds} s are missing, with at least {samples} samples"
            ),
            Self::NoSharedFolder => {
                write!(f, "{OTHERS}: without XDG_RUNTIME_DIR they aren't seen")
            }
            Self::NotLocked(folder, error) => write!(f, "{}: {error}: {OTHERS}", folder.display()),
        }
    }
}

/// Why an agent can't have a place.
#[derive(Debug, Error)]
pub enum PlaceError {
    /// The store can't be opened.
    #[error("{0}; --store DIR selects another folder")]
    Store(StoreError),
    /// The store has an agent.
    #[error("another agent writes into {}: `tare agent --status` shows it", .0.display())]
    InUse(PathBuf),
    /// The store can't be locked.
    #[error("cannot lock {}: {}", .0.display(), .1)]
    Lock(PathBuf, io::Error),
    /// The host, or the cgroup, has an agent.
    #[error(transparent)]
    Host(HostLockError),
    /// The open window can't be noted.
    #[error("cannot note the open window in {}: {}", .0.display(), .1)]
    Note(PathBuf, io::Error),
    /// What the last agent left can't be completed.
    #[error(transparent)]
    Recovery(StoreError),
}

impl AgentPlace {
    /// Opens the store, completes what a killed agent left, and writes the gap that it left.
    /// `shared` is the folder in which agents of this host see each other.
    ///
    /// # Errors
    /// Fails if another agent has the store, the host or the cgroup, or if the store can't be
    /// written.
    pub fn open(
        config: &Config,
        info: SegmentInfo,
        shared: Option<&Path>,
        mut notice: impl FnMut(PlaceNotice),
    ) -> Result<Self, PlaceError> {
        let path = config.folder();
        let store = Store::open(path, StoreOptions::default()).map_err(PlaceError::Store)?;
        let folder = path.join(AGENT_FOLDER);
        let of_store = lock(&folder).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => PlaceError::InUse(path.to_owned()),
            _ => PlaceError::Lock(path.to_owned(), error),
        })?;
        let of_host = lock_host(shared, config.cgroup.as_deref(), &mut notice)?;
        store.recover().map_err(PlaceError::Recovery)?;
        let open_window = OpenWindowFile::open(&folder.join("open-window"))
            .map_err(|error| PlaceError::Note(folder.clone(), error))?;
        let locks = AgentLocks { _store: of_store, _host: of_host };
        let place = Self { store, info, open_window, status: folder.join(STATUS_FILE), locks };
        if let Some(note) = place.open_window.read() {
            notice(place.write_gap(note).map_err(PlaceError::Recovery)?);
        }
        Ok(place)
    }

    fn write_gap(&self, note: WindowNote) -> Result<PlaceNotice, StoreError> {
        let now_us = now_us();
        let start_us = note.start_us.min(now_us);
        let info = SegmentInfo { start_us, end_us: now_us, ..self.info.clone() };
        self.store.write_gap(&info, note.samples)?;
        let seconds = (now_us - start_us) / 1_000_000;
        Ok(PlaceNotice::Gap { seconds, samples: note.samples })
    }
}

fn lock(folder: &Path) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(folder.join("lock"))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// Keeps agents away that would sample the same tasks.
fn lock_host(
    shared: Option<&Path>,
    cgroup: Option<&str>,
    notice: &mut dyn FnMut(PlaceNotice),
) -> Result<Option<HostLock>, PlaceError> {
    let Some(folder) = shared else {
        notice(PlaceNotice::NoSharedFolder);
        return Ok(None);
    };
    match HostLock::take(folder, cgroup) {
        Ok(lock) => Ok(Some(lock)),
        Err(HostLockError::File(error)) => {
            notice(PlaceNotice::NotLocked(folder.to_owned(), error));
            Ok(None)
        }
        Err(taken) => Err(PlaceError::Host(taken)),
    }
}

/// Returns where windows of this host are recorded, by a version of the agent.
#[must_use]
pub fn segment_info(config: &Config, host: &Host, agent_version: &str) -> SegmentInfo {
    let read = |path: &str| host.read(path).unwrap_or_default();
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    SegmentInfo {
        host: config.host.clone().unwrap_or(name),
        boot: read("/proc/sys/kernel/random/boot_id"),
        kernel: read("/proc/sys/kernel/osrelease"),
        agent_version: agent_version.to_owned(),
        start_us: 0,
        end_us: 0,
    }
}

/// Sources of symbols: those of this machine. Tables of symbols are kept beside the status, so that
/// they are mapped instead of read when an agent starts again.
#[must_use]
pub fn symbol_options(status: &Path) -> SymbolOptions {
    let uid = rustix::process::geteuid().as_raw();
    let folder = status.with_file_name("symbols");
    let is_made = DirBuilder::new().recursive(true).mode(0o700).create(&folder).is_ok();
    let max_bytes = SymbolCache::DEFAULT_MAX_BYTES;
    let cache = is_made.then_some(SymbolCache { folder, max_bytes, uid });
    SymbolOptions { cache, reader_uid: uid, ..SymbolOptions::default() }
}
