//! Where this machine has what a recording names.

use std::fs::File as Disk;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::files::{BuildId, File};
use crate::limits;
use crate::symbolizer::{Options, Unresolved};

/// A recorded path, in the folder that recorded paths begin in.
pub(crate) fn below_root(options: &Options, path: &[u8]) -> PathBuf {
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    options.root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Where a recorded ELF file may be: its path, and perf's cache.
pub(crate) fn candidates(options: &Options, file: &File) -> impl Iterator<Item = PathBuf> {
    let kept = file
        .build_id
        .zip(options.cache.as_ref())
        .map(|(id, cache)| build_id_path(cache, id, "/elf"));
    [Some(below_root(options, &file.name)), kept].into_iter().flatten()
}

/// The path of a file that is found by its build id.
pub(crate) fn build_id_path(folder: &Path, id: BuildId, end: &str) -> PathBuf {
    let digits = id.to_string();
    let (front, rest) = digits.split_at(2);
    folder.join(format!(".build-id/{front}/{rest}{end}"))
}

/// Opens a regular file: a recorded path may name a FIFO or a device by now.
pub(crate) fn open(path: &Path) -> Result<Disk, Unresolved> {
    let meta = std::fs::metadata(path).map_err(|error| why(&error))?;
    if !meta.is_file() {
        return Err(Unresolved::NoFile);
    }
    Disk::open(path).map_err(|error| why(&error))
}

/// All of a file of text.
pub(crate) fn read_text(path: &Path) -> Result<Vec<u8>, Unresolved> {
    let mut text = Vec::new();
    open(path)?.take(limits::TEXT_BYTES).read_to_end(&mut text).map_err(|error| why(&error))?;
    Ok(text)
}

/// The image that the kernel maps into this process too.
pub(crate) fn vdso() -> Result<Vec<u8>, Unresolved> {
    const LARGEST: u64 = 1 << 20;
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|error| why(&error))?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]")).ok_or(Unresolved::NoFile)?;
    let range =
        line.split(' ').next().and_then(|range| range.split_once('-')).ok_or(Unresolved::NoFile)?;
    let [start, end] =
        [range.0, range.1].map(|digits| u64::from_str_radix(digits, 16).unwrap_or(0));
    let mut image = vec![0; usize::try_from(end.saturating_sub(start).min(LARGEST)).unwrap_or(0)];
    let memory = Disk::open("/proc/self/mem").map_err(|error| why(&error))?;
    memory.read_exact_at(&mut image, start).map_err(|error| why(&error))?;
    Ok(image)
}

fn why(error: &io::Error) -> Unresolved {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Unresolved::NotReadable,
        _ => Unresolved::NoFile,
    }
}
