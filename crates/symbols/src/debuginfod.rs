//! Downloads files by build id from debuginfod servers into the cache shared with other clients
//! (debuginfod(8), debuginfod-client-config(7)):
//!
//! ```text
//! URL/buildid/ID/debuginfo -> CACHE/ID/debuginfo    mode 0400; an empty file: no server has it
//! CACHE/cache_miss_s                                seconds for which an empty file is valid
//! ```
//! tare asks only servers that the user named, and doesn't trust them: time and size are limited,
//! and a file is accepted only with the requested build id.

mod http;

use std::collections::HashMap;
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use object::read::ReadCache;

use crate::dso::BuildId;
use crate::elf;

/// How long an empty file of the cache holds, where the cache doesn't say: 10 minutes, as in
/// elfutils.
const MISS: Duration = Duration::from_secs(600);

/// Less than so much in one [`Servers::timeout`], and a server is given up: as in elfutils.
const LEAST_BYTES: u64 = 100 << 10;

/// Bytes that are taken over at once.
const CHUNK: usize = 1 << 16;

/// Servers, and what they may cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Servers {
    /// The beginnings of addresses, in the order in which they are asked.
    pub urls: Vec<String>,
    /// Time in which a server must answer and send 100 KiB; one that doesn't isn't asked again.
    /// `None`: no limit.
    pub timeout: Option<Duration>,
    /// How long one file may take.
    pub max_time: Option<Duration>,
    /// How large a file may be.
    pub max_bytes: u64,
    /// The address of a proxy.
    pub proxy: Option<String>,
}

impl Servers {
    /// `DEBUGINFOD_TIMEOUT` where it isn't set.
    pub const TIMEOUT: Duration = Duration::from_secs(90);
    /// The largest file that is taken where `DEBUGINFOD_MAXSIZE` isn't set.
    pub const MAX_BYTES: u64 = 4 << 30;
}

/// Which file of a build id is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Artifact {
    /// The binary.
    Executable,
    /// Its separate debug file.
    Debuginfo,
}

impl Artifact {
    /// What servers and caches call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Executable => "executable",
            Self::Debuginfo => "debuginfo",
        }
    }
}

/// What a client tells of its work meanwhile.
#[derive(Clone, Copy, Debug)]
pub enum DownloadProgress<'a> {
    /// A server is asked.
    Asks {
        /// The whole address.
        url: &'a str,
    },
    /// So much has come.
    Received {
        /// Bytes so far.
        bytes: u64,
        /// Bytes of the whole file, where the server says so.
        of: Option<u64>,
    },
    /// That server is done with, for better or worse.
    Ended,
    /// A server failed, and why; that it doesn't have a file is no failure.
    Failed {
        /// The whole address.
        url: &'a str,
        /// Why.
        why: &'a str,
    },
}

/// A client of debuginfod servers.
pub struct Debuginfod {
    servers: Servers,
    cache: PathBuf,
    /// The user who may own the cache.
    uid: u32,
    watch: Box<dyn Fn(DownloadProgress<'_>) + Send + Sync>,
    state: Mutex<ClientState>,
}

#[derive(Debug, Default)]
struct ClientState {
    /// Servers that failed, by their place in the list.
    given_up: Vec<usize>,
    asked: HashMap<(BuildId, Artifact), Option<PathBuf>>,
}

impl fmt::Debug for Debuginfod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Debuginfod")
            .field("servers", &self.servers)
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

/// Why a server has no answer that can be used.
#[derive(Debug, thiserror::Error)]
enum DownloadError {
    /// It doesn't have the file.
    #[error("it has no such file")]
    Absent,
    #[error("{0}")]
    Refused(String),
    #[error("the file has more than {0} bytes (DEBUGINFOD_MAXSIZE)")]
    TooLarge(u64),
    #[error("less than 100 KiB came in {}s (DEBUGINFOD_TIMEOUT)", .0.as_secs())]
    Slow(Duration),
    #[error("it took more than {}s (DEBUGINFOD_MAXTIME)", .0.as_secs())]
    Long(Duration),
    #[error("what it sent has another build id")]
    OtherBuild,
    #[error("what it sent can't be kept: {0}")]
    Disk(io::Error),
}

impl Debuginfod {
    /// Creates a client for a cache that this user owns. `watch` gets progress events.
    #[must_use]
    pub fn new(
        servers: Servers,
        cache: PathBuf,
        uid: u32,
        watch: Box<dyn Fn(DownloadProgress<'_>) + Send + Sync>,
    ) -> Self {
        Self { servers, cache, uid, watch, state: Mutex::default() }
    }

    /// A file, downloaded now. What was asked for once is not asked for again.
    pub(crate) fn fetch(&self, id: BuildId, artifact: Artifact) -> Option<PathBuf> {
        // One at a time: who waits may find that the server was given up meanwhile.
        let mut state = self.state();
        if let Some(known) = state.asked.get(&(id, artifact)) {
            return known.clone();
        }
        let found = self.ask_all(&mut state, id, artifact);
        state.asked.insert((id, artifact), found.clone());
        found
    }

    fn state(&self) -> MutexGuard<'_, ClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask_all(&self, state: &mut ClientState, id: BuildId, artifact: Artifact) -> Option<PathBuf> {
        let folder = self.cache.join(id.to_string());
        let path = folder.join(artifact.name());
        if self.is_known_absent(&path) {
            return None;
        }
        self.make_folder(&folder)?;
        let mut all_answered = true;
        for (number, server) in self.servers.urls.iter().enumerate() {
            if state.given_up.contains(&number) {
                all_answered = false;
                continue;
            }
            let slash = if server.ends_with('/') { "" } else { "/" };
            let url = format!("{server}{slash}buildid/{id}/{}", artifact.name());
            (self.watch)(DownloadProgress::Asks { url: &url });
            let answer = self.download(&url, id, &path);
            (self.watch)(DownloadProgress::Ended);
            match answer {
                Ok(()) => return Some(path),
                Err(DownloadError::Absent) => {}
                Err(why) => {
                    all_answered = false;
                    (self.watch)(DownloadProgress::Failed { url: &url, why: &why.to_string() });
                    if !matches!(why, DownloadError::TooLarge(_) | DownloadError::OtherBuild) {
                        state.given_up.push(number);
                    }
                }
            }
        }
        if all_answered {
            // Other clients, and the next run, need not ask again for a while.
            let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        }
        None
    }

