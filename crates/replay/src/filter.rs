//! Which samples of a recording are taken, by thread, CPU, place in code and time.

use tare_format::file::Description;
use tare_format::record::Sample;

use crate::cpumode::CpuMode;
use crate::error::Error;
use crate::machine::Machine;
use crate::replayed::Replayed;
use crate::switch::{EventSwitch, SwitchState};
use crate::times::{TimeRanges, TimeWindows};
use crate::tracepoints::Tracepoints;

/// Which samples are taken. An empty list takes all.
#[derive(Clone, Debug, Default)]
pub struct SampleFilterOptions {
    /// Thread names.
    pub comms: Vec<String>,
    /// Processes.
    pub pids: Vec<i32>,
    /// Threads.
    pub tids: Vec<i32>,
    /// CPUs.
    pub cpus: Vec<u32>,
    /// Files, by path or by its last part.
    pub dsos: Vec<String>,
    /// Functions.
    pub symbols: Vec<String>,
    /// First and last address, in the process or in the file. With `symbols`, either may match.
    pub addresses: Vec<(u64, u64)>,
    /// Events that switch taking on and off.
    pub switch: EventSwitch,
    /// Times.
    pub times: TimeRanges,
}

/// Decides for each sample whether it is taken.
#[derive(Debug)]
pub struct SampleFilter {
    options: SampleFilterOptions,
    times: TimeWindows,
    switch: SwitchState,
    tracepoints: Tracepoints,
}

impl SampleFilter {
    /// Applies the options to a recording.
    ///
    /// # Errors
    /// [`Error::NoSampleTimes`].
    pub fn new(options: SampleFilterOptions, description: &Description) -> Result<Self, Error> {
        let times = options.times.windows(description)?;
        let switch = SwitchState::new(&options.switch);
        Ok(Self { options, times, switch, tracepoints: Tracepoints::default() })
    }

    /// Whether every later sample comes after the last time range.
    #[must_use]
    pub fn is_past(&self, time_ns: Option<u64>) -> bool {
        self.times.is_past(time_ns)
    }

    /// Whether a sample may pass, as far as that can be decided before its turn.
    #[must_use]
    pub fn may_pass(&self, sample: &Replayed<'_, Sample<'_>>) -> bool {
        !self.is_past(sample.time_ns) && self.passes_by_numbers(sample)
    }

    /// Whether a sample is taken. Each sample must be asked for once and in order, because some
    /// switch.
    pub fn passes(&mut self, machine: &Machine, sample: &Replayed<'_, Sample<'_>>) -> bool {
        let comms = &self.options.comms;
        self.passes_by_numbers(sample)
            && (comms.is_empty() || {
                let comm = sample.fields.head.tid.and_then(|tid| machine.comm(tid));
                let comm = comm.unwrap_or_default();
                comms.iter().any(|wanted| wanted.as_bytes() == comm)
            })
            && self.passes_by_place(machine, sample)
            && self.is_switched_on(sample)
    }

    fn is_switched_on(&mut self, sample: &Replayed<'_, Sample<'_>>) -> bool {
        if self.switch.is_idle() {
            return true;
        }
        self.tracepoints.learn(sample.description);
        let event = sample.event.and_then(|event| sample.description.events().get(event));
        event.is_some_and(|event| self.switch.takes(&self.tracepoints.event_name(event)))
    }

    /// Whether the file and the function of a sample are taken.
    fn passes_by_place(&self, machine: &Machine, sample: &Replayed<'_, Sample<'_>>) -> bool {
        let SampleFilterOptions { dsos, symbols, addresses, .. } = &self.options;
        if dsos.is_empty() && symbols.is_empty() {
            return true;
        }
        let mode = CpuMode::from_misc(sample.raw.misc);
        let ip = sample.fields.head.ip.unwrap_or(0);
        let at = machine.dso_address(mode, sample.fields.head.pid.unwrap_or(-1), ip);
        let is_dso = |path: &[u8]| {
            let short = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
            dsos.iter().any(|wanted| [path, short].contains(&wanted.as_bytes()))
        };
        let is_symbol = || {
            let symbol = at.and_then(|at| machine.symbol(at).ok());
            symbol.is_some_and(|symbol| {
                symbols.iter().any(|wanted| wanted == machine.symbol_name(symbol))
            })
        };
        let is_address = || {
            let in_file = at.map_or(ip, |at| at.address);
            let takes =
                |address| addresses.iter().any(|(first, last)| (first..=last).contains(&&address));
            takes(ip) || takes(in_file)
        };
        (dsos.is_empty() || at.is_some_and(|at| is_dso(machine.dso_name(at.dso))))
            && (symbols.is_empty() || is_symbol() || is_address())
    }

    fn passes_by_numbers(&self, sample: &Replayed<'_, Sample<'_>>) -> bool {
        let SampleFilterOptions { pids, tids, cpus, .. } = &self.options;
        let head = &sample.fields.head;
        let matches = |list: &[i32], id: Option<i32>| {
            list.is_empty() || id.is_some_and(|id| list.contains(&id))
        };
        self.times.takes(head.time_ns)
            && matches(pids, head.pid)
            && matches(tids, head.tid)
            && (cpus.is_empty() || head.cpu.is_some_and(|cpu| cpus.contains(&cpu)))
    }
}
