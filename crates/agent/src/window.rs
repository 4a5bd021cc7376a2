//! Sums samples up by window, labels, event and stack.
//!
//! ```text
//! monotonic clock  ---|-- window --|-- window --|-- open window --| now
//! UTC                 10:00:00     10:01:00     10:02:00
//!                     closed: taken by the caller        \-- samples are added here
//! ```
//! Windows end at multiples of their length in UTC. The clock is read when a window opens; a window
//! begins where the last one ended, unless the clock was set meanwhile.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use foldhash::fast::RandomState;
use tare_format::abi::Sampling;
use tare_format::file::ClockData;
use tare_format::record::Sample;
use tare_kernel::timestamp::monotonic_ns;
use tare_replay::{CodeAddress, CpuMode, DsoAddress, FrameLocation, LiveSink, Machine, Replayed};
use tare_store::{LabelSet, SegmentBuilder, SegmentInfo, StackFrame, StackId, TextId};
use tare_symbols::{DsoId, DsoKind, NameSource};

use crate::labels::{Labeler, Labels, Program, SampledProcess, fold};

/// Limit of the known frames of a window. Above it, all are looked up again.
const FRAMES: usize = 1 << 15;

/// Difference between the clocks that counts as a clock that was set, in microseconds.
const CLOCK_STEP_US: i64 = 1_000_000;

/// The beginning of the name of an off-CPU reason, and its end.
const REASON: (&str, &str) = ("off-CPU (", ")");

/// How samples are summed up.
#[derive(Clone, Debug)]
pub struct WindowOptions {
    /// Length of a window.
    pub length: Duration,
    /// Whether frames have the address of the instruction instead of the function's first.
    pub keeps_addresses: bool,
    /// Where windows are recorded. Start and end are ignored.
    pub info: SegmentInfo,
}

/// Counts of a window's samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowCounts {
    /// All samples.
    pub samples: u64,
    /// Samples whose stack lacks its outermost callers.
    pub truncated: u64,
    /// Samples whose innermost frame has no function.
    pub unnamed: u64,
}

/// A window that ended.
#[derive(Debug)]
pub struct ClosedWindow {
    /// Its samples.
    pub builder: SegmentBuilder,
    /// Their counts.
    pub counts: WindowCounts,
}

/// A sink that sums up samples.
#[derive(Debug)]
pub struct WindowSink {
    options: WindowOptions,
    labeler: Labeler,
    clock: WindowClock,
    open: OpenWindow,
    closed: Vec<ClosedWindow>,
    chain: Vec<CodeAddress>,
    stack: Vec<StackFrame>,
}

/// When a window begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowTime {
    /// Its start, in microseconds since 1970 (UTC).
    pub start_us: i64,
    /// Its end, in microseconds since 1970 (UTC).
    pub end_us: i64,
    /// Its end in nanoseconds of the monotonic clock.
    pub end_ns: u64,
}

/// The clocks at one moment.
#[derive(Clone, Copy, Debug)]
struct Clocks {
    utc_us: i64,
    monotonic_ns: u64,
}

/// What tells the time of samples.
#[derive(Clone, Copy, Debug)]
enum WindowClock {
    /// The machine's clocks now: UTC may be set.
    Live,
    /// The clocks at one moment of a recording.
    Recorded(Clocks),
}

impl WindowClock {
    fn read(self) -> Clocks {
        match self {
            Self::Live => Clocks::now(),
            Self::Recorded(clocks) => clocks,
        }
    }
}

/// Returns the time in microseconds since 1970 (UTC).
#[must_use]
pub fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}

impl Clocks {
    fn now() -> Self {
        Self { utc_us: now_us(), monotonic_ns: monotonic_ns() }
    }

