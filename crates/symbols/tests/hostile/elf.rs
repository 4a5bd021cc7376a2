//! A writer of ELF files for x86-64 that checks nothing. Addresses are offsets in the file.

/// Section types and flags of `elf.h`.
pub(crate) const PROGBITS: u32 = 1;
pub(crate) const SYMTAB: u32 = 2;
pub(crate) const STRTAB: u32 = 3;
pub(crate) const RELA: u32 = 4;
pub(crate) const DYNSYM: u32 = 11;
pub(crate) const COMPRESSED: u64 = 1 << 11;

/// Offset of the first section, after the headers of the file and of its one segment.
const FRONT: usize = 64 + 56;

/// A section, and false claims in its header.
#[derive(Clone, Default)]
pub(crate) struct TestSection {
    pub(crate) name: &'static str,
    pub(crate) kind: u32,
    pub(crate) flags: u64,
    pub(crate) link: u32,
    pub(crate) entry_bytes: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) claimed_offset: Option<u64>,
    pub(crate) claimed_size: Option<u64>,
}

impl TestSection {
    pub(crate) fn new(name: &'static str, kind: u32, bytes: Vec<u8>) -> Self {
        Self { name, kind, bytes, ..Self::default() }
    }

    /// Creates a section with debug info or an unwind table.
    pub(crate) fn data(name: &'static str, bytes: Vec<u8>) -> Self {
        Self::new(name, PROGBITS, bytes)
    }
}

pub(crate) fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns the offset of a section, numbered from 1, in the file that [`file`] makes.
pub(crate) fn offset_of(sections: &[TestSection], number: usize) -> u64 {
    let before = sections.iter().take(number - 1).map(|section| section.bytes.len());
    (FRONT + before.sum::<usize>()) as u64
}

/// Makes a file. Sections count from 1; the last one has their names.
pub(crate) fn file(sections: &[TestSection]) -> Vec<u8> {
    let mut names = vec![0];
    let mut all: Vec<TestSection> = sections.to_vec();
    all.push(TestSection::new(".shstrtab", STRTAB, Vec::new()));
    let mut starts = Vec::new();
    for section in &all {
        starts.push(u32::try_from(names.len()).unwrap());
        names.extend(section.name.bytes().chain([0]));
    }
    all.last_mut().unwrap().bytes = names;
    let headers_at = (FRONT + all.iter().map(|section| section.bytes.len()).sum::<usize>()) as u64;
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0".to_vec();
    file.extend(words(&[0, 64, headers_at]));
    let count = u16::try_from(all.len() + 1).unwrap();
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0]);
    file.extend([count, count - 1].map(u16::to_le_bytes).as_flattened());
    // PT_LOAD, readable and executable, of 1 GiB.
    file.extend(words(&[1 | 5 << 32, 0, 0, 0, 1 << 30, 1 << 30, 0x1000]));
    let mut headers = vec![0; 64];
    for (number, (section, name)) in all.iter().zip(starts).enumerate() {
        let at = offset_of(&all, number + 1);
        let size = section.claimed_size.unwrap_or(section.bytes.len() as u64);
        headers.extend([name, section.kind].map(u32::to_le_bytes).as_flattened());
        headers.extend(words(&[section.flags, at, section.claimed_offset.unwrap_or(at), size]));
        headers.extend([section.link, 0].map(u32::to_le_bytes).as_flattened());
        headers.extend(words(&[1, section.entry_bytes]));
        file.extend(&section.bytes);
    }
    file.extend(headers);
    file
}

/// An entry of a symbol table: a global function.
pub(crate) fn symbol(name: u32, address: u64, size: u64) -> Vec<u8> {
    let front = u64::from(name) | 0x12 << 32 | 1 << 48;
    words(&[front, address, size])
}
