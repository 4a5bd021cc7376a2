//! The kernel's trace events at the handler's entry and exit, as spans of time.
//!
//! | event under study | handler | whole interrupt |
//! |---|---|---|
//! | cpu-clock, task-clock | `timer:hrtimer_expire_entry/exit` of `perf_swevent_hrtimer` | `irq_vectors:local_timer_entry/exit` (x86), `irq:irq_handler_entry/exit` |
//! | the CPU's own (x86) | `nmi:nmi_handler`, which reports its duration | - |
//! | the CPU's own (others) | `irq:irq_handler_entry/exit` | - |
//!
//! A span belongs to a sample if the sample's time lies in it.

use std::ffi::CString;

use rustix::io::Errno;
use tare_format::abi::bindings::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK, PERF_RECORD_SAMPLE, PERF_SAMPLE_IDENTIFIER,
    PERF_SAMPLE_RAW, PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE, PERF_TYPE_TRACEPOINT,
};
use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::record::{Layout, Sample};
use tare_kernel::host::Host;
use tare_kernel::open::{EventFile, EventTarget, Kernel};
use tare_kernel::ring::Ring;
use tare_kernel::tracefs::{Tracefs, TracefsError};

use super::sampler::empty;
use super::stolen::Span;

/// Bytes of the ring: a slice at 100,000 Hz.
const RING_BYTES: usize = 1 << 20;

/// Trace events that bracket something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// One at its begin, one at its end.
    Pair {
        /// Their ids in tracefs.
        ids: [u64; 2],
        /// What the first of them lets through.
        filter: Option<CString>,
    },
    /// One at its end, that says how long it took.
    Took {
        /// Its id in tracefs.
        id: u64,
        /// Where its raw data has the nanoseconds.
        at: usize,
    },
}

/// What can be traced of an event's samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probes {
    /// perf's own handler.
    pub handler: Option<Probe>,
    /// The whole interrupt.
    pub interrupt: Option<Probe>,
}

impl Probes {
    /// Looks up the trace events that bracket the samples of an event.
    ///
    /// # Errors
    /// tracefs isn't there, or this user may not look.
    pub fn find(attr: &Attr, host: &Host) -> Result<Self, TracefsError> {
        let tracefs = Tracefs::find(host)?;
        let pair = |system: &str, stem: &str| -> Option<Probe> {
            let id = |end: &str| tracefs.id(system, &format!("{stem}_{end}")).ok();
            Some(Probe::Pair { ids: [id("entry")?, id("exit")?], filter: None })
        };
        let clocks = [PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK].map(u64::from);
        if attr.kind == PERF_TYPE_SOFTWARE {
            if !clocks.contains(&attr.config) {
                return Ok(Self::default());
            }
            let handler = pair("timer", "hrtimer_expire").map(|probe| of_perf(probe, host));
            let interrupt =
                pair("irq_vectors", "local_timer").or_else(|| pair("irq", "irq_handler"));
            return Ok(Self { handler, interrupt });
        }
        let took = || {
            let id = tracefs.id("nmi", "nmi_handler").ok()?;
            let (at, bytes) = tracefs.field_place("nmi", "nmi_handler", "delta_ns").ok()?;
            (bytes == 8).then_some(Probe::Took { id, at })
        };
        Ok(Self { handler: took().or_else(|| pair("irq", "irq_handler")), interrupt: None })
    }
}

/// Lets only perf's own timer through, where the kernel shows its address; without that there are
/// only more records to look through.
fn of_perf(probe: Probe, host: &Host) -> Probe {
    let Probe::Pair { ids, .. } = probe else { return probe };
    let symbols = host.read("/proc/kallsyms").unwrap_or_default();
    let address = symbols.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (address, _, name) = (words.next()?, words.next()?, words.next()?);
        (name == "perf_swevent_hrtimer" && address.bytes().any(|digit| digit != b'0'))
            .then(|| address.to_owned())
    });
    let filter = address.and_then(|address| CString::new(format!("function == 0x{address}")).ok());
    Probe::Pair { ids, filter }
}

/// Open trace events.
#[derive(Debug)]
pub struct Trace {
    /// The leader; the event at the end is in its group.
    first: Box<dyn EventFile>,
    _second: Option<Box<dyn EventFile>>,
    first_id: u64,
    ring: Ring,
    layout: Layout,
    took_at: Option<usize>,
}

impl Trace {
    /// Opens them for this thread, switched off.
    ///
    /// # Errors
    /// The kernel's own.
    pub fn open(kernel: &dyn Kernel, probe: &Probe, cpu: u32) -> Result<Self, Errno> {
        let target = EventTarget::TaskOnCpu(0, cpu);
        let (ids, filter, took_at) = match probe {
            Probe::Pair { ids, filter } => (ids.to_vec(), filter.as_deref(), None),
            Probe::Took { id, at } => (vec![*id], None, Some(*at)),
        };
        let attr = attr(ids[0], took_at.is_some());
        let first = kernel.open(&attr, target, None)?;
        let ring = Ring::map(&*first, RING_BYTES).map_err(|_| Errno::NOMEM)?;
        if let Some(filter) = filter {
            first.set_filter(filter)?;
        }
        let second = match ids.get(1) {
            Some(id) => {
                let second = kernel.open(
                    &Attr { flags: attr.flags - Flags::DISABLED, ..self::attr(*id, false) },
                    target,
                    Some(&*first),
                )?;
                second.set_output(&*first)?;
                Some(second)
            }
            None => None,
        };
        Ok(Self {
            first_id: first.id()?,
            first,
            _second: second,
            ring,
            layout: Layout::from(&attr),
            took_at,
        })
    }

    /// Traces from now on.
    ///
    /// # Errors
    /// The kernel's own.
    pub fn on(&self) -> Result<(), Errno> {
        self.first.enable()
    }

    /// No longer.
    ///
    /// # Errors
    /// The kernel's own.
    pub fn off(&self) -> Result<(), Errno> {
        self.first.disable()
    }

    /// Empties the ring: what was bracketed, ascending, in nanoseconds of `CLOCK_MONOTONIC_RAW`.
    pub fn take(&mut self) -> Vec<Span> {
        let layout = self.layout;
        let first_id = self.first_id;
        let took_at = self.took_at;
        let mut spans = Vec::new();
        let mut began = None;
        empty(&mut self.ring, |record| {
            if record.kind != PERF_RECORD_SAMPLE {
                // Something was lost: what began before it has no end.
                began = None;
                return;
            }
            let Ok(sample) = Sample::decode(record, &layout) else { return };
            let Some(time) = sample.head.time_ns else { return };
            if let Some(at) = took_at {
                let took = sample
                    .raw
                    .and_then(|raw| Some(u64::from_ne_bytes(*raw.get(at..)?.first_chunk()?)));
                spans.extend(took.map(|took| Span { from: time.saturating_sub(took), to: time }));
            } else if sample.head.id == Some(first_id) {
                began = Some(time);
            } else if let Some(from) = began.take() {
                spans.push(Span { from, to: time });
            }
        });
        spans
    }
}

fn attr(id: u64, with_data: bool) -> Attr {
    let raw = if with_data { PERF_SAMPLE_RAW } else { 0 };
    Attr {
        kind: PERF_TYPE_TRACEPOINT,
        config: id,
        sampling: Sampling::Period(1),
        sample_type: u64::from(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME | raw),
        flags: Flags::DISABLED | Flags::USE_CLOCKID,
        // As the samples': CLOCK_MONOTONIC_RAW.
        clockid: 4,
        ..Attr::default()
    }
}
