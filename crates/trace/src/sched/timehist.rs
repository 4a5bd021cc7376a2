//! Each context switch as a line, as `perf sched timehist` has them.

use std::fmt::Write as _;

use tare_format::printable;

use super::event::{Happened, Slice, Task};

/// How wide the column of tasks is; what is longer pushes the others.
const TASK: usize = 30;

/// What lines show.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // each is an option
pub struct TimehistOptions {
    /// Lines of wake-ups.
    pub wakeups: bool,
    /// Lines of migrations.
    pub migrations: bool,
    /// The state in which a task leaves its CPU.
    pub state: bool,
    /// The task that comes next.
    pub next: bool,
}

/// Writes lines.
#[derive(Clone, Debug)]
pub struct Timehist {
    options: TimehistOptions,
}

impl Timehist {
    /// Begins with the titles.
    pub fn new(options: TimehistOptions, into: &mut String) -> Self {
        let state = if options.state { "  state" } else { "" };
        let (dots, rule) = ("-".repeat(15), "-".repeat(9));
        let _ = writeln!(
            into,
            "{:>15} {:>6}  {:<TASK$}  {:>9}  {:>9}  {:>9}{state}",
            "time", "cpu", "task name", "wait time", "sch delay", "run time"
        );
        let _ = writeln!(
            into,
            "{:15} {:6}  {:<TASK$}  {:>9}  {:>9}  {:>9}",
            "", "", "[tid/pid]", "(msec)", "(msec)", "(msec)"
        );
        let state = if options.state { "  -----" } else { "" };
        let name = "-".repeat(TASK);
        let _ = writeln!(into, "{dots} ------  {name}  {rule}  {rule}  {rule}{state}");
        Self { options }
    }

    /// Adds the line of what happened, if it has one; `slice` is what a switch ended.
    pub fn add(
        &self,
        time_ns: u64,
        happened: &Happened<'_>,
        slice: Option<&Slice>,
        into: &mut String,
    ) {
        match happened {
            Happened::Switch { cpu, prev, state, next } => {
                let Some(slice) = slice.filter(|_| prev.is_meant) else { return };
                place(into, slice.time_ns, *cpu);
                name(into, prev);
                for ns in [slice.wait_ns, slice.delay_ns, slice.run_ns] {
                    milliseconds(into, ns);
                }
                if self.options.state {
                    let letter = if prev.tid == 0 { 'I' } else { state.letter() };
                    let _ = write!(into, "  {letter:>5}");
                }
                if self.options.next {
                    let _ = write!(into, "  next: {}[{}]", printable(next.comm), next.tid);
                }
                into.push('\n');
            }
            Happened::Wakeup { cpu, waker, task } if self.options.wakeups && task.is_meant => {
                between(into, time_ns, *cpu, waker);
                into.push_str("awakened: ");
                label(into, task);
                into.push('\n');
            }
            Happened::Migrate { cpu, mover, task, from, to }
                if self.options.migrations && task.is_meant =>
            {
                between(into, time_ns, *cpu, mover);
                into.push_str("migrated: ");
                label(into, task);
                let _ = writeln!(into, " cpu {from} => {to}");
            }
            _ => {}
        }
    }
}

fn between(into: &mut String, time_ns: u64, cpu: u32, current: &Task<'_>) {
    place(into, time_ns, cpu);
    name(into, current);
    let _ = write!(into, "{:35}", "");
}

// These write most of all that is written, so they don't go through what formats anything.

fn place(into: &mut String, time_ns: u64, cpu: u32) {
    digits(into, time_ns / 1_000_000_000, 8, ' ');
    into.push('.');
    digits(into, time_ns / 1_000 % 1_000_000, 6, '0');
    into.push_str(" [");
    digits(into, u64::from(cpu), 4, '0');
    into.push_str("]  ");
}

fn name(into: &mut String, task: &Task<'_>) {
    const SPACES: &str = "                              ";
    let start = into.len();
    label(into, task);
    let written = &into[start..];
    let width = if written.is_ascii() { written.len() } else { written.chars().count() };
    into.push_str(&SPACES[..TASK.saturating_sub(width).min(SPACES.len())]);
}

/// `comm[tid/pid]`, `comm[tid]` of a process's first thread, `<idle>`.
fn label(into: &mut String, task: &Task<'_>) {
    if task.tid == 0 {
        into.push_str("<idle>");
        return;
    }
    into.push_str(&printable(task.comm));
    into.push('[');
    number(into, task.tid);
    if let Some(pid) = task.pid.filter(|pid| *pid != task.tid) {
        into.push('/');
        number(into, pid);
    }
    into.push(']');
}

fn number(into: &mut String, number: i32) {
    if number < 0 {
        into.push('-');
    }
    digits(into, u64::from(number.unsigned_abs()), 1, '0');
}

fn milliseconds(into: &mut String, ns: u64) {
    into.push_str("  ");
    digits(into, ns / 1_000_000, 5, ' ');
    into.push('.');
    digits(into, ns / 1_000 % 1_000, 3, '0');
}

/// A number with at least so many digits, filled up at its front.
fn digits(into: &mut String, mut number: u64, least: usize, fill: char) {
    // The largest has 20.
    let mut all = [b'0'; 20];
    let mut at = all.len();
    loop {
        at -= 1;
        all[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    for _ in all.len() - at..least {
        into.push(fill);
    }
    into.push_str(std::str::from_utf8(&all[at..]).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::super::event::State;
    use super::*;

    #[test]
    fn lines_are_those_of_perf() {
        let mut text = String::new();
        let options =
            TimehistOptions { wakeups: true, state: true, next: true, ..Default::default() };
        let lines = Timehist::new(options, &mut text);
        let task = |tid, comm| Task { tid, pid: Some(7), comm, is_meant: true };
        let slice = Slice {
            time_ns: 79_371_874_569_999,
            wait_ns: 14_999,
            run_ns: 1_148_000,
            ..Slice::default()
        };
        let switch = Happened::Switch {
            cpu: 11,
            prev: task(8, b"a\x1bb"),
            state: State(1),
            next: task(9, b"c"),
        };
        lines.add(0, &switch, Some(&slice), &mut text);
        lines.add(0, &switch, None, &mut text);
        let wake = Happened::Wakeup { cpu: 0, waker: task(0, b"swapper"), task: task(7, b"gcc") };
        lines.add(1_000, &wake, None, &mut text);
        let lines: Vec<_> = text.lines().skip(3).collect();
        assert_eq!(
            lines,
            [
                "   79371.874569 [0011]  a\\u{1b}b[8/7]                       0.014      0.000      1.148      S  next: c[9]",
                "       0.000001 [0000]  <idle>                                                           awakened: gcc[7]",
            ]
        );
    }
}
