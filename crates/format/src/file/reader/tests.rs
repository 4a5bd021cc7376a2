use std::io::Cursor as Source;

use perf_event_open_sys::bindings::{PERF_RECORD_LOST, PERF_RECORD_SAMPLE, PERF_SAMPLE_IDENTIFIER};

use super::*;
use crate::file::Gap;
use crate::limits;

/// A recording under construction, in one byte order.
struct Bytes(Vec<u8>, Endian);

impl Bytes {
    fn magic(endian: Endian) -> Self {
        Self(
            if endian == Endian::Big { b"2ELIFREP".to_vec() } else { b"PERFILE2".to_vec() },
            endian,
        )
    }

    fn put(mut self, little: &[u8]) -> Self {
        match self.1 {
            Endian::Little => self.0.extend(little),
            Endian::Big => self.0.extend(little.iter().rev()),
        }
        self
    }

    fn words(self, words: &[u64]) -> Self {
        words.iter().fold(self, |bytes, word| bytes.put(&word.to_le_bytes()))
    }

    fn u32(self, number: u32) -> Self {
        self.put(&number.to_le_bytes())
    }

    fn text(mut self, text: &[u8]) -> Self {
        self.0.extend(text);
        self
    }

    /// Appends a record's header; `size` is the length of the body.
    fn header(self, kind: u32, size: u16) -> Self {
        self.u32(kind).put(&[0, 0]).put(&(size + 8).to_le_bytes())
    }

    /// Appends the first version of `perf_event_attr`, with `config`, and `PERF_SAMPLE_IDENTIFIER`
    /// as `sample_type`.
    fn attr(self, config: u64) -> Self {
        self.u32(1).u32(64).words(&[config, 0, PERF_SAMPLE_IDENTIFIER.into(), 0, 0, 0, 0])
    }
}

const DATA: u64 = 104 + 8 + 80;

/// Makes a file with an event of id 7, `samples` samples, and two features. `data_size` is the size
/// of the data that the header states, and may be wrong.
fn file(endian: Endian, samples: u64, data_size: u64) -> Bytes {
    let bytes = Bytes::magic(endian).words(&[
        104,
        80,
        112,
        80,
        DATA,
        data_size,
        0,
        0,
        1 << features::HOSTNAME | 1 << features::NRCPUS,
        0,
        0,
        0,
    ]);
    let bytes = bytes.words(&[7]).attr(42).words(&[104, 8]);
    let bytes =
        (0..samples).fold(bytes, |bytes, _| bytes.header(PERF_RECORD_SAMPLE, 8).words(&[7]));
    let sections = bytes.0.len() as u64 + 32;
    bytes.words(&[sections, 8, sections + 8, 8]).u32(4).text(b"box\0").u32(8).u32(4)
}

/// Returns the kinds of all records, and the losses.
fn read<R: Read>(mut reader: Reader<R>) -> (Vec<u32>, Losses) {
    let mut kinds = Vec::new();
    while let Some(entry) = reader.next_record().unwrap() {
        kinds.push(entry.record.kind);
    }
    assert!(reader.next_record().unwrap().is_none(), "the end stays the end");
    (kinds, reader.losses().clone())
}

fn open(bytes: Bytes) -> Reader<Source<Vec<u8>>> {
    Reader::open(Source::new(bytes.0)).unwrap()
}

#[test]
fn reads_files_of_both_byte_orders() {
    for endian in [Endian::Little, Endian::Big] {
        let mut reader = open(file(endian, 2, 32));
        let description = reader.description();
        assert_eq!(
            description.events().iter().map(|e| (e.attr.config, e.ids.clone())).collect::<Vec<_>>(),
            [(42, vec![7])]
        );
        assert_eq!(description.features().text(features::HOSTNAME), Ok(&b"box"[..]));
        assert_eq!(description.features().cpus(), Ok((8, 4)));
        assert_eq!(
            description.features().text(features::ARCH),
            Err(features::FeatureError::Absent(features::ARCH))
        );
        let entry = reader.next_record().unwrap().unwrap();
        assert_eq!(
            (entry.offset, entry.description.lookup().index_of(&entry.record)),
            (DATA, Some(0))
        );
        let (kinds, losses) = read(reader);
        assert_eq!(
            (kinds, losses.is_empty(), losses.unfinished),
            (vec![PERF_RECORD_SAMPLE], true, false)
        );
    }
}

