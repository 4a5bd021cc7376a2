//! What a recording is made of, and how it begins.
//!
//! ```text
//! fork            the child waits
//! output          its helper threads, and those that read rings: filters name all of them
//! events          opened on the child, the tasks or the CPUs; rings; filters
//! description     the recording's beginning
//! existing tasks  described; events that follow processes run already, so that nothing falls in between
//! start           of the child, and of what doesn't start with it
//! ```

use std::cell::OnceCell;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

use anyhow::Context;
use rustix::io::Errno;
use tare_events::OpenError;
use tare_format::abi::Flags;
use tare_format::abi::bindings::{PERF_COUNT_SW_DUMMY, PERF_TYPE_SOFTWARE};
use tare_format::file::note;
use tare_format::file::writer::{Description, FINISHED_INIT};
use tare_format::record::Layout;
use tare_kernel::child::{Command, FileLimit, WaitingChild};
use tare_kernel::host::Host;
use tare_kernel::open::{EventFile, Kernel};
use tare_kernel::ring::Ring;
use tare_kernel::schedule::run_first;
use tare_kernel::signals::Signals;

use super::account::Before;
use super::finish::Recorded;
use super::followed::CgroupSeen;
use super::live::{Clock, Counts, Live};
use super::pace::Pace;
use super::plan::{Plan, Start};
use super::ring_size;
use super::snapshot::Snapshots;
use super::subjects::Subjects;
use super::{description, followed};
use crate::cli::resolved::record::{Keep, Record, Target};
use crate::command::control::Control;
use crate::command::follow::Following;
use crate::command::remedy;
use crate::exit::{Exit, Refusal, say};
use crate::pipeline::capture::helpers::Helper;
use crate::pipeline::capture::meter::{Known, Meter};
use crate::pipeline::capture::opening::{self, Events, Rings, Wanted};
use crate::pipeline::capture::reader::{CpuRing, Reader, Shared};
use crate::pipeline::capture::wakes::{Waker, Wakes};
use crate::pipeline::output::{Output, OutputError};
use crate::pipeline::synthesize;
use tare_format::ledger::{Ledger, Recorder, SampleCost};

/// Descriptors beside those of events: the standard ones, pipes, signals, outputs, and two for each
/// thread that reads.
const OTHER_FILES: usize = 32;

/// What a recording is made of.
pub(super) struct Session<'a> {
    pub(super) record: &'a Record,
    pub(super) plan: &'a Plan,
    /// How the command is followed.
    pub(super) follow: Option<&'a Following>,
    pub(super) host: &'a Host,
    pub(super) kernel: &'a dyn Kernel,
    pub(super) signals: &'a Signals,
    pub(super) files: FileLimit,
    pub(super) command: Option<Command>,
    /// What a sample of each event costs: `cost` fills it in.
    pub(super) sample_costs: OnceCell<Vec<Option<SampleCost>>>,
}

