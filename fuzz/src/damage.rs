//! Damages inputs.

use fastrand::Rng;

/// Size from which an input isn't extended, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// Numbers that break sizes and counts.
const HURTFUL: [u64; 12] =
    [0, 1, 7, 8, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 32, u64::MAX >> 1, u64::MAX];

/// Changes one to eight places. Half of them are drawn from the first 256 bytes, where offsets and
/// counts are.
pub fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..rng.usize(1..=8) {
        if bytes.is_empty() {
            bytes.push(rng.u8(..));
        }
        let front = if rng.bool() { bytes.len() } else { bytes.len().min(256) };
        let at = rng.usize(..front);
        let end = (at + rng.usize(1..=64)).min(bytes.len());
        match rng.u8(..8) {
            0 => bytes[at] ^= 1 << rng.u8(..8),
            1 => bytes[at] = rng.u8(..),
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..end)),
            4 if bytes.len() < MAX_BYTES => {
                let piece = bytes[at..end].to_vec();
                let to = rng.usize(..bytes.len());
                drop(bytes.splice(to..to, piece));
            }
            5 => bytes[at..end].fill(if rng.bool() { 0 } else { 0xff }),
            _ => write_number(bytes, at, rng),
        }
    }
}

/// Writes a number of 2, 4 or 8 bytes, mostly at an aligned offset.
fn write_number(bytes: &mut [u8], at: usize, rng: &mut Rng) {
    let size = [2, 4, 8][rng.usize(..3)];
    let at = if rng.u8(..4) == 0 { at } else { at - at % size };
    let near = HURTFUL[rng.usize(..HURTFUL.len())].wrapping_add(rng.u64(..5)).wrapping_sub(2);
    if let Some(place) = bytes.get_mut(at..at + size) {
        place.copy_from_slice(&near.to_le_bytes()[..size]);
    }
}
