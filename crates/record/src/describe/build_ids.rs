//! The build ids of the files that samples can lie in.
//!
//! perf reads its own recording once more to find the files that samples do lie in. Here every file
//! with mapped code counts: there are some 200 of them on a machine, whatever the number of
//! samples.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use object::elf::{ELF_NOTE_GNU, FileHeader32, FileHeader64, NT_GNU_BUILD_ID};
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader};
use object::{Endianness, FileKind, ReadCache, ReadRef};
use tare_format::Endian;
use tare_format::file::writer::BuildId;
use tare_format::record::{FileId, Mmap, Record, Records};
use tare_kernel::file_identity::FileIdentity;
use tare_kernel::host::Host;
use tare_kernel::{procfs, pseudo_file};

use crate::process_file::{open_in_root, open_regular};

/// The kernel's name in recordings.
const KERNEL: &[u8] = b"[kernel.kallsyms]";

/// The code that the kernel maps into every process.
const VDSO: &[u8] = b"[vdso]";

/// Limit on the bytes of a segment of notes in an ELF file, and of the vdso. Real segments of notes
/// have some hundred.
const NOTES_BYTES: u64 = 64 << 10;

/// Limit on the bytes of a build id in a recording.
const ID_BYTES: usize = 20;

/// Collects files from records of mappings.
#[derive(Clone, Debug, Default)]
pub struct BuildIds {
    files: HashMap<Vec<u8>, MappedFile>,
}

/// The files of mappings with one path, as their records identify them.
#[derive(Clone, Debug, Default)]
struct MappedFile {
    /// The last recorded build id, or that of the loaded module.
    id: Option<Vec<u8>>,
    /// A file without a recorded build id.
    file: Option<UnknownFile>,
    /// Whether the path has had several files without one, in sequence or in several containers.
    has_several: bool,
}

/// A file of this process, with its identity if known.
#[derive(Clone, Copy, Debug)]
struct UnknownFile {
    pid: i32,
    identity: Option<FileIdentity>,
}

impl BuildIds {
    /// Takes in whole records from the kernel or from [`crate::synthesize`], and ignores all but
    /// mappings of code.
    pub fn see(&mut self, records: &[u8]) {
        for record in Records::new(records, Endian::NATIVE) {
            if let Ok(Record::Mmap(mmap)) = record.decode() {
                self.see_mapping(&mmap);
            }
        }
    }

    /// Takes in the build id of a loaded module, if its mapping is known without one.
    pub fn see_module(&mut self, name: &[u8], id: Vec<u8>) {
        if let Some(mapped) = self.files.get_mut(name)
            && mapped.id.is_none()
        {
            *mapped = MappedFile { id: Some(id), ..MappedFile::default() };
        }
    }

    /// Takes in one mapping.
    pub fn see_mapping(&mut self, mmap: &Mmap<'_>) {
        let path = if mmap.pid == -1 && mmap.path.starts_with(KERNEL) { KERNEL } else { mmap.path };
        let has_file =
            path.starts_with(b"/") && !path.starts_with(b"//") || path == VDSO || mmap.pid == -1;
        if mmap.is_data || !has_file {
            return;
        }
        let mapped = self.files.entry(path.to_vec()).or_default();
        let identity = match mmap.file {
            // A module that is loaded later has its id only in its record. If another build was
            // loaded under this name before and its id wasn't read, that id is unknown.
            FileId::BuildId(id) if mmap.pid == -1 && !id.is_empty() => {
                mapped.has_several |= mapped.file.is_some();
                mapped.id.get_or_insert_with(|| id.to_vec());
                return;
            }
            // Readers find it in the record, too.
            FileId::BuildId(id) if !id.is_empty() => return mapped.id = Some(id.to_vec()),
            FileId::Inode { major, minor, inode, generation } => {
                Some(FileIdentity { device: (major, minor), inode, generation })
            }
            _ => None,
        };
        match mapped.file {
            Some(UnknownFile { identity: Some(before), .. }) => {
                mapped.has_several |= identity.is_some_and(|identity| !identity.matches(&before));
            }
            _ => mapped.file = Some(UnknownFile { pid: mmap.pid, identity }),
        }
    }

    /// Returns the ids in order of paths. Leaves out files that were removed or replaced, and files
    /// without an id.
    #[must_use]
    pub fn read(&self, host: &Host) -> Vec<BuildId> {
        let mut found: Vec<_> =
            self.files.iter().filter_map(|(path, mapped)| build_id(host, path, mapped)).collect();
        found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        found
    }
}

fn build_id(host: &Host, path: &[u8], mapped: &MappedFile) -> Option<BuildId> {
    // Readers compare paths as text, so a path that isn't UTF-8 can't be in the list.
    let path = std::str::from_utf8(path).ok()?;
    let kernel = mapped.file.is_some_and(|file| file.pid == -1);
    // The list has one id per path, which would be wrong for some of several files.
    let id = match (mapped.file, &mapped.id) {
        _ if mapped.has_several => return None,
        (None, Some(id)) => id.clone(),
        (None, None) => return None,
        (Some(file), None) => file_build_id(host, path, file)?,
        (Some(file), Some(id)) => {
            file_build_id(host, path, file).filter(|found| kernel || found == id)?
        }
    };
    (id.len() <= ID_BYTES).then(|| BuildId { kernel, id, path: path.to_owned() })
}

