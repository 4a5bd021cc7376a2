//! Reads a column of a row group page by page. Texts stay numbers of the column's dictionary.

use std::collections::HashMap;

use bytes::Bytes;
use foldhash::fast::RandomState;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};
use parquet::errors::ParquetError;
use parquet::file::serialized_reader::SerializedPageReader;

use crate::hybrid::HybridCursor;
use crate::rows::NULL_INT;
use crate::schema::ColumnKind;
use crate::table_file::{ColumnBytes, ColumnChunk};

/// Largest page, in bytes.
const MAX_PAGE_BYTES: usize = 64 << 20;

/// Decompresses pages; each thread has one.
pub(crate) struct PageDecoder {
    zstd: zstd::bulk::Decompressor<'static>,
    codes: Vec<u32>,
}

impl PageDecoder {
    pub(crate) fn new() -> Result<Self, ParquetError> {
        Ok(Self { zstd: zstd::bulk::Decompressor::new()?, codes: Vec::new() })
    }

    /// Replaces `out` by the contents of a page: `plain` as it is, then `stored`, decompressed.
    fn unpack(
        &mut self,
        plain: &[u8],
        stored: &[u8],
        is_zstd: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), ParquetError> {
        out.clear();
        out.extend_from_slice(plain);
        if !is_zstd || stored.is_empty() {
            out.extend_from_slice(stored);
            return Ok(());
        }
        let size = zstd::zstd_safe::get_frame_content_size(stored).ok().flatten();
        let size = size.and_then(|size| usize::try_from(size).ok());
        let size = size.filter(|size| *size <= MAX_PAGE_BYTES).ok_or_else(|| {
            ParquetError::General("the length of a page is unknown or too large".to_owned())
        })?;
        if plain.is_empty() {
            out.reserve(size);
            self.zstd.decompress_to_buffer(stored, out)?;
        } else {
            out.extend_from_slice(&self.zstd.decompress(stored, size)?);
        }
        Ok(())
    }
}

/// The values of a dictionary.
#[derive(Debug)]
enum ColumnDictionary {
    Ints(Vec<i64>),
    Texts(TextDictionary),
}

/// The texts of a column in a row group. 0 is NULL.
#[derive(Debug, Default)]
pub struct TextDictionary {
    texts: Vec<Bytes>,
    /// Filled once a page has texts instead of numbers.
    known: HashMap<Bytes, u32, RandomState>,
}

impl TextDictionary {
    /// Returns the text of a number, `None` for NULL.
    #[must_use]
    pub fn get(&self, code: u32) -> Option<&str> {
        std::str::from_utf8(self.bytes(code)?).ok()
    }

    pub(crate) fn bytes(&self, code: u32) -> Option<&Bytes> {
        self.texts.get((code as usize).checked_sub(1)?)
    }

    /// Returns the number of texts. The largest number stands for the last text.
    #[must_use]
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Returns whether it has no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    fn push(&mut self, text: &[u8]) -> u32 {
        let text = match std::str::from_utf8(text) {
            Ok(_) => Bytes::copy_from_slice(text),
            Err(_) => String::from_utf8_lossy(text).into_owned().into(),
        };
        self.texts.push(text);
        u32::try_from(self.texts.len()).unwrap_or(u32::MAX)
    }

    fn intern(&mut self, text: &[u8]) -> u32 {
        if self.known.is_empty() {
            let numbered = self.texts.iter().zip(1..);
            self.known = numbered.map(|(text, code)| (text.clone(), code)).collect();
        }
        if let Some(code) = self.known.get(text) {
            return *code;
        }
        let code = self.push(text);
        if let Some(text) = self.texts.last() {
            self.known.insert(text.clone(), code);
        }
        code
    }
}

/// How the values of a page are encoded.
#[derive(Debug, Default)]
enum PageValues {
    #[default]
    None,
    /// Numbers of the dictionary.
    Codes(HybridCursor),
    /// Values one after the other, from this byte on.
    Plain(usize),
}

/// The page that is being read.
#[derive(Debug, Default)]
struct OpenPage {
    bytes: Vec<u8>,
    /// 1 for a value, 0 for NULL; `None` if no value is NULL.
    levels: Option<HybridCursor>,
    values: PageValues,
    left: usize,
}

/// Position in a column of a row group.
pub(crate) struct ColumnCursor {
    kind: ColumnKind,
    /// `None` if the file doesn't have the column: all values are NULL.
    pages: Option<SerializedPageReader<ColumnBytes>>,
    is_zstd: bool,
    is_nullable: bool,
    dictionary: ColumnDictionary,
    page: OpenPage,
    /// Rows passed over that aren't yet in `page`.
    skipped: usize,
}

impl ColumnCursor {
    pub(crate) fn new(chunk: Option<ColumnChunk>, kind: ColumnKind) -> Self {
        let dictionary = match kind {
            ColumnKind::Text => ColumnDictionary::Texts(TextDictionary::default()),
            _ => ColumnDictionary::Ints(Vec::new()),
        };
        let is_zstd = chunk.as_ref().is_some_and(|chunk| chunk.is_zstd);
        let is_nullable = chunk.as_ref().is_none_or(|chunk| chunk.is_nullable);
        let pages = chunk.map(|chunk| chunk.pages);
        let page = OpenPage::default();
        Self { kind, pages, is_zstd, is_nullable, dictionary, page, skipped: 0 }
    }

