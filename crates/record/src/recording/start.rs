//! The start of a recording.

use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;

use tare_format::file::note;
use tare_format::file::writer::{Description, FINISHED_INIT};
use tare_format::ledger::{Follow, Ledger, Recorder};
use tare_format::record::Layout;
use tare_kernel::call_samples::CallSamples;
use tare_kernel::child::FileLimit;
use tare_kernel::open::EventFile;
use tare_kernel::ring::Ring;

use super::deep_stacks::DeepStackLoader;
use super::hotplug::Hotplug;
use super::targets::TargetTasks;
use super::{
    Capture, CgroupUsage, Deadlines, EventSources, KernelWatch, LOOK, LedgerFigures, Modules,
    RateControl, RecordedTargets, Recording, RecordingState, Snapshots, deep_stacks, description,
    event_error, followed, ring_size, system_calls,
};
use crate::capture::EventToOpen;
use crate::capture::batch::CpuRing;
use crate::capture::jit::JitProcesses;
use crate::capture::opening::{self, Events, Rings};
use crate::capture::poller::{Poller, WakeSource};
use crate::capture::processes::TrackedProcesses;
use crate::capture::reader::{Reader, SharedOutput};
use crate::capture::scanner::{EventTable, Scanner};
use crate::capture::threads::ReaderThread;
use crate::error::RecordError;
use crate::keep::Binaries;
use crate::off_cpu::OffCpuTimes;
use crate::options::{Begin, Keep, Target};
use crate::output::{Output, OutputError};
use crate::own_threads;
use crate::plan::{EventStart, PlannedEvent};
use crate::session::{RecordSession, Start};

use crate::synthesize;
use crate::warning::Warning;

/// Descriptors reserved besides the events': for standard streams, pipes, signals, outputs, and
/// reader threads, which have two each.
const OTHER_FILES: usize = 32;

/// Shortest flush interval if the destination keeps nothing, so that a kill loses nothing.
const WITHOUT_KEEPING: Duration = Duration::from_secs(1);

impl Recording {
    /// See [`crate::Recorder::start`].
    pub(crate) fn start(session: RecordSession, start: Start<'_>) -> Result<Self, RecordError> {
        let Start { output, command, gives_other_rights, files } = start;
        let (mut session, output) = adapt_to_output(session, output)?;
        let calls = session.plan.calls.take();
        let options = &session.options;
        let host = &session.backend.host;
        let readers = options.readers.unwrap_or_else(|| ring_size::readers(host));
        let priority = options.realtime_priority;
        let threads = (1..readers)
            .map(|number| ReaderThread::start(number, priority))
            .collect::<Result<Vec<_>, _>>()?;
        let tasks = TargetTasks::find(&options.target, command, session.cgroup(), host)?;
        let deep = DeepStackLoader::start(&session, &output)?;
        let helpers = threads.iter().map(|thread| thread.tid);
        let loader = deep.as_ref().and_then(|deep| deep.as_ref().ok());
        let helpers = helpers.chain(loader.map(DeepStackLoader::tid));
        let recorder = own_threads::recorder(&session, &output, helpers);
        let filters = own_threads::filters(&session, &recorder)?;
        let events = open(&session, &tasks, &filters, files)?;
        let wanted_bytes = ring_size::wanted(&options.rings, &session.plan.events);
        let off_cpu = start_off_cpu(&mut session, &tasks, command)?;
        let host = &session.backend.host;
        let tried = ring_size::bytes(wanted_bytes, events.number_of_rings(), host);
        let mut rings = events.rings(tried)?;
        let hotplug = Hotplug::start(&session, &events, filters, tried);
        let small =
            ring_size::warning(wanted_bytes, tried, rings.smallest(), session.plan.small_copy());
        let step_back = off_cpu.as_ref().and_then(|off_cpu| off_cpu.step_back.as_ref());
        let step_back = step_back.map(|step_back| Warning::StepBack(step_back.to_string()));
        rings.consumed.extend(calls.as_ref().map_or(Ok(Vec::new()), system_calls::rings)?);
        let ids = system_calls::event_ids(&session.plan, &events)?;
        let description = description::describe(&session, &ids)?;
        let follow = followed::beginning(session.following.as_ref(), command);
        let follow = follow.map(|follow| Follow { unrecordable: gives_other_rights, ..follow });
        let attach = |deep: DeepStackLoader| deep.attach(&events, &session.plan).map(|()| deep);
        let deep = deep.map(|deep| deep.and_then(attach));
        let unwound = output.so_far().unwound;
        let unwound = unwound.map(|unwound| deep_stacks::note(unwound, deep.as_ref()));
        let ledger = Ledger { follow, unwound, ..Ledger::new(recorder) };
        let notes_tasks = tracks_processes(&session, output.may_switch());
        let table = Arc::new(event_table(&session, &ids, &ledger.recorder, notes_tasks));
        let taken = StartParts {
            events,
            rings,
            output,
            threads,
            table,
            tasks,
            hotplug,
            off_cpu,
            calls,
            deep: deep.and_then(Result::ok),
        };
        let mut recording = Self::from_parts(session, ledger, description, taken)?;
        step_back.into_iter().chain(small).for_each(|warning| recording.warn(warning));
        recording.begin_and_enable(command)?;
        Ok(recording)
    }

