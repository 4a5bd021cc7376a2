//! A file with debug info: its sections, mapped or decompressed.

use std::borrow::Cow;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use gimli::{Dwarf, DwarfPackage, EndianSlice, RunTimeEndian, SectionId};
use object::read::elf::FileHeader;
use object::{Endianness, FileKind, elf};
use tare_kernel::file_view::FileView;

use super::compressed::{decompress, most_bytes};
use super::relocations::Relocations;
use crate::dso::BuildId;
use crate::elf::{LoadedModule, Sections, SymbolFiles};
use crate::unresolved::Unresolved;

/// A section's bytes.
pub(super) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// Sections that lookups of functions and lines read.
const SECTIONS: [SectionId; 9] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// Further sections of a package: its indices, and sections that these refer to.
const PACKAGED: [&str; 7] = [
    ".debug_cu_index",
    ".debug_tu_index",
    ".debug_loc.dwo",
    ".debug_loclists.dwo",
    ".debug_macinfo.dwo",
    ".debug_macro.dwo",
    ".debug_types.dwo",
];

/// A mapped file with debug info, or with a symbol table that names source files. Pages are read
/// from the disk as needed.
#[derive(Debug)]
pub(super) struct DebugFile {
    view: FileView,
    pub(super) path: PathBuf,
    /// Path and build id of the file with shared debug info (`.gnu_debugaltlink`).
    pub(super) alternative: Option<(Vec<u8>, Option<BuildId>)>,
    endian: RunTimeEndian,
    sections: Vec<DebugSection>,
    /// Read at the first lookup of an address for which debug info has no source file.
    symbol_files: OnceLock<SymbolFiles>,
}

#[derive(Debug)]
struct DebugSection {
    name: &'static str,
    content: Content,
}

#[derive(Debug)]
enum Content {
    InFile(Range<usize>),
    Decompressed(Vec<u8>),
}

impl DebugFile {
    /// Maps a file and finds its sections.
    pub(super) fn open(file: &File, path: &Path) -> Result<Self, Unresolved> {
        Self::map(file, path, None)
    }

    /// Maps a module's file, finds its sections, and relocates them to the loaded addresses.
    pub(super) fn open_module(
        file: &File,
        path: &Path,
        loaded: &LoadedModule,
    ) -> Result<Self, Unresolved> {
        Self::map(file, path, Some(loaded))
    }

    fn map(file: &File, path: &Path, loaded: Option<&LoadedModule>) -> Result<Self, Unresolved> {
        let view = FileView::open(file).map_err(|_| Unresolved::NotReadable)?;
        let kind = FileKind::parse(view.bytes()).map_err(|_| Unresolved::Malformed)?;
        let mut file = Self {
            view,
            path: path.to_owned(),
            alternative: None,
            endian: RunTimeEndian::Little,
            sections: Vec::new(),
            symbol_files: OnceLock::new(),
        };
        let read = match kind {
            FileKind::Elf32 => file.read::<elf::FileHeader32<Endianness>>(loaded),
            FileKind::Elf64 => file.read::<elf::FileHeader64<Endianness>>(loaded),
            _ => return Err(Unresolved::Malformed),
        };
        (file.alternative, file.endian, file.sections) = read.map_err(|_| Unresolved::Malformed)?;
        Ok(file)
    }

    #[allow(clippy::type_complexity, reason = "the fields, once")]
    fn read<H: FileHeader<Endian = Endianness>>(
        &self,
        loaded: Option<&LoadedModule>,
    ) -> object::Result<(Option<(Vec<u8>, Option<BuildId>)>, RunTimeEndian, Vec<DebugSection>)>
    {
        let bytes = self.view.bytes();
        let reader = Sections::<H, &[u8]>::read(H::parse(bytes)?, bytes)?;
        let relocations = match loaded {
            Some(loaded) => Some(Relocations::read(&reader, loaded)?),
            None => None,
        };
        let relocations = relocations.as_ref();
        let mut left = most_bytes(bytes.len());
        let mut sections = Vec::new();
        for id in SECTIONS {
            for name in [Some(id.name()), id.dwo_name()].into_iter().flatten() {
                if let Some(section) = section(&reader, bytes, name, relocations, &mut left) {
                    sections.push(section);
                }
            }
        }
        for name in PACKAGED {
            sections.extend(section(&reader, bytes, name, relocations, &mut left));
        }
        let endian = match reader.endian {
            Endianness::Little => RunTimeEndian::Little,
            Endianness::Big => RunTimeEndian::Big,
        };
        Ok((reader.debug_alternative(), endian, sections))
    }