impl Session<'_> {
    /// Records, from the fork to the last byte.
    pub(super) fn record(
        &self,
        output: &dyn Fn() -> anyhow::Result<Output>,
    ) -> anyhow::Result<Recorded> {
        // The child is forked before anything is opened, so that none of it is in what is recorded.
        let cgroup = self.follow.and_then(|following| following.cgroup.as_ref()).map(AsFd::as_fd);
        let fork = |command| WaitingChild::fork_into(command, self.signals, &self.files, cgroup);
        let child = self.command.as_ref().map(fork).transpose()?;
        let priority = self.record.realtime_priority;
        if let Some(priority) = priority {
            run_first(priority).map_err(|error| no_priority(priority, error))?;
        }
        let output = output()?;
        let readers = self.record.readers.unwrap_or_else(|| ring_size::readers(self.host));
        let helpers = (1..readers)
            .map(|number| Helper::start(number, priority))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let root = child.as_ref().map(WaitingChild::pid);
        let subjects = Subjects::find(&self.record.target, root, cgroup, self.host)?;
        let recorder = self.recorder(&output, &helpers);
        let events = self.open(&subjects, &recorder)?;
        let rings = events.rings(ring_size::bytes(
            self.record.rings.bytes,
            events.number_of_rings(),
            self.host,
        ))?;
        if let Some(note) = ring_size::note(self.record.rings.bytes, rings.smallest())
            .filter(|_| !self.record.quiet)
        {
            say(&note);
        }
        let ids = events.ids().context("cannot read the ids of events")?;
        let description = description::describe(self, &ids)?;
        let ledger =
            Ledger { follow: followed::beginning(self.follow, root), ..Ledger::of(recorder) };
        let mut live = self.live(events, rings, &ids, (ledger, description), output, helpers)?;
        live.targets = subjects.waited_for;
        for file in live.targets.files() {
            live.wakes.add(file, Waker::Target).context("cannot wait for a process")?;
        }
        live.existing = subjects.existing;
        if let Err(error) = self.begin(&mut live) {
            // Whoever stopped reading so early gets no recording, and the command runs all the
            // same.
            let is_closed = error.downcast_ref() == Some(&OutputError::Closed)
                || live.shared.flush() == Err(OutputError::Closed);
            if !is_closed {
                return Err(error);
            }
            live.stop_recording(OutputError::Closed.into());
        }
        live.start(child)?;
        let end = live.wait()?;
        live.finish(end)
    }

    /// What a recording begins with.
    fn begin(&self, live: &mut Live<'_>) -> anyhow::Result<()> {
        live.shared.with_output(|output| output.begin(&live.description))?;
        live.shared.append(&[&note::encode(&live.ledger.to_note())?])?;
        self.describe_existing(live)?;
        live.shared.append(&[&FINISHED_INIT])?;
        Ok(live.shared.flush()?)
    }

    /// Whether an event only follows processes: orders and delays are for the others.
    pub(super) fn only_tracks(&self, event: usize) -> bool {
        let attr = &self.plan.events[event].attr;
        attr.kind == PERF_TYPE_SOFTWARE
            && attr.config == u64::from(PERF_COUNT_SW_DUMMY)
            && attr.flags.contains(Flags::COMM)
    }

    /// The threads of this process, all of which are there by now.
    fn recorder(&self, output: &Output, helpers: &[Helper]) -> Recorder {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let tids = [pid]
            .into_iter()
            .chain(helpers.iter().map(|helper| helper.tid))
            .chain(output.threads())
            .collect();
        Recorder { pid, tids, included: self.record.include_self }
    }

    fn open(&self, subjects: &Subjects, recorder: &Recorder) -> anyhow::Result<Events> {
        let cgroups = subjects.cgroups();
        let wanted = |planned: &super::plan::PlannedEvent| Wanted {
            name: planned.event.name.clone(),
            attr: planned.attr.clone(),
            slower: planned.slower.clone(),
            leader: planned.leader,
            places: planned.places(&subjects.threads, &cgroups).collect(),
        };
        let wanted: Vec<Wanted> = self.plan.events.iter().map(wanted).collect();
        let needed = opening::needed_files(&wanted) + OTHER_FILES;
        if self.files.soft().is_some_and(|soft| soft < needed as u64) {
            self.files.raise();
        }
        let explain = |error: OpenError| remedy::for_open(&error, self.host, &self.files);
        let events = Events::open(self.kernel, wanted).map_err(explain)?;
        let excluded: Vec<i32> =
            if recorder.included { Vec::new() } else { recorder.tids.iter().copied().collect() };
        let filters = self
            .plan
            .events
            .iter()
            .map(|planned| planned.filter(&excluded))
            .collect::<Result<Vec<_>, _>>()?;
        events.set_filters(&filters).map_err(explain)?;
        if self.record.verbose > 0 {
            say(&format!(
                "{} events, {} open files",
                self.plan.events.len(),
                events.number_of_files()
            ));
        }
        if self.record.verbose > 1 {
            let _ = write!(io::stderr(), "{}", self.plan);
        }
        Ok(events)
    }

    /// What those who read rings must know of the events.
    fn known(&self, ids: &[Vec<u64>], recorder: &Recorder) -> Known {
        let own = if matches!(self.record.target, Target::Cpus(_)) {
            recorder.tids.iter().copied().collect()
        } else {
            Vec::new()
        };
        let layouts = self.plan.events.iter().map(|planned| Layout::from(&planned.attr)).collect();
        let known = Known::new(layouts, ids, own);
        match followed::weights(self) {
            Some(weights) => known.telling_tasks(weights),
            None => known,
        }
    }

    /// Hands out the rings to those who read them.
    fn live(
        &self,
        events: Events,
        rings: Rings,
        ids: &[Vec<u64>],
        (ledger, description): (Ledger, Description),
        output: Output,
        mut helpers: Vec<Helper>,
    ) -> anyhow::Result<Live<'_>> {
        let known = Arc::new(self.known(ids, &ledger.recorder));
        let keep = if let Keep::Last(time) = self.record.rings.keep { Some(time) } else { None };
        let shared = Arc::new(Shared::new(
            output,
            1 + helpers.len(),
            &known,
            keep,
            self.record.output.step(),
        ));
        let Rings { consumed, overwritten } = rings;
        let number = 1 + helpers.len();
        let mut readers =
            dealt(consumed, number, &events, &shared, &known)?.into_iter().enumerate();
        let (wakes, rings) =
            readers.next().map(|(_, first)| first).context("there is no reader")?;
        for (helper, (number, (wakes, rings))) in helpers.iter_mut().zip(readers) {
            helper.hand(
                Reader::new(number, rings),
                wakes,
                &shared,
                self.record.rings.flush_interval,
            )?;
        }
        wakes.add(self.signals, Waker::Signal).context("cannot wait for signals")?;
        let control = self.record.control.as_deref().map(Control::open).transpose()?;
        if let Some(control) = &control {
            wakes.add(control, Waker::Control).context("--control: not a pipe, socket or FIFO")?;
        }
        let (targets, child, clock) = (Default::default(), None, Clock::new());
        let reader = Reader::new(0, rings);
        let snapshots = Snapshots::new(overwritten, &known, &shared);
        Ok(Live {
            session: self,
            ledger,
            description,
            events,
            shared,
            reader,
            snapshots,
            helpers,
            wakes,
            control,
            targets,
            child,
            clock,
            counts: Counts::default(),
            cgroup: CgroupSeen::default(),
            readers: number,
            before: Before::default(),
            existing: None,
            total: None,
            shortest: None,
            stopped: None,
            pace: Pace::new(self),
        })
    }

    /// Describes what was there before, in records that the kernel would have made of it. The event
    /// that follows processes runs by then, so that nothing falls in between.
    fn describe_existing(&self, live: &mut Live<'_>) -> anyhow::Result<()> {
        if let Some(tracking) =
            self.tracking().filter(|&event| self.plan.events[event].start == Start::AtOnce)
        {
            live.events
                .set_enabled(true, |event| event == tracking)
                .context("cannot enable the events")?;
        }
        let mut emit = |bytes: &[u8]| {
            live.shared.see_mappings(bytes);
            live.shared.append(&[bytes]).map_err(io::Error::other)
        };
        match &live.existing {
            Some(existing) if !self.record.synthesize.at_the_end => {
                self.synthesize(existing, &mut emit)
            }
            _ => self.synthesize(&synthesize::Targets::Processes(Vec::new()), &mut emit),
        }
    }

    /// The event that follows processes.
    fn tracking(&self) -> Option<usize> {
        self.plan.events.iter().position(|planned| planned.attr.flags.contains(Flags::COMM))
    }

    /// Hands out records of what runs: of these processes, as far as the user wants them, and of
    /// the kernel.
    pub(super) fn synthesize(
        &self,
        targets: &synthesize::Targets,
        emit: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let Some(tracking) = self.tracking() else { return Ok(()) };
        let what = &self.record.synthesize;
        let nobody = synthesize::Targets::Processes(Vec::new());
        let options = synthesize::Options {
            kernel: self
                .plan
                .events
                .iter()
                .any(|planned| !planned.attr.flags.contains(Flags::EXCLUDE_KERNEL)),
            data: self.record.sampling.tracking.contains(Flags::MMAP_DATA),
            namespaces: self.record.sampling.tracking.contains(Flags::NAMESPACES),
            cgroups: what.cgroups,
            mappings: what.maps,
        };
        let targets = if what.tasks { targets } else { &nobody };
        let layout = Layout::from(&self.plan.events[tracking].attr);
        synthesize::synthesize(self.host, targets, &options, &layout, emit)
            .context("cannot describe what runs already")?;
        Ok(())
    }
}

