//! Recordings of other machines, written by the tests record by record.

use std::path::Path;

use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::file::writer::{BuildId, Description, EventDescription, Feature, HEADER_SIZE};
use tare_format::record::encode::Encoder;
use tare_format::record::{FileId, Mmap, RecordHeader, kind};

/// `PERF_SAMPLE_IP`, `PERF_SAMPLE_TID`, `PERF_SAMPLE_TIME` and `PERF_SAMPLE_CALLCHAIN`.
const SAMPLE_TYPE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 5;

/// The start of a call chain's kernel part (`PERF_CONTEXT_KERNEL`).
const KERNEL_PART: u64 = u64::MAX - 127;

/// `PERF_RECORD_MISC_KERNEL`.
const KERNEL: u16 = 1;

/// A recording of kernel code.
pub(crate) struct WrittenKernel<'a> {
    pub(crate) release: &'a str,
    /// Mappings: name or path, build id, first address, size in bytes, offset.
    pub(crate) mappings: Vec<(&'a str, &'a str, u64, u64, u64)>,
    /// Addresses of the samples; each call chain is that address alone.
    pub(crate) addresses: Vec<u64>,
}

impl WrittenKernel<'_> {
    pub(crate) fn write(&self, to: &Path) {
        let mut data = Vec::new();
        let encoder = Encoder::default();
        for (path, _, start, len, pgoff) in &self.mappings {
            let path = path.as_bytes();
            let file = FileId::None;
            let mmap = Mmap {
                pid: -1,
                tid: 0,
                start: *start,
                len: *len,
                pgoff: *pgoff,
                file,
                prot: 0,
                flags: 0,
                path,
                is_data: false,
            };
            encoder.mmap(&mut data, &mmap).unwrap();
        }
        for (time, address) in (1_u64..).zip(&self.addresses) {
            let ids = 7 | 7 << 32;
            let body = [*address, ids, time, 2, KERNEL_PART, *address];
            let header = RecordHeader::new(kind::PERF_RECORD_SAMPLE, KERNEL, 8 * body.len());
            data.extend(header.unwrap().encode());
            body.iter().for_each(|word| data.extend(word.to_ne_bytes()));
        }
        let id = |(path, id, ..): &(&str, &str, u64, u64, u64)| BuildId {
            kernel: true,
            id: hex(id),
            path: path.strip_suffix("_text").unwrap_or(path).to_owned(),
        };
        let attr = Attr {
            kind: 1,
            sampling: Sampling::Period(1),
            sample_type: SAMPLE_TYPE,
            flags: Flags::empty(),
            ..Attr::default()
        };
        let event = EventDescription { attr, ids: vec![1], name: "cpu-clock".to_owned() };
        let description = Description {
            events: vec![event],
            features: vec![
                Feature::BuildIds(self.mappings.iter().map(id).collect()),
                Feature::OsRelease(self.release.to_owned()),
                Feature::Arch(std::env::consts::ARCH.to_owned()),
            ],
            tracing_data: None,
        };
        let start = HEADER_SIZE as u64;
        let ending = description.ending(&(start..start + data.len() as u64)).unwrap();
        std::fs::write(to, [&ending.header[..], &data, &ending.tail].concat()).unwrap();
    }
}

/// Parses hexadecimal digits.
fn hex(digits: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}
