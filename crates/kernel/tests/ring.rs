//! Ring buffers of the running kernel, filled by software events.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this file is tests, the helpers too"
)]

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::process::{Gid, Resource, Rlimit, Uid, getrlimit, setrlimit};
use tare_format::abi::bindings::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_DUMMY, PERF_COUNT_SW_PAGE_FAULTS, PERF_RECORD_COMM,
    PERF_RECORD_EXIT, PERF_RECORD_LOST, PERF_RECORD_MMAP2, PERF_RECORD_SAMPLE, PERF_SAMPLE_ADDR,
    PERF_SAMPLE_IDENTIFIER, PERF_TYPE_SOFTWARE,
};
use tare_format::abi::{Attr, Flags, ReadFormat, Reading, Sampling};
use tare_kernel::child::{ChildCommand, FileLimit, WaitingChild};
use tare_kernel::open::{EventFile, EventTarget, Kernel, System};
use tare_kernel::ring::{OverwrittenRing, RecordBytes, Ring, RingError};
use tare_kernel::signals::Signals;

const TIMES: ReadFormat = ReadFormat::TOTAL_TIME_ENABLED.union(ReadFormat::TOTAL_TIME_RUNNING);

/// A software event whose samples are 24 bytes: header, id, address.
fn software(config: u32, sampling: Sampling, flags: Flags) -> Attr {
    Attr {
        kind: PERF_TYPE_SOFTWARE,
        config: config.into(),
        sampling,
        sample_type: (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_ADDR).into(),
        read_format: TIMES,
        flags: flags | Flags::DISABLED | Flags::EXCLUDE_KERNEL,
        ..Attr::default()
    }
}

/// Opens an event; prints a note and returns `None` if this machine doesn't allow it.
fn open(attr: &Attr, target: EventTarget) -> Option<Box<dyn EventFile>> {
    match System.open(attr, target, None) {
        Ok(event) => Some(event),
        Err(error @ (Errno::ACCESS | Errno::PERM | Errno::NOSYS)) => {
            println!("skipped: perf_event_open is not allowed here: {error}");
            None
        }
        Err(error) => panic!("perf_event_open: {error}"),
    }
}

fn count(event: &dyn EventFile) -> u64 {
    let mut bytes = [0; 24];
    let len = event.read(&mut bytes).unwrap();
    Reading::decode(&bytes[..len], TIMES).unwrap().counts[0].value()
}

