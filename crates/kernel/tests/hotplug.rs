//! A CPU that goes offline and comes back, on the running kernel. Runs only if the kernel's command
//! line has the word `tare_hotplug`, as in a guest: `RIG_CPUS=2 RIG_KERNEL=tare_hotplug vm/rig.sh
//! run FOLDER`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this file is tests, the helpers too"
)]

use rustix::io::Errno;
use tare_format::abi::bindings::{PERF_COUNT_SW_CPU_CLOCK, PERF_TYPE_SOFTWARE};
use tare_format::abi::{Attr, ReadFormat, Reading};
use tare_kernel::host::{CpuChanges, CpuWatch, Host};
use tare_kernel::open::{EventFile, EventTarget, Kernel, System};

const TIMES: ReadFormat = ReadFormat::TOTAL_TIME_ENABLED.union(ReadFormat::TOTAL_TIME_RUNNING);

fn clock_on(cpu: u32) -> Result<Box<dyn EventFile>, Errno> {
    let attr = Attr {
        kind: PERF_TYPE_SOFTWARE,
        config: PERF_COUNT_SW_CPU_CLOCK.into(),
        read_format: TIMES,
        ..Attr::default()
    };
    System.open(&attr, EventTarget::Cpu(cpu), None)
}

/// Whether an event still counts.
fn counts(event: &dyn EventFile) -> bool {
    let count = || {
        let mut bytes = [0; 24];
        let len = event.read(&mut bytes).unwrap();
        Reading::decode(&bytes[..len], TIMES).unwrap().counts[0].value()
    };
    let before = count();
    std::thread::sleep(std::time::Duration::from_millis(20));
    count() > before
}

#[test]
fn a_cpu_goes_and_comes_back() {
    let host = Host::default();
    if !host.read("/proc/cmdline").unwrap().split_whitespace().any(|word| word == "tare_hotplug") {
        println!("skipped: takes a CPU offline only in a guest that is made for it");
        return;
    }
    let cpu = *host.online_cpus().unwrap().as_slice().last().unwrap();
    let set = |online: &str| {
        let path = host.path(&format!("/sys/devices/system/cpu/cpu{cpu}/online"));
        std::fs::write(path, online).unwrap();
    };
    let only = |offline: bool, online: bool| CpuChanges {
        offline: [cpu].into_iter().filter(|_| offline).collect(),
        online: [cpu].into_iter().filter(|_| online).collect(),
    };
    let mut watch = CpuWatch::start(&host).unwrap();
    assert!(watch.wakes().is_some());
    assert_eq!(watch.changes(&host).unwrap(), CpuChanges::default());
    let event = clock_on(cpu).unwrap();
    assert!(counts(&*event));

    set("0");
    assert_eq!(watch.changes(&host).unwrap(), only(true, false));
    assert_eq!(clock_on(cpu).unwrap_err(), Errno::NODEV);
    set("1");
    assert_eq!(watch.changes(&host).unwrap(), only(false, true));
    assert!(!counts(&*event), "it has to be opened again");
    assert!(counts(&*clock_on(cpu).unwrap()));

    set("0");
    set("1");
    assert_eq!(watch.changes(&host).unwrap(), only(true, true));
    assert_eq!(watch.changes(&host).unwrap(), CpuChanges::default());
}
