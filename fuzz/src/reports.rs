//! Targets for whole recordings: reports as text and JSON, exports, and sums of scheduling and
//! locks. Strict readers check the output, except of binary exports.

use std::hint::black_box;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tare_format::record::{Record, Sample};
use tare_profile::{Detail, Filter, Order, SortKey};
use tare_render::export::{Exporter, FORMATS};
use tare_render::{
    Amount, Column, Graph, Layout, RecordingOrigin, RecordingSummary, Style, TableView,
};
use tare_replay::{
    CodeDetail, Error, Machine, ProfileOptions, ProfileSink, Recording, Replay, ReplayOptions,
    Replayed, Sink, summarize,
};
use tare_symbols::SymbolOptions;
use tare_trace::lock::{LockKey, RecordedLocks, UnfinishedWaits, lock_document, lock_table};
use tare_trace::sched::{
    Sched, SchedOptions, Task, Tracepoints, cpu_table, rows_by_command, rows_by_thread,
    sorted_tasks, sums_document, task_table,
};

use crate::input_file::with_file;
use crate::strict;

/// Symbol options that keep tare from opening this machine's files, whatever paths a recording
/// contains.
fn symbols(beside: &Path) -> SymbolOptions {
    let nowhere = || beside.with_extension("nowhere");
    SymbolOptions {
        symfs: nowhere(),
        debug_folders: Vec::new(),
        kallsyms: Some(nowhere()),
        vmlinux: Some(nowhere()),
        reader_uid: 1,
        ..SymbolOptions::default()
    }
}

/// Views that differ in columns, order, graphs and layout.
fn views() -> [TableView; 3] {
    let keys = |keys: &[SortKey]| keys.iter().map(|key| Column::Key(*key)).collect::<Vec<_>>();
    let graph = |order, style, amount| Graph {
        order,
        percent_limit: 0.5,
        skips_first: true,
        style,
        amount,
    };
    let figures = [Column::Children, Column::Overhead, Column::Samples, Column::Period];
    let whole = TableView {
        columns: [
            &figures[..],
            &keys(&[SortKey::Comm, SortKey::Dso, SortKey::Symbol, SortKey::Trace]),
        ]
        .concat(),
        order: vec![Column::Children, Column::Overhead],
        children: true,
        graph: Some(graph(Order::Caller, Style::Graph, Amount::Percent)),
        ..TableView::default()
    };
    let details = [Detail::Time, Detail::Cgroup, Detail::Weight, Detail::Memory, Detail::Address];
    let tree = TableView {
        columns: [
            &figures[1..],
            &keys(&[SortKey::Tid, SortKey::Cpu, SortKey::Symbol]),
            &keys(&details.map(SortKey::Detail)),
        ]
        .concat(),
        order: vec![Column::Overhead],
        graph: Some(graph(Order::Callee, Style::Fractal, Amount::Count)),
        layout: Layout { hierarchy: true, verbose: true, ..Layout::default() },
        ..TableView::default()
    };
    let separated = TableView {
        columns: [
            &figures[1..],
            &keys(&[SortKey::Tgid, SortKey::Event, SortKey::SrcLine, SortKey::SrcFile]),
        ]
        .concat(),
        order: vec![Column::Overhead],
        graph: Some(graph(Order::Caller, Style::Folded, Amount::Period)),
        layout: Layout { separator: Some(",".to_owned()), ..Layout::default() },
        filter: Filter::default(),
        is_relative: true,
        ..TableView::default()
    };
    [whole, tree, separated]
}

/// Makes a report for each view.
pub(crate) fn report(input: &[u8]) {
    with_file(input, |path| {
        for (view, branches) in views().iter().zip([false, false, true]) {
            let Ok(recording) = Recording::open(path) else { return };
            let details = view.columns.iter().filter_map(|column| match column {
                Column::Key(SortKey::Detail(detail)) => Some(*detail),
                _ => None,
            });
            let options = ProfileOptions {
                code: CodeDetail::Stack,
                by_cpu: true,
                trace: true,
                details: details.collect(),
                branches,
                blocks: branches,
                time_quantum_ns: 1000,
                exact: true,
                symbols: symbols(path),
                ..ProfileOptions::default()
            };
            let Ok(summary) = summarize(recording, &options) else { continue };
            let mut text = Vec::new();
            let mut json = Vec::new();
            let written = tare_render::text(&mut text, &summary.profile, view).and_then(|()| {
                tare_render::json(&mut json, &summary.profile, view, summary.ledger.as_ref())
            });
            assert!(written.is_ok(), "{written:?}");
            assert_eq!((strict::plain(&text), strict::json(&json)), (Ok(()), Ok(())));
        }
    });
}

/// A shared buffer that collects output.
#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Checks an export strictly; binary formats aren't checked.
type Check = fn(&[u8]) -> Result<(), String>;

