//! The task on each CPU after each context switch, as lines of `perf sched map`.

use std::collections::HashMap;
use std::io::Write as _;

use tare_format::printable;

use super::event::{SchedAction, Task};

/// Maximum number of CPUs with a column. The kernel's limit on x86 (`NR_CPUS`).
const MOST_CPUS: usize = 8192;

/// Short name of the idle task.
const IDLE: [u8; 2] = *b". ";

/// Writes a line for each switch, with a column for each CPU up to the highest one seen so far.
///
/// Each thread gets a short name of a letter and a digit when it first runs, and the line of that
/// switch explains the name. After Z9 the names begin again at A0, as in perf.
#[derive(Clone, Debug, Default)]
pub struct CpuMap {
    names: HashMap<i32, [u8; 2]>,
    /// The short name of the task on each CPU; `None` before its first switch.
    running: Vec<Option<[u8; 2]>>,
}

impl CpuMap {
    /// Appends the line of a switch, if its CPU is among `cpus` (all if empty).
    pub fn add(
        &mut self,
        time_ns: u64,
        action: &SchedAction<'_>,
        cpus: &[u32],
        into: &mut Vec<u8>,
    ) {
        let SchedAction::Switch { cpu, prev, next, .. } = action else { return };
        let place = usize::try_from(*cpu).unwrap_or(MOST_CPUS);
        let is_wanted = cpus.is_empty() || cpus.contains(cpu);
        if !is_wanted || place >= MOST_CPUS || !(prev.is_selected || next.is_selected) {
            return;
        }
        if self.running.len() <= place {
            self.running.resize(place + 1, None);
        }
        let is_new = next.tid != 0 && !self.names.contains_key(&next.tid);
        let name = self.short_name(next);
        self.running[place] = Some(name);
        into.extend_from_slice(b"  ");
        for (column, running) in self.running.iter().enumerate() {
            into.push(if column == place { b'*' } else { b' ' });
            into.extend_from_slice(&running.unwrap_or(*b"  "));
            into.push(b' ');
        }
        let seconds = time_ns / 1_000_000_000;
        let microseconds = time_ns / 1_000 % 1_000_000;
        let _ = write!(into, "{:>14} secs ", format!("{seconds}.{microseconds:06}"));
        if is_new {
            into.extend_from_slice(&name);
            let _ = write!(into, " => {}:{}", printable(next.comm), next.tid);
        }
        into.push(b'\n');
    }

    /// Returns the short name of a task, which gets the next one if it has none.
    fn short_name(&mut self, task: &Task<'_>) -> [u8; 2] {
        if task.tid == 0 {
            return IDLE;
        }
        let place = self.names.len();
        *self.names.entry(task.tid).or_insert_with(|| {
            // Both remainders are below 26.
            let letter = u8::try_from(place % 26).unwrap_or(0);
            let digit = u8::try_from(place / 26 % 10).unwrap_or(0);
            [b'A' + letter, b'0' + digit]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::State;
    use super::*;

    fn switch(cpu: u32, tid: i32, comm: &'static [u8]) -> SchedAction<'static> {
        let task = |tid, comm| Task { tid, pid: None, comm, is_selected: true };
        SchedAction::Switch { cpu, prev: task(1, b"init"), state: State(0), next: task(tid, comm) }
    }

    #[test]
    fn each_line_shows_the_task_of_each_cpu_as_perf_does() {
        let mut map = CpuMap::default();
        let mut text = Vec::new();
        map.add(73_512_996_027_000, &switch(1, 77, b"kdamond.0"), &[], &mut text);
        map.add(73_512_997_116_000, &switch(0, 24438, b"tidy"), &[], &mut text);
        map.add(73_512_997_499_000, &switch(1, 0, b"swapper/1"), &[], &mut text);
        map.add(73_513_000_026_000, &switch(1, 77, b"kdamond.0"), &[], &mut text);
        map.add(73_513_000_030_000, &switch(2, 77, b"left out"), &[0, 1], &mut text);
        let expected = "      *A0   73512.996027 secs A0 => kdamond.0:77
  *B0  A0   73512.997116 secs B0 => tidy:24438
   B0 *.    73512.997499 secs 
   B0 *A0   73513.000026 secs 
";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn short_names_begin_again_after_260_tasks() {
        let mut map = CpuMap::default();
        let name = |map: &mut CpuMap, tid| map.short_name(&Task { tid, ..Task::default() });
        let names: Vec<_> = (1..=261).map(|tid| name(&mut map, tid)).collect();
        let wanted = [*b"A0", *b"Z0", *b"A1", *b"Z9", *b"A0"];
        assert_eq!([0, 25, 26, 259, 260].map(|at| names[at]), wanted);
    }
}
