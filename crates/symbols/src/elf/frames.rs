//! What an ELF file says about who called its functions: tables of call frames.

use std::ops::Range;

use object::read::ReadRef;
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, elf};

use super::sections::{Sections, Segments};
use crate::dso::BuildId;

/// Tables of call frames, and what else of a file tells who called its code.
#[derive(Debug)]
pub(crate) struct Frames {
    pub(crate) build_id: Option<BuildId>,
    pub(crate) machine: elf::Machine,
    pub(crate) segments: Segments,
    /// Where the program (or the dynamic linker) begins.
    pub(crate) entry: u64,
    pub(crate) eh_frame: Section,
    /// The sorted list of `eh_frame`'s entries.
    pub(crate) eh_frame_hdr: Section,
    pub(crate) debug_frame: Section,
    /// Addresses that pointers in the tables may be relative to.
    pub(crate) text: u64,
    pub(crate) got: u64,
    /// Stubs through which functions of other files are called: `.plt` with the dynamic linker's
    /// own entry before them, and the kinds without one.
    pub(crate) plt: Range<u64>,
    pub(crate) plain_stubs: Vec<Range<u64>>,
    /// Bytes of the tables.
    pub(crate) bytes: u64,
}

/// The bytes of a section, and where they lie in memory. Empty where there is none.
#[derive(Debug, Default)]
pub(crate) struct Section {
    pub(crate) address: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Frames {
    /// Reads the tables of a file for 64-bit machines, at most `most` bytes of them.
    pub(crate) fn read<'d, R: ReadRef<'d>>(data: R, most: u64) -> object::Result<Self> {
        let header = elf::FileHeader64::<Endianness>::parse(data)?;
        let reader = Sections::read(header, data)?;
        let endian = reader.endian;
        let mut left = most;
        let mut section = |name: &[u8]| {
            let section = reader.named(name)?;
            let bytes = reader.unpacked(section, left).filter(|bytes| !bytes.is_empty())?;
            left -= bytes.len() as u64;
            Some(Section { address: section.sh_addr(endian), bytes })
        };
        let range = |name: &[u8]| {
            let section = reader.named(name)?;
            let start = section.sh_addr(endian);
            Some(Range { start, end: start.saturating_add(section.sh_size(endian)) })
        };
        let start = |name: &[u8]| range(name).map_or(0, |range| range.start);
        let eh_frame = section(b".eh_frame").unwrap_or_default();
        let eh_frame_hdr = section(b".eh_frame_hdr").unwrap_or_default();
        // What compilers write for debuggers alone; Go writes nothing else.
        let debug_frame = section(b".debug_frame").unwrap_or_default();
        Ok(Self {
            build_id: reader.build_id(),
            machine: reader.machine,
            segments: Segments::read(header, data)?,
            entry: header.e_entry(endian),
            eh_frame,
            eh_frame_hdr,
            debug_frame,
            text: start(b".text"),
            got: start(b".got"),
            plt: range(b".plt").unwrap_or_default(),
            plain_stubs: [&b".plt.sec"[..], b".plt.got", b".iplt"]
                .into_iter()
                .filter_map(range)
                .collect(),
            bytes: most - left,
        })
    }
}