    /// Returns the texts of the column so far; pages may add some.
    pub(crate) fn texts(&self) -> Option<&TextDictionary> {
        match &self.dictionary {
            ColumnDictionary::Texts(texts) => Some(texts),
            ColumnDictionary::Ints(_) => None,
        }
    }

    /// Passes over rows. Whole pages aren't decompressed.
    pub(crate) fn skip(&mut self, rows: usize) {
        self.skipped += rows;
    }

    /// Appends the next rows of a column of texts.
    pub(crate) fn read_codes(
        &mut self,
        rows: usize,
        decoder: &mut PageDecoder,
        out: &mut Vec<u32>,
    ) -> Result<(), ParquetError> {
        self.read(rows, decoder, out, 0, |column, count, _, out| column.append_codes(count, out))
    }

    /// Appends the next rows: `null` for those without a value, the others with `append`.
    fn read<T: Clone>(
        &mut self,
        rows: usize,
        decoder: &mut PageDecoder,
        out: &mut Vec<T>,
        null: T,
        append: impl Fn(&mut Self, usize, &mut PageDecoder, &mut Vec<T>) -> Result<(), ParquetError>,
    ) -> Result<(), ParquetError> {
        if self.pages.is_none() {
            out.resize(out.len() + rows, null);
            return Ok(());
        }
        let mut missing = rows;
        while missing > 0 {
            self.fill(decoder)?;
            let taken = self.page.left.min(missing);
            let mut left = taken;
            while left > 0 {
                let (known, count) = self.page.next_levels(left)?;
                if known {
                    append(self, count, decoder, out)?;
                } else {
                    out.resize(out.len() + count, null.clone());
                }
                left -= count;
            }
            self.page.left -= taken;
            missing -= taken;
        }
        Ok(())
    }

    fn append_codes(&mut self, count: usize, out: &mut Vec<u32>) -> Result<(), ParquetError> {
        let ColumnDictionary::Texts(texts) = &mut self.dictionary else {
            return Err(damaged("texts in a column of numbers"));
        };
        match &mut self.page.values {
            PageValues::Codes(cursor) => {
                let begin = out.len();
                cursor.read(&self.page.bytes, count, 1, out)?;
                let largest = out[begin..].iter().copied().max().unwrap_or(0);
                if largest as usize > texts.len() || largest == 0 {
                    return Err(damaged("a number beyond the dictionary"));
                }
            }
            PageValues::Plain(at) => {
                for _ in 0..count {
                    let text = plain_text(&self.page.bytes, at)?;
                    out.push(texts.intern(text));
                }
            }
            PageValues::None => return Err(damaged("no values")),
        }
        Ok(())
    }

    /// Appends the next rows of a column of numbers.
    pub(crate) fn read_ints(
        &mut self,
        rows: usize,
        decoder: &mut PageDecoder,
        out: &mut Vec<i64>,
    ) -> Result<(), ParquetError> {
        self.read(rows, decoder, out, NULL_INT, Self::append_ints)
    }

    fn append_ints(
        &mut self,
        count: usize,
        decoder: &mut PageDecoder,
        out: &mut Vec<i64>,
    ) -> Result<(), ParquetError> {
        let ColumnDictionary::Ints(ints) = &self.dictionary else {
            return Err(damaged("numbers in a column of texts"));
        };
        match &mut self.page.values {
            PageValues::Codes(cursor) => {
                decoder.codes.clear();
                cursor.read(&self.page.bytes, count, 0, &mut decoder.codes)?;
                let largest = decoder.codes.iter().copied().max().unwrap_or(0);
                if largest as usize >= ints.len() {
                    return Err(damaged("a number beyond the dictionary"));
                }
                out.extend(decoder.codes.iter().map(|code| ints[*code as usize]));
            }
            PageValues::Plain(at) => {
                for _ in 0..count {
                    out.push(plain_int(&self.page.bytes, at, self.kind)?);
                }
            }
            PageValues::None => return Err(damaged("no values")),
        }
        Ok(())
    }

    /// Makes `page` the one of the next row.
    fn fill(&mut self, decoder: &mut PageDecoder) -> Result<(), ParquetError> {
        while self.page.left <= self.skipped {
            self.skipped -= self.page.left;
            self.page.left = 0;
            self.next_page(decoder)?;
        }
        if self.skipped > 0 {
            let mut left = std::mem::take(&mut self.skipped);
            self.page.left -= left;
            while left > 0 {
                let (known, count) = self.page.next_levels(left)?;
                if known {
                    self.page.skip_values(count, self.kind)?;
                }
                left -= count;
            }
        }
        Ok(())
    }