#[test]
fn reads_the_first_version_of_the_format_in_both_byte_orders() {
    for endian in [Endian::Little, Endian::Big] {
        let mut first = file(endian, 2, 32);
        first.0[..8].copy_from_slice(b"PERFFILE");
        let reader = open(first);
        assert_eq!(reader.endian(), endian);
        assert_eq!(reader.description().events()[0].attr.config, 42);
        assert_eq!(reader.description().features().text(features::HOSTNAME), Ok(&b"box"[..]));
        assert_eq!(read(reader).0, [PERF_RECORD_SAMPLE; 2]);

        let stream = Bytes(b"PERFFILE".to_vec(), endian).words(&[16]);
        let stream = stream.header(PERF_RECORD_SAMPLE, 8).words(&[7]);
        assert_eq!(read(Reader::stream(&stream.0[..]).unwrap()).0, [PERF_RECORD_SAMPLE]);
    }
}

#[test]
fn reads_a_header_without_the_bits_of_features() {
    for endian in [Endian::Little, Endian::Big] {
        let data = 72 + 8 + 80;
        let bytes = Bytes(b"PERFFILE".to_vec(), endian);
        let bytes = bytes.words(&[72, 80, 80, 80, data, 16, 0, 0]).words(&[7]).attr(42);
        let reader = open(bytes.words(&[72, 8]).header(PERF_RECORD_SAMPLE, 8).words(&[7]));
        assert_eq!(reader.description().events()[0].ids, [7]);
        let (kinds, losses) = read(reader);
        assert_eq!((kinds, losses.is_empty()), (vec![PERF_RECORD_SAMPLE], true));
    }
}

#[test]
fn reads_the_file_of_a_killed_recorder() {
    let mut bytes = file(Endian::Little, 3, 0);
    bytes.0.truncate(104 + 88 + 48);
    bytes.0.extend([0; 100]);
    let (kinds, losses) = read(open(bytes));
    assert_eq!(kinds, [PERF_RECORD_SAMPLE; 3]);
    assert!(losses.unfinished);
    assert_eq!(losses.gaps()[0], Gap { offset: DATA + 48, bytes: 96, why: LossReason::Zeros });
    assert_eq!(losses.bytes(), 100);
}

#[test]
fn finds_records_after_zeros() {
    let bytes = Bytes::magic(Endian::Big)
        .words(&[16])
        .header(PERF_RECORD_LOST, 0)
        .words(&[0; 5])
        .header(PERF_RECORD_SAMPLE, 0);
    let (kinds, losses) = read(Reader::stream(&bytes.0[..]).unwrap());
    assert_eq!((kinds, losses.bytes()), (vec![PERF_RECORD_LOST, PERF_RECORD_SAMPLE], 40));
}

#[test]
fn reads_the_whole_records_of_a_truncated_file() {
    for cut in 0..48 {
        let mut bytes = file(Endian::Little, 3, 48);
        bytes.0.truncate(usize::try_from(DATA).unwrap() + cut);
        let (kinds, losses) = read(open(bytes));
        assert_eq!(kinds.len(), cut / 16);
        let of = |why| {
            losses.gaps().iter().filter(|gap| gap.why == why).map(|gap| gap.bytes).sum::<u64>()
        };
        assert_eq!(
            (of(LossReason::CutRecord), of(LossReason::CutData), of(LossReason::CutFeature)),
            (cut as u64 % 16, 48 - cut as u64, 32),
            "{cut}"
        );
    }
}

