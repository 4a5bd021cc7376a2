//! A file of tables that is read in part, by blocks: a block is read and checked against its
//! checksum at the first access.
//!
//! ```text
//! header, one page | tables, each in whole blocks | checksum of each block u64
//! magic, kind, bytes of each table, hash of the checksums, hash of the header: u64 each
//! ```
//! The user owns the file; checksums detect damage by disks and killed processes. A damaged block
//! counts as missing. Numbers are in this machine's byte order.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustix::fs::OFlags;

use crate::once_vec::OnceVec;

/// Bytes of a block. A text must fit into one, with three bytes for its length and tag.
pub(super) const BLOCK: usize = 1 << 15;

/// Number of tables of a file.
pub(super) const TABLES: usize = 4;

/// First word of a file; its last byte is the version of the format.
const MAGIC: u64 = u64::from_ne_bytes(*b"tarekpt\x04");

/// Bytes before the first block.
const HEADER: usize = 4096;
/// Words used in the header.
const WORDS: usize = 4 + TABLES;

/// Limit on the bytes of a file.
pub(super) const MAX_FILE_BYTES: u64 = 64 << 20;

/// An open file of tables.
#[derive(Debug)]
pub(super) struct Blocks {
    file: File,
    tables: [Extent; TABLES],
    sums: Vec<u64>,
    blocks: OnceVec<Option<Box<[u8]>>>,
    is_damaged: AtomicBool,
}

/// Position of a table in the file.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    first_block: usize,
    bytes: usize,
}

/// Returns the positions of tables with these sizes, and the number of blocks of all of them.
fn extents(bytes: [usize; TABLES]) -> ([Extent; TABLES], usize) {
    let mut blocks = 0;
    let extents = bytes.map(|bytes| {
        let first_block = blocks;
        blocks += bytes.div_ceil(BLOCK);
        Extent { first_block, bytes }
    });
    (extents, blocks)
}

impl Blocks {
    /// Opens a file of this kind. `None` if it can't be read, is too large, has another kind, or if
    /// its header or list of checksums is damaged; also if another user owns it or may access it.
    pub(super) fn open(path: &Path, kind: u64, uid: u32) -> Option<Self> {
        let mut open = OpenOptions::new();
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        open.read(true).custom_flags(i32::try_from(flags.bits()).ok()?);
        let file = open.open(path).ok()?;
        let meta = file.metadata().ok()?;
        let is_own = meta.is_file() && meta.uid() == uid && meta.mode() & 0o077 == 0;
        if !is_own || meta.len() > MAX_FILE_BYTES {
            return None;
        }
        let mut header = [0; WORDS * 8];
        file.read_exact_at(&mut header, 0).ok()?;
        let words: Vec<u64> =
            header.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let [magic, its_kind, a, b, c, d, sums_hash, header_hash] = words[..] else { return None };
        if magic != MAGIC || its_kind != kind || header_hash != hash(&header[..WORDS * 8 - 8]) {
            return None;
        }
        let bytes = [a, b, c, d].map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        if bytes.iter().any(|bytes| *bytes as u64 > MAX_FILE_BYTES) {
            return None;
        }
        let (tables, blocks) = extents(bytes);
        if meta.len() != (HEADER + blocks * (BLOCK + 8)) as u64 {
            return None;
        }
        let mut sums = vec![0; blocks * 8];
        file.read_exact_at(&mut sums, (HEADER + blocks * BLOCK) as u64).ok()?;
        if hash(&sums) != sums_hash {
            return None;
        }
        let sums = sums.as_chunks().0.iter().map(|sum| u64::from_ne_bytes(*sum)).collect();
        Some(Self {
            file,
            tables,
            sums,
            blocks: OnceVec::default(),
            is_damaged: AtomicBool::new(false),
        })
    }

    /// Writes a temporary file and renames it over the old one, so that readers see either of them
    /// whole.
    pub(super) fn write(path: &Path, kind: u64, tables: [&[u8]; TABLES]) -> io::Result<()> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let beside = path.with_extension(format!("{}-{number}.tmp", std::process::id()));
        let mut open = OpenOptions::new();
        let file = open.write(true).create_new(true).mode(0o600).open(&beside)?;
        let written = write_to(file, kind, tables).and_then(|()| std::fs::rename(&beside, path));
        written.inspect_err(|_| drop(std::fs::remove_file(&beside)))
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Whether a block read so far was damaged.
    pub(super) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// Bytes of memory if all blocks are read.
    pub(super) fn bytes(&self) -> usize {
        self.sums.len() * (BLOCK + 8)
    }

