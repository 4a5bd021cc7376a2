//! The event under study, sampled on this thread: opened, switched on and off, its ring emptied. No
//! recorder has a part in it.

use rustix::io::Errno;
use tare_format::Endian;
use tare_format::abi::bindings::{
    PERF_RECORD_LOST, PERF_RECORD_SAMPLE, PERF_RECORD_THROTTLE, PERF_SAMPLE_CALLCHAIN,
    PERF_SAMPLE_IP, PERF_SAMPLE_PERIOD, PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER,
    PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
};
use tare_format::abi::{Attr, Flags, ReadFormat, Sampling};
use tare_format::record::{Layout, RawRecord, Record, Records, Sample};
use tare_kernel::open::{EventFile, EventTarget, Kernel};
use tare_kernel::ring::{Ring, RingError};

use super::plan::CallGraph;
use tare_events::Event;

/// Bytes of a ring that any user may lock.
const RING_BYTES: usize = 512 << 10;
/// Bytes of a ring whose samples hold copies of stacks.
const STACKS_RING_BYTES: usize = 8 << 20;
/// Bytes of stack in a sample, as recorders take them unless told.
const STACK_BYTES: u32 = 8192;

/// Why an event can't be sampled.
#[derive(Debug, thiserror::Error)]
pub enum SamplerError {
    /// The kernel refuses it.
    #[error("'{event}' at {hz} Hz: {errno}")]
    Open {
        /// The event's name.
        event: String,
        /// The rate.
        hz: u64,
        /// What the kernel says.
        errno: Errno,
    },
    /// It opens without a ring.
    #[error("'{event}': {error}")]
    Ring {
        /// The event's name.
        event: String,
        /// Why.
        error: RingError,
    },
    /// It can't be switched.
    #[error("switching '{event}' on or off: {errno}")]
    Switch {
        /// The event's name.
        event: String,
        /// What the kernel says.
        errno: Errno,
    },
}

/// What the kernel delivered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeliveredSamples {
    /// Samples read.
    pub samples: u64,
    /// Samples that found no room in the ring.
    pub lost: u64,
    /// Times that the kernel stopped the event because it came too often.
    pub throttles: u64,
    /// Frames of all call chains together.
    pub frames: u64,
    /// How long the event was on while its thread ran, in nanoseconds.
    pub on_ns: u64,
    /// When each sample was taken, in nanoseconds of `CLOCK_MONOTONIC_RAW`.
    pub times_ns: Vec<u64>,
}

impl DeliveredSamples {
    /// Adds what another stretch delivered, without its times.
    pub fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.lost += other.lost;
        self.throttles += other.throttles;
        self.frames += other.frames;
        self.on_ns += other.on_ns;
    }
}

/// An event that samples this thread while it is on.
#[derive(Debug)]
pub struct Sampler {
    name: String,
    file: Box<dyn EventFile>,
    /// None at 0 Hz: the event is switched like the others, and only counts.
    ring: Option<Ring>,
    layout: Layout,
    /// The event's time enabled when the ring was emptied before.
    on_ns_before: u64,
}

impl Sampler {
    /// Opens the event on this thread and CPU, switched off.
    ///
    /// # Errors
    /// See [`SamplerError`].
    pub fn open(
        kernel: &dyn Kernel,
        event: &Event,
        call_graph: CallGraph,
        hz: u64,
        cpu: u32,
    ) -> Result<Self, SamplerError> {
        let bytes = if call_graph == CallGraph::Dwarf { STACKS_RING_BYTES } else { RING_BYTES };
        Self::with_ring(kernel, event, call_graph, hz, cpu, bytes)
    }

    /// Like [`Self::new`], with a ring of this size in bytes.
    ///
    /// # Errors
    /// See [`SamplerError`].
    pub(super) fn with_ring(
        kernel: &dyn Kernel,
        event: &Event,
        call_graph: CallGraph,
        hz: u64,
        cpu: u32,
        bytes: usize,
    ) -> Result<Self, SamplerError> {
        let attr = attr(event, call_graph, hz);
        let refused = |errno| SamplerError::Open { event: event.name.clone(), hz, errno };
        // Thread 0 is this one.
        let file = kernel.open(&attr, EventTarget::TaskOnCpu(0, cpu), None).map_err(refused)?;
        let ring = (hz > 0).then(|| Ring::map(&*file, bytes)).transpose();
        let ring = ring.map_err(|error| SamplerError::Ring { event: event.name.clone(), error })?;
        Ok(Self {
            name: event.name.clone(),
            file,
            ring,
            layout: Layout::from(&attr),
            on_ns_before: 0,
        })
    }

    fn failed(&self, errno: Errno) -> SamplerError {
        SamplerError::Switch { event: self.name.clone(), errno }
    }

    /// Samples from now on.
    ///
    /// # Errors
    /// The kernel's own.
    pub fn on(&self) -> Result<(), SamplerError> {
        self.file.enable().map_err(|errno| self.failed(errno))
    }

    /// No longer.
    ///
    /// # Errors
    /// The kernel's own.
    pub fn off(&self) -> Result<(), SamplerError> {
        self.file.disable().map_err(|errno| self.failed(errno))
    }

