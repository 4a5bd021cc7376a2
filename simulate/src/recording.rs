//! Simulates a recording: records a machine while events happen, and checks the result.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use fastrand::Rng;
use tare_events::Sources;
use tare_kernel::host::CpuList;
use tare_record::clock::Clock;
use tare_record::options::{Budget, Keep, RecorderOptions, Rings, Sampling, Synthesize, Target};
use tare_record::output::{Destination, FileSwitch, Output, OutputError};
use tare_record::{
    Backend, RecordError, Recorder, Recording, RecordingResult, RecordingState, Start,
};

use crate::checks::{self, FinishedRun};
use crate::clock::VirtualClock;
use crate::disk::{SimulatedDisk, happens_meanwhile};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::memory;
use crate::scenario::{RecordDestination, Scenario};
use crate::sink::KeptRecords;
use crate::unwinder::PassingUnwinder;

/// Bytes that a run may use beyond the disk, the queue, and twice the size of the log of true
/// samples.
const MEMORY: usize = 48 << 20;

/// Runs a seed.
///
/// # Errors
/// A check failed, or the run couldn't be carried out.
pub(crate) fn run(rng: &mut Rng) -> anyhow::Result<()> {
    let scenario = Scenario::draw(rng);
    simulate(&scenario, rng).with_context(|| format!("{scenario:#?}"))
}