    /// Writes the beginning, and enables the events that start neither with the command nor later.
    fn begin_and_enable(&mut self, command: Option<i32>) -> Result<(), RecordError> {
        self.track_processes(command);
        if let Err(error) = self.begin() {
            // If the stream's reader is already gone there is no recording, and the command runs
            // all the same.
            let is_closed = matches!(error, RecordError::Output(OutputError::Closed))
                || self.capture.shared.flush() == Err(OutputError::Closed);
            if !is_closed {
                return Err(error);
            }
            self.stop_recording(OutputError::Closed.into());
        }
        // Inherited events start with the program.
        let is_inherited = matches!(self.session.options.target, Target::Command(_));
        if let Some(root) = command.filter(|_| !is_inherited) {
            let now = self.session.backend.clock.now();
            self.capture.shared.follow(root, now);
        }
        self.targets.cgroup.read_at_start(self.session.following.as_ref());
        self.begin_rate_control()?;
        if !self.is_stopped() {
            self.enable_at_once()?;
            self.start_calls(command)?;
            self.sources.deep.iter().for_each(DeepStackLoader::begin);
        }
        Ok(())
    }

    /// Creates the recording from its parts, and deals the ring buffers to its threads.
    fn from_parts(
        session: RecordSession,
        ledger: Ledger,
        description: Description,
        taken: StartParts,
    ) -> Result<Self, RecordError> {
        let mut threads = taken.threads;
        let options = &session.options;
        let keep = if let Keep::Last(time) = options.rings.keep { Some(time) } else { None };
        let readers = 1 + threads.len();
        let clock = &session.backend.clock;
        let host = session.backend.host.clone();
        let jit = JitProcesses::new(host, Arc::clone(clock), options.sampling.clock);
        let shared =
            SharedOutput::new(taken.output, readers, &taken.table, keep, Arc::clone(clock), jit);
        let shared = Arc::new(shared);
        hold_binaries(&session, &shared)?;
        let Rings { consumed, overwritten } = taken.rings;
        let dealt = deal(consumed, readers, &taken.events, &shared, &taken.table)?;
        let pollers = dealt.iter().map(|(poller, _)| poller);
        system_calls::add_to_pollers(taken.calls.as_ref(), pollers)?;
        let interval = options.rings.flush_interval;
        let (poller, rings) = hand_out(dealt, &mut threads, &shared, interval)?;
        for file in taken.tasks.waited_for.files() {
            poller.add(file, WakeSource::Target).map_err(RecordError::Poll)?;
        }
        add_off_cpu_files(taken.off_cpu.as_ref(), &poller)?;
        taken.hotplug.add_to_poller(&poller)?;
        let snapshots = Snapshots::new(overwritten, &taken.table, &shared);
        let StartParts { events, tasks, hotplug, off_cpu, calls, deep, .. } = taken;
        deep.iter().try_for_each(|loader| loader.add_to_poller(&poller))?;
        let deadlines = deadlines(&session, &tasks);
        Ok(Self {
            description,
            capture: Capture {
                shared,
                reader: Reader::new(0, rings),
                snapshots,
                threads,
                poller,
                readers,
            },
            account: LedgerFigures::new(ledger, Arc::clone(&session.backend.clock)),
            sources: EventSources {
                events,
                off_cpu,
                calls,
                deep,
                rate_control: RateControl::new(&session),
            },
            watch: KernelWatch { hotplug, modules: Modules::new(&session) },
            targets: RecordedTargets { tasks, cgroup: CgroupUsage::default() },
            deadlines,
            state: RecordingState::Recording,
            notices: Vec::new(),
            session,
        })
    }