    fn named(&self, name: &str) -> &[u8] {
        let section = self.sections.iter().find(|section| section.name == name);
        match section.map(|section| &section.content) {
            Some(Content::InFile(range)) => {
                self.view.bytes().get(range.clone()).unwrap_or_default()
            }
            Some(Content::Decompressed(bytes)) => bytes,
            None => &[],
        }
    }

    pub(super) fn has_debug_info(&self) -> bool {
        !self.named(".debug_info").is_empty()
    }

    /// Whether it is a package of split debug info (`.dwp`).
    pub(super) fn is_package(&self) -> bool {
        !self.named(".debug_cu_index").is_empty()
    }

    /// Total size in bytes of the sections that contain names of functions and files.
    pub(super) fn name_bytes(&self) -> usize {
        [".debug_str", ".debug_line_str", ".debug_info"]
            .iter()
            .map(|name| self.named(name).len())
            .sum()
    }

    /// Bytes of line number programs.
    pub(super) fn line_bytes(&self) -> usize {
        self.named(".debug_line").len()
    }

    /// Bytes of memory of decompressed sections.
    pub(super) fn decompressed_bytes(&self) -> usize {
        let bytes = self.sections.iter().map(|section| match &section.content {
            Content::InFile(_) => 0,
            Content::Decompressed(bytes) => bytes.len(),
        });
        bytes.sum()
    }

    pub(super) fn dwarf(&self) -> Dwarf<Slice<'_>> {
        let section = |id: SectionId| Ok(EndianSlice::new(self.named(id.name()), self.endian));
        Dwarf::load(section).unwrap_or_else(|never: std::convert::Infallible| match never {})
    }

    /// Returns the split debug info of this file (`.dwo`).
    pub(super) fn split(&self) -> Dwarf<Slice<'_>> {
        let section = |id: SectionId| {
            let bytes = id.dwo_name().map_or(&[][..], |name| self.named(name));
            Ok(EndianSlice::new(bytes, self.endian))
        };
        Dwarf::load(section).unwrap_or_else(|never: std::convert::Infallible| match never {})
    }

    /// Returns the package of split debug info.
    pub(super) fn package(&self) -> gimli::Result<DwarfPackage<Slice<'_>>> {
        let section = |id: SectionId| {
            let name = match id {
                SectionId::DebugCuIndex | SectionId::DebugTuIndex => Some(id.name()),
                id => id.dwo_name(),
            };
            let bytes = name.map_or(&[][..], |name| self.named(name));
            Ok::<_, gimli::Error>(EndianSlice::new(bytes, self.endian))
        };
        DwarfPackage::load(section, EndianSlice::new(&[], self.endian))
    }

    /// Returns the source file that the symbol table names for an address.
    pub(super) fn symbol_file(&self, address: u64) -> Option<&[u8]> {
        let bytes = self.view.bytes();
        self.symbol_files.get_or_init(|| SymbolFiles::read(bytes)).file(bytes, address)
    }

    /// Removes the pages read so far from this process's memory.
    pub(super) fn release_pages(&self) {
        self.view.release_pages();
    }

    /// Whether bytes were read as zeros because the file was truncated ([`FileView::is_torn`]).
    pub(super) fn is_torn(&self) -> bool {
        self.view.is_torn()
    }
}

/// Reads a section by its name, or by the name of GNU's older compression, such as `.zdebug_info`.
fn section<'d, H: FileHeader<Endian = Endianness>>(
    reader: &Sections<'d, H, &'d [u8]>,
    file: &'d [u8],
    name: &'static str,
    relocations: Option<&Relocations<'d, H>>,
    left: &mut u64,
) -> Option<DebugSection> {
    let old = name.replacen(".debug", ".zdebug", 1);
    let (header, is_old) = match reader.named(name.as_bytes()) {
        Some(header) => (header, false),
        None => (reader.named(old.as_bytes())?, true),
    };
    let mut bytes = decompress(reader, header, is_old, left)?;
    if let Some(relocations) = relocations {
        relocations.apply(header, &mut bytes);
    }
    let content = match bytes {
        Cow::Owned(bytes) => Content::Decompressed(bytes),
        Cow::Borrowed(bytes) => {
            let start = bytes.as_ptr().addr().checked_sub(file.as_ptr().addr())?;
            Content::InFile(start..start + bytes.len())
        }
    };
    Some(DebugSection { name, content })
}
