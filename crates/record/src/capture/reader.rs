//! Reading rings: each pass takes everything that the rings hold, also below their watermarks, and
//! hands it to the output in few, large pieces.
//!
//! ```text
//! wait for a watermark (half a ring), or for the flush interval
//! for each ring:  its records       -> scanner (headers)
//! append                            -> output, unparsed
//! move the tails                    the kernel may write there again
//! all readers done?                 FINISHED_ROUND
//! ```

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tare_format::file::writer::{BuildId, FINISHED_ROUND};
use tare_kernel::bpf::{DeepStackCounts, DeepStacks};
use tare_kernel::host::Host;
use tare_kernel::ring::Batch;

use super::batch::{CpuRing, PendingBatch};
use super::exec::{ExecFilter, FilteredRecords};
use super::jit::JitProcesses;
use super::processes::TrackedProcesses;
use super::record_path::RecordPath;
use super::rounds::Rounds;
use super::scanner::{EventTable, Scanner};
use super::stats::{AppendedStats, FileStats, RingStats, SampleCounts};
use crate::clock::Clock;
use crate::describe::BuildIds;
use crate::keep::Binaries;
use crate::output::{Output, Result};

/// Bytes that are gathered from several rings before they are appended. A limit returns their space
/// to the kernel sooner.
const LARGE: usize = 1 << 20;

/// Bytes that wait to be unwound from which on deep stacks stay in their ring. Once it is full, no
/// more are copied, which relieves recorder and kernel.
const DEEP_WAITING_BYTES: usize = 8 << 20;

/// A ring whose records go to the output.
#[derive(Debug)]
struct RegisteredRing {
    cpu: u32,
    size: usize,
    appended: AppendedStats,
}

/// The output with everything else that readers share: `state` behind one lock, the rest without.
#[derive(Debug)]
pub(crate) struct SharedOutput {
    state: Mutex<ReaderState>,
    /// Number of times that additional reader threads were woken.
    wake_ups: AtomicU64,
    /// Limit on the bytes between two checks of the file size; `None` if the size is unlimited.
    step: Option<usize>,
    /// Whether rings must be filtered for samples from before the command's execve.
    waits_for_exec: AtomicBool,
}

/// The state that readers share, under one lock.
#[derive(Debug)]
struct ReaderState {
    path: RecordPath,
    rings: Vec<RegisteredRing>,
    code: CodeFiles,
    rounds: Rounds,
    /// Whether there are overwritten rings, whose records only come with a snapshot.
    has_overwritten: bool,
    /// Drops samples of a followed command's process from before its execve.
    exec: Option<ExecFilter>,
    /// The processes to describe in each further file; `None` if there is only one file, or if
    /// `/proc` describes them.
    processes: Option<TrackedProcesses>,
    /// The program that copies deep stacks; its pieces precede the samples.
    deep: Option<DeepStacks>,
}

/// The parts that find the files with code that samples may lie in. Each of them sees every
/// mapping.
#[derive(Debug)]
struct CodeFiles {
    build_ids: BuildIds,
    jit: JitProcesses,
    binaries: Option<Binaries>,
}

impl CodeFiles {
    /// Notes the files of mappings of code.
    fn see_mappings(&mut self, records: &[u8]) {
        self.build_ids.see(records);
        self.jit.see(records);
        self.binaries.iter_mut().for_each(|binaries| binaries.see(records));
    }

    fn read_build_ids(&self, host: &Host) -> Vec<BuildId> {
        let ids = self.build_ids.read(host);
        self.binaries.iter().fold(ids, |ids, binaries| binaries.with_build_ids(ids))
    }
}

impl SharedOutput {
    /// `keep`: records wait for that long in a flight recorder, and a snapshot appends them.
    pub(crate) fn new(
        output: Output,
        readers: usize,
        known: &Arc<EventTable>,
        keep: Option<Duration>,
        clock: Arc<dyn Clock>,
        jit: JitProcesses,
    ) -> Self {
        let step = output.step();
        let state = ReaderState {
            path: RecordPath::new(output, known, keep, clock),
            rings: Vec::new(),
            code: CodeFiles { build_ids: BuildIds::default(), jit, binaries: None },
            rounds: Rounds::new(readers),
            has_overwritten: false,
            exec: None,
            processes: None,
            deep: None,
        };
        Self {
            state: Mutex::new(state),
            wake_ups: AtomicU64::new(0),
            step,
            waits_for_exec: AtomicBool::new(false),
        }
    }