    /// Returns bytes of a table. `None` if they aren't within one block of it, or the block is
    /// damaged.
    pub(super) fn get(&self, table: usize, at: usize, len: usize) -> Option<&[u8]> {
        let extent = self.tables.get(table)?;
        if at.checked_add(len)? > extent.bytes {
            return None;
        }
        let block = self.block(extent.first_block + at / BLOCK)?;
        block.get(at % BLOCK..)?.get(..len)
    }

    fn block(&self, number: usize) -> Option<&[u8]> {
        let sum = *self.sums.get(number)?;
        let read = || {
            let mut bytes = vec![0; BLOCK].into_boxed_slice();
            let read = self.file.read_exact_at(&mut bytes, (HEADER + number * BLOCK) as u64);
            let is_whole = read.is_ok() && hash(&bytes) == sum;
            self.is_damaged.fetch_or(!is_whole, Ordering::Relaxed);
            is_whole.then_some(bytes)
        };
        self.blocks.get_or_init(u32::try_from(number).ok()?, read).as_deref()
    }

    /// Returns the number of entries of `size` bytes in a table.
    pub(super) fn len(&self, table: usize, size: usize) -> usize {
        self.tables.get(table).map_or(0, |extent| extent.bytes / size)
    }

    /// Returns a 64-bit number of a table.
    pub(super) fn u64(&self, table: usize, index: usize) -> Option<u64> {
        let bytes = self.get(table, index.checked_mul(8)?, 8)?;
        Some(u64::from_ne_bytes(*bytes.first_chunk()?))
    }

    /// Returns a 32-bit number of a table.
    pub(super) fn u32(&self, table: usize, index: usize) -> Option<u32> {
        let bytes = self.get(table, index.checked_mul(4)?, 4)?;
        Some(u32::from_ne_bytes(*bytes.first_chunk()?))
    }

    /// Returns how many numbers of a sorted table are at most `limit`. `None` if a block is
    /// damaged.
    pub(super) fn count_up_to(&self, table: usize, limit: u64) -> Option<usize> {
        let mut low = 0;
        let mut high = self.len(table, 8);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.u64(table, middle)? <= limit { low = middle + 1 } else { high = middle }
        }
        Some(low)
    }

    /// Returns the text at an offset in a table ([`TextTable::add`]), and its tag.
    pub(super) fn text(&self, table: usize, at: u32) -> Option<(&[u8], u8)> {
        let at = at as usize;
        let front: [u8; 3] = *self.get(table, at, 3)?.first_chunk()?;
        let len = usize::from(u16::from_ne_bytes([front[0], front[1]]));
        Some((self.get(table, at + 3, len)?, front[2]))
    }
}

fn write_to(file: File, kind: u64, tables: [&[u8]; TABLES]) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 18, file);
    let (_, blocks) = extents(tables.map(<[u8]>::len));
    let mut sums = Vec::with_capacity(blocks * 8);
    let mut filled = vec![0; BLOCK];
    for block in tables.iter().flat_map(|table| table.chunks(BLOCK)) {
        sums.extend(if block.len() == BLOCK {
            hash(block).to_ne_bytes()
        } else {
            filled[..block.len()].copy_from_slice(block);
            filled[block.len()..].fill(0);
            hash(&filled).to_ne_bytes()
        });
    }
    let [a, b, c, d] = tables.map(|table| table.len() as u64);
    let words = [MAGIC, kind, a, b, c, d, hash(&sums)];
    let mut header: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    header.extend(hash(&header).to_ne_bytes());
    header.resize(HEADER, 0);
    out.write_all(&header)?;
    for table in tables {
        out.write_all(table)?;
        let rest = table.len().next_multiple_of(BLOCK) - table.len();
        filled[..rest].fill(0);
        out.write_all(&filled[..rest])?;
    }
    out.write_all(&sums)?;
    out.flush()
}

