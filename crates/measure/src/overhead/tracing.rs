//! Measures spans of time between the kernel's trace events at the handler's entry and exit.
//!
//! | event under study | handler | whole interrupt |
//! |---|---|---|
//! | cpu-clock, task-clock | `timer:hrtimer_expire_entry/exit` of `perf_swevent_hrtimer` | `irq_vectors:local_timer_entry/exit` (x86), `irq:irq_handler_entry/exit` |
//! | the CPU's own (x86) | `nmi:nmi_handler`, which reports its duration | - |
//! | the CPU's own (others) | `irq:irq_handler_entry/exit` | - |
//!
//! A span belongs to a sample if it contains the sample's time.

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

use super::sampler::drain;
use super::stolen::Span;

/// Bytes of the ring buffer: enough for a slice at 100,000 Hz.
const RING_BYTES: usize = 1 << 20;

/// Trace events that delimit a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceProbe {
    /// An event at the start, and one at the end.
    Pair {
        /// Their ids in tracefs.
        ids: [u64; 2],
        /// A filter for the first event.
        filter: Option<CString>,
    },
    /// An event at the end, with the length of the span.
    Took {
        /// Its id in tracefs.
        id: u64,
        /// Offset of the length in nanoseconds in its raw data, in bytes.
        at: usize,
    },
}

/// The probes for an event's samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probes {
    /// Delimits perf's handler.
    pub handler: Option<TraceProbe>,
    /// Delimits the interrupt.
    pub interrupt: Option<TraceProbe>,
}

impl Probes {
    /// Finds the trace events around the samples of an event.
    ///
    /// # Errors
    /// Fails if tracefs isn't mounted, or this user may not read it.
    pub fn find(attr: &Attr, host: &Host) -> Result<Self, TracefsError> {
        let tracefs = Tracefs::find(host)?;
        let pair = |system: &str, stem: &str| -> Option<TraceProbe> {
            let id = |end: &str| tracefs.id(system, &format!("{stem}_{end}")).ok();
            Some(TraceProbe::Pair { ids: [id("entry")?, id("exit")?], filter: None })
        };
        let clocks = [PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK].map(u64::from);
        if attr.kind == PERF_TYPE_SOFTWARE {
            if !clocks.contains(&attr.config) {
                return Ok(Self::default());
            }
            let handler =
                pair("timer", "hrtimer_expire").map(|probe| filter_perf_timer(probe, host));
            let interrupt =
                pair("irq_vectors", "local_timer").or_else(|| pair("irq", "irq_handler"));
            return Ok(Self { handler, interrupt });
        }
        let took = || {
            let id = tracefs.id("nmi", "nmi_handler").ok()?;
            let (at, bytes) = tracefs.field_place("nmi", "nmi_handler", "delta_ns").ok()?;
            (bytes == 8).then_some(TraceProbe::Took { id, at })
        };
        Ok(Self { handler: took().or_else(|| pair("irq", "irq_handler")), interrupt: None })
    }
}

/// Filters for perf's timer, if the kernel shows its address. Without the filter there are more
/// records, but the same result.
fn filter_perf_timer(probe: TraceProbe, host: &Host) -> TraceProbe {
    let TraceProbe::Pair { ids, .. } = probe else { return probe };
    let symbols = host.read("/proc/kallsyms").unwrap_or_default();
    let address = symbols.lines().find_map(|line| {
        let mut words = line.split(' ');
        let address = words.next()?;
        let name = words.nth(1)?;
        (name == "perf_swevent_hrtimer" && address.bytes().any(|digit| digit != b'0'))
            .then(|| address.to_owned())
    });
    let filter = address.and_then(|address| CString::new(format!("function == 0x{address}")).ok());
    TraceProbe::Pair { ids, filter }
}

/// The open trace events of a probe.
#[derive(Debug)]
pub struct Trace {
    /// The group's leader.
    first: Box<dyn EventFile>,
    _second: Option<Box<dyn EventFile>>,
    first_id: u64,
    ring: Ring,
    layout: Layout,
    took_at: Option<usize>,
}

impl Trace {
    /// Opens the events on this thread and CPU, disabled.
    ///
    /// # Errors
    /// Fails if the kernel refuses an event, its filter or its ring buffer.
    pub fn open(kernel: &dyn Kernel, probe: &TraceProbe, cpu: u32) -> Result<Self, Errno> {
        let target = EventTarget::TaskOnCpu(0, cpu);
        let (ids, filter, took_at) = match probe {
            TraceProbe::Pair { ids, filter } => (ids.to_vec(), filter.as_deref(), None),
            TraceProbe::Took { id, at } => (vec![*id], None, Some(*at)),
        };
        let attr = build_attr(ids[0], took_at.is_some());
        let first = kernel.open(&attr, target, None)?;
        let ring = Ring::map(&*first, RING_BYTES).map_err(|_| Errno::NOMEM)?;
        if let Some(filter) = filter {
            first.set_filter(filter)?;
        }
        let second = match ids.get(1) {
            Some(id) => {
                let second = kernel.open(
                    &Attr { flags: attr.flags - Flags::DISABLED, ..build_attr(*id, false) },
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

    /// Enables the events.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn on(&self) -> Result<(), Errno> {
        self.first.enable()
    }

    /// Disables the events.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn off(&self) -> Result<(), Errno> {
        self.first.disable()
    }

    /// Drains the ring buffer. Returns the spans, ascending, in nanoseconds of
    /// `CLOCK_MONOTONIC_RAW`.
    pub fn take(&mut self) -> Vec<Span> {
        let layout = self.layout;
        let first_id = self.first_id;
        let took_at = self.took_at;
        let mut spans = Vec::new();
        let mut began = None;
        drain(&mut self.ring, |record| {
            if record.kind != PERF_RECORD_SAMPLE {
                // Records were lost, perhaps the end of the current span.
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

fn build_attr(id: u64, with_data: bool) -> Attr {
    let raw = if with_data { PERF_SAMPLE_RAW } else { 0 };
    Attr {
        kind: PERF_TYPE_TRACEPOINT,
        config: id,
        sampling: Sampling::Period(1),
        sample_type: u64::from(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME | raw),
        flags: Flags::DISABLED | Flags::USE_CLOCKID,
        // CLOCK_MONOTONIC_RAW, like the samples.
        clockid: 4,
        ..Attr::default()
    }
}