/// Returns the word at an offset in a record.
fn word(record: &RecordBytes<'_>, at: usize) -> u64 {
    let bytes = record.slices().concat();
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Pages that were touched once, in order, each with a page fault.
struct FaultingPages {
    place: std::ops::Range<u64>,
}

fn touch(pages: usize) -> FaultingPages {
    let page = rustix::param::page_size();
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the mapping is new and private, and only this function and `drop` use it.
    #[allow(unsafe_code)]
    let start = unsafe {
        let base =
            mmap_anonymous(std::ptr::null_mut(), pages * page, protection, MapFlags::PRIVATE)
                .unwrap();
        // A kernel without huge pages refuses the advice, which is fine.
        let _ = madvise(base, pages * page, Advice::LinuxNoHugepage);
        for at in 0..pages {
            base.cast::<u8>().add(at * page).write_volatile(1);
        }
        base as u64
    };
    FaultingPages { place: start..start + (pages * page) as u64 }
}

impl Drop for FaultingPages {
    fn drop(&mut self) {
        let len = usize::try_from(self.place.end - self.place.start).unwrap();
        // SAFETY: this value owns the mapping, and nothing borrows from it.
        #[allow(unsafe_code)]
        let _ = unsafe { munmap(self.place.start as *mut _, len) };
    }
}

/// Returns the number of samples in a ring, and of lost ones.
fn drain(ring: &mut Ring) -> (u64, u64) {
    let mut samples = 0;
    let mut lost = 0;
    while let Some(record) = ring.next() {
        assert!(record.is_whole());
        match record.kind() {
            PERF_RECORD_SAMPLE => samples += 1,
            PERF_RECORD_LOST => lost += word(&record, 16),
            kind => panic!("record of kind {kind}"),
        }
    }
    (samples, lost)
}

fn child(words: &[&str], signals: &Signals) -> WaitingChild {
    let command = ChildCommand::find(words, std::env::var_os("PATH").as_deref()).unwrap();
    WaitingChild::fork(&command, signals, &FileLimit::now()).unwrap()
}

#[test]
fn a_new_program_leaves_comm_mmap2_and_exit() {
    let signals = Signals::block().unwrap();
    let waiting = child(&["true"], &signals);
    let flags = Flags::COMM | Flags::MMAP | Flags::MMAP2 | Flags::TASK | Flags::ENABLE_ON_EXEC;
    let attr = software(PERF_COUNT_SW_DUMMY, Sampling::None, flags);
    let Some(event) = open(&attr, EventTarget::Task(waiting.pid())) else { return };
    let mut ring = Ring::map(&*event, 16 * 4096).unwrap();
    waiting.start().unwrap().wait().unwrap();

    let batch = ring.batch();
    let seen: Vec<(u32, usize)> =
        batch.records().map(|record| (record.kind(), record.len())).collect();
    let kinds: Vec<u32> = seen.iter().map(|&(kind, _)| kind).collect();
    assert_eq!(kinds.first(), Some(&PERF_RECORD_COMM), "{kinds:?}");
    assert!(kinds.contains(&PERF_RECORD_MMAP2), "{kinds:?}");
    assert_eq!(kinds.last(), Some(&PERF_RECORD_EXIT), "{kinds:?}");
    assert!(batch.slices().concat().windows(5).any(|bytes| bytes == b"true\0"));
    // The batch was dropped without advancing, so the same records can be read one by one.
    let mut again = Vec::new();
    while let Some(record) = ring.next() {
        again.push((record.kind(), record.len()));
    }
    assert_eq!(again, seen);
}

/// The smallest ring, drained while it fills, so that it wraps around many times.
#[test]
fn samples_and_losses_add_up_to_the_count() {
    let faults = software(PERF_COUNT_SW_PAGE_FAULTS, Sampling::Period(1), Flags::empty());
    let Some(event) = open(&faults, EventTarget::Task(0)) else { return };
    let mut ring = Ring::map(&*event, 1).unwrap();
    let holds = ring.size() as u64 / 24;
    let mut samples = 0;
    let mut lost = 0;
    event.enable().unwrap();
    for _ in 0..50 {
        drop(touch(40));
        let (more, none) = drain(&mut ring);
        samples += more;
        lost += none;
    }
    assert_eq!(lost, 0);
    assert!(samples > holds, "{samples} samples didn't wrap around");
    let memory = touch(2 * ring.size() / 24);
    let (kept, none) = drain(&mut ring);
    assert!(kept <= holds && none == 0, "a loss is reported with the next record that fits");
    drop((memory, touch(40)));
    event.disable().unwrap();
    let (more, missed) = drain(&mut ring);
    assert!(missed > 0);
    assert_eq!(samples + kept + more + missed, count(&*event));
}

#[test]
fn an_overwritten_ring_holds_the_newest_samples() {
    let faults = software(PERF_COUNT_SW_PAGE_FAULTS, Sampling::Period(1), Flags::WRITE_BACKWARD);
    let Some(event) = open(&faults, EventTarget::Task(0)) else { return };
    let mut ring = OverwrittenRing::map(&*event, 1).unwrap();
    event.enable().unwrap();
    let pages = 4 * ring.size() / 24;
    let memory = touch(pages);
    event.disable().unwrap();
    let newest_first = ring.snapshot(&*event).unwrap();
    let samples: Vec<u64> = newest_first
        .chunks(24)
        .map(|sample| u64::from_ne_bytes(sample[16..].try_into().unwrap()))
        .collect();
    let touched: Vec<u64> =
        samples.iter().copied().filter(|address| memory.place.contains(address)).collect();
    assert_eq!(samples.len(), ring.size() / 24);
    assert!(touched.len() > samples.len() / 2 && touched.len() < pages);
    assert!(touched.is_sorted_by(|newer, older| newer > older), "{touched:x?}");
    assert!(memory.place.end - touched[0] <= 2 * rustix::param::page_size() as u64);
}

#[test]
fn two_events_share_a_ring() {
    let signals = Signals::block().unwrap();
    let waiting =
        child(&["sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"], &signals);
    let target = EventTarget::Task(waiting.pid());
    let clock = software(PERF_COUNT_SW_CPU_CLOCK, Sampling::Period(200_000), Flags::ENABLE_ON_EXEC);
    let faults = software(PERF_COUNT_SW_PAGE_FAULTS, Sampling::Period(1), Flags::ENABLE_ON_EXEC);
    let Some(clock) = open(&clock, target) else { return };
    let Some(faults) = open(&faults, target) else { return };
    let mut ring = Ring::map(&*clock, 1 << 20).unwrap();
    faults.set_output(&*clock).unwrap();
    assert_eq!(Ring::map(&*faults, 1 << 20).unwrap_err(), RingError::Taken);
    assert_eq!(Ring::map(&*clock, 1 << 20).unwrap_err(), RingError::Taken);
    waiting.start().unwrap().wait().unwrap();

    let of_clock = clock.id().unwrap();
    let of_faults = faults.id().unwrap();
    // The recorder reads rings on threads of their own.
    let read =
        std::thread::spawn(move || ring.batch().records().map(|record| word(&record, 8)).collect());
    let ids: Vec<u64> = read.join().unwrap();
    let number = |id| ids.iter().filter(|&&sample_id| sample_id == id).count();
    assert!(number(of_clock) > 0);
    assert_eq!(number(of_faults) as u64, count(&*faults));
    assert_eq!(number(of_clock) + number(of_faults), ids.len());
}

#[test]
fn inherited_events_need_a_cpu() {
    let attr = software(PERF_COUNT_SW_CPU_CLOCK, Sampling::Period(1_000_000), Flags::INHERIT);
    let Some(event) = open(&attr, EventTarget::Task(0)) else { return };
    assert_eq!(Ring::map(&*event, 4096).unwrap_err(), RingError::NotPossible);
    let Some(event) = open(&attr, EventTarget::TaskOnCpu(0, 0)) else { return };
    assert!(Ring::map(&*event, 4096).is_ok());
}

/// Without rights the lockable memory is limited: the ring is halved until it fits.
#[test]
fn without_rights_a_ring_has_the_lockable_size() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can run a test as another user");
        return;
    }
    let paranoid =
        std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if paranoid.trim().starts_with('-') {
        println!("skipped: with kernel.perf_event_paranoid -1 nothing limits a ring");
        return;
    }
    // The limit applies to the whole process. The other tests exceed it with CAP_IPC_LOCK, but
    // their memory beyond the sysctl's share counts, so some must be left.
    let limit = getrlimit(Resource::Memlock);
    setrlimit(Resource::Memlock, Rlimit { current: Some(4 << 20), maximum: limit.maximum })
        .unwrap();
    let record_as_nobody = || {
        let uid = Uid::from_raw(65534);
        let gid = Gid::from_raw(65534);
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        let faults = software(PERF_COUNT_SW_PAGE_FAULTS, Sampling::Period(1), Flags::empty());
        let event = open(&faults, EventTarget::Task(0))?;
        let mut ring = Ring::map(&*event, 1 << 30).unwrap();
        event.enable().unwrap();
        drop(touch(40));
        event.disable().unwrap();
        Some((ring.size(), drain(&mut ring), count(&*event)))
    };
    let result = std::thread::spawn(record_as_nobody).join();
    setrlimit(Resource::Memlock, limit).unwrap();
    let Some((size, (samples, lost), count)) = result.unwrap() else { return };
    assert!(size.is_power_of_two() && size < 1 << 30, "{size}");
    assert_eq!((samples, lost), (count, 0));
    assert!(samples >= 40);
}
