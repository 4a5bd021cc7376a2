//! What an ELF file says about who called its functions: tables of call frames.

use std::ops::Range;

use framehop::ExplicitModuleSectionInfo;
use object::read::ReadRef;
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, elf};

use super::sections::{Sections, Segments};
use crate::dso::BuildId;

/// Tables of call frames.
#[derive(Debug)]
pub(crate) struct Frames {
    pub(crate) build_id: Option<BuildId>,
    pub(crate) machine: elf::Machine,
    pub(crate) segments: Segments,
    pub(crate) sections: ExplicitModuleSectionInfo<Vec<u8>>,
    /// Bytes of the tables.
    pub(crate) bytes: u64,
}

impl Frames {
    /// Reads the tables of a file for 64-bit machines, at most `most` bytes of them.
    pub(crate) fn read<'d, R: ReadRef<'d>>(data: R, most: u64) -> object::Result<Self> {
        let header = elf::FileHeader64::<Endianness>::parse(data)?;
        let reader = Sections::read(header, data)?;
        let endian = reader.endian;
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
            segments: Segments::read(header, data)?,
            sections,
            bytes: most - left,
        })
    }
}
