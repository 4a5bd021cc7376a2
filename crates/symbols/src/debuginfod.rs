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
use tare_kernel::foreign_folder::find_foreign_folder;

use crate::dso::BuildId;
use crate::elf;

/// Default validity of an empty file in the cache: 10 minutes, as in elfutils.
const MISS: Duration = Duration::from_secs(600);

/// Bytes that a server must send per [`Servers::timeout`], as in elfutils. A slower server isn't
/// asked again.
const LEAST_BYTES: u64 = 100 << 10;

/// Bytes copied at a time.
const CHUNK: usize = 1 << 16;

/// Servers, a proxy, and limits on time and size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Servers {
    /// Base URLs, in the order of requests.
    pub urls: Vec<String>,
    /// Time in which a server must answer, and time for each 100 KiB; a slower one isn't asked
    /// again. `None`: no limit.
    pub timeout: Option<Duration>,
    /// Limit on the time for one file from one server. `None`: no limit.
    pub max_time: Option<Duration>,
    /// Limit on a file's size in bytes.
    pub max_bytes: u64,
    /// URL of a proxy.
    pub proxy: Option<String>,
}

impl Servers {
    /// Default of `DEBUGINFOD_TIMEOUT`.
    pub const TIMEOUT: Duration = Duration::from_secs(90);
    /// tare's default of `DEBUGINFOD_MAXSIZE`, in bytes.
    pub const MAX_BYTES: u64 = 4 << 30;
}

/// A kind of file with a build id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Artifact {
    /// The binary.
    Executable,
    /// Its separate debug file.
    Debuginfo,
}

impl Artifact {
    /// Returns its name on servers and in caches.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Executable => "executable",
            Self::Debuginfo => "debuginfo",
        }
    }
}

/// Progress of a client.
#[derive(Clone, Copy, Debug)]
pub enum DownloadProgress<'a> {
    /// A request is about to be sent.
    Asks {
        /// URL of the file.
        url: &'a str,
    },
    /// Bytes were received.
    Received {
        /// Bytes received so far.
        bytes: u64,
        /// Bytes of the whole file, if known.
        of: Option<u64>,
    },
    /// The request ended, successfully or not.
    Ended,
    /// A server failed. Lacking the file isn't a failure.
    Failed {
        /// URL of the file.
        url: &'a str,
        /// The reason.
        why: &'a str,
    },
}

/// A client of debuginfod servers.
pub struct Debuginfod {
    servers: Servers,
    cache: PathBuf,
    /// Id of the user who must own the cache.
    uid: u32,
    watch: Box<dyn Fn(DownloadProgress<'_>) + Send + Sync>,
    state: Mutex<ClientState>,
}

#[derive(Debug, Default)]
struct ClientState {
    /// Indices of the servers that aren't asked again.
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

/// Why a download failed.
#[derive(Debug, thiserror::Error)]
enum DownloadError {
    /// The server lacks the file.
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

    /// Downloads a file, and returns its path in the cache. Each file is requested once.
    pub(crate) fn fetch(&self, id: BuildId, artifact: Artifact) -> Option<PathBuf> {
        // One download at a time, so that the next one knows which servers failed.
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
            // The empty file saves other clients and later runs the request for a while.
            let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        }
        None
    }

    /// Whether all servers recently answered that they lack the file. If not, removes what is at
    /// the path: a stale answer, or a file that the search passed over.
    fn is_known_absent(&self, path: &Path) -> bool {
        let Ok(meta) = std::fs::symlink_metadata(path) else { return false };
        let age = meta.modified().ok().and_then(|time| time.elapsed().ok());
        if meta.is_file() && meta.len() == 0 && age.is_none_or(|age| age <= self.miss()) {
            return true;
        }
        let _ = std::fs::remove_file(path);
        false
    }

    /// Returns how long an empty file in the cache is valid.
    fn miss(&self) -> Duration {
        let mut text = String::new();
        let file = File::open(self.cache.join("cache_miss_s"));
        let read = file.and_then(|file| file.take(32).read_to_string(&mut text));
        let seconds = read.ok().and_then(|_| text.trim().parse().ok());
        seconds.map_or(MISS, Duration::from_secs)
    }

    /// Creates the directory of a build id; `None` if it can't be created, or if it or the cache
    /// belongs to another user or can be written by one.
    fn make_folder(&self, folder: &Path) -> Option<()> {
        if find_foreign_folder(&self.cache).is_some() {
            return None;
        }
        DirBuilder::new().recursive(true).mode(0o700).create(folder).ok()?;
        for folder in [&self.cache, folder] {
            let meta = std::fs::symlink_metadata(folder).ok()?;
            if !meta.is_dir() || meta.uid() != self.uid || meta.mode() & 0o022 != 0 {
                return None;
            }
        }
        Some(())
    }

    /// Downloads a file from one server, checks its build id, and moves it into the cache.
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

    /// Copies a response to a file within the limits.
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
