//! A recorder: a recording that is planned and not yet started.
//!
//! ```text
//! plan            events, with the CPUs and tasks to open them on; the kernel accepts them
//! threads         of the readers and of the output: filters name all of them
//! events          opened on the command, the tasks or the CPUs; filters; ring buffers
//! description     the recording's beginning
//! existing tasks  described, while the event that tracks processes runs, so nothing is missed
//! enabled         events that begin neither with the command's execve nor later
//! ```

use std::os::fd::BorrowedFd;

use tare_format::ledger::FollowMode;

use crate::error::{InheritOption, PlanError, RecordError};
use crate::follow::{FollowRequest, Following};
use crate::options::{Cpus, RecorderOptions, Target};
use crate::plan::{self, RecordPlan};
use crate::recording::Recording;
use crate::session::{Backend, CostOfSample, RecordSession, Start};

/// A recorder: it has a plan, and records nothing yet.
#[derive(Debug)]
pub struct Recorder {
    session: RecordSession,
}

impl Recorder {
    /// Plans a recording on this machine: the events and attributes that the kernel accepts, and
    /// how to follow a command. Creates the command's cgroup if it is followed by one.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn new(options: RecorderOptions, backend: Backend) -> Result<Self, PlanError> {
        Self::plan_with(options, backend, true)
    }

    /// Plans a recording without creating the command's cgroup, to show the plan.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn preview(options: RecorderOptions, backend: Backend) -> Result<Self, PlanError> {
        Self::plan_with(options, backend, false)
    }

    fn plan_with(
        mut options: RecorderOptions,
        backend: Backend,
        makes_cgroup: bool,
    ) -> Result<Self, PlanError> {
        let following = follow(&mut options, &backend, makes_cgroup)?;
        let plan = RecordPlan::new(&options, &backend.host, &*backend.kernel)?;
        Ok(Self { session: RecordSession::new(options, plan, following, backend) })
    }

    /// Sets the function that estimates the cost of a sample of an event. The ledger then states
    /// the cost of samples, and rates can be kept within a budget. The function is called once per
    /// event, and again after [`Recording::calibrate`] has measured.
    #[must_use]
    pub fn with_costs(mut self, cost: CostOfSample) -> Self {
        self.session.cost_of_sample = cost;
        self
    }

    /// The events to open.
    #[must_use]
    pub fn plan(&self) -> &RecordPlan {
        &self.session.plan
    }

    /// How the command is followed; `None` unless the target was a command on all CPUs.
    #[must_use]
    pub fn following(&self) -> Option<&Following> {
        self.session.following.as_ref()
    }

    /// Folder of the command's cgroup, if it is followed by one. The caller forks the command into
    /// it.
    #[must_use]
    pub fn cgroup(&self) -> Option<BorrowedFd<'_>> {
        self.session.cgroup()
    }

    /// Opens the events, starts the recording, and enables all events that begin at once. When it
    /// returns, a command may execute.
    ///
    /// # Errors
    /// See [`RecordError`]. A closed output is no error: the recording then begins in the state
    /// [`Stopped`](crate::RecordingState::Stopped).
    pub fn start(self, start: Start<'_>) -> Result<Recording, RecordError> {
        Recording::start(self.session, start)
    }
}

/// Chooses how to follow a command on all CPUs, and adapts the options to it.
fn follow(
    options: &mut RecorderOptions,
    backend: &Backend,
    makes_cgroup: bool,
) -> Result<Option<Following>, PlanError> {
    if options.target != Target::Command(Cpus::All) {
        return Ok(None);
    }
    let mut events = options.groups.iter().flat_map(|group| &group.events);
    let asks = [
        (InheritOption::NoInherit, !options.inherit),
        (InheritOption::CountsOfThreads, options.sampling.counts_of_threads),
        (InheritOption::OfEvent, events.any(|event| event.inherit.is_some() && !event.is_uprobe())),
    ];
    let needs_inherit = asks.into_iter().find(|(_, asked)| *asked).map(|(option, _)| option);
    let request = FollowRequest { follow: options.follow, needs_inherit, makes_cgroup };
    let following = Following::choose(request, &backend.host, &*backend.kernel)?;
    let cpus = plan::cpus(&options.target, &backend.host)?;
    match following.mode {
        FollowMode::Cgroup => options.target = Target::CommandInCgroup(cpus),
        FollowMode::System => options.target = Target::CommandOnCpus(cpus),
        FollowMode::Inherit => {
            options.sampling.counts_of_threads = options.inherit;
            options.sampling.fixed_periods = options.inherit;
        }
    }
    Ok(Some(following))
}
