//! The symbols of a recorded ELF file: of the file at its path or in perf's cache, and where that
//! is stripped, of its debug file.

use std::fs::File;
use std::path::Path;

use object::read::ReadCache;

use crate::dso::{BuildId, Dso, Recorded};
use crate::elf::Image;
use crate::search::find::{self, Found};
use crate::search::{self, SymbolOptions};
use crate::table::Table;
use crate::unresolved::Unresolved;

/// Reads the symbols of a file.
pub(crate) fn load(options: &SymbolOptions, recorded: &Recorded<'_>) -> Result<Table, Unresolved> {
    let found = find::binary(options, recorded)?;
    let image = read(&found.file, None)?;
    let debug = if image.has_symtab { None } else { debug_file(options, recorded, &found, &image) };
    Ok(image.into_symbols(debug).build(options.demangle))
}

/// The symbols of the image that the kernel maps into each process: of this process's, or of one
/// that perf kept.
pub(crate) fn load_vdso(options: &SymbolOptions, dso: &Dso) -> Result<Table, Unresolved> {
    let parse = |bytes: &[u8]| Image::read(bytes, None).map_err(|_| Unresolved::Malformed);
    let own = search::own_vdso().and_then(|bytes| parse(&bytes));
    let image = match own {
        Ok(own) if may_be_same(dso.build_id, own.build_id) => own,
        other => {
            let kept = options.cached(dso.build_id, "vdso").and_then(|path| read_path(&path).ok());
            let kept = kept.filter(|kept| kept.build_id == dso.build_id);
            kept.ok_or(other.err().unwrap_or(Unresolved::OtherBuild))?
        }
    };
    Ok(image.into_symbols(None).build(options.demangle))
}

/// Whether an image may be the recorded one: what has no build id can't be told apart.
fn may_be_same(recorded: Option<BuildId>, found: Option<BuildId>) -> bool {
    recorded.zip(found).is_none_or(|(recorded, found)| recorded == found)
}

/// The file with the symbols of a stripped one.
fn debug_file(
    options: &SymbolOptions,
    recorded: &Recorded<'_>,
    found: &Found,
    image: &Image,
) -> Option<Image> {
    let usable = |debug: &Image| debug.has_symtab && !debug.symbols.is_empty();
    find::debug_files(options, recorded, found, image.debug_link.as_ref())
        .filter_map(|debug| read(&debug.file, Some(image)).ok())
        .find(usable)
}

fn read(file: &File, belongs_to: Option<&Image>) -> Result<Image, Unresolved> {
    let cache = ReadCache::new(file);
    Image::read(&cache, belongs_to.map(|image| &image.segments)).map_err(|_| Unresolved::Malformed)
}

fn read_path(path: &Path) -> Result<Image, Unresolved> {
    read(&search::open(path)?, None)
}