    /// The time that the event was enabled: a thread's event has none while other threads run.
    fn on_ns(&self) -> u64 {
        let mut words = [0; 16];
        let read = self.file.read(&mut words);
        let enabled = words.last_chunk().filter(|_| read == Ok(words.len()));
        enabled.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    /// Empties the ring.
    pub fn take(&mut self) -> DeliveredSamples {
        let mut delivered = DeliveredSamples::default();
        let layout = self.layout;
        let on_ns = self.on_ns();
        delivered.on_ns = on_ns.saturating_sub(self.on_ns_before);
        self.on_ns_before = on_ns;
        if let Some(ring) = &mut self.ring {
            empty(ring, |record| delivered.note(record, &layout));
        }
        delivered
    }
}

impl DeliveredSamples {
    fn note(&mut self, record: &RawRecord<'_>, layout: &Layout) {
        match record.kind {
            PERF_RECORD_SAMPLE => {
                self.samples += 1;
                let Ok(sample) = Sample::decode(record, layout) else { return };
                self.times_ns.extend(sample.head.time_ns);
                self.frames += sample.callchain.map_or(0, |chain| chain.len() as u64);
            }
            PERF_RECORD_THROTTLE => self.throttles += 1,
            PERF_RECORD_LOST => {
                if let Ok(Record::Lost(lost)) = record.decode() {
                    self.lost += lost.lost;
                }
            }
            _ => {}
        }
    }
}

/// Hands out every record in a ring.
pub(super) fn empty(ring: &mut Ring, mut each: impl FnMut(&RawRecord<'_>)) {
    let batch = ring.batch();
    let bytes = batch.slices().concat();
    batch.advance();
    Records::new(&bytes, Endian::NATIVE).for_each(|record| each(&record));
}

/// The event as a recorder would sample it.
pub(super) fn attr(event: &Event, call_graph: CallGraph, hz: u64) -> Attr {
    let mut attr = event.attr.clone();
    attr.sampling = if hz == 0 { Sampling::None } else { Sampling::Frequency(hz) };
    attr.sample_type =
        bits(&[PERF_SAMPLE_IP, PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_SAMPLE_PERIOD]);
    attr.read_format = ReadFormat::TOTAL_TIME_ENABLED;
    attr.flags |= Flags::DISABLED | Flags::USE_CLOCKID;
    // CLOCK_MONOTONIC_RAW of linux/time.h, which the loop reads as well.
    attr.clockid = 4;
    match call_graph {
        CallGraph::None => {}
        CallGraph::Fp => attr.sample_type |= bits(&[PERF_SAMPLE_CALLCHAIN]),
        CallGraph::Dwarf => {
            attr.sample_type |=
                bits(&[PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER]);
            attr.flags |= Flags::EXCLUDE_CALLCHAIN_USER;
            attr.sample_regs_user = USER_REGISTERS;
            attr.sample_stack_user = STACK_BYTES;
        }
    }
    attr
}

/// The registers that unwinding takes: all general ones (`arch/*/include/uapi/asm/perf_regs.h`; the
/// segments of x86 but cs and ss are refused by 64-bit kernels).
const USER_REGISTERS: u64 = if cfg!(target_arch = "x86_64") { 0xff_0fff } else { (1 << 33) - 1 };

fn bits(bits: &[u32]) -> u64 {
    bits.iter().fold(0, |all, bit| all | u64::from(*bit))
}

#[cfg(test)]
mod tests {
    use tare_kernel::fake::{Scripted, ScriptedAnswer};

    use super::*;

    fn event() -> Event {
        Event::new("cycles", Attr::default())
    }

    #[test]
    fn zero_is_an_event_that_only_counts() {
        let kernel = Scripted::new();
        let mut sampler = Sampler::open(&kernel, &event(), CallGraph::None, 0, 1).unwrap();
        sampler.on().unwrap();
        assert_eq!(
            (kernel.opened()[0].0.sampling, kernel.opened()[0].1),
            (Sampling::None, EventTarget::TaskOnCpu(0, 1))
        );
        assert_eq!(sampler.take(), DeliveredSamples::default());
    }

    #[test]
    fn call_graphs_ask_for_what_a_recorder_asks_for() {
        let dwarf = attr(&event(), CallGraph::Dwarf, 99);
        assert_eq!((dwarf.sampling, dwarf.sample_stack_user), (Sampling::Frequency(99), 8192));
        assert!(dwarf.flags.contains(Flags::EXCLUDE_CALLCHAIN_USER));
        assert_eq!(attr(&event(), CallGraph::Fp, 99).sample_stack_user, 0);
    }

    #[test]
    fn refusals_name_event_and_rate() {
        let kernel = Scripted::new().rule(|_, _| true, ScriptedAnswer::Refuse(Errno::NOENT));
        let error = Sampler::open(&kernel, &event(), CallGraph::None, 99, 0).unwrap_err();
        assert!(error.to_string().starts_with("'cycles' at 99 Hz: "), "{error}");
    }
}
