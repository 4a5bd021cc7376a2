//! Samples the event under study on this thread, without a recorder: opens it, switches it on and
//! off, and drains its ring buffer.

use rustix::io::Errno;
use tare_format::Endian;
use tare_format::abi::bindings::{
    PERF_RECORD_LOST, PERF_RECORD_SAMPLE, PERF_RECORD_THROTTLE, PERF_SAMPLE_CALLCHAIN,
    PERF_SAMPLE_IP, PERF_SAMPLE_PERIOD, PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER,
    PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
};
use tare_format::abi::{Attr, Flags, ReadFormat, Sampling};
use tare_format::record::{Layout, RawRecord, Record, Records, Sample};
use tare_kernel::bpf::{DeepStackSlot, DeepStacks};
use tare_kernel::open::{EventFile, EventTarget, Kernel};
use tare_kernel::ring::{Ring, RingError};

use super::plan::CallGraph;
use tare_events::Event;

/// Bytes of a ring buffer without copied stacks. With the kernel's default `perf_event_mlock_kb`
/// any user may lock them.
const RING_BYTES: usize = 512 << 10;
/// Bytes of a ring buffer for samples with copied stacks.
const STACKS_RING_BYTES: usize = 8 << 20;
/// Bytes of a copied stack: the default of recorders.
const STACK_BYTES: u32 = 8192;
/// Bytes of the largest copied stack: the kernel stores its size in 16 bits.
const LARGEST_STACK_BYTES: u32 = 65_528;

/// The reason why an event can't be sampled.
#[derive(Debug, thiserror::Error)]
pub enum SamplerError {
    /// The kernel refuses to open it.
    #[error("'{event}' at {hz} Hz: {errno}")]
    Open {
        /// The event's name.
        event: String,
        /// The rate.
        hz: u64,
        /// The kernel's error.
        errno: Errno,
    },
    /// Its ring buffer can't be mapped.
    #[error("'{event}': {error}")]
    Ring {
        /// The event's name.
        event: String,
        /// The error.
        error: RingError,
    },
    /// It can't be enabled or disabled.
    #[error("switching '{event}' on or off: {errno}")]
    Switch {
        /// The event's name.
        event: String,
        /// The kernel's error.
        errno: Errno,
    },
}

/// The samples that the kernel delivered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeliveredSamples {
    /// Number of samples read.
    pub samples: u64,
    /// Number of samples lost to a full ring buffer.
    pub lost: u64,
    /// Number of times that the kernel throttled the event.
    pub throttles: u64,
    /// Number of entries in all call chains: frames, and the kernel's markers of their contexts.
    pub frames: u64,
    /// Time that the event was enabled while its thread ran, in nanoseconds.
    pub on_ns: u64,
    /// The time of each sample, in nanoseconds of `CLOCK_MONOTONIC_RAW`.
    pub times_ns: Vec<u64>,
}

impl DeliveredSamples {
    /// Adds the numbers of other samples, without their times.
    pub fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.lost += other.lost;
        self.throttles += other.throttles;
        self.frames += other.frames;
        self.on_ns += other.on_ns;
    }
}

/// An event that samples this thread while it is enabled.
#[derive(Debug)]
pub struct Sampler {
    name: String,
    file: Box<dyn EventFile>,
    /// `None` at 0 Hz, where the event only counts.
    ring: Option<Ring>,
    layout: Layout,
    /// Runs before each sample, as in recordings.
    deep: Option<DeepStackProgram>,
    /// The event's enabled time when the ring buffer was last drained.
    on_ns_before: u64,
}

impl Sampler {
    /// Opens the event on this thread while it is on this CPU, disabled. At 0 Hz it only counts.
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
        let bytes = if call_graph.has_copies() { STACKS_RING_BYTES } else { RING_BYTES };
        Self::with_ring(kernel, event, call_graph, hz, cpu, bytes)
    }

    /// Like [`Self::open`], with a ring buffer of this size in bytes.
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
        let attr = build_attr(event, call_graph, hz);
        let refused = |errno| SamplerError::Open { event: event.name.clone(), hz, errno };
        // Thread 0 is this one.
        let file = kernel.open(&attr, EventTarget::TaskOnCpu(0, cpu), None).map_err(refused)?;
        let ring = (hz > 0).then(|| Ring::map(&*file, bytes)).transpose();
        let ring = ring.map_err(|error| SamplerError::Ring { event: event.name.clone(), error })?;
        let is_copied = hz > 0 && call_graph == CallGraph::Auto;
        let deep = if is_copied { copy_deep_stacks(kernel, &*file) } else { None };
        Ok(Self {
            name: event.name.clone(),
            deep,
            file,
            ring,
            layout: Layout::from(&attr),
            on_ns_before: 0,
        })
    }

    fn failed(&self, errno: Errno) -> SamplerError {
        SamplerError::Switch { event: self.name.clone(), errno }
    }

    /// Enables the event.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn on(&self) -> Result<(), SamplerError> {
        self.file.enable().map_err(|errno| self.failed(errno))
    }

    /// Disables the event.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn off(&self) -> Result<(), SamplerError> {
        self.file.disable().map_err(|errno| self.failed(errno))
    }

    /// Reads the event's enabled time, which doesn't advance while other threads run; 0 if it can't
    /// be read.
    fn on_ns(&self) -> u64 {
        let mut words = [0; 16];
        let read = self.file.read(&mut words);
        let enabled = words.last_chunk().filter(|_| read == Ok(words.len()));
        enabled.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    /// Drains the ring buffer, and reads how long the event was enabled since the last time.
    pub fn take(&mut self) -> DeliveredSamples {
        let mut delivered = DeliveredSamples::default();
        let layout = self.layout;
        let on_ns = self.on_ns();
        delivered.on_ns = on_ns.saturating_sub(self.on_ns_before);
        self.on_ns_before = on_ns;
        self.deep.iter_mut().for_each(|deep| deep.program.drain(&mut Vec::new()));
        if let Some(ring) = &mut self.ring {
            drain(ring, |record| delivered.add_record(record, &layout));
        }
        delivered
    }
}

