//! `tare record` while a CPU goes offline and comes back. This disturbs the whole machine, so it
//! runs only as root, and only if the kernel's command line contains `tare_hotplug`, as in a guest,
//! or with `TARE_TEST_HOTPLUG=1`.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use tare_format::file::Reader;
use tare_format::record::{Record, Sample};

use crate::recorded::{RecordingFolder, read, samples_of, wait_for};
use crate::support::{ProcessGuard, is_root, stderr, tare};

const ONLINE: &str = "/sys/devices/system/cpu/cpu1/online";

/// Takes CPU 1 offline until it is dropped, also if the test fails.
struct Offline;

impl Offline {
    fn new() -> Option<Self> {
        std::fs::write(ONLINE, "0").ok().map(|()| Self)
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        let _ = std::fs::write(ONLINE, "1");
    }
}

/// Whether this machine allows taking a CPU offline.
fn may_take_a_cpu() -> bool {
    let line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    is_root()
        && (line.split_whitespace().any(|word| word == "tare_hotplug")
            || std::env::var_os("TARE_TEST_HOTPLUG").is_some())
}

/// Times of CPU 1's samples.
fn times_of_cpu_1(path: &Path) -> Vec<u64> {
    let mut reader = Reader::open(File::open(path).unwrap()).unwrap();
    let mut times = Vec::new();
    while let Some(entry) = reader.next_record().unwrap() {
        if let Ok(Record::Sample) = entry.record.decode() {
            let head = Sample::from_record(&entry.record, entry.description.lookup()).unwrap().head;
            times.extend(head.time_ns.filter(|_| head.cpu == Some(1)));
        }
    }
    times
}

#[test]
fn a_cpu_that_comes_back_is_recorded_again() {
    if !may_take_a_cpu() {
        println!("skipped: no CPU is taken offline here: set TARE_TEST_HOTPLUG=1");
        return;
    }
    let places = [RecordingFolder::new(), RecordingFolder::new(), RecordingFolder::new()];
    let busy = [ProcessGuard::busy(), ProcessGuard::busy()];
    let ways = [&[][..], &["-z"], &["-o", "-"]];
    let recorders: Vec<Child> =
        places.iter().zip(ways).map(|(place, way)| start(place, way)).collect();
    places.iter().for_each(|place| wait_for(&place.file()));
    std::thread::sleep(Duration::from_millis(700));
    let offline = Offline::new();
    let is_offline = offline.is_some();
    std::thread::sleep(Duration::from_secs(1));
    drop(offline);
    let outputs: Vec<_> =
        recorders.into_iter().map(|recorder| recorder.wait_with_output().unwrap()).collect();
    drop(busy);
    if !is_offline {
        println!("skipped: CPU 1 can't be taken offline");
        return;
    }
    for ((place, way), output) in places.iter().zip(ways).zip(&outputs) {
        assert!(output.status.success(), "{way:?}: {}", stderr(output));
        check(&place.file(), way.is_empty(), &stderr(output));
    }
}

/// Two events, so that ids matter. They are clocks: for counting software events in concurrent
/// recorders Linux 6.18 gives all samples the id of one.
fn start(place: &RecordingFolder, way: &[&str]) -> Child {
    let mut command = place.record(&["-a", "-e", "cpu-clock,task-clock", "-F", "1000"]);
    command.args(["--no-call-graph", "--timeout", "4000"]).args(way).stderr(Stdio::piped());
    if way.contains(&"-") {
        command.stdout(File::create(place.file()).unwrap());
    }
    command.spawn().unwrap()
}

/// Compares a recording and its messages with what happened.
fn check(path: &Path, is_plain: bool, said: &str) {
    let mut times = times_of_cpu_1(path);
    times.sort_unstable();
    let report = tare().args(["report", "-G", "--header", "-i"]).arg(path).output().unwrap();
    assert!(report.status.success(), "{}", stderr(&report));
    assert!(said.contains("CPU 1 was not recorded from"), "{said}");
    let (from_ns, to_ns) = longest_pause(&times);
    assert!((500_000_000..2_500_000_000).contains(&(to_ns - from_ns)), "{from_ns} {to_ns}");
    let after = times.iter().filter(|&&time_ns| time_ns >= to_ns).count();
    assert!(after > 500, "{after} samples of CPU 1 after it came back: {said}");
    if is_plain {
        let ledger = read(path).ledger.unwrap();
        assert_eq!(samples_of(&ledger), read(path).samples, "{said}");
        let [gap] = ledger.gaps.as_slice() else { panic!("{:?}", ledger.gaps) };
        assert_eq!(gap.cpu, 1);
        let gap_from_ns = gap.from_ns.unwrap();
        let gap_to_ns = gap.to_ns.unwrap();
        assert!(from_ns <= gap_from_ns && gap_from_ns < gap_to_ns, "{gap:?} {from_ns}");
        assert!(gap_to_ns.abs_diff(to_ns) < 300_000_000, "{gap:?} {to_ns}");
    }
}

/// The longest interval between two consecutive times.
fn longest_pause(times_ns: &[u64]) -> (u64, u64) {
    let pauses = times_ns.windows(2).map(|pair| (pair[0], pair[1]));
    pauses.max_by_key(|(from_ns, to_ns)| to_ns - from_ns).unwrap()
}
