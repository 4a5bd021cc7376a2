//! Dynamic shared objects: what code lies in, each known by a number.

use std::collections::HashMap;

use crate::limits;

/// A DSO's number in a [`DsoTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DsoId(u32);

impl DsoId {
    pub(crate) const fn from_index(index: u32) -> Self {
        Self(index)
    }

    /// Counted from 0, in the order in which they were met.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) const fn number(self) -> u32 {
        self.0
    }
}

/// An address as the DSO that it lies in has it ([`crate::Mapping::to_dso`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DsoAddress {
    /// The DSO.
    pub dso: DsoId,
    /// What the DSO calls the address: in an ELF file, the offset of its bytes.
    pub address: u64,
}

/// What tells one version of a file from another (ELF note `NT_GNU_BUILD_ID`), at most 20 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BuildId {
    bytes: [u8; 20],
    len: u8,
}

impl BuildId {
    /// `None` where there are no bytes, or none but zeros. More than 20 are cut.
    #[must_use]
    pub fn new(id: &[u8]) -> Option<Self> {
        let id = &id[..id.len().min(20)];
        let mut bytes = [0; 20];
        bytes[..id.len()].copy_from_slice(id);
        let len = u8::try_from(id.len()).ok()?;
        (bytes != [0; 20]).then_some(Self { bytes, len })
    }

    /// The id.
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

/// What a DSO is, and so where its symbols come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DsoKind {
    /// An ELF file on a disk, by its path.
    Elf,
    /// The kernel's text: kallsyms.
    Kernel,
    /// A module of the kernel: kallsyms.
    Module,
    /// Kernel code that came at run time, such as a BPF program: a symbol of its own.
    Ksymbol {
        /// The symbol's size.
        bytes: u64,
    },
    /// What the kernel maps into each process: an ELF image in memory.
    Vdso,
    /// Code without a file, by what its process wrote to `/tmp/perf-PID.map`.
    PerfMap {
        /// The process.
        pid: i32,
    },
    /// Code without a file, by the jitdump that its process wrote.
    JitDump {
        /// The process.
        pid: i32,
    },
    /// No code.
    Anonymous,
}

impl DsoKind {
    /// Whether it is code of the kernel that a file may have: its image or a module.
    #[must_use]
    pub const fn has_kernel_file(self) -> bool {
        matches!(self, Self::Kernel | Self::Module)
    }

    /// Whether it is code of the kernel.
    #[must_use]
    pub const fn is_kernel(self) -> bool {
        matches!(self, Self::Kernel | Self::Module | Self::Ksymbol { .. })
    }
}

/// A file with code, or what takes the place of one, as the recording knows it (`struct dso` of
/// perf).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dso {
    /// Where symbols come from.
    pub kind: DsoKind,
    /// Its path, or a name in square brackets. Untrusted.
    pub name: Vec<u8>,
    /// Which version of it was recorded, where that is known.
    pub build_id: Option<BuildId>,
}

/// A mapping of a file as it was recorded: a process that still runs has the file, whatever became
/// of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The process.
    pub pid: i32,
    /// The first address of the mapping.
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
}

/// What a recording says of a DSO.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedDso<'a> {
    pub(crate) dso: &'a Dso,
    /// The number of its inode, where no build id tells it from others.
    pub(crate) inode: Option<u64>,
    /// Some of its mappings, the first ones.
    pub(crate) mapped: &'a [Mapped],
    /// The path of its file, where its name isn't that: of a module of the kernel.
    pub(crate) path: Option<&'a [u8]>,
}

/// Which number each DSO has that [`DsoTable::retain`] kept.
#[derive(Clone, Debug, Default)]
pub struct RenumberedDsos(HashMap<DsoId, DsoId>);

impl RenumberedDsos {
    /// The number by now; `None` of a DSO that was forgotten.
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
    dsos: Vec<Dso>,
    by_dso: HashMap<(Dso, Option<u64>), DsoId>,
    inodes: HashMap<DsoId, u64>,
    mapped: HashMap<DsoId, Vec<Mapped>>,
    paths: HashMap<DsoId, Vec<u8>>,
}

impl DsoTable {
    /// The number of a DSO, a new one where it was not yet met; `None` where there are too many.
    pub fn intern(&mut self, dso: Dso) -> Option<DsoId> {
        self.intern_file(dso, None)
    }

