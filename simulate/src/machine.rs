//! A simulated machine: CPUs and tasks, visible as files of `/proc` and as records of a simulated
//! kernel, and a log of the true events.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::rc::Rc;

use fastrand::Rng;
use tare_format::record::{Comm, Task};
use tare_kernel::host::{CpuList, Host};
use tare_kernel::open::EventTarget;
use tare_kernel::simulated::{Emitted, Simulated, SimulatedSample};
use tempfile::TempDir;

/// The folder that lists the machine's CPUs.
const CPUS: &str = "sys/devices/system/cpu";

/// A sample that was due. Its index in [`Truth::samples`] is its number and its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Emission {
    /// The event's id.
    pub(crate) id: u64,
    /// The CPU.
    pub(crate) cpu: u32,
    /// Time in the events' clock, in nanoseconds.
    pub(crate) time_ns: u64,
    /// The thread.
    pub(crate) tid: i32,
    /// The number in the thread's name at that time.
    pub(crate) comm: u32,
    /// The period.
    pub(crate) period: u64,
    /// Whether it is in a ring, was lost, or its event was off.
    pub(crate) emitted: Emitted,
}

/// The true events on the machine.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    /// All due samples.
    pub(crate) samples: Vec<Emission>,
    /// Whether a record about tasks was lost.
    pub(crate) tasks_lost: bool,
    /// The number of `PERF_RECORD_THROTTLE` that had room.
    pub(crate) throttled: u64,
}

impl Truth {
    /// Numbers of the samples that had room.
    pub(crate) fn stored(&self) -> impl Iterator<Item = usize> + '_ {
        let samples = self.samples.iter().enumerate();
        samples.filter(|(_, sample)| sample.emitted == Emitted::Stored).map(|(at, _)| at)
    }

    /// The number of lost samples.
    #[must_use]
    pub(crate) fn lost(&self) -> u64 {
        self.samples.iter().filter(|sample| sample.emitted == Emitted::Lost).count() as u64
    }
}

/// A process of one thread.
#[derive(Clone, Copy, Debug)]
struct Process {
    pid: i32,
    comm: u32,
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Machine {
    root: TempDir,
    /// The simulated kernel.
    pub(crate) kernel: Simulated,
    /// The true events on the machine.
    pub(crate) truth: Rc<RefCell<Truth>>,
    processes: Rc<RefCell<Vec<Process>>>,
    last: i32,
    names: u32,
    cpus: u32,
    offline: BTreeSet<u32>,
    /// How often a CPU came back online.
    pub(crate) came_back: usize,
}

/// A thread's name from its number.
#[must_use]
pub(crate) fn comm_of(number: u32) -> String {
    format!("task {number}")
}

impl Machine {
    /// A machine with `cpus` CPUs and a few processes.
    ///
    /// # Errors
    /// The machine's folder can't be written.
    pub(crate) fn new(cpus: u32) -> io::Result<Self> {
        let memory = Path::new("/dev/shm");
        let root =
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }?;
        fs::create_dir_all(root.path().join(CPUS))?;
        fs::create_dir(root.path().join("proc"))?;
        let kernel = Simulated::default();
        let truth = Rc::default();
        let processes = Rc::default();
        let offline = BTreeSet::new();
        let came_back = 0;
        let mut machine =
            Self { root, kernel, truth, processes, last: 0, names: 0, cpus, offline, came_back };
        machine.list_cpus()?;
        for _ in 0..3 {
            machine.add_process()?;
        }
        Ok(machine)
    }

    /// The root of the machine's files.
    #[must_use]
    pub(crate) fn host(&self) -> Host {
        Host::at(self.root.path())
    }

    /// A folder for files of the run.
    #[must_use]
    pub(crate) fn folder(&self) -> &Path {
        self.root.path()
    }

    fn add_process(&mut self) -> io::Result<Process> {
        self.last += 1;
        self.names += 1;
        let process = Process { pid: self.last, comm: self.names };
        self.write(process)?;
        self.processes.borrow_mut().push(process);
        Ok(process)
    }

    fn write(&self, Process { pid, comm }: Process) -> io::Result<()> {
        let folder = self.root.path().join(format!("proc/{pid}"));
        let task = folder.join(format!("task/{pid}"));
        fs::create_dir_all(&task)?;
        let name = comm_of(comm);
        let rest = "S 1 1 1 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 500";
        fs::write(task.join("stat"), format!("{pid} ({name}) {rest}"))?;
        fs::write(task.join("comm"), format!("{name}\n"))?;
        fs::write(folder.join("status"), format!("Name:\t{name}\nTgid:\t{pid}\n"))?;
        fs::write(folder.join("maps"), "")
    }

    /// Emits samples of one event, each up to 100 us after the previous one.
    pub(crate) fn sample(&self, rng: &mut Rng, number: usize) {
        let source = SampleSource { kernel: self.kernel.clone(), truth: Rc::clone(&self.truth) };
        let events = self.kernel.sampled();
        if let Some((event, target)) = rng.choice(&events) {
            for _ in 0..number {
                self.kernel.advance_ns(rng.u64(1..100_000));
                if let Some(process) = rng.choice(&*self.processes.borrow()) {
                    source.sample(*event, *target, *process);
                }
            }
        }
    }

    /// A callback that emits up to three samples of the current tasks.
    #[must_use]
    pub(crate) fn source(&self, mut rng: Rng) -> Box<dyn FnMut()> {
        let source = SampleSource { kernel: self.kernel.clone(), truth: Rc::clone(&self.truth) };
        let processes = Rc::clone(&self.processes);
        Box::new(move || {
            let events = source.kernel.sampled();
            for _ in 0..rng.u32(..4) {
                source.kernel.advance_ns(rng.u64(1..100_000));
                if let (Some((event, target)), Some(process)) =
                    (rng.choice(&events), rng.choice(&*processes.borrow()))
                {
                    source.sample(*event, *target, *process);
                }
            }
        })
    }