    /// Whether all servers recently answered that they lack the file. A stale entry is removed.
    fn is_known_absent(&self, path: &Path) -> bool {
        let Ok(meta) = std::fs::symlink_metadata(path) else { return false };
        let age = meta.modified().ok().and_then(|time| time.elapsed().ok());
        if meta.is_file() && meta.len() == 0 && age.is_none_or(|age| age <= self.miss()) {
            return true;
        }
        let _ = std::fs::remove_file(path);
        false
    }

    /// How long it holds that no server had a file.
    fn miss(&self) -> Duration {
        let mut text = String::new();
        let file = File::open(self.cache.join("cache_miss_s"));
        let read = file.and_then(|file| file.take(32).read_to_string(&mut text));
        let seconds = read.ok().and_then(|_| text.trim().parse().ok());
        seconds.map_or(MISS, Duration::from_secs)
    }

    /// Creates the directory of a build id; `None` if the cache belongs to another user or the
    /// directory can't be created.
    fn make_folder(&self, folder: &Path) -> Option<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).ok()?;
        for folder in [&self.cache, folder] {
            let meta = std::fs::symlink_metadata(folder).ok()?;
            if !meta.is_dir() || meta.uid() != self.uid || meta.mode() & 0o022 != 0 {
                return None;
            }
        }
        Some(())
    }

    /// Asks one server, and puts what it sends in its place if it is what was asked for.
    fn download(&self, url: &str, id: BuildId, to: &Path) -> Result<(), DownloadError> {
        let beside = to.with_extension(format!("{:06}", std::process::id()));
        let _ = std::fs::remove_file(&beside);
        let mut open = OpenOptions::new();
        open.read(true).write(true).create_new(true).mode(0o600);
        let file = open.open(&beside).map_err(DownloadError::Disk)?;
        let kept = self.receive(url, &file).and_then(|()| {
            let found = elf::build_id(&ReadCache::new(&file)).ok().flatten();
            if found != Some(id) {
                return Err(DownloadError::OtherBuild);
            }
            let kept = file.set_permissions(Permissions::from_mode(0o400));
            kept.and_then(|()| std::fs::rename(&beside, to)).map_err(DownloadError::Disk)
        });
        kept.inspect_err(|_| drop(std::fs::remove_file(&beside)))
    }

    fn receive(&self, url: &str, file: &File) -> Result<(), DownloadError> {
        let answer = http::get(&self.servers, url)?;
        self.copy(answer.body, answer.bytes, file)
    }

    /// Takes over what a server sends, as long as it keeps to the limits.
    fn copy(
        &self,
        mut from: impl Read,
        of: Option<u64>,
        mut to: &File,
    ) -> Result<(), DownloadError> {
        let Servers { timeout, max_time, max_bytes, .. } = self.servers;
        if of.is_some_and(|of| of > max_bytes) {
            return Err(DownloadError::TooLarge(max_bytes));
        }
        let start = Instant::now();
        let mut bytes = 0_u64;
        let mut window = (start, 0_u64);
        let mut buffer = vec![0; CHUNK];
        loop {
            let size = match from.read(&mut buffer) {
                Ok(size) => size,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Err(DownloadError::Slow(timeout.unwrap_or_default()));
                }
                Err(error) => return Err(DownloadError::Refused(error.to_string())),
            };
            if size == 0 {
                return Ok(());
            }
            bytes += size as u64;
            if bytes > max_bytes {
                return Err(DownloadError::TooLarge(max_bytes));
            }
            to.write_all(&buffer[..size]).map_err(DownloadError::Disk)?;
            (self.watch)(DownloadProgress::Received { bytes, of });
            if let Some(max_time) = max_time.filter(|most| start.elapsed() > *most) {
                return Err(DownloadError::Long(max_time));
            }
            if let Some(timeout) = timeout.filter(|timeout| window.0.elapsed() > *timeout) {
                if bytes - window.1 < LEAST_BYTES {
                    return Err(DownloadError::Slow(timeout));
                }
                window = (Instant::now(), bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests;
