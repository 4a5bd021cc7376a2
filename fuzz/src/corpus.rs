//! The corpus of guided fuzzing: one compressed file per target.
//!
//! ```text
//! corpus/TARGET.zst    zstd; each input is its length (4 bytes, little-endian) and its bytes
//! ```

use std::io;
use std::path::{Path, PathBuf};

/// Size limit of a compressed file. If the inputs don't fit, the shortest are kept.
const MOST_BYTES: usize = 36 << 10;

const LEVEL: i32 = 19;

/// Returns a target's inputs, or none without a file.
///
/// # Errors
/// The file can't be read or is truncated.
pub fn corpus(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let packed = match std::fs::read(path(target)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => zstd::stream::decode_all(&read?[..])?,
    };
    unpacked(&packed).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn path(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(format!("{target}.zst"))
}

fn unpacked(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut inputs = Vec::new();
    while !bytes.is_empty() {
        let (len, rest) = bytes.split_first_chunk()?;
        let (input, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        inputs.push(input.to_vec());
        bytes = rest;
    }
    Some(inputs)
}

fn packed(inputs: &[Vec<u8>]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for input in inputs {
        let len = u32::try_from(input.len()).map_err(io::Error::other)?;
        bytes.extend(len.to_le_bytes());
        bytes.extend(input);
    }
    zstd::stream::encode_all(&bytes[..], LEVEL)
}

/// Packs the inputs in a folder as a target's corpus. Returns their number and their compressed
/// size.
///
/// # Errors
/// The folder can't be read, or the file can't be written.
pub fn keep(target: &str, folder: &Path) -> io::Result<(usize, usize)> {
    let mut inputs = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        inputs.push(std::fs::read(entry?.path())?);
    }
    inputs.sort_by(|one, other| one.len().cmp(&other.len()).then_with(|| one.cmp(other)));
    inputs.dedup();
    let mut bytes = packed(&inputs)?;
    while bytes.len() > MOST_BYTES {
        // Start near the number that fits, so that few attempts are needed.
        let fitting = inputs.len() * MOST_BYTES / bytes.len();
        inputs.truncate(fitting.min(inputs.len() - 1));
        bytes = packed(&inputs)?;
    }
    std::fs::write(path(target), &bytes)?;
    Ok((inputs.len(), bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let inputs = vec![Vec::new(), vec![7; 300], b"text".to_vec()];
        let bytes = packed(&inputs).and_then(|bytes| zstd::stream::decode_all(&bytes[..]));
        let bytes = bytes.unwrap_or_default();
        assert_eq!(unpacked(&bytes), Some(inputs));
        assert_eq!((unpacked(&bytes[..2]), unpacked(&bytes[..9])), (None, None));
    }
}
