//! Addresses to lines: runs the line number program of a unit (DWARF 5, section 6.2) once for all
//! requested addresses, and keeps no rows.

use gimli::{ColumnType, Dwarf, IncompleteLineProgram, LineProgramHeader, Unit};

use super::file::Slice;
use super::front::text;
use crate::limits;

/// A place in a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SourcePosition {
    /// The file's number in the unit's file table.
    pub(super) file: Option<u64>,
    /// Line; 0 if unknown.
    pub(super) line: u32,
    /// Column; 0 if unknown.
    pub(super) column: u32,
}

/// Finds the positions of sorted addresses: that of the last row at or before each. If sequences
/// overlap, the first one counts.
pub(super) fn positions(
    program: IncompleteLineProgram<Slice<'_>>,
    addresses: &[u64],
) -> Vec<Option<SourcePosition>> {
    let mut positions = vec![None; addresses.len()];
    // Rows of a damaged program may cover all addresses many times.
    let mut left = addresses.len().saturating_mul(64).saturating_add(1 << 24);
    let mut rows = program.rows();
    // The previous row of the sequence: its address, its position, and the index of the first
    // requested address that isn't before it.
    let mut before: Option<(u64, SourcePosition, usize)> = None;
    while let Ok(Some((_, row))) = rows.next_row() {
        let address = row.address();
        let mut next = match before {
            Some((from, place, at)) if address > from => {
                let rest = addresses.get(at..).unwrap_or_default();
                let held = rest.iter().take_while(|asked| **asked < address).count();
                left = left.saturating_sub(held);
                if left == 0 {
                    break;
                }
                for slot in positions.iter_mut().skip(at).take(held) {
                    slot.get_or_insert(place);
                }
                at + held
            }
            Some((_, _, at)) => at,
            None => addresses.partition_point(|asked| *asked < address),
        };
        if before.is_some_and(|(from, ..)| address < from) {
            next = addresses.partition_point(|asked| *asked < address);
        }
        let column = match row.column() {
            ColumnType::LeftEdge => 0,
            ColumnType::Column(column) => u32::try_from(column.get()).unwrap_or(0),
        };
        let line = row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(0));
        let place = SourcePosition { file: Some(row.file_index()), line, column };
        before = (!row.end_sequence()).then_some((address, place, next));
    }
    positions
}

/// Joins the path of a unit's file: compilation directory, folder, name. `file` counts from 0, and
/// before DWARF 5 from 1.
pub(super) fn path(
    dwarf: &Dwarf<Slice<'_>>,
    unit: &Unit<Slice<'_>>,
    header: &LineProgramHeader<Slice<'_>>,
    file: u64,
) -> Option<Vec<u8>> {
    let file = header.file(file)?;
    let of = |value| text(dwarf, unit, value).map(|text| text.slice());
    let mut path = of(file.path_name())?.to_vec();
    path.truncate(limits::NAME_BYTES);
    let folder = file.directory(header).and_then(of);
    let comp_dir = unit.comp_dir.map(|folder| folder.slice());
    for folder in [folder, comp_dir].into_iter().flatten() {
        if path.first() == Some(&b'/') || folder.is_empty() {
            break;
        }
        let slash: &[u8] = if folder.ends_with(b"/") { b"" } else { b"/" };
        path = [folder, slash, &path].concat();
        // Folder 0 is the compilation directory.
        if Some(folder) == comp_dir {
            break;
        }
    }
    Some(path)
}
