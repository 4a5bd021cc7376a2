//! A recorder: planned, and not begun.
//!
//! ```text
//! plan            which events, on which CPUs and tasks: the kernel was asked whether it takes them
//! threads         those that read ring buffers, and the output's: filters name all of them
//! events          opened on the command, the tasks or the CPUs; ring buffers; filters
//! description     the recording's beginning
//! existing tasks  described; events that follow processes run already, so that nothing falls in between
//! enabled         what doesn't begin with the command's execve, or later
//! ```

use std::os::fd::BorrowedFd;

use tare_format::ledger::FollowMode;

use crate::error::{InheritOption, PlanError, RecordError};
use crate::follow::{FollowRequest, Following};
use crate::options::{Cpus, Options, Target};
use crate::plan::{self, Plan};
use crate::recording::Recording;
use crate::session::{Backend, CostOfSample, Session, Start};

/// A recorder: what will be opened is known, and nothing is recorded.
#[derive(Debug)]
pub struct Recorder {
    session: Session,
}

impl Recorder {
    /// Plans a recording on this machine: which events the kernel takes, with which attributes, and
    /// how a command is followed. Where that is by a cgroup of its own, the cgroup is made.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn new(options: Options, backend: Backend) -> Result<Self, PlanError> {
        Self::plan_with(options, backend, true)
    }

    /// The same, for a look at the plan: nothing is made.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn preview(options: Options, backend: Backend) -> Result<Self, PlanError> {
        Self::plan_with(options, backend, false)
    }

    fn plan_with(
        mut options: Options,
        backend: Backend,
        makes_cgroup: bool,
    ) -> Result<Self, PlanError> {
        let following = follow(&mut options, &backend, makes_cgroup)?;
        let plan = Plan::new(&options, &backend.host, &*backend.kernel)?;
        Ok(Self { session: Session::new(options, plan, following, backend) })
    }

    /// Has samples' costs in the ledger, and rates kept within a budget: `cost` says what a sample
    /// of an event costs those who are sampled. It is asked once for each event.
    #[must_use]
    pub fn with_costs(mut self, cost: CostOfSample) -> Self {
        self.session.cost_of_sample = cost;
        self
    }

    /// The events that will be opened.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.session.plan
    }

    /// How the command is followed; `None` without one.
    #[must_use]
    pub fn following(&self) -> Option<&Following> {
        self.session.following.as_ref()
    }

    /// The folder of the command's cgroup, where it is followed by one: the command is to be forked
    /// into it.
    #[must_use]
    pub fn cgroup(&self) -> Option<BorrowedFd<'_>> {
        self.session.cgroup()
    }

    /// Opens the events, begins the recording, and enables what is to be enabled at once. A command
    /// may execute when this has returned.
    ///
    /// # Errors
    /// See [`RecordError`]. An output that nobody reads any more is none: the recording is then
    /// stopped from the beginning.
    pub fn start(self, start: Start<'_>) -> Result<Recording, RecordError> {
        Recording::start(self.session, start)
    }
}

/// Chooses how a command is followed, and has recorded what that takes.
fn follow(
    options: &mut Options,
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
        (InheritOption::OfEvent, events.any(|event| event.inherit.is_some())),
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
