//! Pieces of deep user stacks, which only pass from the recorder to its unwinder.

use crate::bytes::Cursor;

use super::RawRecord;

/// A page of a thread's user stack at the time of a sample, beyond what the sample copies. BPF
/// programs write it (`crates/kernel/bpf/deep.bpf.c`), and no recording contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackPiece<'a> {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The time, near the sample's own, by `CLOCK_MONOTONIC`, in nanoseconds. All pieces of a stack
    /// have the same.
    pub time_ns: u64,
    /// The user's instruction pointer.
    pub ip: u64,
    /// The user's stack pointer.
    pub sp: u64,
    /// The address of the first byte.
    pub address: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl<'a> StackPiece<'a> {
    /// The kind of these records: above all kinds of the kernel and of perf.
    pub const KIND: u32 = 0x7461_7265;

    /// Decodes a record; `None` if it is of another kind or too short.
    #[must_use]
    pub fn decode(record: &RawRecord<'a>) -> Option<Self> {
        if record.kind != Self::KIND {
            return None;
        }
        let mut cursor = Cursor::new(record.body, record.endian);
        let pid = cursor.u32()?;
        let tid = cursor.u32()?;
        let time_ns = cursor.u64()?;
        let ip = cursor.u64()?;
        let sp = cursor.u64()?;
        let address = cursor.u64()?;
        Some(Self { pid, tid, time_ns, ip, sp, address, bytes: cursor.rest() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endian;
    use crate::record::Records;

    #[test]
    fn pieces_have_the_layout_of_the_program() {
        let words = [7 | 8 << 32, 9, 0x40_1000, 0x7000_0000, 0x7000_1000, 0xabcd_u64];
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let header = super::super::RecordHeader::new(StackPiece::KIND, 0, body.len()).unwrap();
        let bytes: Vec<u8> = header.encode().into_iter().chain(body).collect();
        let raw = Records::new(&bytes, Endian::NATIVE).next().unwrap();
        let piece = StackPiece::decode(&raw).unwrap();
        assert_eq!((piece.pid, piece.tid, piece.time_ns), (7, 8, 9));
        assert_eq!((piece.ip, piece.sp, piece.address), (0x40_1000, 0x7000_0000, 0x7000_1000));
        assert_eq!(piece.bytes, 0xabcd_u64.to_ne_bytes());
        for length in 8..48 {
            let short = RawRecord { body: &raw.body[..length - 8], ..raw };
            assert_eq!(StackPiece::decode(&short), None, "{length}");
        }
        assert_eq!(StackPiece::decode(&RawRecord { kind: 9, ..raw }), None);
    }
}
