//! Dynamic shared objects (DSOs): the files and other places of code, each with a number.

use std::collections::HashMap;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use tare_kernel::file_identity::FileIdentity;

use crate::limits;

/// Number of a DSO in a [`DsoTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DsoId(u32);

impl DsoId {
    pub(crate) const fn from_index(index: u32) -> Self {
        Self(index)
    }

    /// The number, counted from 0 in the order in which the table got its DSOs.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) const fn number(self) -> u32 {
        self.0
    }
}

/// An address in a DSO ([`crate::Mapping::to_dso`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DsoAddress {
    /// DSO of the address.
    pub dso: DsoId,
    /// Address in the DSO. In an ELF file and in the vDSO it is the offset of the byte; in the
    /// kernel, its modules and perf maps the address in memory; in other kernel code the offset
    /// from the start; in a jitdump see [`crate::JitChange::code`].
    pub address: u64,
}

/// Identifies a build of a file (ELF note `NT_GNU_BUILD_ID`), in at most 20 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BuildId {
    bytes: [u8; 20],
    len: u8,
}

impl BuildId {
    /// Drops bytes after the 20th. `None` if the rest is empty, or only zeros.
    #[must_use]
    pub fn new(id: &[u8]) -> Option<Self> {
        let id = &id[..id.len().min(20)];
        let mut bytes = [0; 20];
        bytes[..id.len()].copy_from_slice(id);
        let len = u8::try_from(id.len()).ok()?;
        (bytes != [0; 20]).then_some(Self { bytes, len })
    }

    /// Bytes of the id.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }
}

/// In hexadecimal digits.
impl std::fmt::Display for BuildId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for BuildId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// Kind of a DSO, which determines where its symbols come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DsoKind {
    /// An ELF file on a disk, by its path.
    Elf,
    /// The kernel's text. Its symbols come from kallsyms or from the kernel's ELF file.
    Kernel,
    /// A module of the kernel. Its symbols come from kallsyms or from the module's ELF file.
    Module,
    /// Kernel code added at run time, such as a BPF program. It is a single symbol.
    Ksymbol {
        /// Size of the symbol in bytes.
        bytes: u64,
    },
    /// The ELF image that the kernel maps into each process.
    Vdso,
    /// Code compiled at run time, described by `/tmp/perf-PID.map`.
    PerfMap {
        /// The process.
        pid: i32,
    },
    /// Code compiled at run time, described by a jitdump.
    JitDump {
        /// The process.
        pid: i32,
    },
    /// Memory without a file and without symbols.
    Anonymous,
}

impl DsoKind {
    /// Whether it is kernel code with an ELF file: the image or a module.
    #[must_use]
    pub const fn has_kernel_file(self) -> bool {
        matches!(self, Self::Kernel | Self::Module)
    }

    /// Whether it is kernel code.
    #[must_use]
    pub const fn is_kernel(self) -> bool {
        matches!(self, Self::Kernel | Self::Module | Self::Ksymbol { .. })
    }
}

/// A place of code as the recording describes it: a file, the kernel, or memory (`struct dso` of
/// perf).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dso {
    /// Kind of the DSO.
    pub kind: DsoKind,
    /// Path, or a name such as `[kernel.kallsyms]`. Untrusted.
    pub name: Vec<u8>,
    /// Build id of the recorded file, if known.
    pub build_id: Option<BuildId>,
}

/// A recorded mapping of a DSO. While the process runs, its mapping gives access to the file, even
/// if the path changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DsoMapping {
    /// Process with the mapping.
    pub pid: i32,
    /// First address of the mapping.
    pub start: u64,
    /// Address after the last byte.
    pub end: u64,
    /// When the recorder learned of it, in nanoseconds since 1970, if known.
    pub mapped_ns: Option<u64>,
}

/// Everything that a recording says about a DSO.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedDso<'a> {
    pub(crate) dso: &'a Dso,
    /// Identity of the file, if there is no build id.
    pub(crate) identity: Option<FileIdentity>,
    /// Its first mappings, one per process.
    pub(crate) mapped: &'a [DsoMapping],
    /// Path of the file if the name isn't a path: of a kernel module.
    pub(crate) path: Option<&'a [u8]>,
}

