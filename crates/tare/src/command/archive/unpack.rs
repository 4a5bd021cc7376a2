//! Unpacks an archive into a folder that only this user can enter. Accepts only paths like those
//! that `tare archive` writes, and trusts no path, link or size.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use rustix::fs::{FlockOperation, flock};
use tar::{Archive, EntryType};
use tare_format::printable;
use tare_kernel::ending::{do_before_signals_end, wait_if_ending};
use tare_symbols::{SymbolOptions, UnpackedFolder};

use super::RECORDING;

/// Magic number of a zstd frame (RFC 8878, section 3.1.1).
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Largest window of decompression, as a power of two: the limit of zstd's own program.
const WINDOW_LOG: u32 = 27;

/// Most entries in an archive.
const FILES: usize = 1 << 16;

/// Most bytes of a long file name; the rest is ignored.
const NAME_BYTES: u64 = 4096;

/// Most unpacked bytes other than long runs of zeros: `SLACK`, plus `TIMES` the archive's size. Binaries with debug info compress
/// to a fifth.
const SLACK: u64 = 256 << 20;
const TIMES: u64 = 64;

/// Most bytes of the tar archive, with the zeros that aren't written: `STREAM_SLACK`, plus `TIMES`
/// the archive's size.
const STREAM_SLACK: u64 = 16 << 30;

/// Most files and folders: `NODES`, plus one for each `NODE_BYTES` of the archive.
const NODES: u64 = 1 << 12;
const NODE_BYTES: u64 = 16;

/// Most parts of a path. Removing a folder opens each of the folders in it.
const DEPTH: usize = 64;

/// Bytes that are tested for being zeros at once.
const CHUNK: usize = 1 << 16;

/// Most tries to remove a folder while other threads add files.
const REMOVALS: u32 = 100;

const PREFIX: &str = "tare-archive.";
const LOCK: &str = "lock";

/// Age at which a folder without a lock counts as left behind: a younger one may be in the making.
const YOUNG: Duration = Duration::from_secs(60);

/// Whether a file counts as an archive: a regular file that begins with zstd's magic number.
pub(crate) fn is_archive(path: &Path) -> bool {
    let mut begin = [0; 4];
    let is_file = std::fs::metadata(path).is_ok_and(|meta| meta.is_file());
    is_file
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut begin).is_ok())
        && begin == ZSTD
}

/// Unpacks an archive, points `options` at its files, and returns the path of its recording. The
/// files are removed when the last copy of `options` is dropped.
pub(crate) fn unpack(path: &Path, options: &mut SymbolOptions) -> anyhow::Result<PathBuf> {
    let temporary = std::env::temp_dir();
    sweep(&temporary);
    let folder = make_folder(&temporary).with_context(|| {
        format!(
            "{}: cannot create a folder for the archive's files; set TMPDIR",
            temporary.display()
        )
    })?;
    let unpacked = UnpackedFolder::new(folder.clone());
    let removed = folder.clone();
    // Without this the next unpacking removes the folder.
    let _ = do_before_signals_end(move || remove(&removed));
    extract(path, &folder).with_context(|| path.display().to_string())?;
    let recording = folder.join(RECORDING);
    if !recording.is_file() {
        bail!(
            "{}: this archive has no {RECORDING}; `tare archive` makes one that has",
            path.display()
        );
    }
    options.symfs = folder.join("root");
    options.build_id_cache = Some(folder.join(".debug"));
    options.kallsyms_copy = None;
    options.unpacked = Some(unpacked);
    Ok(recording)
}

