//! Selects the recorded file and its debug files among the candidates, or downloads them.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use object::read::ReadCache;

use crate::debuginfod::Artifact;
use crate::dso::{BuildId, RecordedDso};
use crate::elf::{self, DebugLink};
use crate::limits;
use crate::packed;
use crate::search::SymbolOptions;
use crate::search::location::FileLocation;
use crate::search::used;
use crate::unresolved::Unresolved;

/// A file with the wanted content.
#[derive(Debug)]
pub(crate) struct FoundFile {
    pub(crate) file: File,
    pub(crate) place: FileLocation,
    pub(crate) build_id: Option<BuildId>,
}

impl FoundFile {
    /// Opens an ELF file.
    fn open(place: FileLocation) -> Result<Self, Unresolved> {
        let file = place.open()?;
        Self::identify(file, place)
    }

    /// Opens an ELF file that may be compressed.
    fn open_packed(place: FileLocation) -> Result<Self, Unresolved> {
        let file = packed::unpacked(place.open()?).map_err(|_| Unresolved::Malformed)?;
        Self::identify(file, place)
    }

    fn identify(file: File, place: FileLocation) -> Result<Self, Unresolved> {
        let cache = ReadCache::new(&file);
        let build_id = elf::build_id(&cache).map_err(|_| Unresolved::Malformed)?;
        Ok(Self { file, place, build_id })
    }
}

/// Finds the recorded file: the first match in search order, else a download.
pub(crate) fn binary(
    options: &SymbolOptions,
    recorded: &RecordedDso<'_>,
) -> Result<FoundFile, Unresolved> {
    let mut why = Unresolved::NoFile;
    for place in options.binaries(recorded) {
        match FoundFile::open(place) {
            Ok(found) => match check(options, recorded, &found) {
                Ok(()) => {
                    note(options, recorded, &found);
                    return Ok(found);
                }
                // Another process may have the recorded process's id by now.
                Err(_) if found.place.is_in_proc() => {}
                Err(reason) => why = reason,
            },
            Err(reason) if why == Unresolved::NoFile => why = reason,
            Err(_) => {}
        }
    }
    let download = recorded.dso.build_id.and_then(|id| download(options, id, Artifact::Executable));
    let found = download.ok_or(why)?;
    note(options, recorded, &found);
    Ok(found)
}

/// Opens a file that the user named, which may be compressed.
pub(crate) fn named(path: &Path) -> Result<FoundFile, Unresolved> {
    FoundFile::open_packed(FileLocation::Path(path.to_owned()))
}

/// Finds the first file with a build id. Files may be compressed.
pub(crate) fn first_with(id: BuildId, paths: Vec<PathBuf>) -> Option<FoundFile> {
    let found = paths.into_iter().filter_map(|path| named(&path).ok());
    found.into_iter().find(|found| found.build_id == Some(id))
}

/// Downloads the kernel's image or a module: its debug file, else the file itself.
pub(crate) fn served(options: &SymbolOptions, id: BuildId) -> Option<FoundFile> {
    download(options, id, Artifact::Debuginfo)
        .or_else(|| download(options, id, Artifact::Executable))
}

/// Adds a binary to the used files.
fn note(options: &SymbolOptions, recorded: &RecordedDso<'_>, found: &FoundFile) {
    let path = found.place.path();
    match recorded.dso.build_id {
        Some(id) => options.note_by_id(id, "elf", &path, used::file(&found.file)),
        None => options.note_recorded(&recorded.dso.name, &path, used::file(&found.file)),
    }
}

/// Adds a debug file to the used files.
fn note_debug(options: &SymbolOptions, binary: Option<&FoundFile>, debug: &FoundFile) {
    let path = debug.place.path();
    match (debug.build_id, binary) {
        (Some(id), _) => options.note_by_id(id, "debug", &path, used::file(&debug.file)),
        (None, Some(binary)) => {
            options.note_beside(&binary.place.path(), &path, used::file(&debug.file));
        }
        (None, None) => options.note_at(&path, used::file(&debug.file)),
    }
}

/// Downloads a file by build id.
fn download(options: &SymbolOptions, id: BuildId, artifact: Artifact) -> Option<FoundFile> {
    let path = options.debuginfod.as_ref()?.0.fetch(id, artifact)?;
    FoundFile::open(FileLocation::Path(path)).ok().filter(|found| found.build_id == Some(id))
}

/// Checks that a file is the recorded one: by build id, else on this machine by the identity that
/// the kernel recorded, and by the time of its last change. If none of them can decide, the file at
/// the recorded path counts as the recorded one.
fn check(
    options: &SymbolOptions,
    recorded: &RecordedDso<'_>,
    found: &FoundFile,
) -> Result<(), Unresolved> {
    if let Some(id) = recorded.dso.build_id {
        return if found.build_id == Some(id) { Ok(()) } else { Err(Unresolved::OtherBuild) };
    }
    match recorded.identity.filter(|_| options.is_here()) {
        Some(identity) if !identity.is_of(&found.file) => Err(Unresolved::OtherFile),
        None if found.place.is_in_proc() => Err(Unresolved::OtherFile),
        _ if options.is_here() && has_changed_since(recorded, &found.file) => {
            Err(Unresolved::ChangedFile)
        }
        _ => Ok(()),
    }
}

