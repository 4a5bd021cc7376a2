//! The unwind tables of an ELF file.

use std::ops::Range;

use object::read::ReadRef;
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, FileKind, elf};

use super::sections::{Sections, Segments};
use crate::dso::BuildId;

/// Unwind tables of a file, with its architecture, segments, entry point and stubs.
#[derive(Debug)]
pub(crate) struct FrameTables {
    pub(crate) build_id: Option<BuildId>,
    pub(crate) machine: elf::Machine,
    /// Bytes of an address: 4 or 8.
    pub(crate) address_bytes: u8,
    pub(crate) segments: Segments,
    /// Entry point of a program or of the dynamic linker; 0 if the file has none.
    pub(crate) entry: u64,
    pub(crate) sections: FrameSections,
    pub(crate) stubs: CallStubs,
}

/// The sections with unwind tables.
///
/// Invariant: together they have at most the bytes that the reader allowed.
#[derive(Debug, Default)]
pub(crate) struct FrameSections {
    pub(crate) eh_frame: FrameSection,
    /// Sorted index of `eh_frame`.
    pub(crate) eh_frame_hdr: FrameSection,
    /// Written by compilers for debuggers only. Go writes nothing else.
    pub(crate) debug_frame: FrameSection,
    /// Addresses of `.text` and `.got`: pointers in the tables may be relative to them.
    pub(crate) text: u64,
    pub(crate) got: u64,
}

/// Addresses of the stubs that call functions of other files. Not every linker describes them in
/// the unwind tables.
#[derive(Debug, Default)]
pub(crate) struct CallStubs {
    /// `.plt`: its first entry calls the dynamic linker.
    pub(crate) plt: Range<u64>,
    /// Sections of stubs without such an entry.
    pub(crate) plain: Vec<Range<u64>>,
}

/// Bytes of a section, and its address. Empty if the section is missing, too large or damaged.
#[derive(Debug, Default)]
pub(crate) struct FrameSection {
    pub(crate) address: u64,
    pub(crate) bytes: Vec<u8>,
}

impl FrameTables {
    /// Reads the tables of a file, at most `max_bytes` of them.
    pub(crate) fn read<'d, R: ReadRef<'d>>(data: R, max_bytes: u64) -> object::Result<Self> {
        match FileKind::parse(data)? {
            FileKind::Elf32 => {
                Self::of_class::<elf::FileHeader32<Endianness>, R>(data, max_bytes, 4)
            }
            _ => Self::of_class::<elf::FileHeader64<Endianness>, R>(data, max_bytes, 8),
        }
    }

    fn of_class<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
        data: R,
        max_bytes: u64,
        address_bytes: u8,
    ) -> object::Result<Self> {
        let header = H::parse(data)?;
        let reader = Sections::<H, R>::read(header, data)?;
        let endian = reader.endian;
        let mut left = max_bytes;
        let mut section = |name: &[u8]| {
            let section = reader.named(name)?;
            let bytes = reader.unpacked(section, left).filter(|bytes| !bytes.is_empty())?;
            left -= bytes.len() as u64;
            Some(FrameSection { address: section.sh_addr(endian).into(), bytes })
        };
        let range = |name: &[u8]| {
            let section = reader.named(name)?;
            let start: u64 = section.sh_addr(endian).into();
            Some(Range { start, end: start.saturating_add(section.sh_size(endian).into()) })
        };
        let start = |name: &[u8]| range(name).map_or(0, |range| range.start);
        let eh_frame = section(b".eh_frame").unwrap_or_default();
        let eh_frame_hdr = section(b".eh_frame_hdr").unwrap_or_default();
        let debug_frame = section(b".debug_frame").unwrap_or_default();
        Ok(Self {
            build_id: reader.build_id(),
            machine: reader.machine,
            segments: Segments::read(header, data)?,
            address_bytes,
            entry: header.e_entry(endian).into(),
            sections: FrameSections {
                eh_frame,
                eh_frame_hdr,
                debug_frame,
                text: start(b".text"),
                got: start(b".got"),
            },
            stubs: CallStubs {
                plt: range(b".plt").unwrap_or_default(),
                plain: [&b".plt.sec"[..], b".plt.got", b".iplt"]
                    .into_iter()
                    .filter_map(range)
                    .collect(),
            },
        })
    }

    /// Bytes of the tables.
    pub(crate) fn bytes(&self) -> u64 {
        let FrameSections { eh_frame, eh_frame_hdr, debug_frame, .. } = &self.sections;
        [eh_frame, eh_frame_hdr, debug_frame].iter().map(|section| section.bytes.len() as u64).sum()
    }
}
