//! Filters the samples of a recording by thread, CPU, place in code and time, and by events that
//! switch the filter on and off.

use tare_format::file::Description;
use tare_format::record::Sample;

use crate::cpumode::CpuMode;
use crate::error::Error;
use crate::machine::Machine;
use crate::replayed::Replayed;
use crate::switch::{EventSwitch, SwitchState};
use crate::times::{TimeRanges, TimeWindows};
use crate::tracepoints::Tracepoints;

/// Conditions that a sample must meet. An empty list takes all samples.
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
    /// First and last addresses, in the process or in the file, of code that passes as if `symbols`
    /// named it. Ignored if `symbols` is empty.
    pub addresses: Vec<(u64, u64)>,
    /// Events that switch the filter on and off.
    pub switch: EventSwitch,
    /// Ranges of time.
    pub times: TimeRanges,
}

/// Decides for each sample whether it passes.
#[derive(Debug)]
pub struct SampleFilter {
    options: SampleFilterOptions,
    times: TimeWindows,
    switch: SwitchState,
    tracepoints: Tracepoints,
}

impl SampleFilter {
    /// Creates the filter for a recording, whose sample times turn percentages into times.
    ///
    /// # Errors
    /// Fails with [`Error::NoSampleTimes`]: see [`TimeRanges::windows`].
    pub fn new(options: SampleFilterOptions, description: &Description) -> Result<Self, Error> {
        let times = options.times.windows(description)?;
        let switch = SwitchState::new(&options.switch);
        Ok(Self { options, times, switch, tracepoints: Tracepoints::default() })
    }

    /// Whether a time comes after all time ranges; false without a time.
    #[must_use]
    pub fn is_past(&self, time_ns: Option<u64>) -> bool {
        self.times.is_past(time_ns)
    }

    /// Whether a sample may pass, as far as that can be decided before its turn.
    #[must_use]
    pub fn may_pass(&self, sample: &Replayed<'_, Sample<'_>>) -> bool {
        !self.is_past(sample.time_ns) && self.passes_by_numbers(sample)
    }

    /// Whether a sample passes. Call it once for each sample, in order, because some samples switch
    /// the filter on or off.
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

    /// Whether the file and the function of a sample pass.
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

#[cfg(test)]
mod tests {
    use tare_format::Endian;
    use tare_format::abi::Attr;
    use tare_format::file::RecordedEvent;
    use tare_format::record::{Comm, RawRecord, SampleHead};

    use super::*;
    use crate::machine::tests::machine_with;

    /// Filters samples of (event, thread, CPU, time), at address 0x1008.
    fn passed(options: SampleFilterOptions, samples: &[(usize, i32, u32, u64)]) -> Vec<bool> {
        let event = |name: &[u8]| RecordedEvent {
            attr: Attr::default(),
            ids: Vec::new(),
            name: Some(name.to_vec()),
        };
        let events = [event(b"on"), RecordedEvent { ids: vec![1], ..event(b"other") }];
        let description = Description::from_events(Endian::NATIVE, events);
        let mut machine = machine_with(&[(1, 0x1000, "/nonexistent/program")]);
        machine.threads.set_comm(&Comm { pid: 1, tid: 2, comm: b"sh", is_exec: false });
        let mut filter = SampleFilter::new(options, &description).unwrap();
        let mut passes = |(event, tid, cpu, time_ns): (usize, i32, u32, u64)| {
            let head = SampleHead {
                pid: Some(1),
                tid: Some(tid),
                cpu: Some(cpu),
                time_ns: Some(time_ns),
                ip: Some(0x1008),
                ..SampleHead::default()
            };
            let fields = Sample { head, ..Sample::default() };
            let raw = RawRecord { kind: 9, misc: 2, body: &[], endian: Endian::NATIVE };
            let time_ns = Some(time_ns);
            let event = Some(event);
            let sample =
                Replayed { time_ns, description: &description, event, raw, fields: &fields };
            assert!(filter.may_pass(&sample) || !filter.passes(&machine, &sample));
            filter.passes(&machine, &sample)
        };
        samples.iter().map(|sample| passes(*sample)).collect()
    }

    #[test]
    fn each_condition_must_be_met() {
        let all = SampleFilterOptions::default();
        let samples = [(0, 2, 0, 5), (0, 3, 0, 5), (0, 2, 1, 5), (0, 2, 0, 9)];
        assert_eq!(passed(all.clone(), &samples), [true; 4]);
        let tids = SampleFilterOptions { tids: vec![2], ..all.clone() };
        assert_eq!(passed(tids, &samples), [true, false, true, true]);
        let comms = SampleFilterOptions { comms: vec!["sh".to_owned()], ..all.clone() };
        assert_eq!(passed(comms, &samples), [true, false, true, true]);
        let cpus = SampleFilterOptions { cpus: vec![0], ..all.clone() };
        assert_eq!(passed(cpus, &samples), [true, true, false, true]);
        let times = SampleFilterOptions { times: TimeRanges::Nanoseconds(vec![(0, 6)]), ..all };
        assert_eq!(passed(times, &samples), [true, true, true, false]);
    }

    #[test]
    fn a_place_is_a_file_or_an_address_range_without_a_symbol() {
        let sample = [(0, 2, 0, 5)];
        let all = SampleFilterOptions::default();
        let file = |name: &str| SampleFilterOptions { dsos: vec![name.to_owned()], ..all.clone() };
        assert_eq!(passed(file("program"), &sample), [true]);
        assert_eq!(passed(file("/nonexistent/program"), &sample), [true]);
        assert_eq!(passed(file("prog"), &sample), [false]);
        let range = |addresses| SampleFilterOptions {
            symbols: vec!["main".to_owned()],
            addresses,
            ..all.clone()
        };
        assert_eq!(passed(range(vec![(0x1000, 0x1008)]), &sample), [true]);
        assert_eq!(passed(range(vec![(0x1009, 0x2000)]), &sample), [false]);
    }

    #[test]
    fn an_event_switches_the_filter_on() {
        let switch = EventSwitch { on: Some(b"on".to_vec()), off: None, shows: true };
        let options = SampleFilterOptions { switch, ..SampleFilterOptions::default() };
        let samples = [(1, 2, 0, 1), (0, 2, 0, 2), (1, 2, 0, 3)];
        assert_eq!(passed(options, &samples), [false, true, true]);
    }
}