    /// Calls `ask` with the scanner that holds the table of events.
    pub(crate) fn with_scanner<T>(&self, ask: impl FnOnce(&mut Scanner) -> T) -> T {
        ask(&mut self.lock().path.scanner)
    }

    pub(crate) fn note_overwritten(&self) {
        self.lock().has_overwritten = true;
    }

    /// Whether the file size is limited.
    pub(crate) fn is_limited(&self) -> bool {
        self.step.is_some()
    }

    /// Drops samples of the command's process, which waits for its execve, from before that. They
    /// wait for the execve's record from `now` on.
    pub(crate) fn follow(&self, root: i32, now: Instant) {
        self.lock().exec = Some(ExecFilter::new(root, now));
        // ATOMICS: a reader that still sees `false` passes its records on unfiltered. They are from
        // a time when the command's process slept, so they hold no samples of it.
        self.waits_for_exec.store(true, Ordering::Relaxed);
    }

    /// Time of the followed command's execve, in the recording's clock; `None` before it, if
    /// unknown, or without a command.
    pub(crate) fn exec_ns(&self) -> Option<u64> {
        self.lock().exec.as_ref().and_then(ExecFilter::exec_ns)
    }

    /// Keeps track of the processes, to describe them in each further file.
    pub(crate) fn track_processes(&self, processes: TrackedProcesses) {
        self.lock().processes = Some(processes);
    }

    /// Reads the pieces of deep stacks that this program copies, whenever a ring is read.
    pub(crate) fn read_deep_stacks(&self, deep: DeepStacks) {
        self.lock().deep = Some(deep);
    }

    /// Calls `ask` with the tracked processes; returns `None` without any.
    pub(crate) fn with_processes<T>(
        &self,
        ask: impl FnOnce(&mut TrackedProcesses) -> T,
    ) -> Option<T> {
        self.lock().processes.as_mut().map(ask)
    }

    /// Filters a batch that may hold records from before the command's execve; `None` if there is
    /// nothing to filter.
    fn filtered(&self, batch: &Batch<'_>) -> Option<FilteredRecords> {
        // ATOMICS: a reader that sees an old value only asks the filter once more than needed.
        if !self.waits_for_exec.load(Ordering::Relaxed) {
            return None;
        }
        let ReaderState { exec, path, .. } = &mut *self.lock();
        let exec = exec.as_mut()?;
        let records = batch.records().map(|record| match record.slices() {
            [first, []] => Cow::Borrowed(first),
            pieces => Cow::Owned(pieces.concat()),
        });
        let passed = exec.pass(path.scanner.table(), records, path.clock.now());
        self.waits_for_exec.store(exec.is_active(), Ordering::Relaxed);
        Some(passed)
    }

    /// Filters the records of an overwritten ring, oldest first.
    pub(crate) fn filter_older(&self, records: Vec<u8>) -> Vec<u8> {
        let ReaderState { exec, path, .. } = &mut *self.lock();
        match exec {
            Some(exec) => exec.pass_older(path.scanner.table(), records),
            None => records,
        }
    }

