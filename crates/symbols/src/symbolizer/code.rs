//! The instructions of functions.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::search::find::FoundFile;
use crate::unresolved::Unresolved;

/// The instructions of a function, as they are in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionCode {
    /// Encoded instructions.
    pub bytes: Vec<u8>,
    /// Address of the first byte in the file, as a disassembler prints it.
    pub address: u64,
    /// Path where the file was found. Untrusted.
    pub path: std::path::PathBuf,
}

impl FunctionCode {
    /// Reads at most `length` bytes at an offset of a file: fewer at its end.
    pub(super) fn read(
        file: &FoundFile,
        address: u64,
        offset: u64,
        length: usize,
    ) -> Result<Self, Unresolved> {
        let bytes = read_at(&file.file, offset, length)?;
        Ok(Self { bytes, address, path: file.place.path() })
    }
}

fn read_at(file: &File, offset: u64, length: usize) -> Result<Vec<u8>, Unresolved> {
    let mut bytes = vec![0; length];
    let mut done = 0;
    while done < length {
        match file.read_at(&mut bytes[done..], offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return Err(Unresolved::NotReadable),
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_up_to_the_end_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, "0123456789").unwrap();
        let file = File::open(path).unwrap();
        assert_eq!(read_at(&file, 2, 3), Ok(b"234".to_vec()));
        assert_eq!(read_at(&file, 8, 5), Ok(b"89".to_vec()));
        assert_eq!(read_at(&file, 20, 5), Ok(vec![]));
    }
}
