//! `tare-fuzz --recordings TARE [NUMBER]`: makes ten recordings with tare, damages them NUMBER
//! times (default 20,000) and runs tare on each. Fails if tare panics, is killed, takes more than
//! five seconds of CPU time, or uses more memory than the input's size plus 64 MiB plus the memory
//! for an empty recording.

use std::fs::{self, File};
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fastrand::Rng;
use tare_format::abi::Attr;
use tare_format::file::writer::{Description, EventDescription};
use tare_fuzz::damage;
use tare_kernel::exit::{ChildExit, wait_for};

/// Memory that tare may use beyond the input's size and the memory for an empty recording, in
/// bytes.
const MEMORY: u64 = 64 << 20;

const CPU_TIME: Duration = Duration::from_secs(5);

/// Options of the ten recordings. They record only a small command, because reading takes memory in
/// proportion to the binaries. Recordings that the machine doesn't allow are left out.
const RECORDED: [&[&str]; 10] = [
    &["-e", "cpu-clock", "-F", "999"],
    &["-e", "cpu-clock", "-F", "999", "-g"],
    &["-e", "cpu-clock", "-F", "499", "--call-graph", "dwarf,1024"],
    &["-e", "cpu-clock", "-F", "4000", "-g", "-z"],
    &["-e", "raw_syscalls:sys_enter,raw_syscalls:sys_exit", "-m", "8"],
    &["-e", "sched:sched_switch,cpu-clock", "-F", "999"],
    &["-e", "page-faults", "-c", "1", "-d"],
    &["-e", "{cpu-clock,page-faults}:S", "-F", "999"],
    &["-e", "cpu-clock", "-F", "999", "--keep-last", "10"],
    &["-e", "cpu-clock:u", "-F", "999", "--per-thread"],
];

const READ: [&[&str]; 6] = [
    &["report", "--stdio"],
    &["report", "--stdio", "--no-children", "-s", "comm,dso,sym", "-g", "none"],
    &["report", "--json"],
    &["script"],
    &["script", "--json"],
    &["evlist", "-v"],
];

struct Mutations<'a> {
    tare: &'a Path,
    folder: &'a Path,
    seed: u64,
    recordings: Vec<(String, Vec<u8>)>,
    /// Memory of each command for an empty recording, in bytes.
    base: Vec<u64>,
    done: AtomicUsize,
}

/// The largest memory and CPU time use, and the number of failures.
#[derive(Clone, Copy, Debug, Default)]
struct PeakUsage {
    memory: u64,
    cpu: Duration,
    failed: usize,
}

/// Makes the recordings, damages them and runs tare on them.
///
/// # Errors
/// No recording can be made, or a damaged recording failed (it is kept below `target/fuzz`).
pub(crate) fn run(tare: &Path, number: usize) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let recordings = record(tare, folder.path())?;
    let seed = fastrand::u64(..);
    let mut all = Mutations {
        tare,
        folder: folder.path(),
        seed,
        recordings,
        base: Vec::new(),
        done: AtomicUsize::new(0),
    };
    all.base = all.measure_base()?;
    let started = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get) as u64;
    let seen = std::thread::scope(|scope| {
        let all = &all;
        let start = |thread| scope.spawn(move || all.try_some(thread, number));
        let threads: Vec<_> = (0..threads).map(start).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked")))
        };
        threads.into_iter().map(join).collect::<anyhow::Result<Vec<PeakUsage>>>()
    })?;
    let seen = seen.into_iter().fold(PeakUsage::default(), |one, other| PeakUsage {
        memory: one.memory.max(other.memory),
        cpu: one.cpu.max(other.cpu),
        failed: one.failed + other.failed,
    });
    writeln!(
        std::io::stdout(),
        "{number} mutations of {} recordings in {:.0} s, {} failed; at most {:.1} MiB beside the input's size and an empty recording's, and {:.2} s of CPU time; seed {seed:x}",
        all.recordings.len(),
        started.elapsed().as_secs_f64(),
        seen.failed,
        seen.memory as f64 / f64::from(1 << 20),
        seen.cpu.as_secs_f64(),
    )?;
    ensure!(seen.failed == 0, "{} mutations failed", seen.failed);
    Ok(())
}

