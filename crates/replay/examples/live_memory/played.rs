//! Plays short processes to a live replay, as the records that ring buffers would hold.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tare_format::abi::bindings as abi;
use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::file::writer::{Description, EventDescription, FINISHED_ROUND};
use tare_format::record::encode::{Encoder, TooLong};
use tare_format::record::{Comm, FileId, Layout, Mmap, SampleId, Task};
use tare_profile::{RowKeys, Selection, Term};
use tare_replay::{Live, LiveOptions, SampleSink, SampleSinkOptions};
use tare_symbols::SymbolOptions;

/// Number of CPUs, each sampled at 99 Hz.
const CPUS: u64 = 2;
const PERIOD_NS: u64 = 1_000_000_000 / 99;
/// Times between two drains of the ring buffers, and between two refreshes, of records' time.
const FLUSH_NS: u64 = 500_000_000;
const REFRESH_NS: u64 = 2_000_000_000;
const WINDOW: Duration = Duration::from_secs(10);
/// The first measurement follows after this fraction of the samples (1/n).
const WARM_UP: u64 = 20;
/// Addresses of a program's code and of its compiled code.
const CODE: u64 = 0x40_0000;
const COMPILED: u64 = 0x7f00_0000_0000;
const BYTES: u64 = 1 << 20;

/// Memory in use, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) resident: u64,
    pub(crate) peak: u64,
}

/// Sample counts of a replay, and its memory after warming up and at the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplayStats {
    pub(crate) samples: u64,
    pub(crate) warm: Memory,
    pub(crate) end: Memory,
    /// Number of samples in the window at the last refresh.
    pub(crate) shown: usize,
}

impl fmt::Display for ReplayStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { samples, warm, end, shown } = self;
        write!(
            f,
            "{{\"samples\":{samples},\"shown\":{shown},\"warm_resident\":{},\"warm_peak\":{},\"end_resident\":{},\"end_peak\":{}}}",
            warm.resident, warm.peak, end.resident, end.peak
        )
    }
}

impl Memory {
    /// Reads `VmRSS` and `VmHWM` of this process, see proc(5).
    fn now() -> Result<Self, Box<dyn Error>> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
        };
        let bytes = |name| of(name).map(|kb| kb << 10).ok_or("no such line in /proc/self/status");
        Ok(Self { resident: bytes("VmRSS:")?, peak: bytes("VmHWM:")? })
    }
}

/// The generator of records, and the replay that receives them.
struct Player {
    layout: Layout,
    live: Live,
    sink: SampleSink,
    records: Vec<u8>,
    random: u64,
    now_ns: u64,
    flushed_ns: u64,
    refreshed_ns: u64,
    shown: usize,
}

/// Plays samples of short processes, one process at a time on each CPU. `program` returns the
/// program of a process by its number.
pub(crate) fn play(
    samples: u64,
    processes: u64,
    program: impl Fn(u64) -> String,
) -> Result<ReplayStats, Box<dyn Error>> {
    let mut player = Player::new()?;
    let each = (samples / processes).max(CPUS);
    let mut played = 0;
    let mut number = 0;
    let mut warm = None;
    while played < samples {
        let pids: Vec<i32> = (0..CPUS)
            .map(|cpu| i32::try_from(100 + (number + cpu) % 30_000))
            .collect::<Result<_, _>>()?;
        for (pid, number) in pids.iter().zip(number..) {
            player.begin(*pid, number, &program(number))?;
        }
        for _ in 0..each {
            player.now_ns += PERIOD_NS;
            for (cpu, pid) in (0..).zip(&pids) {
                player.sample(*pid, cpu);
            }
            player.go_on()?;
        }
        for pid in &pids {
            player.end(*pid)?;
        }
        (played, number) = (played + each * CPUS, number + CPUS);
        if warm.is_none() && played >= samples / WARM_UP {
            warm = Some(Memory::now()?);
        }
    }
    let end = Memory::now()?;
    Ok(ReplayStats { samples: played, warm: warm.unwrap_or(end), end, shown: player.shown })
}

impl Player {
    fn new() -> Result<Self, Box<dyn Error>> {
        let sample_type = abi::PERF_SAMPLE_IP
            | abi::PERF_SAMPLE_TID
            | abi::PERF_SAMPLE_TIME
            | abi::PERF_SAMPLE_CPU
            | abi::PERF_SAMPLE_PERIOD
            | abi::PERF_SAMPLE_CALLCHAIN;
        let attr = Attr {
            kind: abi::PERF_TYPE_SOFTWARE,
            config: abi::PERF_COUNT_SW_CPU_CLOCK.into(),
            sampling: Sampling::Frequency(99),
            sample_type: sample_type.into(),
            flags: Flags::SAMPLE_ID_ALL | Flags::MMAP | Flags::COMM | Flags::TASK,
            ..Attr::default()
        };
        let layout = Layout::from(&attr);
        let event = EventDescription { attr, ids: vec![1], name: "cpu-clock".to_owned() };
        let description = Description { events: vec![event], ..Description::default() };
        let symbols = SymbolOptions::default();
        let mut live = Live::new(LiveOptions { window: WINDOW, symbols, left_out: None });
        live.describe(&description.stream_beginning()?)?;
        let options = SampleSinkOptions { forgets: true, ..SampleSinkOptions::default() };
        let sink = SampleSink::new(options, live.description());
        let now_ns = 1_000_000_000_000;
        Ok(Self {
            layout,
            live,
            sink,
            records: Vec::new(),
            random: 0x9e37_79b9_7f4a_7c15,
            now_ns,
            flushed_ns: now_ns,
            refreshed_ns: now_ns,
            shown: 0,
        })
    }