#[test]
fn an_impossible_size_ends_the_data_and_counts_as_a_loss() {
    let mut bytes = file(Endian::Little, 3, 48);
    bytes.0[usize::try_from(DATA).unwrap() + 16 + 6] = 7;
    let (kinds, losses) = read(open(bytes));
    assert_eq!(kinds.len(), 1);
    assert_eq!(losses.gaps(), [Gap { offset: DATA + 16, bytes: 32, why: LossReason::BadSize }]);
}

#[test]
fn a_header_may_hold_any_number() {
    let whole = file(Endian::Little, 2, 32);
    for at in (16..104).step_by(8) {
        for number in [0, 1, 79, u64::MAX, u64::MAX - 7, 1 << 63, 1 << 40] {
            let mut bytes = whole.0.clone();
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
            let (kinds, _) = read(open(Bytes(bytes, Endian::Little)));
            assert!(
                kinds.len() <= 14,
                "{at} {number}: {} records in {} bytes",
                kinds.len(),
                whole.0.len()
            );
        }
    }
}

#[test]
fn refuses_files_that_are_no_recordings() {
    let refused =
        |bytes: &[u8]| Reader::open(Source::new(bytes.to_vec())).err().map(|e| e.to_string());
    assert_eq!(refused(b"").as_deref(), Some("not a perf.data file"));
    assert_eq!(refused(b"\x7fELF\x02\x01\x01\0........").as_deref(), Some("not a perf.data file"));
    assert_eq!(refused(b"ELIFFREP........").as_deref(), Some("not a perf.data file"));
    assert!(matches!(
        Reader::open(Source::new(b"PERFFILE\x68\0\0\0\0\0\0\0....")),
        Err(OpenError::CutHeader)
    ));
    assert!(matches!(
        Reader::open(Source::new(b"PERFILE2\x68\0\0\0\0\0\0\0....")),
        Err(OpenError::CutHeader)
    ));
    assert!(matches!(
        Reader::stream(&file(Endian::Little, 0, 0).0[..]),
        Err(OpenError::FileInPipe)
    ));
}

#[test]
fn learns_events_and_features_from_a_pipe() {
    for endian in [Endian::Little, Endian::Big] {
        let bytes =
            Bytes::magic(endian).words(&[16]).header(kind::HEADER_ATTR, 80).attr(42).words(&[7, 8]);
        let bytes = bytes.header(kind::HEADER_ATTR, 80).attr(42).words(&[7, 8]);
        let bytes =
            bytes.header(kind::HEADER_TRACING_DATA, 8).u32(13).u32(0).text(b"tracing data.\0\0\0");
        let bytes = bytes.header(kind::EVENT_UPDATE, 24).words(&[2, 8]).text(b"cycles\0\0");
        let bytes = bytes
            .header(kind::HEADER_FEATURE, 16)
            .words(&[features::HOSTNAME.into()])
            .u32(4)
            .text(b"box\0");
        let bytes = bytes
            .header(kind::AUXTRACE, 40)
            .words(&[24, 1, 2])
            .u32(3)
            .u32(4)
            .u32(5)
            .u32(0)
            .words(&[u64::MAX; 3]);
        let mut reader = Reader::stream(&bytes.0[..]).unwrap();
        assert!(reader.description().events().is_empty());
        let mut payload = None;
        while let Some(entry) = reader.next_record().unwrap() {
            payload = payload.or(entry.payload);
        }
        let length = bytes.0.len() as u64;
        assert_eq!(payload, Some(Payload { offset: length - 24, size: 24 }));
        let description = reader.description();
        let events: Vec<_> = description
            .events()
            .iter()
            .map(|e| (e.attr.config, e.ids.len(), e.name.as_deref()))
            .collect();
        assert_eq!(
            events,
            [(42, 2, Some(&b"cycles"[..]))],
            "the second description of the same event is not another event"
        );
        assert_eq!(
            description.features().section(features::TRACING_DATA),
            Some(&b"tracing data."[..])
        );
        assert_eq!(description.features().text(features::HOSTNAME), Ok(&b"box"[..]));
        assert!(reader.losses().is_empty());
    }
}