/// Makes the recordings; returns them with their options.
fn record(tare: &Path, folder: &Path) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    const WORK: &str = "i=0; while [ $i -lt 40 ]; do /bin/true; i=$((i+1)); done; echo $(ls /)";
    let mut recordings = Vec::new();
    for options in RECORDED {
        let file = folder.join("recorded");
        let what = options.join(" ");
        let mut command = Command::new(tare);
        command.args(["record", "-q", "-o"]).arg(&file).args(options);
        let output =
            command.args(["--", "sh", "-c", WORK]).output().context("tare can't be run")?;
        if output.status.success() {
            recordings.push((what, fs::read(&file)?));
        } else {
            let said = String::from_utf8_lossy(&output.stderr);
            writeln!(std::io::stdout(), "not recorded: {what}: {}", said.trim_end())?;
        }
    }
    ensure!(!recordings.is_empty(), "nothing can be recorded on this machine");
    Ok(recordings)
}

impl Mutations<'_> {
    fn measure_base(&self) -> anyhow::Result<Vec<u64>> {
        let event = EventDescription {
            attr: Attr { kind: 1, sample_type: 1, ..Attr::default() },
            ids: vec![1],
            name: "cpu-clock".into(),
        };
        let described = Description { events: vec![event], ..Description::default() };
        let file = self.folder.join("empty");
        fs::write(&file, described.stream_beginning()?)?;
        let of =
            |words: &&[&str]| self.read(words, &file)?.0.peak_memory.context("unknown peak memory");
        READ.iter().map(of).collect()
    }

    /// The work of one thread.
    fn try_some(&self, thread: u64, number: usize) -> anyhow::Result<PeakUsage> {
        let mut rng = Rng::with_seed(self.seed.wrapping_add(thread));
        let mut seen = PeakUsage::default();
        let file = self.folder.join(format!("damaged-{thread}"));
        // ATOMICS: relaxed, because it is only a counter.
        while self.done.fetch_add(1, Ordering::Relaxed) < number {
            let (what, bytes) = &self.recordings[rng.usize(..self.recordings.len())];
            let command = rng.usize(..READ.len());
            let mut input = bytes.clone();
            damage(&mut input, &mut rng);
            fs::write(&file, &input)?;
            let (ended, said) = self.read(READ[command], &file)?;
            let peak_memory = ended.peak_memory.context("unknown peak memory")?;
            let memory = peak_memory.saturating_sub(self.base[command] + input.len() as u64);
            let cpu = ended.user + ended.system;
            seen.memory = seen.memory.max(memory);
            seen.cpu = seen.cpu.max(cpu);
            let is_panic = ended.status > 2 || said.contains("panicked");
            if is_panic || memory > MEMORY || cpu > CPU_TIME {
                seen.failed += 1;
                let kept = keep(&file, self.seed)?;
                writeln!(
                    std::io::stdout(),
                    "{}: status {}, {memory} bytes, {cpu:?}: of {what}: {}: {said:.500}",
                    READ[command].join(" "),
                    ended.status,
                    kept.display(),
                )?;
            }
        }
        Ok(seen)
    }

    /// Runs tare on a file; returns its exit and its messages.
    fn read(&self, words: &[&str], file: &Path) -> anyhow::Result<(ChildExit, String)> {
        let said = file.with_extension("said");
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "30"]).arg(self.tare).args(words).arg("-i").arg(file);
        command.env_remove("HOME").env_remove("DEBUGINFOD_URLS").env("RUST_BACKTRACE", "0");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&said)?);
        let child = command.spawn().context("timeout can't be started")?;
        let ended = wait_for(i32::try_from(child.id())?, Instant::now())?;
        Ok((ended, String::from_utf8_lossy(&fs::read(&said)?).into_owned()))
    }
}

fn keep(file: &Path, seed: u64) -> anyhow::Result<PathBuf> {
    let number = fastrand::u32(..);
    let kept = Path::new("target/fuzz").join(format!("recording-{seed:x}-{number:x}"));
    fs::create_dir_all("target/fuzz")?;
    fs::copy(file, &kept).context("the input can't be kept")?;
    Ok(kept)
}