fn simulate(scenario: &Scenario, rng: &mut Rng) -> anyhow::Result<()> {
    let machine = Machine::new(scenario.cpus)?;
    let clock = Arc::new(VirtualClock::new());
    let disk = SimulatedDisk::new(
        scenario.faults.clone(),
        Arc::clone(&clock),
        scenario.to == RecordDestination::Stream,
    );
    let records = KeptRecords::default();
    let before = memory::in_use();
    let output = open(scenario, &disk, &clock, &records);
    let recording = output.and_then(|output| start(scenario, &machine, &clock, output));
    let mut session = match recording {
        Ok(recording) => Session { scenario, machine, clock, disk, recording, flushed: 0 },
        // The disk fails from the start.
        Err(_) if scenario.faults.failing.is_some() || scenario.faults.room.is_some() => {
            return Ok(());
        }
        Err(error) if is_of_small_files(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    let files = session.recording.open_files();
    if scenario.goes_on_meanwhile {
        happens_meanwhile(Some(session.machine.source(rng.fork())));
    }
    for _ in 0..scenario.steps {
        session.step(rng)?;
        let used = memory::in_use().saturating_sub(before).saturating_sub(session.disk.memory());
        let allowed = MEMORY + scenario.output.queue_bytes + 2 * session.truth_bytes();
        if used > allowed {
            return Err(Failure::Memory { used, allowed }.into());
        }
        session.descriptors(files)?;
    }
    let ran = session.finish();
    happens_meanwhile(None);
    let (machine, disk, finished, flushed) = ran?;
    let truth = machine.truth.borrow();
    let ran = FinishedRun {
        scenario,
        truth: &truth,
        folder: machine.folder(),
        finished: &finished,
        flushed,
        ended_ns: machine.kernel.now_ns(),
        came_back: machine.came_back,
    };
    if machine.kernel.open_files() > 0 {
        return Err(Failure::Descriptors { were: 0, are: machine.kernel.open_files() }.into());
    }
    checks::after(&ran, &disk, &records)
}

/// Whether a recording is refused because its files would be smaller than their beginning.
fn is_of_small_files(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<RecordError>();
    matches!(error, Some(RecordError::Output(OutputError::SmallFiles { .. })))
}

fn open(
    scenario: &Scenario,
    disk: &SimulatedDisk,
    clock: &Arc<VirtualClock>,
    records: &KeptRecords,
) -> anyhow::Result<Output> {
    let output = if scenario.to == RecordDestination::Sink {
        Output::to_sink(Box::new(records.clone()))
    } else {
        let clock = Arc::clone(clock) as Arc<dyn Clock>;
        let to = Destination::File(PathBuf::from("recording"));
        Output::open_on(Arc::new(disk.clone()), clock, &to, &scenario.output)?
    };
    match scenario.unwinds {
        true => Ok(output.with_unwinder(Box::new(PassingUnwinder::default()))?),
        false => Ok(output),
    }
}

fn start(
    scenario: &Scenario,
    machine: &Machine,
    clock: &Arc<VirtualClock>,
    output: Output,
) -> anyhow::Result<Recording> {
    let host = machine.host();
    let cpus: CpuList = format!("0-{}", scenario.cpus - 1).parse()?;
    let options = RecorderOptions {
        groups: tare_events::parse(scenario.events, &Sources::new(host.clone()))?,
        target: Target::Cpus(cpus),
        sampling: Sampling {
            budget: scenario.budget.map(|share| Budget { share, min_hz: 9 }),
            ..Sampling::default()
        },
        may_pause: true,
        rings: Rings { bytes: Some(scenario.ring_bytes), keep: scenario.keep, ..Rings::default() },
        synthesize: Synthesize {
            maps: false,
            at_the_end: scenario.describes_at_the_end,
            ..Synthesize::default()
        },
        ..RecorderOptions::default()
    };
    let backend = Backend {
        host,
        kernel: Rc::new(machine.kernel.clone()),
        clock: Arc::clone(clock) as Arc<dyn Clock>,
    };
    let start = Start { output, command: None, gives_other_rights: false, files: None };
    Ok(Recorder::new(options, backend)?.start(start)?)
}

struct Session<'a> {
    scenario: &'a Scenario,
    machine: Machine,
    clock: Arc<VirtualClock>,
    disk: SimulatedDisk,
    recording: Recording,
    /// Number of samples that were due before the last flush began; 0 unless the output is a file
    /// without a queue that keeps all records.
    flushed: usize,
}

impl Session<'_> {
    fn truth_bytes(&self) -> usize {
        self.machine.truth.borrow().samples.capacity() * 64
    }

    /// Performs one random step.
    fn step(&mut self, rng: &mut Rng) -> anyhow::Result<()> {
        match rng.u32(..100) {
            0..45 => {
                let most = if rng.u32(..8) == 0 { 2000 } else { 60 };
                let number = rng.usize(..most);
                self.machine.sample(rng, number);
            }
            45..52 => self.machine.fork(rng)?,
            52..58 => self.machine.exec(rng)?,
            58..63 => self.machine.exit(rng)?,
            63 => self.machine.throttle(rng),
            64 => self.machine.plug(rng)?,
            65..72 => self.process()?,
            72..75 => self.clock.use_cpu([0, 1, 10, 100][rng.usize(..4)]),
            75 => self.suspend(rng)?,
            // The time of day is set forward or back.
            76 => self.clock.set_day_ahead(Duration::from_millis(rng.u64(..100_000_000))),
            77..92 => {
                self.pass(Duration::from_millis(rng.u64(..600)));
                self.process()?;
            }
            92..95 if self.scenario.keep != Keep::All => self.recording.snapshot()?,
            95..97 if self.scenario.output.switch == Some(FileSwitch::Signal) => {
                self.recording.switch();
            }
            97 => self.recording.disable()?,
            98 | 99 => self.recording.enable()?,
            _ => self.machine.sample(rng, 1),
        }
        Ok(())
    }

    /// Suspends the machine: all CPUs but the first go offline and come back, and the time of day
    /// jumps.
    fn suspend(&mut self, rng: &mut Rng) -> anyhow::Result<()> {
        self.machine.plug_others(false)?;
        self.pass(Duration::from_secs(1));
        self.process()?;
        self.clock.set_day_ahead(Duration::from_secs(rng.u64(..100_000)));
        self.machine.plug_others(true)?;
        self.pass(Duration::from_secs(1));
        self.process()
    }

    /// Checks that the only additional open descriptors are those of returned CPUs.
    fn descriptors(&self, were: usize) -> Result<(), Failure> {
        let are = self.recording.open_files();
        let cpus = self.scenario.cpus as usize;
        let most = were + were / cpus * self.machine.came_back;
        if (were..=most).contains(&are) {
            Ok(())
        } else {
            Err(Failure::Descriptors { were: most, are })
        }
    }

    fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.machine.kernel.advance_ns(u64::try_from(time.as_nanos()).unwrap_or(0));
    }

    fn process(&mut self) -> anyhow::Result<()> {
        let due = self.machine.truth.borrow().samples.len();
        let is_due = self.recording.deadline() <= self.clock.now();
        let is_recording = *self.recording.process()? == RecordingState::Recording;
        // Drop the notices: each finished file adds one with its ledger, which takes memory.
        self.recording.take_notices();
        if is_due && is_recording && self.scenario.keep == Keep::All {
            // A queue writes later, so nothing is guaranteed at this point.
            if !self.scenario.is_queued() && self.scenario.to == RecordDestination::File {
                self.flushed = due;
                self.disk.mark(due);
            }
        }
        Ok(())
    }

    fn finish(self) -> anyhow::Result<(Machine, SimulatedDisk, RecordingResult, usize)> {
        let finished = self.recording.finish(None)?;
        Ok((self.machine, self.disk, finished, self.flushed))
    }
}