    /// Returns the samples that still wait for the command's execve, when no more records will
    /// come.
    pub(crate) fn finish_filter(&self) -> Vec<u8> {
        let ReaderState { exec, path, .. } = &mut *self.lock();
        exec.as_mut().map(|exec| exec.finish(path.scanner.table())).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, ReaderState> {
        // A reader that panicked left whole records behind: each append is one call.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a ring that will be read, and returns its number.
    pub(crate) fn register(&self, cpu: u32, size: usize) -> usize {
        let mut state = self.lock();
        state.rings.push(RegisteredRing { cpu, size, appended: AppendedStats::default() });
        state.rings.len() - 1
    }

    /// Counts a wake-up of an additional reader thread.
    pub(crate) fn count_wake_up(&self) {
        // ATOMICS: a counter that no other memory depends on.
        self.wake_ups.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn wake_ups(&self) -> u64 {
        // ATOMICS: see `count_wake_up`.
        self.wake_ups.load(Ordering::Relaxed)
    }

    /// Appends whole records that come from no ring.
    ///
    /// # Errors
    /// Fails if the output takes nothing more.
    pub(crate) fn append(&self, records: &[&[u8]]) -> Result<()> {
        self.lock().path.output.append(records)
    }

    /// Appends records that belong to a ring, as counted by its scanner: an overwritten ring's
    /// contents, or samples that waited for the command's execve.
    ///
    /// # Errors
    /// Fails if the output takes nothing more.
    pub(crate) fn append_overwritten(
        &self,
        ring: usize,
        scanner: &Scanner,
        records: &[u8],
    ) -> Result<()> {
        let mut state = self.lock();
        state.path.output.append(&[records])?;
        state.rings[ring].appended.note(&scanner.stats, scanner.batch_first_ns);
        Ok(())
    }

    /// Appends whole records that are no older than the records before the last mark. They belong
    /// to the current round, so they go the way of ring records: into the flight recorder, if there
    /// is one.
    ///
    /// # Errors
    /// Fails if the output takes nothing more.
    pub(crate) fn append_in_round(&self, records: &[u8]) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let mut state = self.lock();
        state.rounds.note_appended();
        state.path.take(&[records])
    }

    pub(crate) fn see_mappings(&self, records: &[u8]) {
        self.lock().code.see_mappings(records);
    }

    /// Notes the build id of a module that was mapped under this name.
    pub(crate) fn see_module(&self, name: &[u8], id: Vec<u8>) {
        self.lock().code.build_ids.see_module(name, id);
    }

    /// Calls `ask` with the processes that generate code.
    pub(crate) fn with_jit<T>(&self, ask: impl FnOnce(&mut JitProcesses) -> T) -> T {
        ask(&mut self.lock().code.jit)
    }

    /// Returns the build ids of the files with mapped code.
    pub(crate) fn build_ids(&self, host: &Host) -> Vec<BuildId> {
        self.lock().code.read_build_ids(host)
    }

    /// Replaces the store that holds mapped files open, and returns the old one.
    pub(crate) fn replace_binaries(&self, binaries: Option<Binaries>) -> Option<Binaries> {
        std::mem::replace(&mut self.lock().code.binaries, binaries)
    }

    /// Appends the records in the flight recorder, if there is one.
    ///
    /// # Errors
    /// Fails if the output takes nothing more.
    pub(crate) fn append_recent(&self) -> Result<()> {
        self.lock().path.append_recent()
    }

    /// The shortest time that the flight recorder could keep records, if that was less than
    /// requested.
    pub(crate) fn shortest(&self) -> Option<Duration> {
        self.lock().path.shortest()
    }

    /// Makes everything appended so far readable, even if the recorder is killed; with a queue, as
    /// soon as it is written.
    ///
    /// # Errors
    /// Fails if the output takes nothing more.
    pub(crate) fn flush(&self) -> Result<()> {
        self.lock().path.output.flush()
    }

    /// Number of times that the kernel throttled an event.
    pub(crate) fn throttled(&self) -> u64 {
        self.lock().rings.iter().map(|ring| ring.appended.throttled()).sum()
    }

    /// Samples that were read so far, by event, including the ones that a flight recorder holds or
    /// has dropped.
    pub(crate) fn samples(&self) -> Vec<SampleCounts> {
        AppendedStats::sum_up(self.lock().rings.iter().map(|ring| &ring.appended))
    }

    /// Calls `ask` with the output, which is locked meanwhile.
    pub(crate) fn with_output<T>(&self, ask: impl FnOnce(&mut Output) -> T) -> T {
        ask(&mut self.lock().path.output)
    }

    /// Ends a file: `end` gets the file's counts and completes it under the lock, so no reader
    /// appends meanwhile.
    pub(crate) fn end_file<T>(&self, end: impl FnOnce(&mut Output, FileStats) -> T) -> T {
        let ReaderState { path, rings, deep, .. } = &mut *self.lock();
        let (forgotten, forgotten_losses) = path.drop_kept();
        let stats = |RegisteredRing { cpu, size, appended }: &mut RegisteredRing| RingStats {
            cpu: *cpu,
            size: *size,
            stats: appended.take(),
        };
        let rings = rings.iter_mut().map(stats).collect();
        let deep = count_copies(deep.as_ref());
        end(&mut path.output, FileStats { rings, forgotten, forgotten_losses, deep })
    }

    /// Returns the counts of the program that copies deep stacks.
    pub(crate) fn deep_stack_counts(&self) -> DeepStackCounts {
        count_copies(self.lock().deep.as_ref())
    }

    /// Returns the output, once no reader is left.
    pub(crate) fn into_output(self) -> Output {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).path.output
    }
}

/// Returns a program's counts: zeros if its map can't be read.
fn count_copies(deep: Option<&DeepStacks>) -> DeepStackCounts {
    deep.and_then(|deep| deep.counts().ok()).unwrap_or_default()
}

/// How a pass over the rings ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// All records that the rings held were taken.
    Drained,
    /// The file takes no more records; the rings may hold more.
    Full,
}

