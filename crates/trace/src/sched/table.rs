//! Scheduling tables: a line per task, and per CPU.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use tare_format::printable;

use super::slices::Sched;
use super::sums::{TaskSums, Waits};

/// Width of the histogram's longest bar.
const BAR: usize = 40;
/// Width of the task column; longer names push the other columns.
const TASK: usize = 30;

/// Sort key of the task lines, largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortKey {
    /// Longest wait.
    Max,
    /// Mean wait.
    Average,
    /// Time on a CPU.
    #[default]
    Runtime,
    /// Number of times it left a CPU.
    Switches,
    /// Total wait.
    Wait,
}

impl SortKey {
    /// Compares two sums: the one that is listed first is less.
    fn compare(self, a: &TaskSums, b: &TaskSums) -> Ordering {
        let order = match self {
            Self::Max => b.waits.max_ns.cmp(&a.waits.max_ns),
            Self::Average => b.waits.mean_ns().total_cmp(&a.waits.mean_ns()),
            Self::Runtime => b.run_ns.cmp(&a.run_ns),
            Self::Switches => b.switches.cmp(&a.switches),
            Self::Wait => b.waits.total_ns.cmp(&a.waits.total_ns),
        };
        order.then(a.tid.cmp(&b.tid))
    }
}

/// Returns the tasks in display order.
#[must_use]
pub fn sorted_tasks(sched: &Sched, by: SortKey) -> Vec<&TaskSums> {
    let mut tasks: Vec<_> = sched.tasks().collect();
    tasks.sort_by(|a, b| by.compare(a, b));
    tasks
}

/// A line of the table: a thread, or all threads with one name.
#[derive(Clone, Debug)]
pub struct TaskRow {
    /// Name and ids, or name and number of threads.
    label: String,
    sums: TaskSums,
}

impl TaskRow {
    /// Returns a line for a thread: `comm[tid/pid]`.
    fn of_thread(task: &TaskSums) -> Self {
        let comm = printable(&task.comm);
        let label = match task.pid.filter(|pid| *pid != task.tid) {
            Some(pid) => format!("{comm}[{}/{pid}]", task.tid),
            None => format!("{comm}[{}]", task.tid),
        };
        Self { label, sums: task.clone() }
    }
}

/// Returns a line per thread, in display order.
#[must_use]
pub fn rows_by_thread(sched: &Sched, by: SortKey) -> Vec<TaskRow> {
    sorted_tasks(sched, by).into_iter().map(TaskRow::of_thread).collect()
}

/// Returns a line per command, in display order: `comm[tid]` for one thread, `comm:(N)` for N
/// threads of this name, as in perf.
#[must_use]
pub fn rows_by_command(sched: &Sched, by: SortKey) -> Vec<TaskRow> {
    let mut commands: HashMap<&[u8], (TaskRow, usize)> = HashMap::new();
    for task in sched.tasks() {
        commands
            .entry(&task.comm)
            .and_modify(|(row, threads)| {
                row.sums.add_all(task);
                *threads += 1;
            })
            .or_insert_with(|| (TaskRow::of_thread(task), 1));
    }
    let mut rows: Vec<_> = commands
        .into_values()
        .map(|(mut row, threads)| {
            if threads > 1 {
                row.label = format!("{}:({threads})", printable(&row.sums.comm));
            }
            row
        })
        .collect();
    rows.sort_by(|a, b| by.compare(&a.sums, &b.sums));
    rows
}

fn add_waits(into: &mut String, waits: &Waits) {
    let micro = |ns: f64| ns / 1e3;
    let _ = write!(
        into,
        " {:>9} {:>10.3} {:>9.2} {:>9.2} {:>9.2} {:>10.2}",
        waits.count,
        waits.total_ns as f64 / 1e6,
        micro(waits.mean_ns()),
        micro(waits.quantile_ns(0.5)),
        micro(waits.quantile_ns(0.99)),
        micro(waits.max_ns as f64)
    );
}

const WAITS: &str = "    waits    wait ms   mean us    p50 us    p99 us     max us";

/// Formats the rows, and their sum. `max at` is in seconds of the actions' clock.
#[must_use]
pub fn task_table(rows: &[TaskRow]) -> String {
    let mut into = String::new();
    let _ = writeln!(
        into,
        "{:<TASK$} {:>11} {:>9} {:>9} {:>10} {WAITS}     max at s",
        "task", "run ms", "switches", "preempted", "migrations"
    );
    let mut all = TaskSums::new(0);
    for TaskRow { label, sums: task } in rows {
        add_line(&mut into, label, task);
        if task.waits.count > 0 {
            let ns = task.waits.max_at_ns;
            let _ = write!(into, " {:>5}.{:06}", ns / 1_000_000_000, ns / 1_000 % 1_000_000);
        }
        into.push('\n');
        all.add_all(task);
    }
    add_line(&mut into, "total", &all);
    into.push('\n');
    into
}

fn add_line(into: &mut String, label: &str, task: &TaskSums) {
    let _ = write!(
        into,
        "{label:<TASK$} {:>11.3} {:>9} {:>9} {:>10}",
        task.run_ns as f64 / 1e6,
        task.switches,
        task.preempted,
        task.migrations
    );
    add_waits(into, &task.waits);
}

