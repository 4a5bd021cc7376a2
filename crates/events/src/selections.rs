//! Implementations that the dynamic linker selects for functions with several (`STT_GNU_IFUNC`), by
//! the CPU and by `GLIBC_TUNABLES`.
//!
//! A file doesn't tell which one is selected: code in it decides. The linker stores the selected
//! addresses in the memory of each process that loads the file.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use tare_kernel::host::Host;
use tare_kernel::procfs;
use tare_symbols::{FileFunctions, SelectionSlot};

use super::mapping_identity::MappingIdentity;

/// The variable that changes selections.
const TUNABLES: &[u8] = b"GLIBC_TUNABLES=";
/// `PROT_EXEC` of `mmap(2)`.
const PROT_EXEC: u32 = 4;

/// Why it isn't known which implementation is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoSelection {
    /// The file has no slot of the function, or no process with the file can be read.
    Unknown,
    /// The traced processes use several.
    Differs,
}

/// A file in the memory of a process that has loaded it.
#[derive(Debug)]
struct LoadedFile {
    start: u64,
    /// Addresses of the file's code, and their offsets in it.
    code: Vec<(Range<u64>, u64)>,
    memory: File,
}

impl LoadedFile {
    /// `None` if the process hasn't loaded the file, or this user may not read its memory.
    fn open(host: &Host, pid: i32, file: &MappingIdentity) -> Option<Self> {
        let mut text = Vec::new();
        procfs::read_mappings(host, pid, &mut text).ok()?;
        let mut start = None;
        let mut code = Vec::new();
        for mapping in procfs::mappings(&text).filter(|mapping| file.is_mapped_by(mapping)) {
            if mapping.offset == 0 {
                start = start.or(Some(mapping.start));
            }
            if mapping.prot & PROT_EXEC != 0 {
                code.push((mapping.start..mapping.end, mapping.offset));
            }
        }
        let memory = File::open(host.path(&format!("/proc/{pid}/mem"))).ok()?;
        Some(Self { start: start?, code, memory })
    }

    /// Returns the offset in the file of the implementation whose address a slot has; `None` if it
    /// is in another file.
    fn implementation(&self, slot: SelectionSlot) -> Option<u64> {
        let mut word = [0; 8];
        self.memory.read_exact_at(&mut word, self.start.checked_add(slot.slot)?).ok()?;
        let address = u64::from_ne_bytes(word);
        let (addresses, offset) = self.code.iter().find(|(code, _)| code.contains(&address))?;
        Some(address - addresses.start + offset)
    }
}

/// The selected implementations of a file's functions.
#[derive(Debug)]
pub(super) struct Selections<'a> {
    slots: &'a [SelectionSlot],
    /// The file in the traced processes, or else in one that selects alike.
    loaded: Vec<LoadedFile>,
}

impl<'a> Selections<'a> {
    /// Finds processes that have loaded the file: among the traced ones, or else among all that
    /// were started with the same `GLIBC_TUNABLES` as this one.
    pub(super) fn find(path: &Path, functions: &'a FileFunctions, traced: &[i32]) -> Self {
        let slots = functions.selection_slots.as_slice();
        let host = Host::default();
        let Some(file) = MappingIdentity::new(path).filter(|_| !slots.is_empty()) else {
            return Self { slots, loaded: Vec::new() };
        };
        let loaded = if traced.is_empty() {
            let own = i32::try_from(std::process::id()).ok();
            let all = own.into_iter().chain(procfs::processes(&host).unwrap_or_default());
            let mut alike = all.filter_map(|pid| {
                LoadedFile::open(&host, pid, &file).filter(|_| selects_alike(&host, pid))
            });
            alike.next().into_iter().collect()
        } else {
            let loaded = traced.iter().map(|pid| LoadedFile::open(&host, *pid, &file));
            loaded.collect::<Option<_>>().unwrap_or_default()
        };
        Self { slots, loaded }
    }

    /// Returns the offset in the file of the implementation that the function at another offset
    /// selects.
    pub(super) fn implementation(&self, selector: u64) -> Result<u64, NoSelection> {
        let slot = self.slots.iter().find(|slot| slot.selector == selector);
        let slot = *slot.ok_or(NoSelection::Unknown)?;
        let found = self.loaded.iter().map(|loaded| loaded.implementation(slot));
        let found: Vec<u64> = found.collect::<Option<_>>().ok_or(NoSelection::Unknown)?;
        let first = *found.first().ok_or(NoSelection::Unknown)?;
        if found.iter().all(|offset| *offset == first) {
            Ok(first)
        } else {
            Err(NoSelection::Differs)
        }
    }
}

/// Whether a process selects implementations like this one: both started with the same
/// `GLIBC_TUNABLES`.
fn selects_alike(host: &Host, pid: i32) -> bool {
    let tunables = |process: &str| {
        let environment = std::fs::read(host.path(&format!("/proc/{process}/environ"))).ok()?;
        let variable = environment.split(|byte| *byte == 0).find(|one| one.starts_with(TUNABLES));
        Some(variable.map(<[u8]>::to_vec))
    };
    let own = tunables("self");
    own.is_some() && own == tunables(&pid.to_string())
}