    /// Opens the next page that has rows to be read.
    fn next_page(&mut self, decoder: &mut PageDecoder) -> Result<(), ParquetError> {
        loop {
            let page = self.pages.as_mut().map_or(Ok(None), PageReader::get_next_page)?;
            let page = page.ok_or_else(|| damaged("fewer rows than the row group"))?;
            if matches!(page, Page::DictionaryPage { .. }) {
                self.open_dictionary(&page, decoder)?;
                continue;
            }
            let rows = page.num_values() as usize;
            if rows <= self.skipped {
                self.skipped -= rows;
                continue;
            }
            return self.open_page(&page, decoder);
        }
    }

    fn open_dictionary(
        &mut self,
        page: &Page,
        decoder: &mut PageDecoder,
    ) -> Result<(), ParquetError> {
        let mut bytes = Vec::new();
        decoder.unpack(&[], page.buffer(), self.is_zstd, &mut bytes)?;
        let mut at = 0;
        for _ in 0..page.num_values() {
            match &mut self.dictionary {
                ColumnDictionary::Texts(texts) => {
                    texts.push(plain_text(&bytes, &mut at)?);
                }
                ColumnDictionary::Ints(ints) => ints.push(plain_int(&bytes, &mut at, self.kind)?),
            }
        }
        Ok(())
    }

    fn open_page(&mut self, page: &Page, decoder: &mut PageDecoder) -> Result<(), ParquetError> {
        let mut levels_end = None;
        let stored = page.buffer();
        let bytes = &mut self.page.bytes;
        match page {
            Page::DataPageV2 {
                def_levels_byte_len, rep_levels_byte_len, is_compressed, ..
            } => {
                let end = *def_levels_byte_len as usize;
                if *rep_levels_byte_len != 0 || end > stored.len() {
                    return Err(damaged("levels longer than their page"));
                }
                let is_zstd = self.is_zstd && *is_compressed;
                decoder.unpack(&stored[..end], &stored[end..], is_zstd, bytes)?;
                levels_end = Some([0, end]);
            }
            _ => {
                decoder.unpack(&[], stored, self.is_zstd, bytes)?;
                if self.is_nullable {
                    let length = bytes.first_chunk().map(|length| u32::from_le_bytes(*length));
                    let length = length.ok_or_else(|| damaged("a page without levels"))?;
                    levels_end = Some([4, 4_usize.saturating_add(length as usize)]);
                }
            }
        }
        let values_at = levels_end.map_or(0, |[_, end]| end);
        if values_at > bytes.len() {
            return Err(damaged("levels longer than their page"));
        }
        self.page.levels = match levels_end {
            Some([begin, end]) if self.is_nullable => Some(HybridCursor::new(begin, end, 1)?),
            _ => None,
        };
        self.page.left = page.num_values() as usize;
        self.page.values = match page.encoding() {
            Encoding::PLAIN => PageValues::Plain(values_at),
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
                // A page of NULLs alone may have no values.
                match bytes.get(values_at) {
                    Some(width) => PageValues::Codes(HybridCursor::new(
                        values_at + 1,
                        bytes.len(),
                        u32::from(*width),
                    )?),
                    None => PageValues::None,
                }
            }
            other => return Err(ParquetError::NYI(format!("encoding {other:?}"))),
        };
        Ok(())
    }
}

impl OpenPage {
    /// Returns whether the next rows have values, and for how many rows, `limit` at most, this
    /// holds.
    fn next_levels(&mut self, limit: usize) -> Result<(bool, usize), ParquetError> {
        match &mut self.levels {
            Some(levels) => {
                let (level, count) = levels.next_run(&self.bytes, limit)?;
                Ok((level != 0, count))
            }
            None => Ok((true, limit)),
        }
    }

    fn skip_values(&mut self, count: usize, kind: ColumnKind) -> Result<(), ParquetError> {
        match &mut self.values {
            PageValues::Codes(cursor) => cursor.skip(&self.bytes, count)?,
            PageValues::Plain(at) => {
                for _ in 0..count {
                    match kind {
                        ColumnKind::Text => plain_text(&self.bytes, at).map(|_| ())?,
                        _ => plain_int(&self.bytes, at, kind).map(|_| ())?,
                    }
                }
            }
            PageValues::None => return Err(damaged("no values")),
        }
        Ok(())
    }
}

fn plain_text<'a>(page: &'a [u8], at: &mut usize) -> Result<&'a [u8], ParquetError> {
    let short = || damaged("a text beyond its page");
    let rest = page.get(*at..).ok_or_else(short)?;
    let length = u32::from_le_bytes(*rest.first_chunk().ok_or_else(short)?) as usize;
    let text = rest[4..].get(..length).ok_or_else(short)?;
    *at += 4 + length;
    Ok(text)
}

fn plain_int(page: &[u8], at: &mut usize, kind: ColumnKind) -> Result<i64, ParquetError> {
    let short = || damaged("a number beyond its page");
    let rest = page.get(*at..).ok_or_else(short)?;
    if kind == ColumnKind::Int32 {
        *at += 4;
        return Ok(i32::from_le_bytes(*rest.first_chunk().ok_or_else(short)?).into());
    }
    *at += 8;
    Ok(i64::from_le_bytes(*rest.first_chunk().ok_or_else(short)?))
}

fn damaged(what: &str) -> ParquetError {
    ParquetError::General(format!("damaged: {what}"))
}
