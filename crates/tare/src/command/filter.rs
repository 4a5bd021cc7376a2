//! Which samples are taken.

use tare_format::file::Description;
use tare_format::record::Sample;

use crate::cli::resolved::script::Filter;
use crate::command::recording;
use tare_replay::{CpuMode, Machine, Replayed, SwitchState, TimeWindows, Tracepoints};

pub(crate) struct Passing<'a> {
    filter: &'a Filter,
    times: TimeWindows,
    switched: SwitchState,
    tracepoints: Tracepoints,
}

impl<'a> Passing<'a> {
    /// # Errors
    /// The recording lacks the times that parts of it are asked by.
    pub(crate) fn new(filter: &'a Filter, description: &Description) -> anyhow::Result<Self> {
        let times = filter.times.of(description).map_err(recording::refusal)?;
        let tracepoints = Tracepoints::default();
        Ok(Self { filter, times, switched: SwitchState::new(&filter.switch), tracepoints })
    }

    /// Whether everything that is still to come is too late.
    pub(crate) fn is_past(&self, time_ns: Option<u64>) -> bool {
        self.times.is_past(time_ns)
    }

    /// Whether a sample may pass; how its thread is called isn't known yet.
    pub(crate) fn may_pass(&self, sample: &Replayed<'_, Sample<'_>>) -> bool {
        !self.is_past(sample.time_ns) && self.passes_by_numbers(sample)
    }

    pub(crate) fn passes(&mut self, machine: &Machine, sample: &Replayed<'_, Sample<'_>>) -> bool {
        let comms = &self.filter.comms;
        self.passes_by_numbers(sample)
            && (comms.is_empty() || {
                let comm = sample.fields.head.tid.and_then(|tid| machine.comm(tid));
                let comm = comm.unwrap_or_default();
                comms.iter().any(|wanted| wanted.as_bytes() == comm)
            })
            && self.passes_by_place(machine, sample)
            && self.is_switched_on(sample)
    }

    /// Whether samples are taken at this time.
    fn is_switched_on(&mut self, sample: &Replayed<'_, Sample<'_>>) -> bool {
        if self.switched.is_idle() {
            return true;
        }
        self.tracepoints.learn(sample.description);
        let event = sample.event.and_then(|event| sample.description.events().get(event));
        event.is_some_and(|event| self.switched.takes(&self.tracepoints.event_name(event)))
    }

    /// Whether the file and the function that the CPU was in are among those that are wanted.
    fn passes_by_place(&self, machine: &Machine, sample: &Replayed<'_, Sample<'_>>) -> bool {
        let Filter { dsos, symbols, addresses, .. } = self.filter;
        if dsos.is_empty() && symbols.is_empty() {
            return true;
        }
        let mode = CpuMode::of_misc(sample.raw.misc);
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
        let Filter { pids, tids, cpus, .. } = self.filter;
        let head = &sample.fields.head;
        let among = |list: &[i32], id: Option<i32>| {
            list.is_empty() || id.is_some_and(|id| list.contains(&id))
        };
        self.times.takes(head.time_ns)
            && among(pids, head.pid)
            && among(tids, head.tid)
            && (cpus.is_empty() || head.cpu.is_some_and(|cpu| cpus.contains(&cpu)))
    }
}
