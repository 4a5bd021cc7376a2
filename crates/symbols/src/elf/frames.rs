//! What an ELF file says about who called its functions: tables of call frames.

use std::ops::Range;

use framehop::ExplicitModuleSectionInfo;
use object::read::ReadRef;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, elf};

use super::Sections;
use crate::files::BuildId;

/// Tables of call frames.
#[derive(Debug)]
pub(crate) struct Frames {
    pub(crate) build_id: Option<BuildId>,
    pub(crate) machine: elf::Machine,
    pub(crate) places: Places,
    pub(crate) sections: ExplicitModuleSectionInfo<Vec<u8>>,
    /// Bytes of the tables.
    pub(crate) bytes: u64,
}

/// Where what lies in the file has its addresses: place in the file, size there, first address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(Vec<(u64, u64, u64)>);

impl Places {
    /// The file's own address of what lies at a place in it.
    pub(crate) fn to_address(&self, place: u64) -> Option<u64> {
        let segment = self.0.iter().find(|(offset, size, _)| place.wrapping_sub(*offset) < *size);
        segment.map(|(offset, _, address)| place.wrapping_sub(*offset).wrapping_add(*address))
    }
}

impl Frames {
    /// Reads the tables of a file for 64-bit machines, at most `most` bytes of them.
    pub(crate) fn read<'d, R: ReadRef<'d>>(data: R, most: u64) -> object::Result<Self> {
        let header = elf::FileHeader64::<Endianness>::parse(data)?;
        let endian = header.endian()?;
        let segments = header
            .program_headers(endian, data)?
            .iter()
            .filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
        let places = Places(
            segments
                .map(|segment| {
                    (segment.p_offset(endian), segment.p_filesz(endian), segment.p_vaddr(endian))
                })
                .collect(),
        );
        let reader = Sections {
            endian,
            data,
            sections: header.sections(endian, data)?,
            machine: header.e_machine(endian),
        };
        let mut left = most;
        let mut bytes = |name: &[u8]| {
            let section = reader.named(name).filter(|section| section.sh_size(endian) <= left)?;
            let bytes = reader.bytes(section).ok().filter(|bytes| !bytes.is_empty())?;
            left -= bytes.len() as u64;
            Some(bytes.to_vec())
        };
        let range = |name: &[u8]| {
            let section = reader.named(name)?;
            let start = section.sh_addr(endian);
            Some(Range { start, end: start.saturating_add(section.sh_size(endian)) })
        };
        let eh_frame = bytes(b".eh_frame");
        let debug_frame = if eh_frame.is_none() { bytes(b".debug_frame") } else { None };
        let sections = ExplicitModuleSectionInfo {
            text_svma: range(b".text"),
            got_svma: range(b".got"),
            eh_frame_svma: range(b".eh_frame"),
            eh_frame_hdr_svma: range(b".eh_frame_hdr"),
            eh_frame_hdr: bytes(b".eh_frame_hdr"),
            eh_frame,
            debug_frame,
            ..ExplicitModuleSectionInfo::default()
        };
        Ok(Self {
            build_id: reader.build_id(),
            machine: reader.machine,
            places,
            sections,
            bytes: most - left,
        })
    }
}
