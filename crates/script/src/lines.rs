//! Collects lines and writes them in batches.

use std::io::{self, Write};

/// Lines on their way to an output.
#[derive(Debug)]
pub(crate) struct LineBuffer<W> {
    out: W,
    text: Vec<u8>,
}

/// Pending text is written once it has this many bytes.
const BATCH: usize = 1 << 16;

impl<W: Write> LineBuffer<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, text: Vec::with_capacity(2 * BATCH) }
    }

    /// Returns the pending text, to append to.
    pub(crate) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// Ends a record: writes the pending text once there is enough for a batch.
    pub(crate) fn end_record(&mut self) -> io::Result<()> {
        if self.text.len() >= BATCH { self.flush() } else { Ok(()) }
    }

    /// Writes all pending text.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.text)?;
        self.text.clear();
        self.out.flush()
    }
}
