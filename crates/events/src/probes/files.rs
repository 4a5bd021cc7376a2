//! Finds the files to probe. A process may have a root folder of its own (a container, chroot),
//! where a path leads to another file than for tare.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use tare_kernel::host::Host;
use tare_kernel::procfs::{self, Mapping};

use super::ProbeError;
use crate::functions::library_path;
use crate::mapping_identity::MappingIdentity;

/// `PROT_EXEC` of `mmap(2)`.
const PROT_EXEC: u32 = 4;

/// Finds the file of a program that was given by name, in PATH for example.
pub type Find<'a> = &'a dyn Fn(&str) -> Option<PathBuf>;

/// Where the files of probes are searched.
#[derive(Clone, Copy)]
pub struct ProbeFiles<'a> {
    /// Finds programs by name.
    pub find: Find<'a>,
    /// The probed processes; none for a command. Their root folders and the files that they map are
    /// searched first.
    pub pids: &'a [i32],
}

impl ProbeFiles<'_> {
    /// Splits `FILE:PLACE`. The file may contain colons: the longest prefix that is a file wins.
    /// `None` if the text has another form.
    pub(super) fn split<'t>(
        &self,
        text: &'t str,
    ) -> Result<Option<(&'t str, &'t str)>, ProbeError> {
        let mut splits = text.rmatch_indices(':').map(|(at, _)| (&text[..at], &text[at + 1..]));
        let is_file = |file: &str| {
            Path::new(file).is_file()
                || self.pids.iter().any(|&pid| path_in_root(pid, Path::new(file)).is_some())
        };
        let whole = splits.clone().find(|(file, _)| is_file(file));
        let split = whole.or_else(|| splits.next_back());
        Ok(split.filter(|(file, place)| !file.is_empty() && !place.is_empty()))
    }

    /// Returns the paths of a file as the probed processes have it: one for each different file.
    pub(super) fn find(&self, file: &str) -> Result<Vec<PathBuf>, ProbeError> {
        let mut paths: Vec<PathBuf> = Vec::new();
        for &pid in self.pids {
            let of_process = if file.contains('/') {
                path_in_root(pid, Path::new(file))
            } else {
                let name = OsStr::new(file);
                let mapped = list_mapped_files(&Host::default(), pid);
                mapped.into_iter().find(|path| path.file_name() == Some(name))
            };
            paths.extend(of_process.or_else(|| self.find_here(file)));
        }
        if self.pids.is_empty() {
            paths.extend(self.find_here(file));
        }
        let identity =
            |path: &PathBuf| path.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()));
        paths.sort_by_key(identity);
        paths.dedup_by_key(|path| identity(path));
        if paths.is_empty() { Err(ProbeError::NoFile(file.to_owned())) } else { Ok(paths) }
    }

    /// Finds a file of this process's root folder, a program in PATH, or a library.
    fn find_here(&self, file: &str) -> Option<PathBuf> {
        if Path::new(file).exists() {
            return Some(file.into());
        }
        let is_library = file.contains(".so") && !file.contains('/');
        (self.find)(file).or_else(|| is_library.then(|| library_path(file)).flatten())
    }
}

/// Returns a path by which this process opens a file of another process's root folder; `None` if
/// the path leads to the same file from here, or no such regular file can be reached there.
fn path_in_root(pid: i32, path: &Path) -> Option<PathBuf> {
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    let below = path.strip_prefix("/").ok()?;
    // Symbolic links resolve as they do for the process. O_PATH doesn't wait for a FIFO's writer.
    let folder = File::open(&root).ok()?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened =
        rustix::fs::openat2(&folder, below, flags, Mode::empty(), ResolveFlags::IN_ROOT).ok()?;
    let metadata = File::from(opened.try_clone().ok()?).metadata().ok()?;
    let is_here = path.metadata().is_ok_and(|here| is_same(&here, &metadata));
    if is_here || !metadata.is_file() {
        return None;
    }
    // The kernel opens the probed file by a path, in this process's root folder. A link's target
    // there may be another file.
    let target = target(&opened)?;
    let in_root = target.strip_prefix("/").map(|below| root.join(below)).ok();
    let candidates = [Some(root.join(below)), Some(target.clone()), in_root];
    candidates
        .into_iter()
        .flatten()
        .find(|path| path.metadata().is_ok_and(|found| is_same(&found, &metadata)))
}

/// Returns the path of an open file, in its mount namespace.
fn target(file: &OwnedFd) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Calls `each` with the mappings of a process's code. Fails if the process has exited, or this
/// user may not read its mappings.
fn for_each_code_mapping(
    host: &Host,
    pid: i32,
    mut each: impl FnMut(&Mapping<'_>),
) -> io::Result<()> {
    let mut text = Vec::new();
    procfs::read_mappings(host, pid, &mut text)?;
    let is_code =
        |mapping: &Mapping<'_>| mapping.prot & PROT_EXEC != 0 && mapping.path.starts_with(b"/");
    procfs::mappings(&text).filter(is_code).for_each(|mapping| each(&mapping));
    Ok(())
}

/// Lists the files that a process maps as code, by the paths that lead to them from here. Returns
/// an empty list if the process has exited, or this user may not read its mappings.
#[must_use]
pub fn list_mapped_files(host: &Host, pid: i32) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let _ = for_each_code_mapping(host, pid, |mapping| {
        let path = PathBuf::from(OsStr::from_bytes(&mapping.path));
        files.push(path_in_root(pid, &path).unwrap_or(path));
    });
    files.dedup();
    files
}

/// Whether a process maps a file as code; `None` if that can't be read.
#[must_use]
pub fn maps_file(host: &Host, pid: i32, path: &Path) -> Option<bool> {
    let file = MappingIdentity::new(path)?;
    let mut is_mapped = false;
    for_each_code_mapping(host, pid, |mapping| is_mapped |= file.is_mapped_by(mapping)).ok()?;
    Some(is_mapped)
}