/// New numbers of the DSOs that [`DsoTable::retain`] kept.
#[derive(Clone, Debug, Default)]
pub struct DsoRenumbering(HashMap<DsoId, DsoId>);

impl DsoRenumbering {
    /// Returns the new number; `None` for a removed DSO.
    #[must_use]
    pub fn get(&self, before: DsoId) -> Option<DsoId> {
        self.0.get(&before).copied()
    }

    pub(crate) fn number(&self, before: u32) -> Option<u32> {
        self.get(DsoId(before)).map(|after| after.0)
    }
}

/// The DSOs of a recording, each once.
#[derive(Clone, Debug, Default)]
pub struct DsoTable {
    records: Vec<DsoRecord>,
    /// Numbers by DSO and inode.
    by_dso: HashTable<DsoId>,
    hasher: RandomState,
}

/// A DSO of a [`DsoTable`]. A recording may have a hundred thousand, so empty fields take little.
#[derive(Clone, Debug)]
struct DsoRecord {
    dso: Dso,
    identity: Option<FileIdentity>,
    mapped: Box<[DsoMapping]>,
    path: Option<Box<[u8]>>,
}

impl DsoRecord {
    fn new(dso: Dso, identity: Option<FileIdentity>) -> Self {
        Self { dso, identity, mapped: Box::default(), path: None }
    }

    fn hash(&self, hasher: &RandomState) -> u64 {
        hasher.hash_one((&self.dso, self.inode()))
    }

    /// The inode; 0 for a DSO without one.
    fn inode(&self) -> u64 {
        self.identity.map_or(0, |file| file.inode)
    }

    /// Whether both can describe one file: unknown parts of the identity match any value.
    fn matches(&self, other: &Self) -> bool {
        self.inode() == other.inode()
            && self.dso == other.dso
            && match (&self.identity, &other.identity) {
                (Some(known), Some(identity)) => known.matches(identity),
                _ => true,
            }
    }
}

impl DsoTable {
    /// Returns the number of a DSO, and adds it if it is new. `None` if there are too many.
    pub fn intern(&mut self, dso: Dso) -> Option<DsoId> {
        self.intern_file(dso, None)
    }

    /// Returns the number of a file, and adds it if it is new. Without a build id the identity
    /// distinguishes files at the same path: in containers, and of rebuilt programs.
    pub fn intern_file(&mut self, dso: Dso, identity: Option<FileIdentity>) -> Option<DsoId> {
        let Self { records, by_dso, hasher } = self;
        let identity = identity.filter(|file| file.inode != 0 && dso.build_id.is_none());
        let record = DsoRecord::new(dso, identity);
        let hash = record.hash(hasher);
        let is_it = |id: &&DsoId| records.get(id.index()).is_some_and(|it| it.matches(&record));
        if let Some(id) = by_dso.iter_hash(hash).filter(is_it).min().copied() {
            // A recorder that lists mappings of running processes doesn't know generations.
            if let Some(identity) = identity.filter(|file| file.generation != 0)
                && let Some(known) = records.get_mut(id.index())
            {
                known.identity = Some(identity);
            }
            return Some(id);
        }
        let id = u32::try_from(records.len())
            .ok()
            .filter(|index| (*index as usize) < limits::DSOS)
            .map(DsoId)?;
        records.push(record);
        by_dso.insert_unique(hash, id, |id| {
            records.get(id.index()).map_or(0, |record| record.hash(hasher))
        });
        Some(id)
    }

    /// Notes a mapping of a DSO. The table keeps the first one of each of the first four processes.
    pub fn note_mapping(&mut self, id: DsoId, mapped: DsoMapping) {
        const MAX_MAPPINGS: usize = 4;
        let Some(record) = self.records.get_mut(id.index()) else { return };
        let known = &mut record.mapped;
        if known.len() < MAX_MAPPINGS && !known.iter().any(|known| known.pid == mapped.pid) {
            *known = known.iter().copied().chain([mapped]).collect();
        }
    }