/// Formats a line per CPU. Shares are of the observed time; with `all`, the idle time too.
#[must_use]
pub fn cpu_table(sched: &Sched, all: bool) -> String {
    let mut into = String::new();
    let idle = if all { "     idle ms  idle %" } else { "" };
    let _ = writeln!(
        into,
        "{:>4} {:>11} {:>7}{idle} {:>9} {:>10} {WAITS}",
        "CPU", "run ms", "run %", "switches", "migrations"
    );
    let seen_ns = sched.seen_ns();
    let percent = |ns: u64| if seen_ns == 0 { 0.0 } else { 100.0 * ns as f64 / seen_ns as f64 };
    for (cpu, sums) in sched.cpus() {
        let _ = write!(
            into,
            "{cpu:>4} {:>11.3} {:>7.2}",
            sums.run_ns as f64 / 1e6,
            percent(sums.run_ns)
        );
        if all {
            let _ =
                write!(into, " {:>11.3} {:>7.2}", sums.idle_ns as f64 / 1e6, percent(sums.idle_ns));
        }
        let _ = write!(into, " {:>9} {:>10}", sums.switches, sums.migrations);
        add_waits(&mut into, &sums.waits);
        into.push('\n');
    }
    into
}

/// Formats a distribution, one line per power of two, from the shortest to the longest duration. A
/// bucket is its first nanosecond, the first one beyond it, and its count.
#[must_use]
pub fn histogram_lines(buckets: impl Iterator<Item = (u64, u64, u64)>) -> String {
    let mut powers: BTreeMap<u32, u64> = BTreeMap::new();
    // The bucket that begins at 0 ends above a power of two.
    let mut end_of_first = 0;
    for (from, to, count) in buckets {
        *powers.entry(from.checked_ilog2().unwrap_or(0)).or_default() += count;
        if from == 0 {
            end_of_first = to;
        }
    }
    let mut into = String::new();
    let most = powers.values().copied().max().unwrap_or(1);
    let Some(last) = powers.keys().next_back().copied() else { return into };
    let first = powers.keys().next().copied().unwrap_or(last);
    for power in first..=last {
        let is_first = power == 0 && end_of_first > 0;
        let from = if is_first { 0 } else { (1 << power).max(end_of_first) };
        let to = if is_first { end_of_first } else { 2 << power };
        if to <= from {
            continue;
        }
        let count = powers.get(&power).copied().unwrap_or(0);
        let filled =
            usize::try_from(u128::from(count) * BAR as u128 / u128::from(most)).unwrap_or(BAR);
        let bar = "#".repeat(filled.max(usize::from(count > 0)));
        let _ =
            writeln!(into, "{:>20} {:>10} {count:10} |{bar:BAR$}|", duration(from), duration(to));
    }
    into
}

/// Formats a histogram bound with its unit.
fn duration(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => (ns as f64, "ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    if ns < 1_000 { format!("{value} {unit}") } else { format!("{value:.2} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::super::event::{SchedAction, State, Task};
    use super::super::slices::SchedOptions;
    use super::*;

    /// Bounds and counts of the lines of a distribution.
    fn rows(buckets: &[(u64, u64, u64)]) -> Vec<String> {
        let lines = histogram_lines(buckets.iter().copied());
        let row = |line: &str| {
            let words: Vec<&str> = line.split('|').next().unwrap().split_whitespace().collect();
            words.join(" ")
        };
        lines.lines().map(row).collect()
    }

    /// Two workers run for 10 and 20 ns, and one other task for 25 ns.
    #[test]
    fn threads_of_one_name_share_a_line_by_command() {
        let mut sched = Sched::new(SchedOptions::default());
        let task = |tid, comm| Task { tid, pid: Some(tid), comm, is_selected: true };
        let worker = |tid| task(tid, &b"worker"[..]);
        let idle = task(0, b"swapper");
        let runs = [(10, worker(7), 20), (30, worker(8), 50), (60, task(9, b"other"), 85)];
        for (from_ns, task, to_ns) in runs {
            let switch = |prev, next| SchedAction::Switch { cpu: 0, prev, state: State(1), next };
            sched.add_action(from_ns, &switch(idle, task));
            sched.add_action(to_ns, &switch(task, idle));
        }
        let lines = |rows: &[TaskRow]| -> Vec<(String, u64, u64)> {
            rows.iter().map(|row| (row.label.clone(), row.sums.run_ns, row.sums.switches)).collect()
        };
        let line = |label: &str, run_ns, switches| (label.to_owned(), run_ns, switches);
        assert_eq!(
            lines(&rows_by_command(&sched, SortKey::Runtime)),
            [line("worker:(2)", 30, 2), line("other[9]", 25, 1)]
        );
        assert_eq!(
            lines(&rows_by_thread(&sched, SortKey::Runtime)),
            [line("other[9]", 25, 1), line("worker[8]", 20, 1), line("worker[7]", 10, 1)]
        );
    }

    #[test]
    fn lines_of_a_distribution_have_the_bounds_of_its_buckets() {
        let expected = ["0 ns 40 ns 7", "40 ns 64 ns 2", "64 ns 128 ns 1"];
        assert_eq!(rows(&[(0, 40, 7), (40, 48, 2), (64, 80, 1)]), expected);
        assert_eq!(rows(&[(64, 80, 1)]), ["64 ns 128 ns 1"]);
        let with_gap = ["32 ns 64 ns 3", "64 ns 128 ns 0", "128 ns 256 ns 1"];
        assert_eq!(rows(&[(32, 40, 3), (128, 160, 1)]), with_gap);
    }
}
