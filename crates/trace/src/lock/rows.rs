//! Sums of waits as table rows, by kind of lock and caller.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use serde_json::{Value, json};
use tare_format::printable;
use tare_kernel::bpf::{LockKind, LockSums};

use super::flags::{MUTEX, PERCPU, READ, RT, SPIN, WRITE};
use super::kernel_names::KernelName;

/// The sort key of the rows, largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockKey {
    /// Number of waits.
    Contended,
    /// Total time.
    #[default]
    Total,
    /// Longest wait.
    Max,
    /// Mean wait.
    Average,
}

/// The waits of one caller for one kind of lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRow {
    /// The kind, named as in `perf lock contention`, or `futex`.
    pub kind: &'static str,
    /// The waiting function, its address, or `[unknown]`. Untrusted.
    pub caller: String,
    /// Its file; `None` for the kernel, and if the caller is unknown.
    pub file: Option<String>,
    /// Number of waits.
    pub waits: u64,
    /// Total time in nanoseconds.
    pub total_ns: u64,
    /// Longest wait in nanoseconds.
    pub max_ns: u64,
    /// The call chain with the longest total wait: its functions, innermost first. Untrusted.
    pub stack: Vec<String>,
    /// The total wait of `stack` in nanoseconds.
    pub(super) stack_total_ns: u64,
}

impl LockRow {
    /// Returns the mean wait in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        if self.waits == 0 { 0.0 } else { self.total_ns as f64 / self.waits as f64 }
    }
}

/// A wait that hadn't ended when the trace did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitInProgress {
    /// The wait as a row: its time so far, from the beginning of the trace if it `is_earlier`.
    pub row: LockRow,
    /// The thread, in the initial pid namespace.
    pub tid: u32,
    /// Whether it began before the trace.
    pub is_earlier: bool,
}

/// Waits of which a part lies outside the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnfinishedWaits {
    /// Waits in progress at the end.
    pub waiting: Vec<WaitInProgress>,
    /// Number of waits in the sums that began before the trace.
    pub earlier: u64,
}

/// Whether a CPU spins for the lock, so that no task leaves its CPU.
pub(super) fn is_spinning(flags: u32) -> bool {
    flags & (SPIN | MUTEX) == SPIN
}

/// Returns the kind of a kernel lock in the words of `perf lock contention`.
pub(super) fn kind_name(flags: u32) -> &'static str {
    let is = |wanted: u32| flags & wanted == wanted;
    match () {
        () if is(MUTEX) => "mutex",
        () if is(PERCPU | WRITE) => "pcpu-sem:W",
        () if is(PERCPU) => "pcpu-sem:R",
        () if is(RT | READ) => "rwlock-rt:R",
        () if is(RT | WRITE) => "rwlock-rt:W",
        () if is(RT) => "rt-mutex",
        () if is(SPIN | READ) => "rwlock:R",
        () if is(SPIN | WRITE) => "rwlock:W",
        () if is(SPIN) => "spinlock",
        () if is(READ) => "rwsem:R",
        () if is(WRITE) => "rwsem:W",
        () => "semaphore",
    }
}

/// Builds a row without a caller.
pub(super) fn row_without_caller(sums: &LockSums, kind: &'static str) -> LockRow {
    LockRow { waits: sums.waits, max_ns: sums.max_ns, ..row_of_one(kind, sums.total_ns) }
}

/// Builds the row of one wait, without a caller.
pub(super) fn row_of_one(kind: &'static str, wait_ns: u64) -> LockRow {
    LockRow {
        kind,
        caller: "[unknown]".to_owned(),
        file: None,
        waits: 1,
        total_ns: wait_ns,
        max_ns: wait_ns,
        stack: Vec::new(),
        stack_total_ns: wait_ns,
    }
}

/// Builds the row of a kernel lock. kallsyms may not list the tracing program, so all frames up to
/// the outermost one that leads to it are dropped, and then the frames of lock code.
pub(super) fn kernel_row(sums: &LockSums, names: &HashMap<u64, KernelName>) -> LockRow {
    let frames: Vec<_> = sums.frames.iter().map(|address| names.get(address)).collect();
    let is_tracer = |frame: &Option<&KernelName>| frame.is_some_and(|name| name.is_tracer);
    let from = frames.iter().rposition(is_tracer).map_or(0, |at| at + 1);
    let is_lock_code = |frame: &&Option<&KernelName>| frame.is_some_and(|name| name.is_lock_code);
    let own = frames[from..].iter().take_while(is_lock_code).count();
    let name = |(address, name): (&u64, &Option<&KernelName>)| {
        name.map_or_else(|| format!("[{address:#x}]"), |name| name.name.clone())
    };
    let all: Vec<_> = sums.frames.iter().zip(&frames).map(name).collect();
    let stack = all.get(from + own..).unwrap_or_default().to_vec();
    let kind = match sums.kind {
        LockKind::Kernel(flags) => kind_name(flags),
        LockKind::Futex(_) => "futex",
    };
    let row = row_without_caller(sums, kind);
    let caller = stack.first().or(all.last()).cloned();
    LockRow { caller: caller.unwrap_or(row.caller), stack, ..row }
}