/// Returns the running kernel's build id; `None` if it was linked without one, or if the kernel's
/// notes can't be read.
#[must_use]
pub fn kernel_build_id(host: &Host) -> Option<Vec<u8>> {
    notes_build_id(&pseudo_file::read(&host.path("/sys/kernel/notes")).ok()?)
}

/// Returns the build id of a module, given its file or its name:
/// `/lib/modules/6.1/kernel/fs/ext4-x.ko.xz` and `[ext4_x]` are the module `ext4_x`.
pub(crate) fn module_build_id(host: &Host, path: &str) -> Option<Vec<u8>> {
    let name =
        path.trim_matches(['[', ']']).rsplit('/').next()?.split(".ko").next()?.replace('-', "_");
    notes_build_id(
        &std::fs::read(host.path(&format!("/sys/module/{name}/notes/.note.gnu.build-id"))).ok()?,
    )
}

fn notes_build_id(notes: &[u8]) -> Option<Vec<u8>> {
    let endian = if cfg!(target_endian = "big") { Endianness::Big } else { Endianness::Little };
    find(endian, NoteIterator::<FileHeader64<Endianness>>::new(endian, 4, notes).ok()?)
}

/// Returns the build id of code without a recorded one: of the kernel, of a module, of the vDSO, or
/// of a file.
fn file_build_id(host: &Host, path: &str, file: UnknownFile) -> Option<Vec<u8>> {
    let UnknownFile { pid, identity } = file;
    match path.as_bytes() {
        KERNEL if pid == -1 => kernel_build_id(host),
        _ if pid == -1 => module_build_id(host, path),
        VDSO => vdso_build_id(),
        _ => mapped_build_id(host, pid, path, identity),
    }
}

/// Returns the build id of a file, here or as its process sees it, if it is still the mapped one.
fn mapped_build_id(
    host: &Host,
    pid: i32,
    path: &str,
    identity: Option<FileIdentity>,
) -> Option<Vec<u8>> {
    let is_it = |file: &File| identity.is_none_or(|identity| identity.is_of(file));
    let here = open_regular(&host.path(path)).ok().filter(is_it);
    let in_root = || {
        let root = host.path(&format!("/proc/{pid}/root"));
        open_in_root(&root, Path::new(path)).ok().filter(is_it)
    };
    elf_build_id(&ReadCache::new(here.or_else(in_root)?))
}

fn vdso_build_id() -> Option<Vec<u8>> {
    elf_build_id(&vdso_image()?[..])
}

/// Returns the vdso of this process.
pub(crate) fn vdso_image() -> Option<Vec<u8>> {
    let maps = pseudo_file::read(Path::new("/proc/self/maps")).ok()?;
    let mapping = procfs::mappings(&maps).find(|mapping| *mapping.path == *VDSO)?;
    let mut image = vec![0; usize::try_from((mapping.end - mapping.start).min(NOTES_BYTES)).ok()?];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut image, mapping.start).ok()?;
    Some(image)
}

/// Returns the build id of an ELF file, found through its segments.
pub(crate) fn elf_build_id<'data>(data: impl ReadRef<'data>) -> Option<Vec<u8>> {
    match FileKind::parse(data).ok()? {
        FileKind::Elf32 => in_segments::<FileHeader32<Endianness>>(data),
        FileKind::Elf64 => in_segments::<FileHeader64<Endianness>>(data),
        _ => None,
    }
}

fn in_segments<'data, H: FileHeader<Endian = Endianness>>(
    data: impl ReadRef<'data>,
) -> Option<Vec<u8>> {
    let header = H::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let small = segments.iter().filter(|segment| segment.p_filesz(endian).into() <= NOTES_BYTES);
    small
        .filter_map(|segment| segment.notes(endian, data).ok()?)
        .find_map(|notes| find(endian, notes))
}

fn find<H: FileHeader<Endian = Endianness>>(
    endian: Endianness,
    mut notes: NoteIterator<'_, H>,
) -> Option<Vec<u8>> {
    while let Ok(Some(note)) = notes.next() {
        if note.name() == ELF_NOTE_GNU && note.n_type(endian) == NT_GNU_BUILD_ID {
            return Some(note.desc().to_vec());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    /// A process can map a file, and put a FIFO in its place.
    #[test]
    fn a_fifo_at_a_mapped_path_ends_no_recording_late() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
        let (done, read) = channel();
        std::thread::spawn(move || {
            let pid = i32::try_from(std::process::id()).unwrap();
            done.send(mapped_build_id(&Host::default(), pid, path.to_str().unwrap(), None))
        });
        assert_eq!(read.recv_timeout(Duration::from_secs(30)), Ok(None));
    }
}
