//! Context switches, and on request wake-ups and migrations, as lines of `perf sched timehist`.

use std::io::Write as _;

use tare_format::printable;

use super::event::{SchedAction, Slice, Task};

/// Width of the task column; longer names push the other columns.
const TASK: usize = 30;

/// Optional lines and columns.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // each is an option
pub struct TimehistOptions {
    /// Lines for wake-ups.
    pub wakeups: bool,
    /// Lines for migrations.
    pub migrations: bool,
    /// The state in which a task leaves its CPU.
    pub state: bool,
    /// The next task.
    pub next: bool,
}

/// Writes the lines.
#[derive(Clone, Debug)]
pub struct Timehist {
    options: TimehistOptions,
}

impl Timehist {
    /// Writes the column titles.
    pub fn new(options: TimehistOptions, into: &mut Vec<u8>) -> Self {
        let state = if options.state { "  state" } else { "" };
        let dots = "-".repeat(15);
        let rule = "-".repeat(9);
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

    /// Appends the line of an action, if it has one; `slice` is the one that a switch ended.
    pub fn add(
        &self,
        time_ns: u64,
        action: &SchedAction<'_>,
        slice: Option<&Slice>,
        into: &mut Vec<u8>,
    ) {
        match action {
            SchedAction::Switch { cpu, prev, state, next } => {
                let Some(slice) = slice.filter(|_| prev.is_selected) else { return };
                add_place(into, slice.time_ns, *cpu);
                add_task(into, prev);
                for ns in [slice.wait_ns, slice.delay_ns, slice.run_ns] {
                    add_milliseconds(into, ns);
                }
                if self.options.state {
                    let letter = if prev.tid == 0 { 'I' } else { state.letter() };
                    let _ = write!(into, "  {letter:>5}");
                }
                if self.options.next {
                    let _ = write!(into, "  next: {}[{}]", printable(next.comm), next.tid);
                }
                into.push(b'\n');
            }
            SchedAction::Wakeup { cpu, waker, task }
                if self.options.wakeups && task.is_selected =>
            {
                begin_line(into, time_ns, *cpu, waker);
                into.extend_from_slice(b"awakened: ");
                add_label(into, task);
                into.push(b'\n');
            }
            SchedAction::Migrate { cpu, mover, task, from, to }
                if self.options.migrations && task.is_selected =>
            {
                begin_line(into, time_ns, *cpu, mover);
                into.extend_from_slice(b"migrated: ");
                add_label(into, task);
                let _ = writeln!(into, " cpu {from} => {to}");
            }
            _ => {}
        }
    }
}

/// Begins the line of an action that isn't a switch: place and task, and no times.
fn begin_line(into: &mut Vec<u8>, time_ns: u64, cpu: u32, current: &Task<'_>) {
    add_place(into, time_ns, cpu);
    add_task(into, current);
    let _ = write!(into, "{:35}", "");
}

// These functions write most of the output, so they bypass `std::fmt`.

fn add_place(into: &mut Vec<u8>, time_ns: u64, cpu: u32) {
    add_padded(into, time_ns / 1_000_000_000, 8);
    into.push(b'.');
    into.extend_from_slice(&last_digits::<6>(time_ns / 1_000));
    into.extend_from_slice(b" [");
    if cpu < 10_000 {
        into.extend_from_slice(&last_digits::<4>(cpu.into()));
    } else {
        add_padded(into, cpu.into(), 4);
    }
    into.extend_from_slice(b"]  ");
}

fn add_task(into: &mut Vec<u8>, task: &Task<'_>) {
    let start = into.len();
    let is_ascii = add_label(into, task);
    let written = &into[start..];
    let width = if is_ascii {
        written.len()
    } else {
        // Count the first byte of each character; continuation bytes are 10xxxxxx.
        written.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
    };
    into.resize(into.len() + TASK.saturating_sub(width), b' ');
}

/// Appends `comm[tid/pid]`, `comm[tid]` for a process's first thread, or `<idle>`. Returns whether
/// the name was printable ASCII.
fn add_label(into: &mut Vec<u8>, task: &Task<'_>) -> bool {
    if task.tid == 0 {
        into.extend_from_slice(b"<idle>");
        return true;
    }
    let is_ascii = task.comm.iter().all(|byte| (b' '..=b'~').contains(byte));
    if is_ascii {
        into.extend_from_slice(task.comm);
    } else {
        into.extend_from_slice(printable(task.comm).as_bytes());
    }
    into.push(b'[');
    add_number(into, task.tid);
    if let Some(pid) = task.pid.filter(|pid| *pid != task.tid) {
        into.push(b'/');
        add_number(into, pid);
    }
    into.push(b']');
    is_ascii
}

fn add_number(into: &mut Vec<u8>, number: i32) {
    if number < 0 {
        into.push(b'-');
    }
    add_padded(into, u64::from(number.unsigned_abs()), 1);
}

fn add_milliseconds(into: &mut Vec<u8>, ns: u64) {
    let us = ns / 1_000;
    if us < 10_000 {
        let [ms, a, b, c] = last_digits(us);
        into.extend_from_slice(&[b' ', b' ', b' ', b' ', b' ', b' ', ms, b'.', a, b, c]);
    } else {
        into.extend_from_slice(b"  ");
        add_padded(into, us / 1_000, 5);
        into.push(b'.');
        into.extend_from_slice(&last_digits::<3>(us));
    }
}

/// Returns the last digits of a number, with leading zeros.
fn last_digits<const COUNT: usize>(mut number: u64) -> [u8; COUNT] {
    let mut digits = [b'0'; COUNT];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    digits
}

/// Appends a number, padded with spaces to `width`.
fn add_padded(into: &mut Vec<u8>, mut number: u64, width: usize) {
    // A u64 has at most 20 digits.
    let mut text = [b' '; 20];
    let mut at = text.len();
    loop {
        at -= 1;
        text[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    into.extend_from_slice(&text[at.min(text.len().saturating_sub(width))..]);
}

#[cfg(test)]
mod tests {
    use super::super::event::State;
    use super::*;

    #[test]
    fn formats_lines_as_perf_does() {
        let mut text = Vec::new();
        let options =
            TimehistOptions { wakeups: true, state: true, next: true, ..Default::default() };
        let lines = Timehist::new(options, &mut text);
        let task = |tid, comm| Task { tid, pid: Some(7), comm, is_selected: true };
        let slice = Slice {
            time_ns: 79_371_874_569_999,
            wait_ns: 14_999,
            run_ns: 1_148_000,
            ..Slice::default()
        };
        let switch = SchedAction::Switch {
            cpu: 11,
            prev: task(8, b"a\x1bb"),
            state: State(1),
            next: task(9, b"c"),
        };
        lines.add(0, &switch, Some(&slice), &mut text);
        lines.add(0, &switch, None, &mut text);
        let wake =
            SchedAction::Wakeup { cpu: 0, waker: task(0, b"swapper"), task: task(7, b"gcc") };
        lines.add(1_000, &wake, None, &mut text);
        let slice = Slice {
            time_ns: 123_456_789_012_345_678,
            wait_ns: 9_999_999,
            delay_ns: 10_000_000,
            run_ns: 1_234_567_890_123,
            ..Slice::default()
        };
        let prev = task(i32::MAX, "größe".as_bytes());
        let next = task(-1, b"");
        let switch = SchedAction::Switch { cpu: 123_456, prev, state: State(0), next };
        lines.add(0, &switch, Some(&slice), &mut text);
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<_> = text.lines().skip(3).collect();
        assert_eq!(
            lines,
            [
                "   79371.874569 [0011]  a\\u{1b}b[8/7]                       0.014      0.000      1.148      S  next: c[9]",
                "       0.000001 [0000]  <idle>                                                           awakened: gcc[7]",
                "123456789.012345 [123456]  größe[2147483647/7]                 9.999     10.000  1234567.890      R  next: [-1]",
            ]
        );
    }
}