/// Merges rows with the same kind, caller and file, and sorts them.
pub(super) fn merged(rows: impl Iterator<Item = LockRow>, by: LockKey) -> Vec<LockRow> {
    let mut all: BTreeMap<(&'static str, String, Option<String>), LockRow> = BTreeMap::new();
    for row in rows {
        let key = (row.kind, row.caller.clone(), row.file.clone());
        let Some(sum) = all.get_mut(&key) else {
            all.insert(key, row);
            continue;
        };
        sum.waits += row.waits;
        sum.total_ns += row.total_ns;
        sum.max_ns = sum.max_ns.max(row.max_ns);
        if row.stack_total_ns > sum.stack_total_ns {
            (sum.stack_total_ns, sum.stack) = (row.stack_total_ns, row.stack);
        }
    }
    let mut all: Vec<_> = all.into_values().collect();
    all.sort_by(|a, b| match by {
        LockKey::Contended => b.waits.cmp(&a.waits),
        LockKey::Total => b.total_ns.cmp(&a.total_ns),
        LockKey::Max => b.max_ns.cmp(&a.max_ns),
        LockKey::Average => b.mean_ns().total_cmp(&a.mean_ns()),
    });
    all
}

/// Formats a line per row, and one per unfinished wait; with `stacks`, the call chain below it.
#[must_use]
pub fn lock_table(rows: &[LockRow], unfinished: &UnfinishedWaits, stacks: bool) -> String {
    let mut into = String::new();
    let _ = writeln!(
        into,
        "{:>10} {:>12} {:>11} {:>11}  {:<12} caller",
        "contended", "total ms", "mean us", "max us", "type"
    );
    for row in rows {
        let _ = write!(
            into,
            "{:>10} {:>12.3} {:>11.2} {:>11.2}  {:<12} ",
            row.waits,
            row.total_ns as f64 / 1e6,
            row.mean_ns() / 1e3,
            row.max_ns as f64 / 1e3,
            row.kind,
        );
        write_caller(&mut into, row, stacks);
    }
    if rows.is_empty() && unfinished.waiting.is_empty() {
        into.push_str("no task waited for a lock\n");
    }
    if unfinished.earlier > 0 {
        let _ = writeln!(
            into,
            "waits that began before the trace: {}; their time counts from its start",
            unfinished.earlier
        );
    }
    for wait in &unfinished.waiting {
        let ms = wait.row.total_ns as f64 / 1e6;
        let (than, since) =
            if wait.is_earlier { ("> ", ", begun before the trace") } else { ("", "") };
        let _ = write!(
            into,
            "still waiting: thread {}, {than}{ms:.3} ms{since}: {} ",
            wait.tid, wait.row.kind
        );
        write_caller(&mut into, &wait.row, stacks);
    }
    into
}

/// Ends a line with a row's caller; with `stacks`, the call chain below it.
fn write_caller(into: &mut String, row: &LockRow, stacks: bool) {
    into.push_str(&printable(&row.caller));
    if let Some(file) = &row.file {
        let _ = write!(into, " ({})", printable(file));
    }
    into.push('\n');
    for function in row.stack.iter().filter(|_| stacks) {
        let _ = writeln!(into, "{:>50} > {}", "", printable(function));
    }
}

/// Formats a document. `missing`: numbers of waits and of copied stacks for which there was no
/// room.
#[must_use]
pub fn lock_document(rows: &[LockRow], unfinished: &UnfinishedWaits, missing: (u64, u64)) -> Value {
    let lock = |row: &LockRow| {
        json!({
            "type": row.kind,
            "caller": row.caller,
            "file": row.file,
            "contended": row.waits,
            "total_ns": row.total_ns,
            "mean_ns": row.mean_ns(),
            "max_ns": row.max_ns,
            "stack": row.stack,
        })
    };
    let waiting = |wait: &WaitInProgress| {
        json!({
            "tid": wait.tid,
            "type": wait.row.kind,
            "caller": wait.row.caller,
            "file": wait.row.file,
            "waited_ns": wait.row.total_ns,
            "begun_before": wait.is_earlier,
            "stack": wait.row.stack,
        })
    };
    json!({
        "version": 1,
        "locks": rows.iter().map(lock).collect::<Vec<_>>(),
        "begun_before": unfinished.earlier,
        "still_waiting": unfinished.waiting.iter().map(waiting).collect::<Vec<_>>(),
        "missing_waits": missing.0,
        "missing_stacks": missing.1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_rows_of_one_caller() {
        let row = |caller: &str, total_ns, stack: &str| LockRow {
            kind: "mutex",
            caller: caller.to_owned(),
            file: None,
            waits: 1,
            total_ns,
            max_ns: total_ns,
            stack: vec![stack.to_owned()],
            stack_total_ns: total_ns,
        };
        let rows = [row("a", 1, "x"), row("b", 5, "y"), row("a", 7, "z")];
        let rows = merged(rows.into_iter(), LockKey::Total);
        let found: Vec<_> =
            rows.iter().map(|row| (&row.caller[..], row.waits, row.total_ns, row.max_ns)).collect();
        assert_eq!(found, [("a", 2, 8, 7), ("b", 1, 5, 5)]);
        assert_eq!(rows[0].stack, ["z"]);
    }

    #[test]
    fn names_kinds_as_perf_does() {
        let names = [1, 3, 5, 2, 4, 8, 10, 18, 20, 32, 33, 0].map(kind_name);
        let wanted = [
            "spinlock",
            "rwlock:R",
            "rwlock:W",
            "rwsem:R",
            "rwsem:W",
            "rt-mutex",
            "rwlock-rt:R",
            "pcpu-sem:R",
            "pcpu-sem:W",
            "mutex",
            "mutex",
            "semaphore",
        ];
        assert_eq!(names, wanted);
    }
}