    /// Advances the clock, and returns the event that records tasks on a random CPU.
    fn tracking(&self, rng: &mut Rng) -> Option<usize> {
        self.kernel.advance_ns(rng.u64(1..100_000));
        let events = self.kernel.tracking();
        rng.choice(&events).map(|(event, _)| *event)
    }

    fn told(&self, emitted: Option<Emitted>) {
        if emitted.is_some_and(|emitted| emitted == Emitted::Lost) {
            self.truth.borrow_mut().tasks_lost = true;
        }
    }

    /// Forks a process.
    ///
    /// # Errors
    /// The machine's folder can't be written.
    pub(crate) fn fork(&mut self, rng: &mut Rng) -> io::Result<()> {
        let parent = rng.choice(&*self.processes.borrow()).copied();
        let Some(parent) = parent else { return Ok(()) };
        self.last += 1;
        let child = Process { pid: self.last, comm: parent.comm };
        self.write(child)?;
        self.processes.borrow_mut().push(child);
        let task =
            Task { pid: child.pid, tid: child.pid, ppid: parent.pid, ptid: parent.pid, time_ns: 0 };
        let emitted = self.tracking(rng).map(|event| self.kernel.fork(event, task));
        self.told(emitted);
        Ok(())
    }

    /// Executes a program in a process, which gives it a new name.
    ///
    /// # Errors
    /// See [`Machine::fork`].
    pub(crate) fn exec(&mut self, rng: &mut Rng) -> io::Result<()> {
        self.names += 1;
        let number = self.names;
        let process = {
            let mut processes = self.processes.borrow_mut();
            let at = rng.usize(..processes.len().max(1));
            let Some(process) = processes.get_mut(at) else { return Ok(()) };
            process.comm = number;
            *process
        };
        self.write(process)?;
        let name = comm_of(number);
        let comm =
            Comm { pid: process.pid, tid: process.pid, comm: name.as_bytes(), is_exec: true };
        let emitted = self.tracking(rng).map(|event| self.kernel.comm(event, &comm));
        self.told(emitted);
        Ok(())
    }

    /// Ends a process, except the last one.
    ///
    /// # Errors
    /// See [`Machine::fork`].
    pub(crate) fn exit(&mut self, rng: &mut Rng) -> io::Result<()> {
        let number = self.processes.borrow().len();
        if number < 2 {
            return Ok(());
        }
        let Process { pid, .. } = self.processes.borrow_mut().swap_remove(rng.usize(..number));
        fs::remove_dir_all(self.root.path().join(format!("proc/{pid}")))?;
        let task = Task { pid, tid: pid, ppid: 1, ptid: 1, time_ns: 0 };
        let emitted = self.tracking(rng).map(|event| self.kernel.exit(event, task));
        self.told(emitted);
        Ok(())
    }

    /// Writes the file that lists the online CPUs.
    fn list_cpus(&self) -> io::Result<()> {
        let online: CpuList = (0..self.cpus).filter(|cpu| !self.offline.contains(cpu)).collect();
        fs::write(self.root.path().join(CPUS).join("online"), format!("{online}\n"))
    }

    /// Takes a CPU offline or online; the first one stays online.
    ///
    /// # Errors
    /// See [`Machine::fork`].
    pub(crate) fn plug(&mut self, rng: &mut Rng) -> io::Result<()> {
        let cpu = rng.u32(..self.cpus);
        let is_offline = self.offline.contains(&cpu);
        self.set_online(cpu, is_offline);
        self.list_cpus()
    }

    /// Takes all CPUs but the first offline or online.
    ///
    /// # Errors
    /// See [`Machine::fork`].
    pub(crate) fn plug_others(&mut self, online: bool) -> io::Result<()> {
        (1..self.cpus).for_each(|cpu| self.set_online(cpu, online));
        self.list_cpus()
    }

    fn set_online(&mut self, cpu: u32, online: bool) {
        if online && self.offline.remove(&cpu) {
            self.kernel.online(cpu);
            self.came_back += 1;
        } else if !online && cpu != 0 && self.offline.insert(cpu) {
            self.kernel.offline(cpu);
        }
    }

    /// Throttles an event.
    pub(crate) fn throttle(&self, rng: &mut Rng) {
        let events = self.kernel.sampled();
        if let Some((event, _)) = rng.choice(&events) {
            let emitted = self.kernel.throttle(*event);
            self.truth.borrow_mut().throttled += u64::from(emitted == Emitted::Stored);
        }
    }
}

/// Emits samples.
#[derive(Debug)]
struct SampleSource {
    kernel: Simulated,
    truth: Rc<RefCell<Truth>>,
}

impl SampleSource {
    fn sample(&self, event: usize, target: EventTarget, process: Process) {
        let mut truth = self.truth.borrow_mut();
        let pid = process.pid;
        let ip = truth.samples.len() as u64;
        let emitted = self.kernel.sample(event, SimulatedSample { pid, tid: pid, ip });
        let cpu = if let EventTarget::Cpu(cpu) = target { cpu } else { 0 };
        let id = self.kernel.id_of(event);
        let time_ns = self.kernel.now_ns();
        let comm = process.comm;
        let period = self.kernel.period_of(event);
        truth.samples.push(Emission { id, cpu, time_ns, tid: pid, comm, period, emitted });
    }
}
