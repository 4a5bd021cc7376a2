//! A machine that exists in a run alone: its CPUs and tasks, as files of `/proc` and as records of a
//! simulated kernel, and what really happened on it.

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

/// Where the machine's CPUs are listed.
const CPUS: &str = "sys/devices/system/cpu";

/// A sample that was due. Its number is its place in [`Truth::samples`], and its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Emission {
    /// The event's id.
    pub(crate) id: u64,
    /// The CPU.
    pub(crate) cpu: u32,
    /// When, in the events' clock.
    pub(crate) time_ns: u64,
    /// The thread.
    pub(crate) tid: i32,
    /// The thread's name then: the number in it.
    pub(crate) comm: u32,
    /// What it stands for.
    pub(crate) period: u64,
    /// What became of it.
    pub(crate) emitted: Emitted,
}

/// What really happened.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    /// All samples that were due.
    pub(crate) samples: Vec<Emission>,
    /// Whether a record that tells of tasks found no room.
    pub(crate) tasks_lost: bool,
    /// `PERF_RECORD_THROTTLE` that found room.
    pub(crate) throttled: u64,
}

impl Truth {
    /// Samples that found room.
    pub(crate) fn stored(&self) -> impl Iterator<Item = usize> + '_ {
        let samples = self.samples.iter().enumerate();
        samples.filter(|(_, sample)| sample.emitted == Emitted::Stored).map(|(at, _)| at)
    }

    /// Samples that found none.
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
    /// Its kernel.
    pub(crate) kernel: Simulated,
    /// What really happened.
    pub(crate) truth: Rc<RefCell<Truth>>,
    processes: Rc<RefCell<Vec<Process>>>,
    last: i32,
    names: u32,
    cpus: u32,
    offline: BTreeSet<u32>,
    /// How often a CPU came back.
    pub(crate) came_back: usize,
}

/// A thread's name by its number.
#[must_use]
pub(crate) fn comm_of(number: u32) -> String {
    format!("task {number}")
}

impl Machine {
    /// A machine with so many CPUs and a few processes.
    ///
    /// # Errors
    /// Its folder can't be written.
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

    /// Where its files are.
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

    /// Samples of one event, some microseconds from each other.
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

    /// What takes samples by itself, of the tasks that are there now.
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

    /// The event that tells of tasks, on a CPU that is drawn.
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

    /// A process begins, as a copy of another.
    ///
    /// # Errors
    /// The machine's folder can't be written; of all methods.
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

    /// A process executes a program, and has its name.
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

    /// A process ends; the last one doesn't.
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

    /// The file that lists the CPUs which are online.
    fn list_cpus(&self) -> io::Result<()> {
        let online: CpuList = (0..self.cpus).filter(|cpu| !self.offline.contains(cpu)).collect();
        fs::write(self.root.path().join(CPUS).join("online"), format!("{online}\n"))
    }

    /// A CPU goes offline or comes back; the first one stays.
    ///
    /// # Errors
    /// See [`Machine::fork`].
    pub(crate) fn plug(&mut self, rng: &mut Rng) -> io::Result<()> {
        let cpu = rng.u32(..self.cpus);
        let is_offline = self.offline.contains(&cpu);
        self.set_online(cpu, is_offline);
        self.list_cpus()
    }

    /// All CPUs but the first go offline, or come back.
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

    /// The kernel stops an event.
    pub(crate) fn throttle(&self, rng: &mut Rng) {
        let events = self.kernel.sampled();
        if let Some((event, _)) = rng.choice(&events) {
            let emitted = self.kernel.throttle(*event);
            self.truth.borrow_mut().throttled += u64::from(emitted == Emitted::Stored);
        }
    }
}

/// Makes samples.
#[derive(Debug)]
struct SampleSource {
    kernel: Simulated,
    truth: Rc<RefCell<Truth>>,
}

impl SampleSource {
    fn sample(&self, event: usize, target: EventTarget, process: Process) {
        let mut truth = self.truth.borrow_mut();
        let (pid, tid) = (process.pid, process.pid);
        let ip = truth.samples.len() as u64;
        let emitted = self.kernel.sample(event, SimulatedSample { pid, tid, ip });
        let cpu = if let EventTarget::Cpu(cpu) = target { cpu } else { 0 };
        let id = self.kernel.id_of(event);
        let time_ns = self.kernel.now_ns();
        let comm = process.comm;
        let period = self.kernel.period_of(event);
        truth.samples.push(Emission { id, cpu, time_ns, tid, comm, period, emitted });
    }
}
