//! Reads what hotspot's reader of recordings writes: `QPERFSTREAM` and a version, then messages, each
//! after its length. Numbers in messages are big-endian, as QDataStream writes them.

use std::collections::{BTreeMap, HashMap};

/// The call chain of each sample by time and thread, without markers.
pub(super) type Chains = BTreeMap<(u64, i32), Vec<u64>>;

const MAGIC: &[u8] = b"QPERFSTREAM\0";

/// Kinds of messages.
const LOCATION: u8 = 3;
const SAMPLE: u8 = 13;

/// The fields of a message.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn word(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take()?))
    }

    fn long(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.take()?))
    }
}

/// Returns the chain of each sample; `None` if the bytes have another format.
pub(super) fn chains(bytes: &[u8]) -> Option<Chains> {
    /// Bytes of the version.
    const VERSION: usize = 4;
    let mut rest = bytes.strip_prefix(MAGIC)?.get(VERSION..)?;
    let mut locations: HashMap<u32, u64> = HashMap::new();
    let mut chains = Chains::new();
    while let Some((length, after)) = rest.split_first_chunk() {
        let (message, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        rest = after;
        let mut fields = Fields(message);
        match fields.take()? {
            [LOCATION] => {
                let id = fields.word()?;
                locations.insert(id, fields.long()?);
            }
            [SAMPLE] => {
                let [_pid, tid] = [fields.word()?, fields.word()?];
                let time_ns = fields.long()?;
                let [_cpu, frames] = [fields.word()?, fields.word()?];
                let frame = |_| locations.get(&fields.word()?).copied();
                let chain = (0..frames).map(frame).collect::<Option<Vec<u64>>>()?;
                chains.insert((time_ns, i32::try_from(tid).ok()?), chain);
            }
            _ => {}
        }
    }
    Some(chains)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_the_addresses_of_their_locations() {
        let location = [&[LOCATION][..], &7_u32.to_be_bytes(), &0x1234_u64.to_be_bytes()].concat();
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let [task, frames]: [Vec<u8>; 2] = [words(&[1, 2]), words(&[0, 1, 7])];
        let sample = [&[SAMPLE][..], &task, &99_u64.to_be_bytes(), &frames].concat();
        let message =
            |bytes: &[u8]| [&u32::try_from(bytes.len()).unwrap().to_le_bytes(), bytes].concat();
        let stream = [MAGIC, &[0; 4], &message(&location), &message(&sample)].concat();
        assert_eq!(chains(&stream), Some(Chains::from([((99, 2), vec![0x1234])])));
        assert_eq!(chains(&stream[1..]), None);
    }
}
