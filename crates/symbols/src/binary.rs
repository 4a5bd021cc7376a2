//! The symbols of a recorded ELF file: of the file at its path or in perf's cache, and where that
//! is stripped, of its debug file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use object::read::ReadCache;

use crate::dso::{BuildId, Dso};
use crate::elf::{DebugLink, Image};
use crate::search::{self, SymbolOptions};
use crate::table::Table;
use crate::unresolved::Unresolved;

/// Reads the symbols of a file.
pub(crate) fn load(options: &SymbolOptions, dso: &Dso) -> Result<Table, Unresolved> {
    let mut why = Unresolved::NoFile;
    for path in options.binaries(dso) {
        match read(&path, None) {
            Ok(image) if may_be_same(dso.build_id, image.build_id) => {
                let debug =
                    if image.has_symtab { None } else { debug_file(options, dso, &path, &image) };
                return Ok(image.into_symbols(debug).build(options.demangle));
            }
            Ok(_) => why = Unresolved::OtherBuild,
            Err(reason) if why == Unresolved::NoFile => why = reason,
            Err(_) => {}
        }
    }
    Err(why)
}

/// The symbols of the image that the kernel maps into each process: of this process's, or of one
/// that perf kept.
pub(crate) fn load_vdso(options: &SymbolOptions, dso: &Dso) -> Result<Table, Unresolved> {
    let parse = |bytes: &[u8]| Image::read(bytes, None).map_err(|_| Unresolved::Malformed);
    let own = search::own_vdso().and_then(|bytes| parse(&bytes));
    let image = match own {
        Ok(own) if may_be_same(dso.build_id, own.build_id) => own,
        other => {
            let kept = options.cached(dso.build_id, "vdso").and_then(|path| read(&path, None).ok());
            let kept = kept.filter(|kept| kept.build_id == dso.build_id);
            kept.ok_or(other.err().unwrap_or(Unresolved::OtherBuild))?
        }
    };
    Ok(image.into_symbols(None).build(options.demangle))
}

/// Whether a file may be the recorded one: what has no build id can't be told apart.
fn may_be_same(recorded: Option<BuildId>, found: Option<BuildId>) -> bool {
    recorded.zip(found).is_none_or(|(recorded, found)| recorded == found)
}

/// The file with the symbols of a stripped one: found by the build id, else by the link.
fn debug_file(options: &SymbolOptions, dso: &Dso, path: &Path, image: &Image) -> Option<Image> {
    let usable = |debug: &Image| debug.has_symtab && !debug.symbols.is_empty();
    let by_id = image.build_id.into_iter().flat_map(|id| options.debug_files_by_id(id));
    let by_id = by_id
        .filter_map(|path| read(&path, Some(image)).ok())
        .find(|debug| debug.build_id == image.build_id && usable(debug));
    by_id.or_else(|| {
        let link = image.debug_link.as_ref()?;
        let paths = options.debug_files_by_link(path, dso, &link.name);
        paths.iter().find_map(|path| linked(path, image, link).filter(usable))
    })
}

/// The debug file at a path, if it is the linked one: by its build id where both have one, else by
/// its checksum.
fn linked(path: &Path, image: &Image, link: &DebugLink) -> Option<Image> {
    let debug = read(path, Some(image)).ok()?;
    let is_linked = match image.build_id.zip(debug.build_id) {
        Some((wanted, found)) => wanted == found,
        None => checksum(search::open(path).ok()?).ok()? == link.crc,
    };
    is_linked.then_some(debug)
}

fn read(path: &Path, belongs_to: Option<&Image>) -> Result<Image, Unresolved> {
    let cache = ReadCache::new(search::open(path)?);
    Image::read(&cache, belongs_to.map(|image| &image.segments)).map_err(|_| Unresolved::Malformed)
}

/// CRC-32 of a file (ISO 3309, as zlib has it): what debug links have.
fn checksum(mut file: File) -> std::io::Result<u32> {
    let mut buffer = vec![0; 1 << 16];
    let mut crc = u32::MAX;
    loop {
        let size = file.read(&mut buffer)?;
        if size == 0 {
            return Ok(!crc);
        }
        crc = buffer[..size]
            .iter()
            .fold(crc, |crc, byte| crc >> 8 ^ CRC[usize::from(crc.to_le_bytes()[0] ^ byte)]);
    }
}

/// The remainders of all bytes.
const CRC: [u32; 256] = {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_zlib() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "123456789").unwrap();
        assert_eq!(checksum(File::open(file.path()).unwrap()).unwrap(), 0xcbf4_3926);
    }
}
