//! A recorded ELF file: its symbols, or those of its debug file if it is stripped; and its debug
//! info. Also the symbols of the vDSO.

use std::fs::File;
use std::path::Path;

use object::read::ReadCache;

use crate::debug_info::DebugInfo;
use crate::dso::{BuildId, Dso, RecordedDso};
use crate::elf::{self, DebugLink, Image, Segments};
use crate::line_source::LineSource;
use crate::search::find::{self, FoundFile};
use crate::search::{self, SymbolOptions, UsedContent};
use crate::table::SymbolTable;
use crate::unresolved::Unresolved;
use crate::unwind;

/// A DSO's file without its symbols.
#[derive(Debug)]
pub(crate) struct Binary {
    build_id: Option<BuildId>,
    debug_link: Option<DebugLink>,
    /// Mapping between offsets and addresses.
    pub(crate) segments: Segments,
}

impl Binary {
    /// Opens the source of lines: debug info, else the tables of Go's runtime, else the source
    /// files that the symbol table names.
    pub(crate) fn lines(
        &self,
        options: &SymbolOptions,
        recorded: &RecordedDso<'_>,
    ) -> Option<LineSource> {
        if let Some(debug_info) = self.debug_info(options, recorded) {
            return Some(LineSource::Dwarf(Box::new(debug_info)));
        }
        let found = find::binary(options, recorded).ok()?;
        if found.build_id != self.build_id {
            return None;
        }
        if let Ok(Some(functions)) = elf::go_functions(&ReadCache::new(&found.file)) {
            return Some(LineSource::Go(functions));
        }
        let symbols = DebugInfo::from_symbols(&found.file, &found.place.path());
        Some(LineSource::Dwarf(Box::new(symbols.ok()?)))
    }

    /// Opens the debug info: the file's own, else that of a debug file.
    pub(crate) fn debug_info(
        &self,
        options: &SymbolOptions,
        recorded: &RecordedDso<'_>,
    ) -> Option<DebugInfo> {
        // The file was closed since, and another may be in its place.
        let found = find::binary(options, recorded).ok()?;
        if found.build_id != self.build_id {
            return None;
        }
        let own = DebugInfo::open(options, &found.file, &found.place.path());
        own.ok().or_else(|| {
            find::debug_files(options, recorded, &found, self.debug_link.as_ref())
                .find_map(|debug| DebugInfo::open(options, &debug.file, &debug.place.path()).ok())
        })
    }
}

/// Opens a file without reading its symbols.
pub(crate) fn open(
    options: &SymbolOptions,
    recorded: &RecordedDso<'_>,
) -> Result<Binary, Unresolved> {
    let found = find::binary(options, recorded)?;
    let image = Image::read_outline(&ReadCache::new(&found.file));
    let image = image.map_err(|_| Unresolved::Malformed)?;
    let Image { debug_link, segments, .. } = image;
    Ok(Binary { build_id: found.build_id, debug_link, segments })
}

/// Reads the symbols of a file, or those of its debug file if it has no full symbol table.
pub(crate) fn load(
    options: &SymbolOptions,
    recorded: &RecordedDso<'_>,
) -> Result<(SymbolTable, Binary), Unresolved> {
    let found = find::binary(options, recorded)?;
    let mut image = read(&found.file, None)?;
    let debug = if image.has_symtab { None } else { debug_file(options, recorded, &found, &image) };
    let binary = Binary {
        build_id: found.build_id,
        debug_link: image.debug_link.clone(),
        segments: image.segments.clone(),
    };
    if debug.is_none() && image.lacks_functions() {
        let functions = unwind::functions(&ReadCache::new(&found.file));
        image.add_unnamed_functions(&functions);
    }
    if options.used.is_some() {
        // An archive must have the files with lines, too.
        binary.debug_info(options, recorded);
    }
    Ok((image.into_symbols(debug).build(options.demangle), binary))
}

/// Reads the symbols of the vDSO: of this process's image unless the recorded build id differs,
/// else of the image in the build id cache.
pub(crate) fn load_vdso(options: &SymbolOptions, dso: &Dso) -> Result<SymbolTable, Unresolved> {
    let parse = |bytes: &[u8]| Image::read(bytes, None).map_err(|_| Unresolved::Malformed);
    let own = search::own_vdso().and_then(|bytes| Ok((parse(&bytes)?, bytes)));
    let note = |content| {
        let note = |id| options.note_by_id(id, "vdso", Path::new("[vdso]"), || Some(content));
        if let Some(id) = dso.build_id {
            note(id);
        }
    };
    let image = match own {
        Ok((own, bytes)) if may_be_same(dso.build_id, own.build_id) => {
            note(UsedContent::Bytes(bytes));
            own
        }
        other => {
            let kept = options.cached(dso.build_id, "vdso").and_then(|path| {
                let file = search::open(&path).ok()?;
                let image = read(&file, None).ok()?;
                note(UsedContent::File(file));
                Some(image)
            });
            let kept = kept.filter(|kept| kept.build_id == dso.build_id);
            kept.ok_or(other.err().unwrap_or(Unresolved::OtherBuild))?
        }
    };
    Ok(image.into_symbols(None).build(options.demangle))
}

/// Whether an image can be the recorded one: it can if either has no build id.
fn may_be_same(recorded: Option<BuildId>, found: Option<BuildId>) -> bool {
    recorded.zip(found).is_none_or(|(recorded, found)| recorded == found)
}

/// Finds the first debug file of a stripped file that has a full symbol table, and reads it.
fn debug_file(
    options: &SymbolOptions,
    recorded: &RecordedDso<'_>,
    found: &FoundFile,
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
