//! Ids of counters that are opened while a file is written, because CPUs came back online.

use rustix::io::Errno;
use tare_format::file::writer::Beginning;

use super::disk::DiskFile;
use super::write::write_at;

/// Smallest number of ids for which a file reserves room, per event.
const FEWEST: usize = 16;

/// How often all counters of an event can be reopened, as after a suspend, before the room runs
/// out.
const TIMES: usize = 4;

/// Number of later ids that a file reserves room for, given an event's current number. Without
/// room, only an unfinished file lacks them.
pub(super) fn room(ids: usize) -> usize {
    (TIMES * ids).max(FEWEST)
}

/// Writes the ids of each event into the room at the beginning of a file. Returns the number of
/// system calls.
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
        // A truncated file gets its beginning back.
        if let Some(bytes) =
            usize::try_from(at).ok().and_then(|at| beginning.bytes.get_mut(at..at + 8))
        {
            bytes.copy_from_slice(&id.to_ne_bytes());
        }
    }
    Ok(calls)
}

/// Splits ids into rounds of one id per event, as a stream transmits them. An event with fewer ids
/// repeats its last.
pub(super) fn each(ids: &[Vec<u64>]) -> impl Iterator<Item = Vec<u64>> {
    let most = ids.iter().map(Vec::len).max().unwrap_or(0);
    (0..most).map(|nth| {
        ids.iter().map(|ids| ids.get(nth).or(ids.last()).copied().unwrap_or(0)).collect()
    })
}
