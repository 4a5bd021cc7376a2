//! Options, plan and environment, which all parts of a recording share.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;

use tare_format::abi::Flags;
use tare_format::ledger::{FollowMode, SampleCost};
use tare_format::record::Layout;
use tare_kernel::child::FileLimit;
use tare_kernel::host::Host;
use tare_kernel::open::{Kernel, System};
use tare_kernel::procfs::KernelModule;

use crate::clock::{Clock, SystemClock};
use crate::error::RecordError;
use crate::follow::Following;
use crate::off_cpu;
use crate::options::RecorderOptions;
use crate::output::{self, Output, OutputError};
use crate::plan::{PlannedEvent, RecordPlan};
use crate::synthesize;

/// The environment of a recorder: the machine's files, its kernel, its clocks. The disk belongs to
/// the output: see [`output::Output::open_on`].
#[derive(Clone)]
pub struct Backend {
    /// The machine's files (`/proc`, `/sys`).
    pub host: Host,
    /// `perf_event_open(2)`, and the list of loaded BPF programs.
    pub kernel: Rc<dyn Kernel>,
    /// The clocks.
    pub clock: Arc<dyn Clock>,
}

impl Default for Backend {
    /// The running kernel.
    fn default() -> Self {
        Self { host: Host::default(), kernel: Rc::new(System), clock: Arc::new(SystemClock) }
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").field("host", &self.host).finish_non_exhaustive()
    }
}

/// Estimates the cost of a sample of an event; `None` if unknown.
pub type CostOfSample = Box<dyn Fn(&PlannedEvent) -> Option<SampleCost>>;

/// The arguments of [`crate::Recorder::start`].
#[derive(Debug)]
pub struct Start<'a> {
    /// The destination of records.
    pub output: Output,
    /// The command's process, which waits for its execve: for targets that are a command.
    pub command: Option<i32>,
    /// Whether the command's program gains rights at its execve, or isn't readable: see
    /// [`tare_kernel::child::ChildCommand::gives_other_rights`].
    pub gives_other_rights: bool,
    /// The limit on open files, raised if the events need more; `None`: never raised.
    pub files: Option<&'a FileLimit>,
}

/// Options, plan and environment of a recording.
pub(crate) struct RecordSession {
    pub(crate) options: RecorderOptions,
    pub(crate) plan: RecordPlan,
    /// How the command is followed.
    pub(crate) following: Option<Following>,
    pub(crate) backend: Backend,
    pub(crate) cost_of_sample: CostOfSample,
    sample_costs: OnceCell<Vec<Option<SampleCost>>>,
}

impl fmt::Debug for RecordSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordSession").field("options", &self.options).finish_non_exhaustive()
    }
}

impl RecordSession {
    pub(crate) fn new(
        options: RecorderOptions,
        plan: RecordPlan,
        following: Option<Following>,
        backend: Backend,
    ) -> Self {
        Self {
            options,
            plan,
            following,
            backend,
            cost_of_sample: Box::new(|_| None),
            sample_costs: OnceCell::new(),
        }
    }

    /// The folder of the command's cgroup.
    pub(crate) fn cgroup(&self) -> Option<BorrowedFd<'_>> {
        self.following.as_ref()?.cgroup.as_ref().map(AsFd::as_fd)
    }

    /// Whether the command's threads must be distinguished from others, because events are opened
    /// on whole CPUs.
    pub(crate) fn tracks_members(&self) -> bool {
        self.following.as_ref().is_some_and(|following| following.mode == FollowMode::System)
    }

    /// The cost of a sample of each event; `None` if unknown. Computed by the first call, and by
    /// the first one after [`Self::forget_sample_costs`].
    pub(crate) fn sample_costs(&self) -> &[Option<SampleCost>] {
        let of = |planned| (self.cost_of_sample)(planned);
        self.sample_costs.get_or_init(|| self.plan.events.iter().map(of).collect())
    }

    /// Discards the costs, so that they are computed again from newer measurements.
    pub(crate) fn forget_sample_costs(&mut self) {
        self.sample_costs = OnceCell::new();
    }

    /// Number of recorded CPUs.
    pub(crate) fn number_of_cpus(&self) -> usize {
        let events = self.plan.events.iter();
        events.flat_map(|planned| planned.cpus.as_slice()).collect::<BTreeSet<_>>().len()
    }

    /// Whether an event only tracks processes. Such events ignore requests to pause and delays.
    pub(crate) fn is_tracking_only(&self, event: usize) -> bool {
        self.plan.events[event].is_tracking_only()
    }

    /// Index of the event that tracks processes.
    pub(crate) fn tracking(&self) -> Option<usize> {
        self.plan.events.iter().position(|planned| planned.attr.flags.contains(Flags::COMM))
    }

    /// Whether any event counts in the kernel.
    pub(crate) fn counts_in_kernel(&self) -> bool {
        let in_kernel =
            |planned: &PlannedEvent| !planned.attr.flags.contains(Flags::EXCLUDE_KERNEL);
        self.plan.events.iter().any(in_kernel)
    }

    /// Emits records that describe the running tasks in `targets`, cgroups, and the code of the
    /// kernel and of loaded BPF programs, as far as the options and events need them. Off-CPU time
    /// adds its symbols. Returns the kernel's modules, if they were described.
    pub(crate) fn synthesize(
        &self,
        targets: &synthesize::Targets,
        emit: &mut dyn FnMut(&[u8]) -> output::Result<()>,
    ) -> Result<Vec<KernelModule>, RecordError> {
        let Some(tracking) = self.tracking() else { return Ok(Vec::new()) };
        let what = &self.options.synthesize;
        let nobody = synthesize::Targets::Processes(Vec::new());
        let options = synthesize::SynthesizeOptions {
            kernel: self.counts_in_kernel(),
            data: self.plan.events[tracking].attr.flags.contains(Flags::MMAP_DATA),
            namespaces: self.options.sampling.tracking.contains(Flags::NAMESPACES),
            cgroups: what.cgroups,
            mappings: what.maps,
        };
        let targets = if what.tasks { targets } else { &nobody };
        let layout = Layout::from(&self.plan.events[tracking].attr);
        let mut failed: Option<OutputError> = None;
        let mut write = |bytes: &[u8]| {
            emit(bytes).map_err(|error| {
                failed = Some(error.clone());
                io::Error::other(error)
            })
        };
        let host = &self.backend.host;
        let mut done = synthesize::synthesize(host, targets, &options, &layout, &mut write);
        if self.plan.off_cpu.is_some() {
            let symbols = off_cpu::symbols(&layout);
            done = done.and_then(|done| write(&symbols).map(|()| done));
        }
        // BPF programs follow the modules: a module's mapping may be longer than its code, and
        // cover a program.
        let flags = self.plan.events[tracking].attr.flags;
        if options.kernel && flags.contains(Flags::KSYMBOL) {
            let programs = self.backend.kernel.bpf_programs();
            let events = flags.contains(Flags::BPF_EVENT);
            let records = synthesize::bpf_programs(&programs, events, &layout);
            if !records.is_empty() {
                done = done.and_then(|done| write(&records).map(|()| done));
            }
        }
        match done {
            Ok(done) => Ok(done.modules),
            Err(error) => Err(failed.map_or(RecordError::Synthesize(error), RecordError::Output)),
        }
    }
}