    /// Keeps track of the recorded processes if further files must describe them, unless the
    /// recording is of whole CPUs or cgroups: then `/proc` tells.
    fn track_processes(&self, command: Option<i32>) {
        let Self { session, capture: Capture { shared, .. }, .. } = self;
        if tracks_processes(session, shared.with_output(|output| output.may_switch()))
            && let Some(tracking) = session.tracking()
        {
            let layout = Layout::from(&session.plan.events[tracking].attr);
            shared.track_processes(TrackedProcesses::new(command, layout));
        }
    }

    fn begin(&mut self) -> Result<(), RecordError> {
        let Self { capture: Capture { shared, .. }, description, account, .. } = &*self;
        shared.with_output(|output| output.begin(description))?;
        shared.append(&[&note::encode(&account.ledger.to_note())?])?;
        self.describe_existing()?;
        self.capture.shared.append(&[&FINISHED_INIT])?;
        self.capture.shared.flush()?;
        self.capture.shared.with_output(|output| {
            if output.may_switch() { output.end_beginning() } else { Ok(()) }
        })?;
        Ok(())
    }

    /// Describes existing processes in the records that the kernel would have written. First
    /// enables the event that tracks processes, so that nothing is missed in between; with a
    /// command's own events, the execve enables it.
    fn describe_existing(&mut self) -> Result<(), RecordError> {
        let Self { session, sources, capture, targets, watch, .. } = self;
        let shared = &capture.shared;
        if let Some(tracking) = session
            .tracking()
            .filter(|&event| session.plan.events[event].start == EventStart::AtOnce)
        {
            sources
                .events
                .set_enabled(true, |event| event == tracking)
                .map_err(event_error("enable the events"))?;
        }
        let mut emit = |bytes: &[u8]| {
            shared.see_mappings(bytes);
            shared.with_processes(|processes| processes.describe(bytes));
            // A reader opens a jitdump when it reads the mapping, if it knows the process's user.
            let note = shared.with_jit(JitProcesses::take_note);
            shared.append(&[&note, bytes])
        };
        let there = match &targets.tasks.existing {
            Some(existing) if !session.options.synthesize.at_the_end => {
                session.synthesize(existing, &mut emit)
            }
            _ => session.synthesize(&synthesize::Targets::Processes(Vec::new()), &mut emit),
        };
        watch.modules.begin(there?);
        Ok(())
    }
}

/// Starts recording off-CPU time, if requested.
fn start_off_cpu(
    session: &mut RecordSession,
    tasks: &TargetTasks,
    command: Option<i32>,
) -> Result<Option<OffCpuTimes>, RecordError> {
    let Some(attr) = &mut session.plan.off_cpu else { return Ok(None) };
    let options = &session.options;
    let host = &session.backend.host;
    OffCpuTimes::start(options, attr, tasks.off_cpu_target(command), host).map(Some)
}

/// Makes the perf events for off-CPU time wake the caller's thread when a ring has reached its
/// watermark. BPF programs don't wake it.
fn add_off_cpu_files(off_cpu: Option<&OffCpuTimes>, poller: &Poller) -> Result<(), RecordError> {
    let mut files = off_cpu.into_iter().flat_map(OffCpuTimes::files);
    files.try_for_each(|file| poller.add(file, WakeSource::Ring).map_err(RecordError::Poll))
}

/// Holds binaries open, if they are to be kept.
fn hold_binaries(session: &RecordSession, shared: &SharedOutput) -> Result<(), RecordError> {
    let Some(folder) = &session.options.keep_binaries else { return Ok(()) };
    let held =
        Binaries::new(folder, session.backend.host.clone(), &session.options.is_copying_over);
    let failed = |source| RecordError::Keep { folder: folder.clone(), source };
    shared.replace_binaries(Some(held.map_err(failed)?));
    Ok(())
}

/// The parts from which a recording is created.
struct StartParts {
    events: Events,
    rings: Rings,
    output: Output,
    threads: Vec<ReaderThread>,
    table: Arc<EventTable>,
    tasks: TargetTasks,
    hotplug: Hotplug,
    off_cpu: Option<OffCpuTimes>,
    calls: Option<CallSamples>,
    deep: Option<DeepStackLoader>,
}

fn deadlines(session: &RecordSession, tasks: &TargetTasks) -> Deadlines {
    let now = session.backend.clock.now();
    let options = &session.options;
    Deadlines {
        flush: now + options.rings.flush_interval,
        begin: if let Begin::After(delay) = options.begin { Some(now + delay) } else { None },
        look: tasks.waited_for.need_polling().then(|| now + LOOK),
    }
}