#[test]
fn counts_missing_payloads_as_losses() {
    let bytes = Bytes::magic(Endian::Little)
        .words(&[16])
        .header(kind::AUXTRACE, 40)
        .words(&[u64::MAX; 5])
        .words(&[1, 2]);
    let (kinds, losses) = read(Reader::stream(&bytes.0[..]).unwrap());
    assert_eq!(
        (kinds, losses.gaps()[0].why, losses.bytes()),
        (vec![kind::AUXTRACE], LossReason::CutRecord, u64::MAX - 16)
    );
    let bytes = Bytes::magic(Endian::Little)
        .words(&[16])
        .header(kind::HEADER_TRACING_DATA, 8)
        .u32(u32::MAX)
        .u32(0)
        .words(&[1]);
    let (kinds, losses) = read(Reader::stream(&bytes.0[..]).unwrap());
    assert_eq!(
        (kinds, losses.gaps()[0].why),
        (vec![kind::HEADER_TRACING_DATA], LossReason::OverLimit)
    );
}

/// A source that hands out one byte at a time, and is interrupted in between.
struct Trickle<'a>(&'a [u8], bool);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 { Err(io::ErrorKind::Interrupted.into()) } else { self.0.read(&mut buffer[..1]) }
    }
}

#[test]
fn a_slow_pipe_gives_the_same_records() {
    let bytes = (0..50).fold(Bytes::magic(Endian::Little).words(&[16]), |bytes, i| {
        bytes.header(PERF_RECORD_SAMPLE, 8).words(&[i])
    });
    let (kinds, losses) = read(Reader::stream(Trickle(&bytes.0, false)).unwrap());
    assert_eq!((kinds.len(), losses.is_empty()), (50, true));
}

/// Reads a stream of these compressed records, which together are one zstd stream. Returns the
/// kinds of the decompressed records, and the losses.
fn compressed(parts: &[&[u8]]) -> (Vec<u32>, Losses) {
    let bytes = parts.iter().fold(Bytes::magic(Endian::Little).words(&[16]), |bytes, part| {
        bytes.header(kind::COMPRESSED, u16::try_from(part.len()).unwrap()).text(part)
    });
    let (kinds, losses) = read(Reader::stream(&bytes.0[..]).unwrap());
    (kinds.into_iter().filter(|kind| *kind != kind::COMPRESSED).collect(), losses)
}

/// Compresses this many samples to a zstd frame.
fn frame(samples: u64) -> Vec<u8> {
    let records = (0..samples).fold(Bytes(Vec::new(), Endian::Little), |bytes, i| {
        bytes.header(PERF_RECORD_SAMPLE, 8).words(&[i])
    });
    zstd::encode_all(&records.0[..], 1).unwrap()
}

#[test]
fn decompresses_divided_and_truncated_frames() {
    let whole = frame(50);
    for cut in 0..=whole.len() {
        let (first, second) = whole.split_at(cut);
        let (kinds, losses) = compressed(&[first, second]);
        assert_eq!((kinds.len(), losses.is_empty()), (50, true), "{cut}: {losses:?}");
        // zstd decompresses a block once all of it has arrived.
        let (kinds, _) = compressed(&[first]);
        assert!(kinds.len() <= 50 && (kinds.len() == 50 || cut < whole.len()), "{cut}");
    }
    let (kinds, losses) = compressed(&[&whole, &whole[..whole.len() - 20], &whole]);
    assert!(
        kinds.len() >= 50 && kinds.len() < 150 && !losses.is_empty(),
        "{} {losses:?}",
        kinds.len()
    );
}