/// Returns a checksum of whole 64-bit words.
fn hash(bytes: &[u8]) -> u64 {
    let words = bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word));
    words.fold(0x7261_7472, |hash: u64, word| {
        (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

/// A table of texts to be written. No text spans two blocks.
#[derive(Debug, Default)]
pub(super) struct TextTable(pub(super) Vec<u8>);

impl TextTable {
    /// Adds a text with a tag, and returns its offset. `None` if the text is too long or the table
    /// too large.
    pub(super) fn add(&mut self, text: &[u8], tag: u8) -> Option<u32> {
        let len = u16::try_from(text.len()).ok().filter(|_| text.len() + 3 <= BLOCK)?;
        let room = BLOCK - self.0.len() % BLOCK;
        if text.len() + 3 > room {
            self.0.resize(self.0.len() + room, 0);
        }
        let at = u32::try_from(self.0.len()).ok().filter(|at| u64::from(*at) < MAX_FILE_BYTES)?;
        self.0.extend(len.to_ne_bytes());
        self.0.push(tag);
        self.0.extend_from_slice(text);
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_uid(path: &Path) -> u32 {
        path.metadata().unwrap().uid()
    }

    fn write(path: &Path) -> (Vec<u8>, TextTable, u32) {
        let numbers: Vec<u8> =
            (0..20_000_u64).flat_map(|number| (number * 3).to_ne_bytes()).collect();
        let mut texts = TextTable::default();
        let at =
            (0..10_000).map(|number| texts.add(format!("text {number}").as_bytes(), 7).unwrap());
        let last = at.last().unwrap();
        Blocks::write(path, 5, [&numbers, &[], &[1, 0, 0, 0], &texts.0]).unwrap();
        (numbers, texts, last)
    }

    #[test]
    fn reads_back_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let (_, _, last) = write(&path);
        let uid = own_uid(&path);
        let blocks = Blocks::open(&path, 5, uid).unwrap();
        assert_eq!((blocks.u64(0, 19_999), blocks.u64(0, 20_000)), (Some(59_997), None));
        assert_eq!((blocks.len(1, 8), blocks.u32(2, 0), blocks.u32(2, 1)), (0, Some(1), None));
        let (text, tag) = blocks.text(3, last).unwrap();
        assert_eq!((text, tag), (&b"text 9999"[..], 7));
        assert_eq!(
            [0, 2, 3, 60_000].map(|at| blocks.count_up_to(0, at)),
            [1, 1, 2, 20_000].map(Some)
        );
        assert!(Blocks::open(&path, 6, uid).is_none(), "another kind");
        assert!(Blocks::open(&path, 5, uid + 1).is_none(), "another user's");
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 1, "nothing is left beside it");
    }

    /// Changes bytes, and cuts the file before and during reading.
    #[test]
    fn damaged_blocks_count_as_missing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write(&path);
        let whole = std::fs::read(&path).unwrap();
        let uid = own_uid(&path);
        let read = |blocks: &Blocks| {
            for number in 0..20_000 {
                let found = blocks.u64(0, number);
                assert!(
                    found.is_none_or(|found| found == number as u64 * 3),
                    "{number}: {found:?}"
                );
            }
            assert!(blocks.text(3, 0).is_none_or(|(text, _)| text == b"text 0"));
            blocks.is_damaged()
        };
        for at in (0..whole.len()).step_by(4099) {
            let mut changed = whole.clone();
            changed[at] ^= 0x40;
            std::fs::write(&path, &changed).unwrap();
            // Bytes after the header's words are unused, and `read` may skip blocks after the
            // fifth.
            let opened = Blocks::open(&path, 5, uid);
            assert!(opened.as_ref().is_none_or(|blocks| read(blocks)
                || (64..HEADER).contains(&at)
                || at > HEADER + 5 * BLOCK));
            std::fs::write(&path, &whole[..at]).unwrap();
            assert!(Blocks::open(&path, 5, uid).is_none(), "cut at {at}");
        }
        std::fs::write(&path, &whole).unwrap();
        let open = Blocks::open(&path, 5, uid).unwrap();
        std::fs::write(&path, &whole[..HEADER + 100]).unwrap();
        assert!(read(&open), "it shrank while it was read");
    }
}