    /// The same of a file by its inode, which tells it from others at its path where there is no
    /// build id: in containers, and of programs that were built again.
    pub fn intern_file(&mut self, dso: Dso, inode: Option<u64>) -> Option<DsoId> {
        let inode = inode.filter(|inode| *inode != 0 && dso.build_id.is_none());
        let key = (dso, inode);
        if let Some(id) = self.by_dso.get(&key) {
            return Some(*id);
        }
        let id = u32::try_from(self.dsos.len())
            .ok()
            .filter(|index| (*index as usize) < limits::DSOS)
            .map(DsoId)?;
        self.dsos.push(key.0.clone());
        inode.into_iter().for_each(|inode| _ = self.inodes.insert(id, inode));
        self.by_dso.insert(key, id);
        Some(id)
    }

    /// Notes that a process has mapped a DSO. Of each DSO some of its mappings are kept.
    pub fn note_mapped(&mut self, id: DsoId, mapped: Mapped) {
        const MOST: usize = 4;
        let known = self.mapped.entry(id).or_default();
        if known.len() < MOST && !known.iter().any(|known| known.pid == mapped.pid) {
            known.push(mapped);
        }
    }

    /// Where a DSO was mapped first.
    #[must_use]
    pub fn first_mapped(&self, id: DsoId) -> Option<Mapped> {
        self.mapped.get(&id)?.first().copied()
    }

    /// Notes the path of a DSO's file, where its name isn't that.
    pub fn note_path(&mut self, id: DsoId, path: &[u8]) {
        self.paths.entry(id).or_insert_with(|| path.to_vec());
    }

    /// What is known of a DSO; `None` for one of another table.
    pub(crate) fn recorded(&self, id: DsoId) -> Option<RecordedDso<'_>> {
        let mapped = self.mapped.get(&id).map_or(&[][..], Vec::as_slice);
        let path = self.paths.get(&id).map(Vec::as_slice);
        Some(RecordedDso { dso: self.get(id)?, inode: self.inodes.get(&id).copied(), mapped, path })
    }

    /// The DSO with a number; `None` for one of another table.
    #[must_use]
    pub fn get(&self, id: DsoId) -> Option<&Dso> {
        self.dsos.get(id.index())
    }

    /// Forgets all but some. Says which number each of those has by now.
    pub fn retain(&mut self, is_used: impl Fn(DsoId) -> bool) -> RenumberedDsos {
        let Self { dsos, mut inodes, mut mapped, mut paths, .. } = std::mem::take(self);
        let mut now = RenumberedDsos::default();
        for (before, dso) in (0..).map(DsoId).zip(dsos).filter(|(id, _)| is_used(*id)) {
            let Some(after) = self.intern_file(dso, inodes.remove(&before)) else { continue };
            now.0.insert(before, after);
            mapped.remove(&before).into_iter().for_each(|of| _ = self.mapped.insert(after, of));
            paths.remove(&before).into_iter().for_each(|path| _ = self.paths.insert(after, path));
        }
        now
    }

    /// All of them, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Dso> {
        self.dsos.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.dsos.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dsos.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_known_by_its_new_number() {
        let mut table = DsoTable::default();
        let dso = |at: u8| Dso { kind: DsoKind::Elf, name: vec![b'/', at], build_id: None };
        let ids: Vec<_> =
            (0..9).map(|at| table.intern_file(dso(at), Some(at.into())).unwrap()).collect();
        let mapped = Mapped { pid: 7, start: 1, end: 2 };
        table.note_mapped(ids[8], mapped);
        table.note_path(ids[8], b"/x");
        let now = table.retain(|id| id.index() % 4 == 0);
        assert_eq!((table.len(), now.get(ids[1])), (3, None));
        let last = now.get(ids[8]).unwrap();
        assert_eq!((last.index(), table.get(last)), (2, Some(&dso(8))));
        let recorded = table.recorded(last).unwrap();
        assert_eq!(
            (recorded.inode, recorded.mapped, recorded.path),
            (Some(8), &[mapped][..], Some(&b"/x"[..]))
        );
        assert_eq!(table.intern_file(dso(4), Some(4)), now.get(ids[4]));
    }
}
