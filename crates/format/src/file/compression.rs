//! Decompresses records.
//!
//! ```text
//! COMPRESSED records   | block | block |    | block |         one zstd stream through all of them
//! buffer               | record | record | reco|  ->  |rd |   256 KiB, whatever a block contains
//! ```
//! Records are decompressed as they are requested, so memory is bounded: this buffer, the data of
//! one compressed record, and zstd's window ([`limits::UNPACK_WINDOW_LOG`]).

use std::io;

use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use super::loss::{LossReason, Losses};
use crate::bytes::Endian;
use crate::limits;
use crate::record::RecordHeader;

/// Takes records out of compressed records.
#[derive(Default)]
pub(super) struct Unpacker {
    /// `None` before the first compressed record and after the end.
    stream: Option<Stream>,
    /// Whether the stream is damaged, or exceeded a limit: the next record's start is unknown.
    is_broken: bool,
}

struct Stream {
    decoder: Decoder<'static>,
    /// The data of the current compressed record.
    input: Vec<u8>,
    /// Bytes of `input` that the decoder has taken.
    taken: usize,
    buffer: Box<[u8]>,
    start: usize,
    filled: usize,
    /// Whether the decoder may have output that needs no further input.
    has_more: bool,
    /// Bytes that the compressed record has decompressed to so far.
    yielded: u64,
    /// The compressed record's offset in the recording.
    offset: u64,
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacker").field("is_broken", &self.is_broken).finish_non_exhaustive()
    }
}

impl Unpacker {
    /// Sets the data of a compressed record at `offset`. The previous one's data must have been
    /// consumed.
    pub(super) fn add(&mut self, data: &[u8], offset: u64, losses: &mut Losses) {
        if self.is_broken {
            losses.add(offset, data.len() as u64, LossReason::Compressed);
            return;
        }
        if self.stream.is_none() {
            self.stream = Stream::new().ok();
        }
        match &mut self.stream {
            Some(stream) => stream.add(data, offset),
            // No memory for a decoder.
            None => losses.add(offset, data.len() as u64, LossReason::Compressed),
        }
    }

    /// Whether there is no decoder: before the first compressed record, after the recording's end,
    /// or without memory for one.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.stream.is_none()
    }

    /// Decompresses the next whole record, for [`Unpacker::advance`] to return. Returns its size;
    /// `None` if no compressed data is left, or the stream is damaged.
    pub(super) fn find_record(&mut self, endian: Endian, losses: &mut Losses) -> Option<usize> {
        let stream = self.stream.as_mut().filter(|_| !self.is_broken)?;
        loop {
            let bytes = &stream.buffer[stream.start..stream.filled];
            let why = match RecordHeader::first(bytes, endian) {
                Some(header) if !header.is_possible() => LossReason::BadSize,
                Some(header) if bytes.len() >= header.record_size() => {
                    return Some(header.record_size());
                }
                _ => match stream.decode() {
                    Ok(true) => continue,
                    Ok(false) => return None,
                    Err(why) => why,
                },
            };
            losses.add(
                stream.offset,
                (stream.input.len() - stream.taken + stream.filled - stream.start) as u64,
                why,
            );
            self.is_broken = true;
            return None;
        }
    }

    /// Returns the next `size` bytes, and the offset of the compressed record that was added last:
    /// it held their end.
    pub(super) fn advance(&mut self, size: usize) -> (&[u8], u64) {
        let Some(stream) = &mut self.stream else { return (&[], 0) };
        let from = stream.start;
        stream.start = (from + size).min(stream.filled);
        (&stream.buffer[from..stream.start], stream.offset)
    }

    /// Accounts for an incomplete record at the end.
    pub(super) fn end(&mut self, losses: &mut Losses) {
        if let Some(stream) = self.stream.take().filter(|_| !self.is_broken) {
            losses.add(stream.offset, (stream.filled - stream.start) as u64, LossReason::CutRecord);
        }
    }
}

impl Stream {
    fn new() -> io::Result<Self> {
        let mut decoder = Decoder::new()?;
        decoder.set_parameter(DParameter::WindowLogMax(limits::UNPACK_WINDOW_LOG))?;
        let buffer = vec![0; limits::UNPACK_BUFFER].into_boxed_slice();
        Ok(Self {
            decoder,
            input: Vec::new(),
            taken: 0,
            buffer,
            start: 0,
            filled: 0,
            has_more: false,
            yielded: 0,
            offset: 0,
        })
    }

    fn add(&mut self, data: &[u8], offset: u64) {
        self.input.clear();
        self.input.extend_from_slice(data);
        self.taken = 0;
        self.yielded = 0;
        self.offset = offset;
    }

    /// Decompresses more data; `false` if the input is exhausted and nothing came of it.
    fn decode(&mut self) -> Result<bool, LossReason> {
        if self.taken == self.input.len() && !self.has_more {
            return Ok(false);
        }
        self.buffer.copy_within(self.start..self.filled, 0);
        self.filled -= self.start;
        self.start = 0;
        let mut input = InBuffer::around(&self.input[self.taken..]);
        let mut output = OutBuffer::around(&mut self.buffer[self.filled..]);
        self.decoder.run(&mut input, &mut output).map_err(|_| LossReason::Compressed)?;
        let read = input.pos;
        let made = output.pos();
        self.taken += read;
        self.filled += made;
        self.has_more = self.filled == self.buffer.len();
        self.yielded += made as u64;
        if self.yielded > limits::UNPACKED {
            return Err(LossReason::OverLimit);
        }
        if read == 0 && made == 0 && self.taken < self.input.len() {
            return Err(LossReason::Compressed);
        }
        Ok(made > 0 || self.taken < self.input.len())
    }
}
