//! Ids of counters that are opened while a file is written: those of CPUs that come back.

use rustix::io::Errno;
use tare_format::file::writer::Beginning;

use super::disk::DiskFile;
use super::write::write_at;

/// Ids of each event for which a file has room. Where none is left only a file that is not finished
/// lacks them.
pub(super) const ROOM: usize = 16;

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
