//! User call chains that the kernel records after their samples (Linux 6.19,
//! `perf_event_attr.defer_callchain`).
//!
//! ```text
//! SAMPLE               callchain: kernel .. PERF_CONTEXT_USER_DEFERRED cookie   held back
//! SAMPLE               callchain: kernel .. PERF_CONTEXT_USER_DEFERRED cookie   held back
//! CALLCHAIN_DEFERRED   cookie, callchain: PERF_CONTEXT_USER ..                  delivers both
//! ```
//! The kernel records the user part when the thread returns to user code, which may take long.
//! Other records are passed on meanwhile, so held-back samples reach the sink later than their
//! time.

use std::collections::VecDeque;

use tare_format::Endian;
use tare_format::abi::Flags;
use tare_format::abi::bindings::{PERF_CONTEXT_MAX, PERF_CONTEXT_USER_DEFERRED};
use tare_format::file::Description;
use tare_format::record::{RawRecord, Sample};

/// Limits of held-back samples, in number and in bytes. Samples of a thread that doesn't return to
/// user code stay until a limit is exceeded or the recording ends.
const SAMPLES: usize = 1 << 12;
const BYTES: usize = 16 << 20;

/// Samples that wait for their user call chain.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    waiting: VecDeque<DeferredSample>,
    bytes: usize,
    /// Number of samples passed on without their user call chain.
    pub(crate) missing: u64,
}

/// A held-back sample.
#[derive(Debug)]
pub(crate) struct DeferredSample {
    cookie: u64,
    pub(crate) time_ns: Option<u64>,
    kind: u32,
    misc: u16,
    body: Box<[u8]>,
    endian: Endian,
}

impl DeferredSample {
    pub(crate) fn record(&self) -> RawRecord<'_> {
        RawRecord { kind: self.kind, misc: self.misc, body: &self.body, endian: self.endian }
    }
}

/// Whether samples of a recording may wait for their user call chain.
pub(crate) fn has_deferred(description: &Description) -> bool {
    let mut events = description.events().iter();
    events.any(|event| event.attr.flags.contains(Flags::DEFER_CALLCHAIN))
}

/// Returns the cookie that a sample shares with its user call chain, or `None` if that isn't
/// deferred.
pub(crate) fn find_cookie(sample: &Sample<'_>) -> Option<u64> {
    let mut words = sample.callchain?.iter();
    words.find(|word| *word == PERF_CONTEXT_USER_DEFERRED)?;
    words.next()
}

/// Returns the addresses of a deferred call chain without its markers, the innermost first.
pub(crate) fn collect_addresses(callchain: impl Iterator<Item = u64>) -> Vec<u64> {
    callchain.filter(|word| *word < PERF_CONTEXT_MAX).collect()
}

impl Deferred {
    /// Holds a sample back. If a limit is exceeded, returns the oldest sample, without its user
    /// call chain.
    pub(crate) fn hold(
        &mut self,
        cookie: u64,
        time_ns: Option<u64>,
        raw: &RawRecord<'_>,
    ) -> Option<DeferredSample> {
        let RawRecord { kind, misc, body, endian } = *raw;
        self.bytes += body.len();
        self.waiting.push_back(DeferredSample {
            cookie,
            time_ns,
            kind,
            misc,
            body: body.into(),
            endian,
        });
        if self.waiting.len() > SAMPLES || self.bytes > BYTES { self.take_oldest() } else { None }
    }

    /// Takes the oldest sample, without its user call chain.
    pub(crate) fn take_oldest(&mut self) -> Option<DeferredSample> {
        let held = self.waiting.pop_front()?;
        self.bytes -= held.body.len();
        self.missing += 1;
        Some(held)
    }

    /// Takes the samples that wait for the user call chain with a cookie.
    pub(crate) fn take(&mut self, cookie: u64) -> Vec<DeferredSample> {
        let (taken, waiting) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition::<VecDeque<_>, _>(|held| held.cookie == cookie);
        self.waiting = waiting;
        self.bytes -= taken.iter().map(|held| held.body.len()).sum::<usize>();
        taken.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(deferred: &mut Deferred, cookie: u64, bytes: usize) -> Option<DeferredSample> {
        let body = vec![0; bytes];
        let raw = RawRecord { kind: 9, misc: 0, body: &body, endian: Endian::NATIVE };
        deferred.hold(cookie, Some(cookie), &raw)
    }

    #[test]
    fn a_chain_takes_all_samples_with_its_cookie_and_their_bytes() {
        let mut deferred = Deferred::default();
        for cookie in [7, 8, 7] {
            assert!(hold(&mut deferred, cookie, 16).is_none());
        }
        assert_eq!(deferred.take(7).len(), 2);
        assert!(deferred.take(7).is_empty());
        assert_eq!((deferred.bytes, deferred.missing), (16, 0));
        assert_eq!(deferred.take_oldest().and_then(|held| held.time_ns), Some(8));
        assert_eq!((deferred.bytes, deferred.missing), (0, 1));
    }

    #[test]
    fn the_oldest_sample_leaves_if_too_many_bytes_wait() {
        let mut deferred = Deferred::default();
        assert!(hold(&mut deferred, 1, BYTES).is_none());
        let oldest = hold(&mut deferred, 2, 1).unwrap();
        assert_eq!((oldest.cookie, deferred.bytes, deferred.missing), (1, 1, 1));
    }
}
