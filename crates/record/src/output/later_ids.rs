//! Ids of counters that are opened while a file is written: those of CPUs that come back.

use rustix::io::Errno;
use tare_format::file::writer::Beginning;

use super::disk::DiskFile;
use super::write::write_at;

/// Ids for which a file has room at least, of an event with few.
const FEWEST: usize = 16;

/// How often all counters of an event find room again: so often a machine may sleep.
const TIMES: usize = 4;

/// For how many later ids of an event a file has room, by how many it has. Where none is left only a
/// file that is not finished lacks them.
pub(super) fn room(ids: usize) -> usize {
    (TIMES * ids).max(FEWEST)
}

/// Writes ids of each event where the beginning of a file has room for them; returns how many system
/// calls that took.
pub(super) fn write(
    beginning: &mut Beginning,
    file: &dyn DiskFile,
    ids: &[Vec<u64>],
) -> Result<u64, Errno> {
    let mut calls = 0;
    let ids = ids.iter().enumerate();
    for (event, id) in ids.flat_map(|(event, ids)| ids.iter().map(move |id| (event, id))) {
        let Some(at) = beginning.room.take(event) else { continue };
        write_at(file, &id.to_ne_bytes(), at)?;
        calls += 1;
        // A file that was truncated gets its beginning again.
        if let Some(bytes) =
            usize::try_from(at).ok().and_then(|at| beginning.bytes.get_mut(at..at + 8))
        {
            bytes.copy_from_slice(&id.to_ne_bytes());
        }
    }
    Ok(calls)
}

/// One id of each event at a time, as a stream tells them. An event that has fewer repeats its last.
pub(super) fn each(ids: &[Vec<u64>]) -> impl Iterator<Item = Vec<u64>> {
    let most = ids.iter().map(Vec::len).max().unwrap_or(0);
    (0..most).map(|nth| {
        ids.iter().map(|ids| ids.get(nth).or(ids.last()).copied().unwrap_or(0)).collect()
    })
}
