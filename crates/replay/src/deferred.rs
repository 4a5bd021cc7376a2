//! User call chains that the kernel records after their samples (Linux 6.19,
//! `perf_event_attr.defer_callchain`).
//!
//! ```text
//! SAMPLE               callchain: kernel .. PERF_CONTEXT_USER_DEFERRED cookie      held back
//! SAMPLE               callchain: kernel .. PERF_CONTEXT_USER_DEFERRED cookie      held back
//! CALLCHAIN_DEFERRED   cookie, callchain: PERF_CONTEXT_USER ..                     both go out with it
//! ```
//! The kernel records the user part when the thread returns to user code, which may take long. Other
//! records are passed on meanwhile, so held-back samples reach the sink later than their time.

use std::collections::VecDeque;

use tare_format::Endian;
use tare_format::abi::Flags;
use tare_format::abi::bindings::{PERF_CONTEXT_MAX, PERF_CONTEXT_USER_DEFERRED};
use tare_format::file::Description;
use tare_format::record::{RawRecord, Sample};

/// Limits of held-back samples, in number and in bytes. The samples of a thread that never returns to
/// user code stay until then.
const SAMPLES: usize = 1 << 12;
const BYTES: usize = 16 << 20;

/// Samples that wait for their user call chain.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    waiting: VecDeque<DeferredSample>,
    bytes: usize,
    /// Samples passed on without it.
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

/// Returns the cookie that a sample shares with its user call chain, or `None` if that isn't deferred.
pub(crate) fn cookie(sample: &Sample<'_>) -> Option<u64> {
    let mut words = sample.callchain?.iter();
    words.find(|word| *word == PERF_CONTEXT_USER_DEFERRED)?;
    words.next()
}

/// The addresses of a deferred call chain, the innermost first.
pub(crate) fn addresses(callchain: impl Iterator<Item = u64>) -> Vec<u64> {
    callchain.filter(|word| *word < PERF_CONTEXT_MAX).collect()
}

impl Deferred {
    /// Holds a sample back. Returns one that can't wait any longer.
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
        if self.waiting.len() > SAMPLES || self.bytes > BYTES { self.oldest() } else { None }
    }

    /// Takes the oldest sample, without its user call chain.
    pub(crate) fn oldest(&mut self) -> Option<DeferredSample> {
        let held = self.waiting.pop_front()?;
        self.bytes -= held.body.len();
        self.missing += 1;
        Some(held)
    }

    /// Takes the samples of a user call chain.
    pub(crate) fn take(&mut self, cookie: u64) -> Vec<DeferredSample> {
        let (taken, waiting) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition::<VecDeque<_>, _>(|held| held.cookie == cookie);
        self.waiting = waiting;
        self.bytes -= taken.iter().map(|held| held.body.len()).sum::<usize>();
        taken.into()
    }
}