    /// Returns UTC at a time of the monotonic clock, in microseconds.
    fn utc_at(self, monotonic_ns: u64) -> i64 {
        let passed_ns = i128::from(monotonic_ns) - i128::from(self.monotonic_ns);
        let utc_us = i128::from(self.utc_us) + passed_ns.div_euclid(1000);
        i64::try_from(utc_us).unwrap_or(i64::MAX)
    }

    fn monotonic_at(self, utc_us: i64) -> u64 {
        let passed_us = i128::from(utc_us) - i128::from(self.utc_us);
        let ns = i128::from(self.monotonic_ns) + passed_us * 1000;
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

impl WindowTime {
    /// Returns the window that begins at `start_us`, or the part of it that remains.
    fn from_start(start_us: i64, length: Duration, clocks: Clocks) -> Self {
        let length_us = i64::try_from(length.as_micros()).unwrap_or(i64::MAX).max(1);
        let end_us = (start_us.div_euclid(length_us) + 1).saturating_mul(length_us);
        Self { start_us, end_us, end_ns: clocks.monotonic_at(end_us) }
    }

    /// Returns the window after this one.
    fn next(self, length: Duration, clocks: Clocks) -> Self {
        let at_end_us = clocks.utc_at(self.end_ns);
        let is_stepped = (at_end_us - self.end_us).abs() >= CLOCK_STEP_US;
        let start_us = if is_stepped { at_end_us } else { self.end_us };
        Self::from_start(start_us, length, clocks)
    }
}

#[derive(Debug)]
struct OpenWindow {
    time: WindowTime,
    builder: SegmentBuilder,
    counts: WindowCounts,
    frames: HashMap<FrameKey, Option<StackFrame>, RandomState>,
    modules: HashMap<DsoId, Module, RandomState>,
}

/// Where a frame is, as the machine knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FrameKey {
    dso: DsoId,
    address: u64,
    is_return: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Module {
    path: Option<TextId>,
    build_id: Option<TextId>,
    /// Whether addresses mean the same in every process.
    is_file: bool,
}

impl OpenWindow {
    fn new(info: &SegmentInfo, time: WindowTime) -> Self {
        let info = SegmentInfo { start_us: time.start_us, end_us: time.end_us, ..info.clone() };
        Self {
            time,
            builder: SegmentBuilder::new(info),
            counts: WindowCounts::default(),
            frames: HashMap::default(),
            modules: HashMap::default(),
        }
    }

    /// Returns the frame of an address; `None` for a return address outside of code.
    fn frame(
        &mut self,
        machine: &Machine,
        pid: i32,
        at: CodeAddress,
        keeps_addresses: bool,
    ) -> Option<StackFrame> {
        let recorded = match machine.locate_frame(pid, at) {
            FrameLocation::OutsideCode => return None,
            FrameLocation::Code(None) => return Some(StackFrame::default()),
            FrameLocation::Code(Some(recorded)) => recorded,
        };
        let DsoAddress { dso, address } = recorded;
        let key = FrameKey { dso, address, is_return: at.is_return };
        if let Some(known) = self.frames.get(&key) {
            return *known;
        }
        let frame =
            self.look_up(machine, machine.call_site(recorded, at.is_return), keeps_addresses);
        if self.frames.len() >= FRAMES {
            self.frames.clear();
        }
        self.frames.insert(key, Some(frame));
        Some(frame)
    }

    fn look_up(&mut self, machine: &Machine, at: DsoAddress, keeps_addresses: bool) -> StackFrame {
        let module = self.module(machine, at.dso);
        let symbol = machine.symbol(at).ok();
        // A function that only the unwind tables know has no name yet.
        let is_named = |symbol| machine.name_source(symbol) != Some(NameSource::UnwindTable);
        let named = symbol.filter(|symbol| is_named(*symbol));
        let start = symbol.map_or(at.address, |symbol| symbol.start);
        let address = if keeps_addresses { at.address } else { start };
        let has_place = module.is_file || symbol.is_some();
        let address = machine.portable_address(DsoAddress { address, ..at });
        StackFrame {
            function: named.map(|symbol| self.builder.text(machine.symbol_name(symbol))),
            module: module.path,
            build_id: module.build_id,
            address: if has_place { address } else { 0 },
            ..StackFrame::default()
        }
    }

    fn module(&mut self, machine: &Machine, dso: DsoId) -> Module {
        if let Some(known) = self.modules.get(&dso) {
            return *known;
        }
        let Some(described) = machine.dso(dso) else { return Module::default() };
        let build_id = machine.build_id(dso).map(|id| self.builder.text(&id.to_string()));
        let module = Module {
            path: Some(self.builder.text_lossy(machine.dso_name(dso))),
            build_id,
            is_file: described.kind != DsoKind::Anonymous,
        };
        self.modules.insert(dso, module);
        module
    }

    fn label_set(&mut self, labels: &Labels, thread: Option<&str>) -> LabelSet {
        let builder = &mut self.builder;
        let mut text = |label: Option<&String>| label.map(|label| builder.text(label));
        let set = LabelSet {
            service: text(Some(&labels.service)),
            version: text(labels.version.as_ref()),
            container: text(labels.container.as_ref()),
            process: text(Some(&labels.process)),
            unit: text(labels.unit.as_ref()),
            namespace: text(labels.namespace.as_ref()),
            pod: text(labels.pod.as_ref()),
            owner: text(labels.owner.as_ref()),
            image: text(labels.image.as_ref()),
            thread: None,
            extra: None,
        };
        let further: Vec<_> =
            labels.further.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let extra = builder.extra(&further);
        LabelSet { thread: thread.map(|thread| self.builder.text(thread)), extra, ..set }
    }
}

impl LiveSink for WindowSink {
    fn take(&mut self, machine: &mut Machine, sample: &Replayed<'_, Sample<'_>>) {
        let time_ns = sample.time_ns.unwrap_or(0);
        match self.clock {
            WindowClock::Live => self.close_before(time_ns),
            WindowClock::Recorded(clocks) => self.begin_window(time_ns, clocks),
        }
        let Some(event) = sample.event.and_then(|at| sample.description.events().get(at)) else {
            return;
        };
        let head = &sample.fields.head;
        let pid = head.pid.unwrap_or(-1);
        machine.callchain(sample, usize::MAX, &mut self.chain);
        if self.chain.is_empty()
            && let Some(address) = head.ip
        {
            self.chain.push(CodeAddress::exact(CpuMode::from_misc(sample.raw.misc), address));
        }
        let wait_reason = self.fill_stack(machine, pid);
        let labels = self.labels(machine, sample);
        let window = &mut self.open;
        let event_name = event.name.as_deref().unwrap_or(b"event");
        let event_text = window.builder.text_lossy(event_name);
        let stack = match self.stack.as_slice() {
            [] => StackId::OMITTED,
            stack => window.builder.stack(stack),
        };
        let weight = head.period.unwrap_or(match event.attr.sampling {
            Sampling::Period(period) | Sampling::Frequency(period) => period,
            Sampling::None => 0,
        });
        window.builder.add(&labels, event_text, wait_reason, stack, 1, weight);
        window.counts.samples += 1;
        let has_name = self.stack.first().is_some_and(|leaf| leaf.function.is_some());
        window.counts.unnamed += u64::from(!has_name);
        window.counts.truncated += u64::from(machine.is_chain_truncated());
    }
}

impl WindowSink {
    /// Opens the first window, which ends with the current multiple of the windows' length.
    #[must_use]
    pub fn new(options: WindowOptions, labeler: Labeler) -> Self {
        let clocks = Clocks::now();
        Self::at(options, labeler, WindowClock::Live, clocks.utc_us)
    }

    /// Opens the first window of a recording, at a time of its clock in nanoseconds. Without
    /// `clock`, dates are those of the recording's clock as if it counted from 1970.
    #[must_use]
    pub fn for_recording(
        options: WindowOptions,
        labeler: Labeler,
        clock: Option<ClockData>,
        start_ns: u64,
    ) -> Self {
        let clocks = clock.map_or(Clocks { utc_us: 0, monotonic_ns: 0 }, |clock| Clocks {
            utc_us: i64::try_from(clock.wall_clock_ns / 1000).unwrap_or(0),
            monotonic_ns: clock.clock_ns,
        });
        Self::at(options, labeler, WindowClock::Recorded(clocks), clocks.utc_at(start_ns).max(0))
    }

    fn at(options: WindowOptions, labeler: Labeler, clock: WindowClock, start_us: i64) -> Self {
        let time = WindowTime::from_start(start_us, options.length, clock.read());
        Self {
            open: OpenWindow::new(&options.info, time),
            options,
            labeler,
            clock,
            closed: Vec::new(),
            chain: Vec::new(),
            stack: Vec::new(),
        }
    }

    /// Begins another window at the time of a sample, in nanoseconds, if the open one has ended by
    /// then or is half of its limits.
    fn begin_window(&mut self, time_ns: u64, clocks: Clocks) {
        let start_us = clocks.utc_at(time_ns);
        let WindowTime { start_us: opened_us, end_us, .. } = self.open.time;
        if start_us >= end_us {
            self.close(WindowTime::from_start(start_us, self.options.length, clocks));
        } else if self.open.builder.is_half_full() && start_us > opened_us {
            self.open.builder.set_end(start_us);
            self.close(WindowTime::from_start(start_us, self.options.length, clocks));
        }
    }

    /// Closes windows that end at or before a time of the monotonic clock, in nanoseconds.
    pub fn close_before(&mut self, time_ns: u64) {
        while self.open.time.end_ns <= time_ns {
            let next = self.open.time.next(self.options.length, self.clock.read());
            self.close(next);
        }
    }

    /// Ends the open window now, at the end of the recording.
    pub fn close_now(&mut self) {
        self.close_at(Clocks::now());
    }

    /// Ends the open window of a recording at the time of its last sample, in nanoseconds.
    pub fn close_after(&mut self, last_ns: u64) {
        let clocks = self.clock.read();
        let utc_us = clocks.utc_at(last_ns).saturating_add(1);
        self.close_at(Clocks { utc_us, ..clocks });
    }

    fn close_at(&mut self, clocks: Clocks) {
        let end_us = clocks.utc_us.clamp(self.open.time.start_us, self.open.time.end_us);
        self.open.builder.set_end(end_us);
        self.close(WindowTime::from_start(end_us, self.options.length, clocks));
    }

    fn close(&mut self, next: WindowTime) {
        let window = std::mem::replace(&mut self.open, OpenWindow::new(&self.options.info, next));
        self.closed.push(ClosedWindow { builder: window.builder, counts: window.counts });
        self.labeler.forget();
    }

    /// Returns the windows that ended since the last call.
    pub fn take_closed(&mut self) -> Vec<ClosedWindow> {
        std::mem::take(&mut self.closed)
    }

    /// Returns the open window's time and number of samples.
    #[must_use]
    pub fn open_window(&self) -> (WindowTime, u64) {
        (self.open.time, self.open.counts.samples)
    }

    /// Looks the call chain up. Returns the reason of a wait, which off-CPU time has in the place
    /// of its innermost frame.
    fn fill_stack(&mut self, machine: &Machine, pid: i32) -> Option<TextId> {
        let Self { open, chain, stack, options, .. } = self;
        stack.clear();
        let mut chain = chain.iter().copied();
        let mut reason = None;
        if let Some(first) = chain.next() {
            match wait_reason(machine, pid, first) {
                Some(of_wait) => reason = Some(open.builder.text(of_wait)),
                None => stack.extend(open.frame(machine, pid, first, options.keeps_addresses)),
            }
        }
        for at in chain {
            match open.frame(machine, pid, at, options.keeps_addresses) {
                Some(frame) => stack.push(frame),
                None => break,
            }
        }
        reason
    }

    fn labels(&mut self, machine: &Machine, sample: &Replayed<'_, Sample<'_>>) -> LabelSet {
        let head = &sample.fields.head;
        let pid = head.pid.unwrap_or(-1);
        let text =
            |name: Option<&[u8]>| name.map(|name| String::from_utf8_lossy(name).into_owned());
        let thread = head.tid.and_then(|tid| text(machine.comm(tid)));
        let process = text(machine.comm(pid)).or_else(|| thread.clone());
        let process = process.unwrap_or_else(|| format!(":{pid}"));
        let cgroup = text(sample.fields.cgroup.and_then(|id| machine.cgroup(id)));
        let sampled = SampledProcess {
            pid,
            version: machine.thread(pid).map_or(0, tare_replay::Thread::version),
            name: &process,
            cgroup: cgroup.as_deref(),
        };
        let labels = self.labeler.labels(sampled, || program(machine, pid));
        // A process's first thread has its name.
        let thread = thread.filter(|name| *name != process).map(|name| fold(&name));
        self.open.label_set(&labels, thread.as_deref())
    }
}

fn program(machine: &Machine, pid: i32) -> Option<Program> {
    let dso = machine.program(pid)?;
    Some(Program {
        path: String::from_utf8_lossy(machine.dso_name(dso)).into_owned(),
        build_id: machine.build_id(dso).map(|id| id.to_string()),
    })
}

/// Returns why a task waits, if the address is that of a reason (`docs/off-cpu.md`).
fn wait_reason(machine: &Machine, pid: i32, at: CodeAddress) -> Option<&str> {
    if at.mode != CpuMode::Kernel {
        return None;
    }
    let FrameLocation::Code(Some(recorded)) = machine.locate_frame(pid, at) else { return None };
    if !matches!(machine.dso(recorded.dso)?.kind, DsoKind::Ksymbol { .. }) {
        return None;
    }
    let name = machine.symbol_name(machine.symbol(recorded).ok()?);
    name.strip_prefix(REASON.0)?.strip_suffix(REASON.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn windows_end_at_multiples_of_their_length() {
        let clocks = Clocks { utc_us: 90_000_000, monotonic_ns: 5_000_000_000 };
        let first = WindowTime::from_start(90_000_000, MINUTE, clocks);
        assert_eq!((first.end_us, first.end_ns), (120_000_000, 35_000_000_000));
        let second = first.next(MINUTE, clocks);
        assert_eq!((second.start_us, second.end_us), (120_000_000, 180_000_000));
        assert_eq!(second.end_ns, 95_000_000_000);
    }

    #[test]
    fn a_window_after_a_clock_step_begins_at_the_new_time() {
        let clocks = Clocks { utc_us: 60_000_000, monotonic_ns: 0 };
        let first = WindowTime::from_start(60_000_000, MINUTE, clocks);
        let drifted = Clocks { utc_us: 120_000_200, monotonic_ns: first.end_ns };
        assert_eq!(first.next(MINUTE, drifted).start_us, 120_000_000, "drift is no step");
        for stepped_us in [3_600_000_000, 30_000_000] {
            let stepped = Clocks { utc_us: stepped_us, monotonic_ns: first.end_ns };
            let next = first.next(MINUTE, stepped);
            assert_eq!(next.start_us, stepped_us);
            assert!(next.end_ns > first.end_ns, "windows go on");
        }
    }

    #[test]
    fn times_before_1970_and_far_away_make_windows() {
        for utc_us in [-1, 0, i64::MAX / 2] {
            let clocks = Clocks { utc_us, monotonic_ns: 1 };
            let time = WindowTime::from_start(utc_us, MINUTE, clocks);
            assert!(time.end_us > utc_us);
            assert!(time.end_us - utc_us <= 60_000_000);
        }
    }
}
