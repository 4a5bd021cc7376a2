//! Lines on their way to standard output, put together byte by byte.

use std::io::{self, Write};

pub(super) use tare_render::script::{decimal, hex, name, name_with_tabs, padded_name, signed};

/// Lines on their way to standard output.
#[derive(Debug)]
pub(super) struct Lines<W> {
    out: W,
    bytes: Vec<u8>,
}

/// Bytes that are gathered before they are written.
const BATCH: usize = 1 << 16;

impl<W: Write> Lines<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, bytes: Vec::with_capacity(2 * BATCH) }
    }

    /// The text so far, to be added to.
    pub(super) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// A record is complete.
    pub(super) fn end(&mut self) -> io::Result<()> {
        if self.bytes.len() >= BATCH { self.flush() } else { Ok(()) }
    }

    /// Everything is written.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.bytes)?;
        self.bytes.clear();
        self.out.flush()
    }
}
