//! Ids of counters that are opened while a file is written, because CPUs came back online.

use rustix::io::Errno;
use tare_format::file::writer::Beginning;

use super::disk::DiskFile;
use super::write::write_at;

/// Smallest number of ids for which a file reserves room, per event.
const FEWEST: usize = 16;

/// Number of times that all counters of an event can be reopened, as after a suspend, before the
/// room runs out.
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
pub(super) fn stream_rounds(ids: &[Vec<u64>]) -> impl Iterator<Item = Vec<u64>> {
    let most = ids.iter().map(Vec::len).max().unwrap_or(0);
    (0..most).map(|nth| {
        ids.iter().map(|ids| ids.get(nth).or(ids.last()).copied().unwrap_or(0)).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_with_fewer_ids_repeats_its_last_in_a_stream() {
        let rounds: Vec<_> = stream_rounds(&[vec![1, 2, 3], vec![7], vec![]]).collect();
        assert_eq!(rounds, [[1, 7, 0], [2, 7, 0], [3, 7, 0]]);
    }

    #[test]
    fn a_file_has_room_for_reopening_all_counters() {
        assert_eq!([0, 1, 4, 5, 100].map(room), [16, 16, 16, 20, 400]);
    }
}
