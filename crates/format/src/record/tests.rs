mod kernel;
mod layout;
mod recorder;
mod sample;

use perf_event_open_sys::bindings::*;

use super::*;
use crate::abi::ReadFormat;

/// The body of a record, in one byte order.
struct Body(Vec<u8>, Endian);

impl Body {
    fn put(mut self, little: &[u8]) -> Self {
        match self.1 {
            Endian::Little => self.0.extend(little),
            Endian::Big => self.0.extend(little.iter().rev()),
        }
        self
    }

    fn u16(self, number: u16) -> Self {
        self.put(&number.to_le_bytes())
    }

    fn u32(self, number: u32) -> Self {
        self.put(&number.to_le_bytes())
    }

    fn u64(self, number: u64) -> Self {
        self.put(&number.to_le_bytes())
    }

    fn words(self, numbers: &[u64]) -> Self {
        numbers.iter().fold(self, |body, number| body.u64(*number))
    }

    fn text(mut self, text: &[u8]) -> Self {
        self.0.extend(text);
        self
    }

    fn record(&self, kind: u32, misc: u32) -> RawRecord<'_> {
        RawRecord { kind, misc: misc.try_into().unwrap(), body: &self.0, endian: self.1 }
    }
}

fn both_orders(check: impl Fn(Body)) {
    check(Body(Vec::new(), Endian::Little));
    check(Body(Vec::new(), Endian::Big));
}

/// Asserts that the record is decoded as `wanted`, and that fewer than `needed` bytes are an error.
fn check(body: &Body, kind: u32, misc: u32, needed: usize, wanted: &Record<'_>) {
    assert_eq!(body.record(kind, misc).decode().as_ref(), Ok(wanted));
    for len in 0..body.0.len() {
        let cut = Body(body.0[..len].to_vec(), body.1);
        let decoded = cut.record(kind, misc).decode();
        let error = DecodeError::Truncated { kind, len };
        assert_eq!(decoded.err(), (len < needed).then_some(error), "{len} of {needed} bytes");
    }
}

const EVERYTHING: u32 = PERF_SAMPLE_MAX - 1 - PERF_SAMPLE_WEIGHT;

fn everything() -> Layout {
    Layout {
        sample_type: EVERYTHING.into(),
        read_format: ReadFormat::all(),
        branch_sample_type: u64::from(PERF_SAMPLE_BRANCH_HW_INDEX | PERF_SAMPLE_BRANCH_COUNTERS),
        regs_user: 0b1001,
        regs_intr: 0b10,
        sample_id_all: true,
        is_inherited: false,
    }
}

#[test]
fn finds_the_end_of_each_record() {
    let bytes = [9, 0, 0, 0, 2, 0, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 0];
    let mut records = Records::new(&bytes, Endian::Little);
    let first = records.next().unwrap();
    assert_eq!(
        (first.kind, first.misc, first.size(), first.body),
        (PERF_RECORD_SAMPLE, 2, 16, &[1, 2, 3, 4, 5, 6, 7, 8][..])
    );
    assert_eq!(records.next(), None);
    assert_eq!(records.rest(), [1, 0]);
    assert_eq!(
        RawRecord::first(&[9, 0, 0, 0, 0, 0, 7, 0, 0], Endian::Little),
        None,
        "smaller than its header"
    );
    assert_eq!(
        RawRecord::first(&[0, 0, 0, 9, 0, 2, 0, 8], Endian::Big).map(|r| (r.kind, r.misc)),
        Some((9, 2))
    );
}

#[test]
fn unknown_kinds_are_no_error() {
    let body = Body(vec![1, 2, 3], Endian::Little);
    for kind in [0, 63, 200, u32::MAX] {
        assert_eq!(body.record(kind, 0).decode(), Ok(Record::Unknown), "{kind}");
    }
    assert_eq!(
        (kind::name(9), kind::name(68), kind::name(200)),
        (Some("SAMPLE"), Some("FINISHED_ROUND"), None)
    );
}
