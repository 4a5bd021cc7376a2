//! The way of a recording's bytes from the rings into a file or a stream.
//!
//! ```text
//! begin | header, events, features, formats |
//! append                                    | records ... | records ... |      straight from the rings, unparsed
//! flush                                                   ^             ^      data.size: readers see what lies before
//! finish                                                                | tail |, then the header that points at it
//! ```
//! What lies before the last flush can be read whatever happens to the recorder. A disk that gets full, or a limit on the size of
//! files, ends the recording: data are cut, where a record ends, as far as the tail needs room.

mod account;
mod cuts;
mod error;
mod options;
mod piece;
mod place;
mod sink;
#[cfg(test)]
mod tests;
mod write;

use tare_format::file::writer::Description;

pub use account::{Account, Path};
pub use error::{OutputError, Result};
pub use options::{Destination, Options, PathChoice, Switch};
use piece::Piece;

/// An open recording.
#[derive(Debug)]
pub struct Output {
    piece: Piece,
    max_size: Option<u64>,
}

impl Output {
    /// Opens a destination, and starts the helper threads that it takes. A file that is there already gets another name,
    /// ending with `.old`. Opening a FIFO waits for somebody who reads it.
    ///
    /// # Errors
    /// See [`OutputError`].
    pub fn open(to: &Destination, options: &Options) -> Result<Self> {
        Ok(Self { piece: Piece::new(place::open(to)?, options), max_size: options.max_size })
    }

    /// The thread ids of the helper threads: what is recorded of them is of the recorder's making.
    #[must_use]
    pub fn threads(&self) -> Vec<i32> {
        Vec::new()
    }

    /// Writes what a recording begins with.
    ///
    /// # Errors
    /// See [`OutputError`].
    pub fn begin(&mut self, description: &Description) -> Result<()> {
        self.piece.begin(description)
    }

    /// Adds whole records: the pieces one behind the other, wherever a record's bytes are divided. Returns when they may be
    /// overwritten.
    ///
    /// # Errors
    /// The recording has ended, for the reason given, with the last whole record before. What follows is dropped, and counted.
    /// [`Output::finish`] makes the file complete.
    pub fn append(&mut self, records: &[&[u8]]) -> Result<()> {
        self.piece.append(records)
    }

    /// Has readers find everything that was appended, also when the recorder is killed.
    ///
    /// # Errors
    /// As [`Output::append`].
    pub fn flush(&mut self) -> Result<()> {
        self.piece.flush()
    }

    /// Bytes in the file, or that went into the stream.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.piece.written()
    }

    /// Whether the recording is as large as it may become.
    #[must_use]
    pub fn is_at_max_size(&self) -> bool {
        self.max_size.is_some_and(|max| self.written() >= max)
    }

    /// Completes the recording. `description` has what is known only now.
    #[must_use]
    pub fn finish(self, description: &Description) -> Account {
        let mut account = Account::default();
        self.piece.finish(description, &mut account);
        account
    }
}
