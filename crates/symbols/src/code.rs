//! The bytes of functions.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::dso::{DsoId, DsoTable};
use crate::limits;
use crate::search::find;
use crate::symbolizer::{Symbol, Symbolizer};
use crate::unresolved::Unresolved;

/// The instructions of a function, as its file has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The file's own address of the first, as a disassembler calls it.
    pub address: u64,
    /// Where the file was found. Untrusted.
    pub path: std::path::PathBuf,
}

impl Symbolizer {
    /// Reads the bytes of a function from the build that was recorded.
    ///
    /// # Errors
    /// There is no such file here, or the function has no bytes in it: why.
    pub fn code(&self, dsos: &DsoTable, symbol: Symbol) -> Result<Code, Unresolved> {
        let recorded = dsos.recorded(symbol.dso).ok_or(Unresolved::NoMapping)?;
        let length = symbol.end.saturating_sub(symbol.start);
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(limits::CODE_BYTES);
        if recorded.dso.kind.has_kernel_file() {
            let file = self.kernel_file_of(dsos, symbol.dso)?;
            let (address, offset) = file.code_at(symbol.start).ok_or(Unresolved::NoCode)?;
            let found = file.found();
            let bytes = read(&found.file, offset, length)?;
            return Ok(Code { bytes, address, path: found.place.path() });
        }
        let segments = self.segments(dsos, symbol.dso)?;
        let address = segments.to_address(symbol.start).ok_or(Unresolved::NoSymbol)?;
        let found = find::binary(self.options(), &recorded)?;
        let bytes = read(&found.file, symbol.start, length)?;
        Ok(Code { bytes, address, path: found.place.path() })
    }

    /// Reads bytes from an address in a DSO on, as its file has them.
    ///
    /// # Errors
    /// There is no such file here, or it has nothing there: why.
    pub fn code_at(
        &self,
        dsos: &DsoTable,
        dso: DsoId,
        start: u64,
        length: usize,
    ) -> Result<Code, Unresolved> {
        let end = start.saturating_add(length as u64);
        self.code(dsos, Symbol { dso, start, end, number: u32::MAX })
    }

    /// Where in its file an address lies, as the file itself calls addresses.
    #[must_use]
    pub fn offset_of(&self, dsos: &DsoTable, symbol: Symbol, address: u64) -> Option<u64> {
        self.segments(dsos, symbol.dso).ok()?.to_offset(address)
    }
}

/// Bytes of a file, as far as it goes.
fn read(file: &File, offset: u64, length: usize) -> Result<Vec<u8>, Unresolved> {
    let mut bytes = vec![0; length];
    let mut read = 0;
    while read < length {
        match file.read_at(&mut bytes[read..], offset.saturating_add(read as u64)) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return Err(Unresolved::NotReadable),
        }
    }
    bytes.truncate(read);
    Ok(bytes)
}