struct Exports {
    inner: ProfileSink,
    exporters: Vec<(Box<dyn Exporter>, SharedBuffer, Check)>,
    switches: Tracepoints,
    sched: Sched,
    locks: RecordedLocks,
}

impl Exports {
    fn new(inner: ProfileSink) -> Self {
        fn binary(_: &[u8]) -> Result<(), String> {
            Ok(())
        }
        let exporters = FORMATS.iter().filter_map(|format| {
            let check: Check = match format.extension {
                _ if format.is_binary => binary,
                "jsonl" => strict::json_lines,
                extension if extension.ends_with("json") => strict::json,
                _ => strict::plain,
            };
            let written = SharedBuffer::default();
            let exporter = format.create?(Box::new(written.clone()));
            Some((exporter.expect("memory takes every write"), written, check))
        });
        let switches = Tracepoints::default();
        let sched = Sched::new(SchedOptions::default());
        Self {
            inner,
            exporters: exporters.collect(),
            switches,
            sched,
            locks: RecordedLocks::default(),
        }
    }

    /// Feeds samples of their tracepoints to `sched` and `lock`.
    fn trace(&mut self, sample: &Replayed<'_, Sample<'_>>) {
        self.switches.learn(sample.description);
        self.locks.learn(sample.description);
        let head = &sample.fields.head;
        let Some(event) = sample.event else { return };
        let Some(raw) = sample.fields.raw else { return };
        let time_ns = sample.time_ns.unwrap_or(0);
        let cpu = head.cpu.unwrap_or(0);
        if let Some(action) = self.switches.decode(event, raw, Task::default(), cpu) {
            black_box(self.sched.add_action(time_ns, &action));
        }
        let tid = head.tid.unwrap_or(0).cast_unsigned();
        self.locks.add(event, time_ns, tid, cpu, raw, sample.fields.callchain);
    }
}

impl Sink for Exports {
    type Error = Error;

    fn sample(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Result<ControlFlow<()>, Error> {
        self.trace(sample);
        if let Some((row, weight)) = self.inner.locate(machine, sample) {
            let one =
                tare_render::LocatedSample { row, weight, time_ns: sample.time_ns, switch: None };
            for (exporter, _, _) in &mut self.exporters {
                let taken = exporter.sample(self.inner.profile(), &one);
                assert!(taken.is_ok(), "{taken:?}");
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn record(
        &mut self,
        machine: &mut Machine,
        record: &Replayed<'_, Record<'_>>,
    ) -> Result<ControlFlow<()>, Error> {
        self.inner.record(machine, record)
    }
}

/// Exports samples in each format, and summarizes scheduling and locks.
pub(crate) fn export(input: &[u8]) {
    with_file(input, |path| {
        let Ok(mut recording) = Recording::open(path) else { return };
        let of: PathBuf = path.to_owned();
        let options = ProfileOptions {
            code: CodeDetail::Stack,
            trace: true,
            symbols: symbols(&of),
            ..ProfileOptions::default()
        };
        let Ok(inner) = ProfileSink::new(&options, recording.description()) else { return };
        let mut exports = Exports::new(inner);
        let replay =
            Replay::new(ReplayOptions { symbols: symbols(&of), ..ReplayOptions::default() });
        let Ok(losses) = replay.run(&mut recording, &mut exports) else { return };
        let Exports { inner, exporters, mut sched, locks, .. } = exports;
        let summary = inner.finish(recording.description(), losses);
        let session = RecordingOrigin { tool: "tare".to_owned(), ..RecordingOrigin::default() };
        let profile = &summary.profile;
        let ledger = summary.ledger.as_ref();
        for (exporter, written, check) in exporters {
            let finished =
                exporter.finish(&RecordingSummary { profile, ledger, session: &session });
            assert!(finished.is_ok(), "{finished:?}");
            let written = written.0.lock().unwrap_or_else(PoisonError::into_inner);
            assert_eq!(check(&written), Ok(()), "{:.200}", String::from_utf8_lossy(&written));
        }
        sched.finish(None);
        let by = tare_trace::sched::SortKey::Runtime;
        let tasks = sorted_tasks(&sched, by);
        let tables = [rows_by_thread(&sched, by), rows_by_command(&sched, by)];
        let rows = locks.rows(LockKey::Total, &Default::default());
        let unfinished = UnfinishedWaits::default();
        let mut texts = vec![cpu_table(&sched, true), lock_table(&rows, &unfinished, true)];
        texts.extend(tables.iter().map(|rows| task_table(rows)));
        texts.iter().for_each(|text| assert_eq!(strict::plain(text.as_bytes()), Ok(())));
        let locks = lock_document(&rows, &unfinished, (0, 0));
        for document in [sums_document(&sched, &tasks, true, 0), locks] {
            assert_eq!(strict::json(document.to_string().as_bytes()), Ok(()));
        }
    });
}