    /// Returns the first mapping of a DSO.
    #[must_use]
    pub fn first_mapped(&self, id: DsoId) -> Option<DsoMapping> {
        self.records.get(id.index())?.mapped.first().copied()
    }

    /// Notes the path of a DSO's file, for a DSO whose name isn't a path. The first one stays.
    pub fn note_path(&mut self, id: DsoId, path: &[u8]) {
        if let Some(record) = self.records.get_mut(id.index()) {
            record.path.get_or_insert_with(|| path.into());
        }
    }

    /// Returns everything about a DSO; `None` for a number that this table doesn't have.
    pub(crate) fn recorded(&self, id: DsoId) -> Option<RecordedDso<'_>> {
        let DsoRecord { dso, identity, mapped, path } = self.records.get(id.index())?;
        Some(RecordedDso { dso, identity: *identity, mapped, path: path.as_deref() })
    }

    /// Returns a DSO by its number; `None` if this table doesn't have it.
    #[must_use]
    pub fn get(&self, id: DsoId) -> Option<&Dso> {
        Some(&self.records.get(id.index())?.dso)
    }

    /// Removes the DSOs that aren't used, and returns the new numbers of the rest.
    pub fn retain(&mut self, is_used: impl Fn(DsoId) -> bool) -> DsoRenumbering {
        let records = std::mem::take(self).records;
        let mut now = DsoRenumbering::default();
        for (before, record) in (0..).map(DsoId).zip(records).filter(|(id, _)| is_used(*id)) {
            let DsoRecord { dso, identity, mapped, path } = record;
            let Some(after) = self.intern_file(dso, identity) else { continue };
            now.0.insert(before, after);
            if let Some(record) = self.records.get_mut(after.index()) {
                (record.mapped, record.path) = (mapped, path);
            }
        }
        now
    }

    /// Iterates over all DSOs in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Dso> {
        self.records.iter().map(|record| &record.dso)
    }

    /// Number of DSOs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are no DSOs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retained_dsos_have_new_numbers() {
        let mut table = DsoTable::default();
        let file = |at: u8| Some(FileIdentity { device: (8, 1), inode: at.into(), generation: 0 });
        let dso = |at: u8| Dso { kind: DsoKind::Elf, name: vec![b'/', at], build_id: None };
        let ids: Vec<_> = (0..9).map(|at| table.intern_file(dso(at), file(at)).unwrap()).collect();
        let mapped = DsoMapping { pid: 7, start: 1, end: 2, mapped_ns: None };
        table.note_mapping(ids[8], mapped);
        table.note_path(ids[8], b"/x");
        let now = table.retain(|id| id.index() % 4 == 0);
        assert_eq!((table.len(), now.get(ids[1])), (3, None));
        let last = now.get(ids[8]).unwrap();
        assert_eq!((last.index(), table.get(last)), (2, Some(&dso(8))));
        let recorded = table.recorded(last).unwrap();
        assert_eq!(
            (recorded.identity, recorded.mapped, recorded.path),
            (file(8), &[mapped][..], Some(&b"/x"[..]))
        );
        assert_eq!(table.intern_file(dso(4), file(4)), now.get(ids[4]));
    }

    #[test]
    fn devices_and_generations_distinguish_files_with_one_inode() {
        let mut table = DsoTable::default();
        let mut intern = |minor, generation| {
            let dso = Dso { kind: DsoKind::Elf, name: b"/x".to_vec(), build_id: None };
            let identity = FileIdentity { device: (8, minor), inode: 77, generation };
            table.intern_file(dso, Some(identity)).unwrap().index()
        };
        assert_eq!([intern(1, 0), intern(2, 0)], [0, 1], "two devices");
        assert_eq!([intern(1, 5), intern(1, 0), intern(1, 5)], [0; 3], "no generation, or its own");
        assert_eq!([intern(1, 6), intern(2, 0)], [2, 1], "another generation");
    }
}
