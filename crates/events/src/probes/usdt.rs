//! Reads the static tracepoints (USDT) of a program from the notes that SystemTap's `sys/sdt.h`
//! writes (<https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation>).

use std::ffi::CString;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSegment};
use tare_kernel::functions::{ARGUMENTS, ProbeLocation};

use super::{ProbeError, ProbePlace, operand};

/// The section with the notes.
const NOTES: &str = ".note.stapsdt";
/// A section of one byte. Each note has its address at link time: the difference to its address in
/// the file tells how far prelink moved the program.
const BASE: &str = ".stapsdt.base";
const OWNER: &[u8] = b"stapsdt";
const KIND: u32 = 3;
/// Maximum number of static tracepoints read from a file.
const MOST: usize = 100_000;

/// A static tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Usdt {
    pub(super) provider: String,
    pub(super) name: String,
    arguments: String,
    /// Its location, in bytes from the start of the file.
    offset: u64,
    /// The location of the counter of active tracers, in bytes from the start of the file; 0
    /// without a counter.
    semaphore: u64,
}

impl Usdt {
    pub(super) fn to_place(&self, path: CString) -> Result<ProbePlace, ProbeError> {
        let semaphore = u32::try_from(self.semaphore).map_err(|_| {
            ProbeError::Place(format!("{}: its semaphore lies beyond 4 GiB", self.name))
        })?;
        let mut arguments = operand::parse_arguments(&self.arguments);
        arguments.truncate(ARGUMENTS);
        let location = ProbeLocation::File { path, offset: self.offset, semaphore };
        Ok(ProbePlace { location, arguments })
    }
}

/// Reads the static tracepoints of a file; an empty list if it has no such notes.
pub(super) fn read(path: &Path) -> Result<Vec<Usdt>, ProbeError> {
    let wrong = |why: String| ProbeError::Place(format!("{}: {why}", path.display()));
    let is_file = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.is_file();
    if !is_file {
        return Err(wrong("not a program".to_owned()));
    }
    let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let file = object::File::parse(bytes.as_slice())
        .map_err(|error| wrong(format!("not an ELF file: {error}")))?;
    let Some(section) = file.section_by_name(NOTES) else { return Ok(Vec::new()) };
    let data = section.data().map_err(|error| wrong(error.to_string()))?;
    let base = file.section_by_name(BASE).map_or(0, |base| base.address());
    let in_file = |address: u64| {
        file.segments().find_map(|segment| {
            let (offset, size) = segment.file_range();
            let within = address.checked_sub(segment.address()).filter(|&within| within < size)?;
            offset.checked_add(within)
        })
    };
    Ok(read_notes(data).filter_map(|note| note.locate(base, in_file)).collect())
}

/// A note's contents; addresses are the program's at link time.
struct Note<'a> {
    address: u64,
    base: u64,
    semaphore: u64,
    /// Provider, name and arguments.
    texts: [&'a [u8]; 3],
}

impl Note<'_> {
    /// Converts the addresses to offsets in the file; `None` if the file doesn't contain them.
    /// `base` is the address of the section `BASE`; 0 without that section.
    fn locate(&self, base: u64, in_file: impl Fn(u64) -> Option<u64>) -> Option<Usdt> {
        let moved = if base == 0 || self.base == 0 { 0 } else { base.wrapping_sub(self.base) };
        let text = |at: usize| String::from_utf8_lossy(self.texts[at]).into_owned();
        let semaphore = match self.semaphore {
            0 => 0,
            address => in_file(address.wrapping_add(moved))?,
        };
        Some(Usdt {
            provider: text(0),
            name: text(1),
            arguments: text(2),
            offset: in_file(self.address.wrapping_add(moved))?,
            semaphore,
        })
    }
}

/// Reads the notes of a section, up to a truncated one.
fn read_notes(mut data: &[u8]) -> impl Iterator<Item = Note<'_>> {
    let next = move || {
        loop {
            let (header, rest) = data.split_first_chunk::<12>()?;
            let word = |at: usize| {
                u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
            };
            let name_len = word(0) as usize;
            let len = word(4) as usize;
            let name = rest.get(..name_len)?;
            let rest = rest.get(name_len.checked_next_multiple_of(4)?..)?;
            let description = rest.get(..len)?;
            data = rest.get(len.checked_next_multiple_of(4)?..).unwrap_or_default();
            if word(8) == KIND && name.strip_suffix(b"\0") == Some(OWNER) {
                return Some(description);
            }
        }
    };
    std::iter::from_fn(next).take(MOST).filter_map(|description| {
        let long =
            |at: usize| Some(u64::from_ne_bytes(*description.get(at..at + 8)?.first_chunk()?));
        let mut texts = description.get(24..)?.split(|byte| *byte == 0);
        let texts = [texts.next()?, texts.next()?, texts.next()?];
        Some(Note { address: long(0)?, base: long(8)?, semaphore: long(16)?, texts })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(owner: &[u8], texts: &[u8]) -> Vec<u8> {
        let mut description = Vec::new();
        for number in [0x1010_u64, 0x2000, 0x3000] {
            description.extend(number.to_ne_bytes());
        }
        description.extend(texts);
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
        let mut all = Vec::new();
        for number in [length(owner), length(&description), KIND] {
            all.extend(number.to_ne_bytes());
        }
        all.extend(owner);
        all.extend(vec![0; owner.len().next_multiple_of(4) - owner.len()]);
        all.extend(&description);
        all.extend(vec![0; description.len().next_multiple_of(4) - description.len()]);
        all
    }

    #[test]
    fn notes_become_offsets_in_the_file() {
        let texts = b"server\0request\0-4@%edi 8@%rsi\0";
        let both = [note(b"GNU\0", b"a\0b\0c\0"), note(b"stapsdt\0", texts)].concat();
        let found: Vec<_> = read_notes(&both).collect();
        assert_eq!(found.len(), 1);
        let place = found[0].locate(0x2100, |address| Some(address - 0x1000)).unwrap();
        assert_eq!(
            place,
            Usdt {
                provider: "server".to_owned(),
                name: "request".to_owned(),
                arguments: "-4@%edi 8@%rsi".to_owned(),
                offset: 0x110,
                semaphore: 0x2100,
            }
        );
        assert_eq!(place.to_place(c"x".into()).unwrap().arguments.len(), 2);
        for cut in 0..both.len() {
            read_notes(&both[..cut]).for_each(|note| _ = note.locate(1, Some));
        }
    }
}
