//! Starts the recorder on simulated machines that are larger than any test machine. Four times as
//! many CPUs or threads may take less than nine times the CPU time: linear growth, with room for
//! noise. The tests compare the thread's own CPU time, and only within one run.
#![allow(clippy::unwrap_used, reason = "all of this file is tests, the helpers too")]

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use rustix::time::{ClockId, clock_gettime};
use tare_events::Sources;
use tare_kernel::fake::Scripted;
use tare_kernel::host::Host;
use tare_record::clock::Clock;
use tare_record::options::{Cpus, RecorderOptions, Rings, Synthesize, Target};
use tare_record::output::{self, Destination, Output};
use tare_record::{Backend, Recorder, Start};
use tare_simulate::clock::VirtualClock;
use tare_simulate::disk::{Faults, SimulatedDisk};

/// The events that are opened on each CPU or thread: a group and a single event.
const EVENTS: &str = "{cpu-clock,page-faults}:S,context-switches";

/// Makes a folder with the files of a machine that has this many CPUs.
fn machine(cpus: u32) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("sys/devices/system/cpu/online");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, format!("0-{}\n", cpus - 1)).unwrap();
    std::fs::create_dir(root.path().join("proc")).unwrap();
    root
}

fn cpu_ns() -> i128 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

/// Starts a recording and ends it. Returns the CPU time of the start, in nanoseconds, and the
/// number of opened events, including the ones that planning tries.
fn start(cpus: u32, target: Target) -> (i128, usize) {
    let root = machine(cpus);
    let host = Host::at(root.path());
    let options = RecorderOptions {
        groups: tare_events::parse(EVENTS, &Sources::new(host.clone())).unwrap(),
        target,
        rings: Rings { bytes: Some(4096), ..Rings::default() },
        synthesize: Synthesize { tasks: false, maps: false, ..Synthesize::default() },
        ..RecorderOptions::default()
    };
    let kernel = Rc::new(Scripted::new());
    let clock = Arc::new(VirtualClock::new());
    let disk = SimulatedDisk::new(Faults::default(), Arc::clone(&clock), false);
    let clock = clock as Arc<dyn Clock>;
    let backend = Backend { host, kernel: Rc::clone(&kernel) as Rc<_>, clock: Arc::clone(&clock) };
    let to = Destination::File(PathBuf::from("large.data"));
    let output =
        Output::open_on(Arc::new(disk), clock, &to, &output::OutputOptions::default()).unwrap();
    let before = cpu_ns();
    let recorder = Recorder::new(options, backend).unwrap();
    let start = Start { output, command: None, gives_other_rights: false, files: None };
    let recording = recorder.start(start).unwrap();
    let took = cpu_ns() - before;
    recording.finish(None).unwrap();
    (took, kernel.opened().len())
}

/// Returns by which factor the CPU time grows if `number` is four times as large.
fn growth(of: impl Fn(u32) -> i128, number: u32) -> f64 {
    of(4 * number) as f64 / of(number).min(of(number)) as f64
}

#[test]
fn four_thousand_cpus_are_opened_in_linear_time() {
    let of = |cpus: u32| {
        let (took, opened) = start(cpus, Target::Cpus(format!("0-{}", cpus - 1).parse().unwrap()));
        assert!(opened >= 3 * cpus as usize, "{opened}");
        took
    };
    let growth = growth(of, 1024);
    assert!(growth < 9.0, "four times the CPUs are {growth} times the work");
}

#[test]
fn a_hundred_thousand_threads_are_opened_in_linear_time() {
    let of = |threads: u32| {
        let tids = (1000..).take(threads as usize).collect();
        let cpus = Cpus::These("0".parse().unwrap());
        let (took, opened) = start(1, Target::Threads(tids, cpus));
        assert!(opened >= 3 * threads as usize, "{opened}");
        took
    };
    let growth = growth(of, 25_000);
    assert!(growth < 9.0, "four times the threads are {growth} times the work");
}