/// Whether a file was changed after it was first mapped. The time of the inode's last change counts:
/// unlike the time of modification, no program can set it. Removing the file's name changes it too.
fn has_changed_since(recorded: &RecordedDso<'_>, file: &File) -> bool {
    let mapped_ns = recorded.mapped.iter().filter_map(|mapping| mapping.mapped_ns).min();
    let Some(mapped_ns) = mapped_ns else { return false };
    file.metadata().is_ok_and(|meta| {
        let (seconds, ns) = if meta.nlink() == 0 {
            (meta.mtime(), meta.mtime_nsec())
        } else {
            (meta.ctime(), meta.ctime_nsec())
        };
        i128::from(seconds) * 1_000_000_000 + i128::from(ns) > i128::from(mapped_ns)
    })
}

/// Iterates over the debug files of a binary: by build id, by debug link, then from servers. Each
/// belongs to the binary, but may lack symbols or lines.
pub(crate) fn debug_files<'a>(
    options: &'a SymbolOptions,
    recorded: &'a RecordedDso<'a>,
    binary: &'a FoundFile,
    link: Option<&'a DebugLink>,
) -> impl Iterator<Item = FoundFile> + 'a {
    let by_id = binary.build_id.into_iter().flat_map(|id| options.debug_files_by_id(id));
    let by_id = by_id
        .filter_map(|place| FoundFile::open(place).ok())
        .filter(|found| found.build_id == binary.build_id);
    let by_link = link.into_iter().flat_map(move |link| {
        let places = options.debug_files_by_link(&binary.place, recorded, &link.name);
        places.into_iter().filter_map(move |place| linked(place, binary, link))
    });
    let served =
        std::iter::once_with(move || download(options, binary.build_id?, Artifact::Debuginfo));
    let found = by_id.chain(by_link).chain(served.flatten());
    found.inspect(move |found| note_debug(options, Some(binary), found))
}

/// Iterates over the debug files of the kernel or of a module that have its build id: those at
/// these paths, the one beside it that its debug link names, and one from a server.
pub(crate) fn debug_files_among<'a>(
    options: &'a SymbolOptions,
    binary: &'a FoundFile,
    places: Vec<PathBuf>,
    link: Option<&'a DebugLink>,
) -> impl Iterator<Item = FoundFile> + 'a {
    let name = link.map(|link| Path::new(OsStr::from_bytes(&link.name)));
    let name = name.filter(|name| name.file_name() == Some(name.as_os_str()));
    let beside =
        name.into_iter().flat_map(|name| [name.to_owned(), Path::new(".debug").join(name)]);
    let beside = beside.filter_map(|name| Some(binary.place.beside(&name)?.path()));
    let found = places.into_iter().chain(beside).filter_map(|path| named(&path).ok());
    let found = found.filter(|found| found.build_id == binary.build_id);
    let served =
        std::iter::once_with(move || download(options, binary.build_id?, Artifact::Debuginfo));
    let found = found.chain(served.flatten());
    found.inspect(move |found| note_debug(options, Some(binary), found))
}

/// Finds the file that a debug file at `near` shares debug info with (`.gnu_debugaltlink`): at the
/// linked path, which may be relative to the debug file's folder, and by build id.
pub(crate) fn alternatives<'a>(
    options: &'a SymbolOptions,
    near: &Path,
    link: &[u8],
    build_id: Option<BuildId>,
) -> impl Iterator<Item = FoundFile> + 'a {
    let named = if link.starts_with(b"/") {
        Some(options.path(link))
    } else {
        near.parent().map(|folder| folder.join(OsStr::from_bytes(link)))
    };
    let by_id = build_id.into_iter().flat_map(|id| options.debug_files_by_id(id));
    let places = named.into_iter().map(FileLocation::Path).chain(by_id);
    places
        .filter_map(|place| FoundFile::open(place).ok())
        .filter(move |found| found.build_id.is_some() && found.build_id == build_id)
        .inspect(move |found| note_debug(options, None, found))
}

/// Opens a debug file if it is the linked one: by build id if both files have one, else by
/// checksum.
fn linked(place: FileLocation, binary: &FoundFile, link: &DebugLink) -> Option<FoundFile> {
    let mut debug = FoundFile::open(place).ok()?;
    let is_linked = match binary.build_id.zip(debug.build_id) {
        Some((wanted, found)) => wanted == found,
        None => checksum(&mut debug.file).ok()? == link.crc,
    };
    is_linked.then_some(debug)
}

/// Computes a file's CRC-32 (ISO 3309, as in zlib), the checksum in debug links.
fn checksum(file: &mut File) -> std::io::Result<u32> {
    // A sparse file can be of any size.
    if file.metadata()?.len() > limits::CHECKED_BYTES {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    file.rewind()?;
    let mut buffer = vec![0; 1 << 16];
    let mut crc = u32::MAX;
    loop {
        let size = file.read(&mut buffer)?;
        if size == 0 {
            return Ok(!crc);
        }
        crc = buffer[..size]
            .iter()
            .fold(crc, |crc, byte| crc >> 8 ^ CRC[usize::from(crc.to_le_bytes()[0] ^ byte)]);
    }
}

/// CRC-32 of each byte value.
const CRC: [u32; 256] = {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_zlib() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "123456789").unwrap();
        assert_eq!(checksum(&mut File::open(file.path()).unwrap()).unwrap(), 0xcbf4_3926);
    }
}
