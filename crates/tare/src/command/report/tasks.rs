//! `--tasks` and `--mmaps`: the tasks of a recording, as `perf report` lists them.

use std::collections::{BTreeSet, HashMap};
use std::io::Write;

use tare_format::printable;
use tare_replay::{
    Recording, Replay, ReplayOptions, SampleDetail, TaskEntry, TaskList, TaskMapping,
};

/// Longest chain of parents that is listed: a recording can claim any depth.
const DEEPEST: usize = 256;

pub(super) fn write(
    out: &mut dyn Write,
    mut recording: Recording,
    mmaps: bool,
) -> anyhow::Result<()> {
    let mut list = TaskList::default();
    let replay =
        Replay::new(ReplayOptions { detail: SampleDetail::Leaf, ..ReplayOptions::default() });
    replay.run(&mut recording, &mut list)?;
    writeln!(out, "# {:>8} {:>8} {:>8}  comm", "pid", "tid", "ppid")?;
    let known: BTreeSet<i32> = list.tasks().map(|(tid, _)| tid).collect();
    let mut listing = Listing { list: &list, children: HashMap::new(), mmaps };
    let mut first = Vec::new();
    for (tid, task) in list.tasks() {
        if tid == task.ppid || task.ppid < 0 || !known.contains(&task.ppid) {
            first.push((tid, task));
        } else {
            listing.children.entry(task.ppid).or_default().push((tid, task));
        }
    }
    first.into_iter().try_for_each(|(tid, task)| listing.task(out, tid, task, 0))
}

struct Listing<'a> {
    list: &'a TaskList,
    /// The children of each task, in the list's order.
    children: HashMap<i32, Vec<(i32, &'a TaskEntry)>>,
    mmaps: bool,
}

impl Listing<'_> {
    /// Writes a task, with `--mmaps` its mappings, and its descendants.
    fn task(
        &self,
        out: &mut dyn Write,
        tid: i32,
        task: &TaskEntry,
        level: usize,
    ) -> anyhow::Result<()> {
        let TaskEntry { pid, ppid, comm } = task;
        let blank = "";
        writeln!(out, "  {pid:8} {tid:8} {ppid:8} |{blank:level$}{}", printable(comm))?;
        if self.mmaps {
            let mut mappings = self.list.mappings(tid);
            mappings.try_for_each(|(start, mapping)| line(out, start, mapping, level))?;
        }
        if level >= DEEPEST {
            return Ok(());
        }
        let children = self.children.get(&tid).into_iter().flatten();
        children.copied().try_for_each(|(tid, task)| self.task(out, tid, task, level + 1))
    }
}

fn line(
    out: &mut dyn Write,
    start: u64,
    mapping: &TaskMapping,
    level: usize,
) -> anyhow::Result<()> {
    let TaskMapping { end, prot, flags, pgoff, inode, path } = mapping;
    let flag = |is_set: bool, letter: char| if is_set { letter } else { '-' };
    let letters: String = [
        flag(prot & 1 != 0, 'r'),
        flag(prot & 2 != 0, 'w'),
        flag(prot & 4 != 0, 'x'),
        if flags & 1 != 0 { 's' } else { 'p' },
    ]
    .iter()
    .collect();
    let indent = 32 + level;
    let path = printable(path);
    writeln!(out, "{:indent$}{start:x}-{end:x} {letters} {pgoff:08x} {inode} {path}", "")?;
    Ok(())
}