impl DeliveredSamples {
    fn add_record(&mut self, record: &RawRecord<'_>, layout: &Layout) {
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

/// The program that copies deep stacks.
#[derive(Debug)]
struct DeepStackProgram {
    program: DeepStacks,
    /// Where the event runs it, until this is dropped.
    _slot: DeepStackSlot,
}

/// Loads the program that copies deep stacks for an event. `None` if it can't be loaded: recordings
/// lack it then, too.
fn copy_deep_stacks(kernel: &dyn Kernel, event: &dyn EventFile) -> Option<DeepStackProgram> {
    let slot = kernel.deep_stacks().ok()?;
    event.run_program(slot.program()).ok()?;
    let program = DeepStacks::load(&slot, DeepStacks::SURE_BYTES).ok()?;
    Some(DeepStackProgram { program, _slot: slot })
}

/// Drains a ring buffer, and passes each record to `each`.
pub(super) fn drain(ring: &mut Ring, mut each: impl FnMut(&RawRecord<'_>)) {
    let batch = ring.batch();
    let bytes = batch.slices().concat();
    batch.advance();
    Records::new(&bytes, Endian::NATIVE).for_each(|record| each(&record));
}

/// Builds the attribute with which a recorder would sample the event, but for the clock. At 0 Hz
/// the event counts.
pub(super) fn build_attr(event: &Event, call_graph: CallGraph, hz: u64) -> Attr {
    let mut attr = event.attr.clone();
    attr.sampling = if hz == 0 { Sampling::None } else { Sampling::Frequency(hz) };
    attr.sample_type =
        bits(&[PERF_SAMPLE_IP, PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_SAMPLE_PERIOD]);
    attr.read_format = ReadFormat::TOTAL_TIME_ENABLED;
    attr.flags |= Flags::DISABLED | Flags::USE_CLOCKID;
    // CLOCK_MONOTONIC_RAW of linux/time.h, on which the loop's gaps are too.
    attr.clockid = 4;
    match call_graph {
        CallGraph::None => {}
        CallGraph::Fp => attr.sample_type |= bits(&[PERF_SAMPLE_CALLCHAIN]),
        CallGraph::Dwarf | CallGraph::Auto => {
            attr.sample_type |=
                bits(&[PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER]);
            attr.flags.set(Flags::EXCLUDE_CALLCHAIN_USER, call_graph == CallGraph::Dwarf);
            attr.sample_regs_user = USER_REGISTERS;
            attr.sample_stack_user = match call_graph {
                CallGraph::Auto => LARGEST_STACK_BYTES,
                _ => STACK_BYTES,
            };
        }
    }
    attr
}

/// The registers for unwinding: all general ones (`arch/*/include/uapi/asm/perf_regs.h`). 64-bit
/// x86 kernels refuse the segment registers other than cs and ss.
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
    fn at_0_hz_the_event_only_counts() {
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
    fn call_graphs_have_a_recorders_attributes() {
        let dwarf = build_attr(&event(), CallGraph::Dwarf, 99);
        assert_eq!((dwarf.sampling, dwarf.sample_stack_user), (Sampling::Frequency(99), 8192));
        assert!(dwarf.flags.contains(Flags::EXCLUDE_CALLCHAIN_USER));
        assert_eq!(build_attr(&event(), CallGraph::Fp, 99).sample_stack_user, 0);
        let auto = build_attr(&event(), CallGraph::Auto, 99);
        assert_eq!(auto.sample_stack_user, 65_528);
        for kind in CallGraph::ALL {
            assert_eq!(CallGraph::from_attr(&build_attr(&event(), kind, 99)), kind);
        }
    }

    #[test]
    fn refusals_name_event_and_rate() {
        let kernel = Scripted::new().rule(|_, _| true, ScriptedAnswer::Refuse(Errno::NOENT));
        let error = Sampler::open(&kernel, &event(), CallGraph::None, 99, 0).unwrap_err();
        assert!(error.to_string().starts_with("'cycles' at 99 Hz: "), "{error}");
    }
}