/// Reads some of the rings.
#[derive(Debug)]
pub(crate) struct Reader {
    number: usize,
    pub(crate) rings: Vec<CpuRing>,
}

impl Reader {
    /// Creates the reader with this number, counted from 0.
    pub(crate) fn new(number: usize, rings: Vec<CpuRing>) -> Self {
        Self { number, rings }
    }

    /// Takes all that the rings hold, or as much as the size limit of the file allows.
    ///
    /// # Errors
    /// Fails if the output takes nothing more. Records that could not be appended stay in the
    /// rings.
    pub(crate) fn pass(&mut self, shared: &SharedOutput) -> Result<Pass> {
        match shared.step {
            Some(step) => self.pass_in_steps(shared, step),
            None => self.drain(shared).map(|()| Pass::Drained),
        }
    }

    /// Takes all that the rings hold, whatever the size of the file.
    ///
    /// # Errors
    /// As [`Reader::pass`].
    pub(crate) fn drain(&mut self, shared: &SharedOutput) -> Result<()> {
        let since = shared.lock().rounds.number();
        let mut pending: Vec<PendingBatch<'_>> = Vec::with_capacity(self.rings.len());
        let mut bytes = 0;
        let mut noted = Vec::new();
        let filter = |batch: &Batch<'_>| shared.filtered(batch);
        for ring in &mut self.rings {
            let Some(batch) = ring.take(None, filter, &mut noted) else { continue };
            bytes += batch.batch.len();
            pending.push(batch);
            if bytes >= LARGE {
                append(&mut shared.lock(), &mut pending, &mut noted, None)?;
                bytes = 0;
            }
        }
        append(&mut shared.lock(), &mut pending, &mut noted, Some((self.number, since)))
    }

    /// Takes at most `step` bytes of a ring at a time, but at least one record, and after each
    /// batch checks whether the file is full.
    fn pass_in_steps(&mut self, shared: &SharedOutput, step: usize) -> Result<Pass> {
        let since = shared.lock().rounds.number();
        if self.number > 0 && shared.lock().path.output.is_full() {
            // Only the main thread, whose number is 0, begins the next file.
            return Ok(Pass::Full);
        }
        let mut noted = Vec::new();
        let filter = |batch: &Batch<'_>| shared.filtered(batch);
        for ring in &mut self.rings {
            // Records that arrive meanwhile belong to the next pass.
            let mut left = ring.ring.available();
            while left > 0 {
                let batch = ring.take(Some(step), filter, &mut noted);
                let Some(batch) = batch else { break };
                left = left.saturating_sub(batch.batch.len());
                let mut state = shared.lock();
                append(&mut state, &mut vec![batch], &mut noted, None)?;
                if state.path.output.is_full() {
                    return Ok(Pass::Full);
                }
            }
        }
        append(&mut shared.lock(), &mut Vec::new(), &mut noted, Some((self.number, since)))?;
        Ok(Pass::Drained)
    }
}

