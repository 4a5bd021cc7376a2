//! The agent's place on the machine: its store, locked against another agent, and the notes in it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::{FlockOperation, flock};
use tare_agent::{HostLock, HostLockError, OpenWindowFile, WindowNote, now_us};
use tare_kernel::host::Host;
use tare_store::{SegmentInfo, Store, StoreOptions};

use crate::cli::resolved::agent::AgentOptions;
use crate::exit::{Exit, Refusal, say};

/// The folder of the agent's own files in a store.
pub(super) const FOLDER: &str = ".agent";

/// The file with the agent's figures.
pub(super) const STATUS: &str = "status.json";

/// A store that no other agent writes into.
pub(super) struct AgentPlace {
    pub(super) store: Store,
    pub(super) info: SegmentInfo,
    pub(super) open_window: OpenWindowFile,
    pub(super) status: PathBuf,
    pub(super) locks: AgentLocks,
}

/// What other agents can't have as long as this one runs.
pub(super) struct AgentLocks {
    _store: File,
    /// `None` if it can't be locked.
    _host: Option<HostLock>,
}

impl AgentPlace {
    /// Opens the store, completes what a killed agent left, and writes the gap that it left.
    pub(super) fn open(options: &AgentOptions, host: &Host) -> anyhow::Result<Self> {
        let path = &options.config.store;
        let store = Store::open(path, StoreOptions::default()).map_err(|error| Refusal {
            exit: Exit::Failure,
            message: format!("{error}; --store DIR selects another folder"),
        })?;
        let folder = path.join(FOLDER);
        let store_lock = lock(&folder).map_err(|error| in_use(path, &error))?;
        let locks = AgentLocks { _store: store_lock, _host: lock_host(options)? };
        store.recover()?;
        let open_window = OpenWindowFile::open(&folder.join("open-window"))
            .with_context(|| format!("cannot note the open window in {}", folder.display()))?;
        let info = info(options, host);
        let place = Self { store, info, open_window, status: folder.join(STATUS), locks };
        if let Some(note) = place.open_window.read() {
            place.write_gap(note)?;
        }
        Ok(place)
    }

    fn write_gap(&self, note: WindowNote) -> anyhow::Result<()> {
        let now_us = now_us();
        let start_us = note.start_us.min(now_us);
        let info = SegmentInfo { start_us, end_us: now_us, ..self.info.clone() };
        let seconds = (now_us - start_us) / 1_000_000;
        say(&format!(
            "the last agent was killed: {seconds} s are missing, with at least {} samples",
            note.samples
        ));
        self.store.write_gap(&info, note.samples)?;
        Ok(())
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
fn lock_host(options: &AgentOptions) -> Result<Option<HostLock>, Refusal> {
    let Some(folder) = &options.lock_folder else {
        say("other agents may sample the same tasks: without XDG_RUNTIME_DIR they aren't seen");
        return Ok(None);
    };
    match HostLock::take(folder, options.config.cgroup.as_deref()) {
        Ok(lock) => Ok(Some(lock)),
        Err(taken @ HostLockError::Taken { .. }) => {
            Err(Refusal { exit: Exit::Failure, message: taken.to_string() })
        }
        Err(HostLockError::File(error)) => {
            let folder = folder.display();
            say(&format!("{folder}: {error}: other agents may sample the same tasks"));
            Ok(None)
        }
    }
}

fn in_use(store: &Path, error: &io::Error) -> Refusal {
    let store = store.display();
    let message = match error.kind() {
        io::ErrorKind::WouldBlock => {
            format!("another agent writes into {store}: `tare agent --status` shows it")
        }
        _ => format!("cannot lock {store}: {error}"),
    };
    Refusal { exit: Exit::Failure, message }
}

fn info(options: &AgentOptions, host: &Host) -> SegmentInfo {
    let read = |path: &str| host.read(path).unwrap_or_default();
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    SegmentInfo {
        host: options.config.host.clone().unwrap_or(name),
        boot: read("/proc/sys/kernel/random/boot_id"),
        kernel: read("/proc/sys/kernel/osrelease"),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        start_us: 0,
        end_us: 0,
    }
}