#[test]
fn damaged_compressed_data_loses_only_compressed_records() {
    let good = frame(50);
    let garbage = b"no frame at all";
    let (kinds, losses) = compressed(&[&good, garbage, &good]);
    assert_eq!(kinds.len(), 50);
    let why: Vec<_> = losses.gaps().iter().map(|gap| (gap.why, gap.bytes)).collect();
    assert_eq!(
        why,
        [
            (LossReason::Compressed, garbage.len() as u64),
            (LossReason::Compressed, good.len() as u64)
        ]
    );
    // Damage within a frame, and a record of an impossible size.
    for at in 5..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x55;
        let (kinds, losses) = compressed(&[&bad, &good]);
        assert!(
            kinds.len() <= 100
                && losses.gaps().iter().all(|gap| [
                    LossReason::Compressed,
                    LossReason::BadSize,
                    LossReason::CutRecord
                ]
                .contains(&gap.why)),
            "{at}"
        );
    }
    let (kinds, losses) = compressed(&[
        &zstd::encode_all(&[1_u8; 6][..], 1).unwrap(),
        &zstd::encode_all(&[0_u8; 100][..], 1).unwrap(),
    ]);
    assert_eq!((kinds.len(), losses.gaps()[0].why), (0, LossReason::BadSize));
    let bytes = Bytes::magic(Endian::Little)
        .words(&[16])
        .header(kind::COMPRESSED, 8)
        .words(&[0])
        .header(PERF_RECORD_LOST, 0);
    assert_eq!(read(Reader::stream(&bytes.0[..]).unwrap()).0, [kind::COMPRESSED, PERF_RECORD_LOST]);
}

/// Less than 60,000 bytes hold half a gigabyte of records. The reader stops at its limit.
#[test]
fn decompresses_half_a_gigabyte_in_bounded_memory() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    let record =
        Bytes(Vec::new(), Endian::Little).header(PERF_RECORD_SAMPLE, 65_520).text(&[0; 65_520]);
    for _ in 0..8192 {
        io::Write::write_all(&mut encoder, &record.0).unwrap();
    }
    let frame = encoder.finish().unwrap();
    assert!(frame.len() < 60_000, "{}", frame.len());
    let before = peak_bytes();
    let (kinds, losses) = compressed(&[&frame]);
    let most = usize::try_from(limits::UNPACKED).unwrap() / record.0.len();
    assert!((most - 8..=most).contains(&kinds.len()), "{} of {most}", kinds.len());
    assert_eq!(losses.gaps()[0].why, LossReason::OverLimit);
    assert!(peak_bytes() - before < 64 << 20);
}

/// Returns the peak memory of this process in bytes.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// A file that continues with zeros after `bytes`, and counts the bytes read.
struct Sparse {
    bytes: Vec<u8>,
    size: u64,
    at: u64,
    read: u64,
}

impl Read for Sparse {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.size.saturating_sub(self.at)).unwrap();
        let count = into.len().min(left);
        let from = usize::try_from(self.at).unwrap();
        let bytes = self.bytes.get(from..).unwrap_or_default();
        let (front, zeros) = into[..count].split_at_mut(bytes.len().min(count));
        front.copy_from_slice(&bytes[..front.len()]);
        zeros.fill(0);
        self.at += count as u64;
        self.read += count as u64;
        Ok(count)
    }
}

impl Seek for Sparse {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::End(back) => self.size.saturating_add_signed(back),
            SeekFrom::Current(by) => self.at.saturating_add_signed(by),
        };
        Ok(self.at)
    }
}

/// Thousands of events that all claim the same large section of ids.
#[test]
fn reads_overlapping_id_sections_once() {
    const EVENTS: u64 = 8000;
    let ids = 104 + EVENTS * 80;
    let size = limits::IDS as u64 * 8;
    let header = [104, 80, 104, EVENTS * 80, ids, 0, 0, 0, 0, 0, 0, 0];
    let bytes = Bytes::magic(Endian::Little).words(&header);
    let bytes = (0..EVENTS).fold(bytes, |bytes, at| bytes.attr(at).words(&[ids, size]));
    let mut file = Sparse { bytes: bytes.0, size: ids + size, at: 0, read: 0 };
    let reader = Reader::open(&mut file).unwrap();
    assert!(reader.losses().gaps().iter().any(|gap| gap.why == LossReason::OverLimit));
    drop(reader);
    assert!(file.read <= ids + size + (1 << 20), "{} MiB", file.read >> 20);
}
