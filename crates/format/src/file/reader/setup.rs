//! Reads the sections around a file's data: events and features.

use std::io::{self, Read, Seek, SeekFrom};

use crate::abi::Attr;
use crate::bytes::{Cursor, Endian, Words};
use crate::file::description::Description;
use crate::file::header::{FileHeader, Section};
use crate::file::loss::{LossReason, Losses};
use crate::limits;

/// Reads the attribute section and the feature sections. Without the size of the data, the feature
/// table can't be found, and only the attribute section is read.
///
/// # Errors
/// Fails if the source can't be read.
pub(super) fn read<R: Read + Seek>(
    source: &mut R,
    header: FileHeader,
    endian: Endian,
    file_size: u64,
) -> io::Result<(Description, Losses)> {
    let mut setup = Setup {
        source,
        header,
        endian,
        file_size,
        losses: Losses::default(),
        description: Description::new(endian),
        id_bytes: file_size.min(limits::IDS as u64 * 8),
    };
    setup.read_attrs()?;
    if header.data.size == 0 {
        setup.losses.unfinished = true;
    } else {
        setup.read_features()?;
    }
    Ok((setup.description, setup.losses))
}

/// The state of [`read`]: the source, and the description and losses so far.
struct Setup<'a, R> {
    source: &'a mut R,
    header: FileHeader,
    endian: Endian,
    file_size: u64,
    losses: Losses,
    description: Description,
    /// Bytes of ids that may still be read. Sections may overlap, and claim more bytes together
    /// than the file has.
    id_bytes: u64,
}

impl<R: Read + Seek> Setup<'_, R> {
    /// Reads a section as far as the file has it, at most `cap` bytes.
    fn read_section(&mut self, section: Section, cap: u64) -> io::Result<Vec<u8>> {
        let size = section.size.min(cap).min(self.file_size.saturating_sub(section.offset));
        if size == 0 {
            return Ok(Vec::new());
        }
        self.source.seek(SeekFrom::Start(section.offset))?;
        // The file has that many bytes, so a damaged size can't allocate more.
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        self.source.by_ref().take(size).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_attrs(&mut self) -> io::Result<()> {
        let FileHeader { attr_size, attrs, .. } = self.header;
        if !(80..=limits::ATTR_ENTRY).contains(&attr_size) {
            self.losses.add(attrs.offset, attrs.size, LossReason::BadAttr);
            return Ok(());
        }
        let bytes = self.read_section(attrs, attr_size * limits::EVENTS as u64)?;
        self.losses.add(
            attrs.offset.saturating_add(bytes.len() as u64),
            attrs.size - bytes.len() as u64,
            LossReason::CutData,
        );
        let entry_size = usize::try_from(attr_size).unwrap_or(usize::MAX);
        for (entry, place) in bytes.chunks(entry_size).zip(0_u64..) {
            let offset = attrs.offset + place * attr_size;
            if let Some(why) = self.read_attr(entry, entry_size)? {
                self.losses.add(offset, entry.len() as u64, why);
            }
        }
        Ok(())
    }

    /// Reads one entry: a `perf_event_attr` and the range of the event's ids. Returns the reason if
    /// it can't be read completely.
    fn read_attr(&mut self, entry: &[u8], entry_size: usize) -> io::Result<Option<LossReason>> {
        let Some((attr, section)) = entry.split_at_checked(entry_size - 16) else {
            return Ok(Some(LossReason::BadAttr));
        };
        let attr = Attr::from_bytes_in(attr, self.endian).ok();
        let section = Section::decode(&mut Cursor::new(section, self.endian));
        let Some((attr, section)) = attr.zip(section) else {
            return Ok(Some(LossReason::BadAttr));
        };
        let bytes = self.read_section(section, self.id_bytes)?;
        self.id_bytes -= bytes.len() as u64;
        let is_cut = (bytes.len() as u64) < section.size;
        let ids = Words::new(&bytes, self.endian).iter().collect();
        drop(bytes);
        let fits = self.description.add_event(attr, ids) && !(is_cut && self.id_bytes == 0);
        Ok(if !fits { Some(LossReason::OverLimit) } else { is_cut.then_some(LossReason::CutData) })
    }

    /// Reads the table after the data, which has one entry per bit set in the header, and the
    /// sections to which it points.
    fn read_features(&mut self) -> io::Result<()> {
        let bits: Vec<_> = self.header.feature_bits().collect();
        let wanted = Section {
            offset: self.header.data.end().unwrap_or(u64::MAX),
            size: bits.len() as u64 * 16,
        };
        let table = self.read_section(wanted, wanted.size)?;
        self.losses.add(
            wanted.offset.saturating_add(table.len() as u64),
            wanted.size - table.len() as u64,
            LossReason::CutFeature,
        );
        let mut fields = Cursor::new(&table, self.endian);
        for bit in bits {
            let Some(section) = Section::decode(&mut fields) else { break };
            // HEADER_RESERVED: the entry is the header of a record. See the writer.
            if bit == 0 {
                continue;
            }
            let room = self.description.features().room();
            let data = self.read_section(section, room)?;
            let missing = section.size - data.len() as u64;
            self.losses.add(
                section.offset,
                missing,
                if section.size > room { LossReason::OverLimit } else { LossReason::CutFeature },
            );
            self.description.add_feature(bit, data);
        }
        Ok(())
    }
}