    /// Returns the next number of a fixed sequence (xorshift).
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn encoder(&self, pid: i32) -> Encoder {
        let id = SampleId {
            pid: Some(pid),
            tid: Some(pid),
            time_ns: Some(self.now_ns),
            ..SampleId::default()
        };
        Encoder::new(&self.layout, &id)
    }

    fn task(&self, pid: i32) -> Task {
        Task { pid, ppid: 1, tid: pid, ptid: 1, time_ns: self.now_ns }
    }

    /// Starts a process with its own name and a program. Every tenth has compiled code.
    fn begin(&mut self, pid: i32, number: u64, program: &str) -> Result<(), TooLong> {
        let encoder = self.encoder(pid);
        let task = self.task(pid);
        let records = &mut self.records;
        encoder.fork(records, &task, false)?;
        let name = format!("short-{number}");
        let comm = Comm { pid, tid: pid, comm: name.as_bytes(), is_exec: true };
        encoder.comm(records, &comm)?;
        let mut map = |start, path: &str| {
            let mapped = Mmap {
                pid,
                tid: pid,
                start,
                len: BYTES,
                pgoff: 0,
                file: FileId::None,
                prot: 5,
                flags: 2,
                path: path.as_bytes(),
                is_data: false,
            };
            encoder.mmap(records, &mapped)
        };
        map(CODE, program)?;
        if number.is_multiple_of(10) {
            map(COMPILED, "//anon")?;
        }
        Ok(())
    }

    fn end(&mut self, pid: i32) -> Result<(), TooLong> {
        let encoder = self.encoder(pid);
        let task = self.task(pid);
        encoder.exit(&mut self.records, &task)
    }

    /// Adds a sample with a random call chain: two frames, or twelve in about one of eight samples.
    fn sample(&mut self, pid: i32, cpu: u64) {
        let place = if self.draw().is_multiple_of(8) { COMPILED } else { CODE };
        let depth = if self.draw().is_multiple_of(8) { 12 } else { 2 };
        let frames: Vec<u64> =
            (0..depth).map(|_| place + self.draw() % (BYTES / 64) * 64).collect();
        let words = [
            frames[0],
            u64::from(pid.cast_unsigned()) << 32 | u64::from(pid.cast_unsigned()),
            self.now_ns,
            cpu,
            PERIOD_NS,
            frames.len() as u64 + 1,
            abi::PERF_CONTEXT_USER,
        ];
        let size = 8 + 8 * (words.len() + frames.len());
        let size = u16::try_from(size).unwrap_or(u16::MAX);
        let misc = u16::try_from(abi::PERF_RECORD_MISC_USER).unwrap_or(0);
        self.records.extend(abi::PERF_RECORD_SAMPLE.to_ne_bytes());
        self.records.extend([misc, size].map(u16::to_ne_bytes).as_flattened());
        words.iter().chain(&frames).for_each(|word| self.records.extend(word.to_ne_bytes()));
    }

    /// Drains the ring buffers if that is due, and then refreshes if that is due.
    fn go_on(&mut self) -> Result<(), Box<dyn Error>> {
        if self.now_ns < self.flushed_ns + FLUSH_NS {
            return Ok(());
        }
        self.flushed_ns = self.now_ns;
        self.records.extend(FINISHED_ROUND);
        self.live.push(&self.records, &mut self.sink);
        self.records.clear();
        self.live.drained(self.now_ns, &mut self.sink);
        if self.now_ns < self.refreshed_ns + REFRESH_NS {
            return Ok(());
        }
        self.refreshed_ns = self.now_ns;
        self.live.forget(&mut self.sink);
        let terms = vec![Term::Time(self.live.since_ns(WINDOW), u64::MAX)];
        let (profile, samples) = self.sink.parts();
        let selected = Selection { terms, ..Selection::default() }.resolve(profile, samples);
        samples.fill_rows(profile, &selected, RowKeys { comm: true, ..RowKeys::default() });
        self.shown = samples.iter().filter(|sample| selected.takes(sample)).count();
        Ok(())
    }
}
