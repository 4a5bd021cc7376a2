//! Split debug info (`-gsplit-dwarf`): one file per unit (`.dwo`), or a package beside the binary
//! (`.dwp`).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use gimli::{Dwarf, DwoId, UnitType};

use super::file::{DebugFile, Slice};
use super::front::{AbbreviationTables, Front, text};
use super::names::{DwarfFile, UnitOf};
use crate::once_vec::OnceVec;
use crate::search::{self, SymbolOptions, used};

/// The files with split debug info, opened as needed.
#[derive(Debug, Default)]
pub(super) struct SplitFiles {
    package: OnceLock<Option<DebugFile>>,
    /// Files by unit number.
    files: OnceVec<Option<DebugFile>>,
    /// Whether the split debug info of a unit wasn't found.
    is_missing: AtomicBool,
}

impl SplitFiles {
    /// Finds the split debug info of a unit; `None` if it has none or the file is missing. `near`
    /// is the file with the unit.
    pub(super) fn find<'d>(
        &'d self,
        options: &SymbolOptions,
        near: &Path,
        skeleton: &UnitOf<'d>,
        number: u32,
    ) -> Option<UnitOf<'d>> {
        let id = skeleton.unit.dwo_id?;
        let package = self.package.get_or_init(|| {
            let mut path = near.as_os_str().to_owned();
            path.push(".dwp");
            open(options, near, Path::new(&path), DebugFile::is_package)
        });
        let of_package = || {
            let package = package.as_ref()?.package().ok()?;
            let dwarf = package.find_cu(id, &skeleton.dwarf).ok()??;
            unit(Rc::new(dwarf), skeleton, id, number)
        };
        let found = of_package().or_else(|| {
            let has_unit = |file: &DebugFile| find_front(&file.split(), id).is_some();
            let open = || {
                let mut paths = paths(options, near, skeleton).into_iter();
                paths.find_map(|path| open(options, near, &path, has_unit))
            };
            let mut dwarf = self.files.get_or_init(number, open).as_ref()?.split();
            dwarf.make_dwo(&skeleton.dwarf);
            unit(Rc::new(dwarf), skeleton, id, number)
        });
        self.is_missing.fetch_or(found.is_none(), Ordering::Relaxed);
        found
    }

    /// Whether all requested split debug info was found.
    pub(super) fn is_complete(&self) -> bool {
        !self.is_missing.load(Ordering::Relaxed)
    }
}

/// Opens a file if it is the wanted one. Only then is it a used file, which an archive gets: the
/// program chooses the path, or can put a link there.
fn open(
    options: &SymbolOptions,
    near: &Path,
    path: &Path,
    is_wanted: impl Fn(&DebugFile) -> bool,
) -> Option<DebugFile> {
    let file = search::open(path).ok()?;
    let debug = DebugFile::open(&file, path).ok().filter(is_wanted)?;
    options.note_at(path, used::file(&file));
    options.note_beside(near, path, used::file(&file));
    Some(debug)
}

/// Returns where the file of a unit may be: its recorded path, and beside the file that contains
/// the unit.
fn paths(options: &SymbolOptions, near: &Path, skeleton: &UnitOf<'_>) -> Vec<PathBuf> {
    let text = |value| text(&skeleton.dwarf, &skeleton.unit, value);
    let Some(name) = skeleton.unit.dwo_name().ok().flatten().and_then(text) else {
        return Vec::new();
    };
    let name = Path::new(OsStr::from_bytes(name.slice()));
    let folder = skeleton.unit.comp_dir.map(|folder| Path::new(OsStr::from_bytes(folder.slice())));
    let built = folder.map_or_else(|| name.to_owned(), |folder| folder.join(name));
    let beside = near.parent().zip(name.file_name()).map(|(folder, name)| folder.join(name));
    [Some(options.path(built.as_os_str().as_bytes())), beside].into_iter().flatten().collect()
}

/// Finds the unit with an id, and gives it the low address and the bases of its skeleton unit.
fn unit<'d>(
    dwarf: Rc<Dwarf<Slice<'d>>>,
    skeleton: &UnitOf<'d>,
    id: DwoId,
    number: u32,
) -> Option<UnitOf<'d>> {
    let mut unit = find_front(&dwarf, id)?.unit;
    unit.copy_relocated_attributes(&skeleton.unit);
    Some(UnitOf { place: DwarfFile::Split(number), dwarf, unit: Rc::new(unit) })
}

/// Finds the unit with an id.
fn find_front<'d>(dwarf: &Dwarf<Slice<'d>>, id: DwoId) -> Option<Front<'d>> {
    // Limit on the units whose first entry is read. Before DWARF 5 the id is there, not in the
    // header, and a file normally has one such unit.
    const LOOKED_AT: usize = 16;
    let is_other = |kind| match kind {
        UnitType::SplitCompilation(found) => found != id,
        kind => kind != UnitType::Compilation,
    };
    let tables = AbbreviationTables::for_units(dwarf);
    let mut headers = dwarf.units();
    let mut looked_at = 0;
    while let Ok(Some(header)) = headers.next() {
        if is_other(header.type_()) {
            continue;
        }
        let front = Front::read(dwarf, header, tables.get(dwarf, &header)?)?;
        if front.unit.dwo_id == Some(id) {
            return Some(front);
        }
        looked_at += 1;
        if looked_at == LOOKED_AT {
            return None;
        }
    }
    None
}
