//! Replays ring buffers while they are recorded, and keeps the last seconds of samples.
//!
//! ```text
//! time       ----|----------- window ------------| now
//! samples     . . s s s s s s s s s s s s s s s s s
//! forgotten  <---|  whole tables, once a window: younger samples are copied into new tables
//! ```
//! Once a window, samples that are older are dropped with their names and call chains, and so are
//! threads that exited before, with their address spaces, and unused files if there are many.
//! Memory therefore depends on the activity within two windows, and not on the length of the
//! recording.

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

/// Longest expected delay between a record's time and its arrival in the ring buffer, in
/// nanoseconds. A slower record may be late.
const UNDER_WAY_NS: u64 = 100_000_000;

/// Limit of copied stacks per round. Unwinding them takes about 10 ms; more would delay the display
/// and cost much CPU time.
const STACKS: usize = 4096;

/// Options of a live replay.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// How long samples are kept, at least.
    pub window: Duration,
    /// Sources of symbols.
    pub symbols: tare_symbols::SymbolOptions,
    /// The recorder's process, whose samples are left out.
    pub left_out: Option<i32>,
}

/// A replay of a running recording. Its sink keeps samples for a window; the caller must call
/// [`Live::forget`] regularly.
#[derive(Debug)]
pub struct Live {
    description: Description,
    replay: Replay,
    notes: Notes,
    window_ns: u64,
    left_out: Option<i32>,
    own_samples: u64,
    /// Time of the latest delivered record, or up to which all were delivered, in nanoseconds of
    /// the recording's clock.
    now_ns: u64,
    /// Everything older was dropped; in nanoseconds of the recording's clock.
    kept_from_ns: u64,
}

impl Live {
    /// Makes a replay without events.
    #[must_use]
    pub fn new(options: LiveOptions) -> Self {
        let LiveOptions { window, symbols, left_out } = options;
        Self {
            description: Description::from_events(Endian::NATIVE, []),
            replay: Replay::new(ReplayOptions {
                symbols,
                most_stacks: Some(STACKS),
                ..ReplayOptions::default()
            }),
            notes: Notes::default(),
            window_ns: to_nanos(window),
            left_out,
            own_samples: 0,
            now_ns: 0,
            kept_from_ns: 0,
        }
    }

    /// Reads the beginning of a stream, which describes the events
    /// ([`tare_format::file::writer::Description::stream_beginning`]).
    ///
    /// # Errors
    /// Fails if the bytes aren't the beginning of a stream.
    pub fn describe(&mut self, stream: &[u8]) -> Result<(), OpenError> {
        self.description = read_beginning(stream)?;
        Ok(())
    }

    /// Replays whole records in this machine's byte order.
    pub fn push(&mut self, records: &[u8], sink: &mut impl LiveSink) {
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

    /// Reads notes at once, because they have no time.
    fn learn(&mut self, record: &RawRecord<'_>) {
        // A part without the note's beginning is dropped.
        let _ = self.notes.absorb(record);
        for note in self.notes.take() {
            self.replay.machine_mut().learn_note(&note);
        }
    }

    /// Delivers records after a drain of all ring buffers that began at `time_ns`, in nanoseconds
    /// of the recording's clock. Records of the last 100 ms before wait, because older ones may
    /// still arrive.
    pub fn drained(&mut self, time_ns: u64, sink: &mut impl LiveSink) {
        let mut taken = OwnSampleFilter::new(sink, self.left_out, &mut self.own_samples);
        let before_ns = time_ns.saturating_sub(UNDER_WAY_NS);
        let Ok(_) = self.replay.complete_before(before_ns, &self.description, &mut taken);
        self.now_ns = self.now_ns.max(before_ns);
    }

    /// Returns the start of the last `window`, or of the kept one if that is shorter, in
    /// nanoseconds of the recording's clock.
    #[must_use]
    pub fn since_ns(&self, window: Duration) -> u64 {
        self.now_ns.saturating_sub(to_nanos(window).min(self.window_ns))
    }

    /// Drops everything older than the window, once per window. Returns the new ids in the sink's
    /// tables after a drop.
    pub fn forget(&mut self, sink: &mut SampleSink) -> Option<NewIds> {
        let from_ns = self.now_ns.saturating_sub(self.window_ns);
        if from_ns < self.kept_from_ns.saturating_add(self.window_ns) {
            return None;
        }
        self.kept_from_ns = from_ns;
        self.replay.forget_before(from_ns);
        Some(sink.forget_before(self.replay.machine_mut(), from_ns))
    }

    /// Drops threads and address spaces that ended before a time, in nanoseconds of the recording's
    /// clock, and files that nothing maps. For a sink that keeps no ids of the machine.
    pub fn forget_ended_before(&mut self, time_ns: u64) {
        self.replay.forget_before(time_ns);
        let machine = self.replay.machine_mut();
        machine.forget_ended_before(time_ns);
        machine.forget_dsos(std::iter::empty(), false);
    }

    /// Returns the time up to which all records were delivered, in nanoseconds of the recording's
    /// clock.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Returns the recorded machine at the last delivered record.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        self.replay.machine()
    }

    /// Returns the recorded events.
    #[must_use]
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Returns the losses since the start.
    #[must_use]
    pub fn losses(&self) -> Losses {
        Losses { own_samples: self.own_samples, ..self.replay.losses() }
    }
}

/// Reads the beginning of a stream.
pub(crate) fn read_beginning(stream: &[u8]) -> Result<Description, OpenError> {
    let mut reader = Reader::stream(stream)?;
    // Reading from memory can't fail.
    while let Ok(Some(_)) = reader.next_record() {}
    Ok(reader.description().clone())
}

fn to_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Takes the samples of a running recording.
pub trait LiveSink {
    /// Takes a sample. Samples come in the order of time.
    fn take(&mut self, machine: &mut Machine, sample: &Replayed<'_, Sample<'_>>);
}

impl LiveSink for SampleSink {
    fn take(&mut self, machine: &mut Machine, sample: &Replayed<'_, Sample<'_>>) {
        self.take_sample(machine, sample);
    }
}

/// Passes samples on, except the recorder's, which it counts.
struct OwnSampleFilter<'a, S> {
    sink: &'a mut S,
    left_out: Option<i32>,
    own_samples: &'a mut u64,
    newest_ns: u64,
}

impl<'a, S: LiveSink> OwnSampleFilter<'a, S> {
    fn new(sink: &'a mut S, left_out: Option<i32>, own_samples: &'a mut u64) -> Self {
        Self { sink, left_out, own_samples, newest_ns: 0 }
    }
}

impl<S: LiveSink> Sink for OwnSampleFilter<'_, S> {
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
