//! Records of ring buffers while they are recorded: the last seconds of samples.
//!
//! ```text
//! time       ----|----------- window ------------| now
//! samples     . . s s s s s s s s s s s s s s s s s
//! forgotten  <---|  whole tables, once a window: what is younger is copied into new ones
//! ```
//! Samples, their names and call chains, threads that ended, address spaces and files that nothing is
//! mapped of: all of it goes when it is older than the window, so that memory depends on what happens
//! within two windows, and not on how long it is recorded.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::time::Duration;

use tare_format::Endian;
use tare_format::file::note::Notes;
use tare_format::file::{Description, Entry, OpenError, Reader};
use tare_format::record::{RawRecord, Record, Records, Sample, kind};
use tare_profile::{Losses, NewIds};

use crate::machine::Machine;
use crate::options::ReplayOptions;
use crate::profile::SampleSink;
use crate::replay::Replay;
use crate::replayed::Replayed;
use crate::sink::Sink;

/// How long a record may be under way between its time and its ring buffer: one that took longer is
/// counted as late.
const UNDER_WAY_NS: u64 = 100_000_000;

/// Copied stacks that are unwound each time that the rings were drained, which takes some 10 ms. More
/// would have whoever looks wait, and be a cost that nobody asked for.
const STACKS: usize = 4096;

/// How records are replayed while they are recorded.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// How long samples are kept at least.
    pub window: Duration,
    /// Where symbols are looked for.
    pub symbols: tare_symbols::SymbolOptions,
    /// A process whose samples are left out: the recorder's own.
    pub left_out: Option<i32>,
}

/// A replay of what is recorded now. Its sink keeps samples for a window; whoever shows them calls
/// [`Live::forget`] from time to time.
#[derive(Debug)]
pub struct Live {
    description: Description,
    replay: Replay,
    notes: Notes,
    window_ns: u64,
    left_out: Option<i32>,
    own_samples: u64,
    /// The time as far as records go, in nanoseconds of their clock.
    now_ns: u64,
    /// What was older than this was forgotten last.
    kept_from_ns: u64,
}

impl Live {
    /// Nothing was recorded yet.
    #[must_use]
    pub fn new(options: LiveOptions) -> Self {
        let LiveOptions { window, symbols, left_out } = options;
        Self {
            description: Description::of_events(Endian::NATIVE, []),
            replay: Replay::new(ReplayOptions {
                symbols,
                most_stacks: Some(STACKS),
                ..ReplayOptions::default()
            }),
            notes: Notes::default(),
            window_ns: nanos(window),
            left_out,
            own_samples: 0,
            now_ns: 0,
            kept_from_ns: 0,
        }
    }

    /// Learns the events that are recorded, and what else a stream begins with
    /// ([`tare_format::file::writer::Description::stream_beginning`]).
    ///
    /// # Errors
    /// These are not the bytes that a stream begins with.
    pub fn describe(&mut self, stream: &[u8]) -> Result<(), OpenError> {
        let mut reader = Reader::stream(stream)?;
        // Bytes in memory are read without errors.
        while let Ok(Some(_)) = reader.next_record() {}
        self.description = reader.description().clone();
        Ok(())
    }

    /// Takes in whole records, one behind the other, in the byte order of this machine.
    pub fn push(&mut self, records: &[u8], sink: &mut SampleSink) {
        for record in Records::new(records, Endian::NATIVE) {
            if record.kind == kind::FINISHED_INIT {
                self.learn(&record);
                continue;
            }
            let entry = Entry { offset: 0, record, description: &self.description, payload: None };
            let mut taken = OwnSampleFilter::new(sink, self.left_out, &mut self.own_samples);
            let Ok(_) = self.replay.push(&entry, &mut taken);
            self.now_ns = self.now_ns.max(taken.newest_ns);
        }
    }

    /// Notes are read at once: they have no time.
    fn learn(&mut self, record: &RawRecord<'_>) {
        // What doesn't follow its beginning is no note.
        let _ = self.notes.absorb(record);
        for note in self.notes.take() {
            self.replay.machine_mut().learn_note(&note);
        }
    }

    /// All that the ring buffers held at this time was pushed, in nanoseconds of the records' clock.
    pub fn drained(&mut self, time_ns: u64, sink: &mut SampleSink) {
        let mut taken = OwnSampleFilter::new(sink, self.left_out, &mut self.own_samples);
        let before_ns = time_ns.saturating_sub(UNDER_WAY_NS);
        let Ok(_) = self.replay.complete_before(before_ns, &self.description, &mut taken);
        self.now_ns = self.now_ns.max(before_ns);
    }

    /// From when on samples are shown, in nanoseconds of the records' clock: those of the last
    /// `window`.
    #[must_use]
    pub fn since_ns(&self, window: Duration) -> u64 {
        self.now_ns.saturating_sub(nanos(window).min(self.window_ns))
    }

    /// Forgets what is older than the window, if that is due: once a window. Ids in the sink's
    /// tables are then others; what they have become is returned.
    pub fn forget(&mut self, sink: &mut SampleSink) -> Option<NewIds> {
        let from_ns = self.now_ns.saturating_sub(self.window_ns);
        if from_ns < self.kept_from_ns.saturating_add(self.window_ns) {
            return None;
        }
        self.kept_from_ns = from_ns;
        self.replay.forget_before(from_ns);
        Some(sink.forget_before(self.replay.machine_mut(), from_ns))
    }

    /// The recorded machine as it is by now.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        self.replay.machine()
    }

    /// The events that are recorded.
    #[must_use]
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// What was lost since the beginning.
    #[must_use]
    pub fn losses(&self) -> Losses {
        Losses { own_samples: self.own_samples, ..self.replay.losses() }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Hands samples on, but for those of the recorder.
struct OwnSampleFilter<'a> {
    sink: &'a mut SampleSink,
    left_out: Option<i32>,
    own_samples: &'a mut u64,
    newest_ns: u64,
}

impl<'a> OwnSampleFilter<'a> {
    fn new(sink: &'a mut SampleSink, left_out: Option<i32>, own_samples: &'a mut u64) -> Self {
        Self { sink, left_out, own_samples, newest_ns: 0 }
    }
}

impl Sink for OwnSampleFilter<'_> {
    type Error = Infallible;

    fn sample(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Result<ControlFlow<()>, Infallible> {
        self.newest_ns = self.newest_ns.max(sample.time_ns.unwrap_or(0));
        if self.left_out.is_some() && sample.fields.head.pid == self.left_out {
            *self.own_samples += 1;
        } else {
            self.sink.take(machine, sample);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn record(
        &mut self,
        _machine: &mut Machine,
        record: &Replayed<'_, Record<'_>>,
    ) -> Result<ControlFlow<()>, Infallible> {
        self.newest_ns = self.newest_ns.max(record.time_ns.unwrap_or(0));
        Ok(ControlFlow::Continue(()))
    }
}