/// Appends batches and returns their space to the kernel. With the last batches of a pass, `ends`
/// holds the reader's number and the round in which the pass began. If the pass completes the
/// round, the mark is appended too.
fn append(
    state: &mut ReaderState,
    pending: &mut Vec<PendingBatch<'_>>,
    noted: &mut Vec<u8>,
    ends: Option<(usize, u64)>,
) -> Result<()> {
    let mut deep = Vec::new();
    if let Some(stacks) = &mut state.deep
        && state.path.output.so_far().unwinding_bytes < DEEP_WAITING_BYTES
    {
        stacks.drain(&mut deep);
    }
    let batches = pending.iter().flat_map(PendingBatch::slices);
    let mut pieces: Vec<&[u8]> =
        std::iter::once(&deep[..]).chain(batches).filter(|piece| !piece.is_empty()).collect();
    if !pieces.is_empty() {
        state.rounds.note_appended();
    }
    state.code.see_mappings(noted);
    let note = state.code.jit.take_note();
    state.processes.iter_mut().for_each(|processes| processes.see(noted));
    noted.clear();
    pieces.extend((!note.is_empty()).then_some(&note[..]));
    // Samples that wait for the command's execve are older than the mark, and would follow it.
    let may_end = !state.exec.as_ref().is_some_and(ExecFilter::is_waiting);
    if may_end && ends.is_some_and(|(reader, since)| state.rounds.note_drained(reader, since)) {
        // The records of overwritten rings are older too.
        pieces.extend((!state.has_overwritten).then_some(&FINISHED_ROUND[..]));
        state.processes.iter_mut().for_each(TrackedProcesses::end_round);
    }
    state.path.take(&pieces)?;
    for PendingBatch { ring, scanner, .. } in &*pending {
        state.rings[*ring].appended.note(&scanner.stats, scanner.batch_first_ns);
    }
    pending.drain(..).for_each(|pending| pending.batch.advance());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use tare_format::Endian;
    use tare_format::abi::bindings::{
        PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE,
    };
    use tare_format::abi::{Attr, Flags, Sampling};
    use tare_format::file::writer::Description;
    use tare_format::record::encode::Encoder;
    use tare_format::record::{FileId, Layout, Mmap, Records, SampleId, kind};
    use tare_kernel::open::EventTarget;
    use tare_kernel::simulated::{Simulated, SimulatedSample};

    use super::*;
    use crate::capture::EventToOpen;
    use crate::capture::opening::Events;
    use crate::clock::SystemClock;
    use crate::output::{Destination, OutputError, OutputOptions, RecordSink, SinkClosed};

    /// Bytes of a sample.
    const SAMPLE: usize = 24;

    /// A sink that collects records, or takes none.
    #[derive(Clone, Default)]
    struct CollectingSink {
        bytes: Arc<Mutex<Vec<u8>>>,
        is_closed: bool,
    }

    impl RecordSink for CollectingSink {
        fn begin(&mut self, _: &Description) -> ControlFlow<SinkClosed> {
            ControlFlow::Continue(())
        }

        fn records(&mut self, records: &[u8]) -> ControlFlow<SinkClosed> {
            if self.is_closed {
                return ControlFlow::Break(SinkClosed);
            }
            self.bytes.lock().unwrap().extend(records);
            ControlFlow::Continue(())
        }
    }

    impl CollectingSink {
        fn kinds(&self) -> Vec<u32> {
            let bytes = self.bytes.lock().unwrap();
            Records::new(&bytes, Endian::NATIVE).map(|record| record.kind).collect()
        }
    }

    /// An output with one reader for the ring of each of two CPUs.
    struct TwoReaders {
        kernel: Simulated,
        /// Keeps the events open.
        _events: Events,
        shared: SharedOutput,
        readers: Vec<Reader>,
    }

    impl TwoReaders {
        fn new(output: Output) -> Self {
            let attr = Attr {
                kind: PERF_TYPE_SOFTWARE,
                sampling: Sampling::Period(1),
                sample_type: (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME).into(),
                flags: Flags::SAMPLE_ID_ALL,
                ..Attr::default()
            };
            let kernel = Simulated::default();
            let wanted = EventToOpen {
                name: "clock".to_owned(),
                attr: attr.clone(),
                slower: Vec::new(),
                leader: None,
                targets: [0, 1].map(|cpu| (cpu, EventTarget::Cpu(cpu))).to_vec(),
            };
            let events = Events::open(&kernel, vec![wanted]).unwrap();
            let layouts = vec![Layout::from(&attr)];
            let table = EventTable::new(layouts, &events.ids().unwrap(), Vec::new());
            let table = Arc::new(table);
            let jit = JitProcesses::new(Host::default(), Arc::new(SystemClock), None);
            let shared = SharedOutput::new(output, 2, &table, None, Arc::new(SystemClock), jit);
            let rings = events.rings(1 << 14).unwrap().consumed.into_iter();
            let reader = |(number, (cpu, _, ring)): (usize, (u32, _, tare_kernel::ring::Ring))| {
                let ring_number = shared.register(cpu, ring.size());
                let ring = CpuRing::new(ring_number, ring, Scanner::new(&table));
                Reader::new(number, vec![ring])
            };
            let readers = rings.enumerate().map(reader).collect();
            Self { kernel, _events: events, shared, readers }
        }

        fn sample(&self, cpu: usize, samples: usize) {
            (0..samples).for_each(|_| _ = self.kernel.sample(cpu, SimulatedSample::default()));
        }

        fn samples(&self) -> u64 {
            self.shared.samples().iter().map(|counts| counts.samples).sum()
        }
    }

    #[test]
    fn a_mark_follows_once_every_reader_has_drained_its_rings() {
        let sink = CollectingSink::default();
        let mut test = TwoReaders::new(Output::to_sink(Box::new(sink.clone())));
        test.sample(0, 1);
        test.sample(1, 2);
        assert_eq!(test.readers[1].pass(&test.shared), Ok(Pass::Drained));
        assert_eq!(sink.kinds(), [kind::PERF_RECORD_SAMPLE; 2]);
        test.readers[0].pass(&test.shared).unwrap();
        assert_eq!(sink.kinds()[2..], [kind::PERF_RECORD_SAMPLE, kind::FINISHED_ROUND]);
        assert_eq!((test.samples(), test.readers[0].rings[0].ring.available()), (3, 0));
    }

    #[test]
    fn records_that_the_output_refuses_stay_in_the_ring_and_are_not_counted() {
        let sink = CollectingSink { is_closed: true, ..CollectingSink::default() };
        let mut test = TwoReaders::new(Output::to_sink(Box::new(sink)));
        test.sample(0, 3);
        assert_eq!(test.readers[0].drain(&test.shared), Err(OutputError::Closed));
        assert_eq!((test.samples(), test.readers[0].rings[0].ring.available()), (0, 3 * SAMPLE));
    }

    #[test]
    fn a_full_file_leaves_the_rest_in_the_ring() {
        let folder = tempfile::tempdir().unwrap();
        let to = Destination::File(folder.path().join("perf.data"));
        let options = OutputOptions { max_size: Some(1), ..OutputOptions::default() };
        let mut output = Output::open(&to, &options).unwrap();
        output.begin(&Description::default()).unwrap();
        let step = output.step().unwrap();
        let mut test = TwoReaders::new(output);
        let samples = 2 * step / SAMPLE;
        test.sample(0, samples);
        assert_eq!(test.readers[0].pass(&test.shared), Ok(Pass::Full));
        let left = test.readers[0].rings[0].ring.available() / SAMPLE;
        assert_eq!(test.samples(), (samples - left) as u64);
        assert!(left >= samples / 2, "{left} of {samples} samples");
        test.readers[0].drain(&test.shared).unwrap();
        assert_eq!(test.samples(), samples as u64);
    }

    #[test]
    fn overwritten_rings_suppress_marks() {
        let sink = CollectingSink::default();
        let mut test = TwoReaders::new(Output::to_sink(Box::new(sink.clone())));
        test.shared.note_overwritten();
        test.sample(0, 1);
        test.readers.iter_mut().for_each(|reader| reader.drain(&test.shared).unwrap());
        assert_eq!(sink.kinds(), [kind::PERF_RECORD_SAMPLE]);
    }

    #[test]
    fn code_files_all_see_every_mapping() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let host = Host::default();
        let mut code = CodeFiles {
            build_ids: BuildIds::default(),
            jit: JitProcesses::new(host.clone(), Arc::new(SystemClock), None),
            binaries: Some(Binaries::new(folder.path(), host.clone(), &Arc::default()).unwrap()),
        };
        let exe = std::env::current_exe().unwrap();
        let inode = exe.metadata().unwrap().ino();
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let mapping = |path, inode| Mmap {
            pid,
            tid: pid,
            start: 0x1000,
            len: 0x1000,
            pgoff: 0,
            file: FileId::Inode { major: 0, minor: 0, inode, generation: 0 },
            prot: 4,
            flags: 0,
            path,
            is_data: false,
        };
        let encoder = Encoder::new(&Layout::default(), &SampleId::default());
        let mut records = Vec::new();
        for mmap in [mapping(exe.as_os_str().as_encoded_bytes(), inode), mapping(b"//anon", 0)] {
            encoder.mmap(&mut records, &mmap).unwrap();
        }
        code.see_mappings(&records);
        let listed = code.read_build_ids(&host);
        assert!(listed.iter().any(|listed| *listed.path == *exe.to_string_lossy()), "{listed:?}");
        assert!(!code.jit.take_note().is_empty());
        let kept = code.binaries.unwrap().store(&[]);
        assert!(kept.files >= 1 && kept.missed == 0, "{kept:?}");
    }
}