/// Removes a folder to which other threads may add files until they notice that the process ends.
fn remove(folder: &Path) {
    for _ in 0..REMOVALS {
        if std::fs::remove_dir_all(folder).is_ok() || !folder.exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Creates a folder that only this user can enter, with a lock file in it.
fn make_folder(temporary: &Path) -> io::Result<PathBuf> {
    let uid = rustix::process::geteuid().as_raw();
    let pid = std::process::id();
    for number in 0..u32::MAX {
        let folder = temporary.join(format!("{PREFIX}{uid}.{pid}.{number}"));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => {
                made?;
                let mut open = OpenOptions::new();
                let lock = open.write(true).create_new(true).mode(0o600).open(folder.join(LOCK))?;
                flock(&lock, FlockOperation::LockExclusive)?;
                // The lock is held until this process exits, even if it is killed.
                std::mem::forget(lock);
                return Ok(folder);
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Removes the folders of this user's processes that ended without removing them.
fn sweep(temporary: &Path) {
    let uid = rustix::process::geteuid().as_raw();
    let Ok(entries) = std::fs::read_dir(temporary) else { return };
    let prefix = format!("{PREFIX}{uid}.");
    for entry in entries.flatten() {
        if !entry.file_name().as_bytes().starts_with(prefix.as_bytes()) {
            continue;
        }
        let folder = entry.path();
        let Ok(meta) = std::fs::symlink_metadata(&folder) else { continue };
        if !meta.is_dir() || meta.uid() != uid {
            continue;
        }
        let is_left = match File::open(folder.join(LOCK)) {
            Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
            Err(_) => {
                let age = meta.modified().ok().and_then(|time| time.elapsed().ok());
                age.is_some_and(|age| age > YOUNG)
            }
        };
        if is_left {
            let _ = std::fs::remove_dir_all(&folder);
        }
    }
}

/// What an archive may still take of this machine.
struct Allowance {
    most_bytes: u64,
    bytes: u64,
    nodes: u64,
}

impl Allowance {
    fn for_archive(bytes: u64) -> Self {
        let most_bytes = bytes.saturating_mul(TIMES).saturating_add(SLACK);
        Self { most_bytes, bytes: most_bytes, nodes: NODES + bytes / NODE_BYTES }
    }

    fn take_node(&mut self) -> anyhow::Result<()> {
        wait_if_ending();
        let left = self.nodes.checked_sub(1);
        self.nodes =
            left.context("more files and folders than an archive of this size may have")?;
        Ok(())
    }

    /// Creates the folders of a path.
    fn create_folders(&mut self, folder: &Path, path: &Path) -> anyhow::Result<()> {
        let mut at = folder.to_owned();
        for part in path.parent().into_iter().flat_map(Path::components) {
            at.push(part);
            match DirBuilder::new().mode(0o700).create(&at) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => {
                    created?;
                    self.take_node()?;
                }
            }
        }
        Ok(())
    }

    /// Creates a file with this content. Zeros become holes, which take no space.
    fn copy(&mut self, from: &mut impl Read, path: &Path) -> anyhow::Result<()> {
        self.take_node()?;
        let to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let mut chunk = Vec::with_capacity(CHUNK);
        let mut length = 0_u64;
        loop {
            wait_if_ending();
            chunk.clear();
            let bytes = from.by_ref().take(CHUNK as u64).read_to_end(&mut chunk)? as u64;
            if bytes == 0 {
                break;
            }
            if chunk.iter().any(|byte| *byte != 0) {
                self.bytes = self.bytes.checked_sub(bytes).with_context(|| {
                    let most = self.most_bytes;
                    format!("the files exceed {most} bytes, the limit for an archive of this size")
                })?;
                to.write_all_at(&chunk, length)?;
            }
            length += bytes;
        }
        Ok(to.set_len(length)?)
    }
}

/// Writes an archive's files into a folder.
fn extract(path: &Path, folder: &Path) -> anyhow::Result<()> {
    let file = File::open(path)?;
    let packed_bytes = file.metadata()?.len();
    let mut allowance = Allowance::for_archive(packed_bytes);
    let mut decoder = zstd::Decoder::new(file)?;
    decoder.window_log_max(WINDOW_LOG)?;
    let most_stream = packed_bytes.saturating_mul(TIMES).saturating_add(STREAM_SLACK);
    let mut archive = Archive::new(decoder.take(most_stream));
    let mut long_name: Option<PathBuf> = None;
    for (number, entry) in archive.entries()?.raw(true).enumerate() {
        // The library's own message would contain the damaged bytes.
        let mut entry = entry
            .map_err(|error| anyhow!("not an archive of tare, or damaged: {}", error.kind()))?;
        if number >= FILES {
            bail!("an archive has at most {FILES} files");
        }
        if entry.header().entry_type() == EntryType::GNULongName {
            let mut name = Vec::new();
            entry.by_ref().take(NAME_BYTES).read_to_end(&mut name)?;
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
            long_name = Some(PathBuf::from(std::ffi::OsStr::from_bytes(&name[..end])));
            continue;
        }
        let name =
            long_name.take().map_or_else(|| entry.path().map(std::borrow::Cow::into_owned), Ok)?;
        let shown = printable(name.as_os_str().as_bytes()).to_string();
        match entry.header().entry_type() {
            EntryType::Regular => {}
            EntryType::Directory => continue,
            _ => bail!("{shown} is not a regular file; `tare archive` writes only these"),
        }
        if !is_expected(&name) {
            bail!("{shown} is not a path that `tare archive` writes");
        }
        let bytes = entry.header().entry_size()?;
        allowance.create_folders(folder, &name)?;
        let content = &mut entry.by_ref().take(bytes);
        allowance.copy(content, &folder.join(&name)).with_context(|| shown.clone())?;
        if content.limit() > 0 {
            bail!("{shown} is longer than the archive's content");
        }
    }
    Ok(())
}

/// Whether a path is like those that `tare archive` writes.
fn is_expected(name: &Path) -> bool {
    let is_plain = name.components().all(|part| matches!(part, Component::Normal(_)))
        && name.components().count() <= DEPTH;
    let is_file_of = |folder| name.starts_with(folder) && name != Path::new(folder);
    is_plain && (name == Path::new(RECORDING) || is_file_of(".debug") || is_file_of("root"))
}