/// What each of so many readers waits for and reads.
fn dealt(
    rings: Vec<(u32, usize, Ring)>,
    readers: usize,
    events: &Events,
    shared: &Shared,
    known: &Arc<Known>,
) -> anyhow::Result<Vec<(Wakes, Vec<CpuRing>)>> {
    let mut dealt = Vec::new();
    for _ in 0..readers {
        dealt.push((Wakes::new().context("cannot wait for rings")?, Vec::new()));
    }
    for (nth, (cpu, owner, ring)) in rings.into_iter().enumerate() {
        let (wakes, rings) = &mut dealt[nth % readers];
        if let Some(file) = events.file(owner).and_then(EventFile::wakes) {
            wakes.add(file, Waker::Ring).context("cannot wait for a ring")?;
        }
        rings.push(CpuRing {
            number: shared.register(cpu, ring.size()),
            ring,
            meter: Meter::new(known),
        });
    }
    Ok(dealt)
}

fn no_priority(priority: u32, error: Errno) -> Refusal {
    let remedy = "raise 'ulimit -r', run with CAP_SYS_NICE, or leave out -r";
    Refusal {
        exit: Exit::OwnFailure,
        message: format!(
            "-r {priority}: this user may not have a realtime priority ({error}): {remedy}"
        ),
    }
}