/// Adapts the options to the output: raises the flush interval if the destination keeps nothing,
/// unless binaries are to be kept, and starts the output's threads if filters or the ledger must
/// name them.
fn adapt_to_output(
    mut session: RecordSession,
    mut output: Output,
) -> Result<(RecordSession, Output), RecordError> {
    // To keep binaries, mappings must be read soon.
    if output.is_discarding() && session.options.keep_binaries.is_none() {
        let interval = &mut session.options.rings.flush_interval;
        *interval = (*interval).max(WITHOUT_KEEPING);
    }
    if own_threads::are_named(&session) {
        output.start_threads().map_err(RecordError::Output)?;
    }
    Ok((session, output))
}

fn open(
    session: &RecordSession,
    tasks: &TargetTasks,
    filters: &[Option<CString>],
    files: Option<&FileLimit>,
) -> Result<Events, RecordError> {
    let cgroups = tasks.cgroups();
    let planned = &session.plan.events;
    let event = |planned: &PlannedEvent| EventToOpen {
        name: planned.event.name.clone(),
        attr: planned.attr.clone(),
        slower: planned.slower.clone(),
        leader: planned.leader,
        targets: planned.targets(&tasks.threads, &cgroups).collect(),
    };
    let wanted: Vec<EventToOpen> = planned.iter().map(event).collect();
    let needed = opening::needed_files(&wanted) + OTHER_FILES;
    if let Some(files) = files
        && files.soft().is_some_and(|soft| soft < needed as u64)
    {
        files.raise();
    }
    let events = Events::open(&*session.backend.kernel, wanted)?;
    events.set_filters(filters)?;
    Ok(events)
}

/// Whether the recorder keeps track of the processes. `may_switch`: whether there may be further
/// files.
fn tracks_processes(session: &RecordSession, may_switch: bool) -> bool {
    let has_own_tasks = !matches!(session.options.target, Target::Cpus(_) | Target::Cgroups { .. });
    may_switch && has_own_tasks && (session.options.synthesize.tasks || session.tracks_members())
}

/// Returns the table that readers of ring buffers need. `notes_tasks`: whether they hand out the
/// records of tasks.
fn event_table(
    session: &RecordSession,
    ids: &[Vec<u64>],
    recorder: &Recorder,
    notes_tasks: bool,
) -> EventTable {
    let own = own_threads::counted(session, recorder);
    let layouts = session.plan.events.iter().map(|planned| Layout::from(&planned.attr)).collect();
    let table = EventTable::new(layouts, ids, own);
    let table = if notes_tasks { table.with_task_records() } else { table };
    match followed::weights(session) {
        Some(weights) => table.with_weights(weights),
        None => table,
    }
}

/// Gives each thread its reader, and returns this thread's.
fn hand_out(
    dealt: Vec<(Poller, Vec<CpuRing>)>,
    threads: &mut [ReaderThread],
    shared: &Arc<SharedOutput>,
    interval: Duration,
) -> Result<(Poller, Vec<CpuRing>), RecordError> {
    let mut dealt = dealt.into_iter().enumerate();
    let first = dealt.next().map_or_else(
        || Poller::new().map(|poller| (poller, Vec::new())).map_err(RecordError::Poll),
        |(_, first)| Ok(first),
    )?;
    for (thread, (number, (poller, rings))) in threads.iter_mut().zip(dealt) {
        thread.give_rings(Reader::new(number, rings), poller, shared, interval)?;
    }
    Ok(first)
}

/// Deals the descriptors and rings to the readers.
fn deal(
    rings: Vec<(u32, usize, Ring)>,
    readers: usize,
    events: &Events,
    shared: &SharedOutput,
    table: &Arc<EventTable>,
) -> Result<Vec<(Poller, Vec<CpuRing>)>, RecordError> {
    let mut dealt = Vec::new();
    for _ in 0..readers {
        dealt.push((Poller::new().map_err(RecordError::Poll)?, Vec::new()));
    }
    for (nth, (cpu, owner, ring)) in rings.into_iter().enumerate() {
        let (poller, rings) = &mut dealt[nth % readers];
        if let Some(file) = events.file(owner).and_then(EventFile::wakes) {
            poller.add(file, WakeSource::Ring).map_err(RecordError::Poll)?;
        }
        let number = shared.register(cpu, ring.size());
        rings.push(CpuRing::new(number, ring, Scanner::new(table)));
    }
    Ok(dealt)
}
