//! The file that was recorded, and its debug file, among those that may be it.

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

/// A file that is what was looked for.
#[derive(Debug)]
pub(crate) struct FoundFile {
    pub(crate) file: File,
    pub(crate) place: FileLocation,
    pub(crate) build_id: Option<BuildId>,
}

impl FoundFile {
    /// Opens what is there, if it is an ELF file.
    fn open(place: FileLocation) -> Result<Self, Unresolved> {
        let file = place.open()?;
        Self::identify(file, place)
    }

    /// The same, of a file that may be stored compressed.
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

/// The recorded file: of the places the first that has it.
pub(crate) fn binary(
    options: &SymbolOptions,
    recorded: &RecordedDso<'_>,
) -> Result<FoundFile, Unresolved> {
    let mut why = Unresolved::NoFile;
    for place in options.binaries(recorded) {
        match FoundFile::open(place) {
            Ok(found) if is_recorded(options, recorded, &found) => {
                note(options, recorded, &found);
                return Ok(found);
            }
            // Another process may have the number of the recorded one by now.
            Ok(found) if found.place.wants_proof() => {}
            Ok(_) => why = Unresolved::OtherBuild,
            Err(reason) if why == Unresolved::NoFile => why = reason,
            Err(_) => {}
        }
    }
    let download = recorded.dso.build_id.and_then(|id| download(options, id, Artifact::Executable));
    let found = download.ok_or(why)?;
    note(options, recorded, &found);
    Ok(found)
}

/// The file that the user named, which may be stored compressed.
pub(crate) fn named(path: &Path) -> Result<FoundFile, Unresolved> {
    FoundFile::open_packed(FileLocation::Path(path.to_owned()))
}

/// Of files that may be stored compressed the first with a build id; none where no file has it.
pub(crate) fn first_with(id: BuildId, paths: Vec<PathBuf>) -> Option<FoundFile> {
    let found = paths.into_iter().filter_map(|path| named(&path).ok());
    found.into_iter().find(|found| found.build_id == Some(id))
}

/// The kernel's image or a module, and where its debug info is, from a server.
pub(crate) fn served(options: &SymbolOptions, id: BuildId) -> Option<FoundFile> {
    download(options, id, Artifact::Debuginfo)
        .or_else(|| download(options, id, Artifact::Executable))
}

/// Notes a binary that is used.
fn note(options: &SymbolOptions, recorded: &RecordedDso<'_>, found: &FoundFile) {
    let path = found.place.path();
    match recorded.dso.build_id {
        Some(id) => options.note_by_id(id, "elf", &path, used::file(&found.file)),
        None => options.note_recorded(&recorded.dso.name, &path, used::file(&found.file)),
    }
}

/// Notes a debug file that is used, if it has debug info or symbols.
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

/// A file of a build id from a server.
fn download(options: &SymbolOptions, id: BuildId, artifact: Artifact) -> Option<FoundFile> {
    let path = options.debuginfod.as_ref()?.0.fetch(id, artifact)?;
    FoundFile::open(FileLocation::Path(path)).ok().filter(|found| found.build_id == Some(id))
}

/// Whether a file is the recorded one: by its build id, and where none was recorded by its inode.
/// Where neither was recorded files can't be told apart, and the one at the recorded path is taken.
fn is_recorded(options: &SymbolOptions, recorded: &RecordedDso<'_>, found: &FoundFile) -> bool {
    if let Some(id) = recorded.dso.build_id {
        return found.build_id == Some(id);
    }
    match recorded.inode.filter(|_| options.is_here()) {
        Some(inode) => found.file.metadata().is_ok_and(|meta| meta.ino() == inode),
        None => !found.place.wants_proof(),
    }
}

/// The debug files of a binary, by its build id, by its link, then from servers: each is the one that belongs to
/// it, and may still lack what is looked for.
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

/// The debug files of the kernel or of a module: those of these places that have its build id, the
/// one beside it that its link names, and one from a server.
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

/// The file that a debug file at `near` has some of its debug info in (`.gnu_debugaltlink`): at the
/// path that it says, below its own folder where that is relative, and by build id.
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
        .filter(move |found| found.build_id == build_id)
        .inspect(move |found| note_debug(options, None, found))
}

/// The file at a place, if it is the linked one: by its build id where both have one, else by its
/// checksum.
fn linked(place: FileLocation, binary: &FoundFile, link: &DebugLink) -> Option<FoundFile> {
    let mut debug = FoundFile::open(place).ok()?;
    let is_linked = match binary.build_id.zip(debug.build_id) {
        Some((wanted, found)) => wanted == found,
        None => checksum(&mut debug.file).ok()? == link.crc,
    };
    is_linked.then_some(debug)
}

/// CRC-32 of a file (ISO 3309, as zlib has it): what debug links have.
fn checksum(file: &mut File) -> std::io::Result<u32> {
    // A file without any bytes on the disk can claim to be as large as it likes.
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

/// The remainders of all bytes.
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
