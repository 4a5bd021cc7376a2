//! Writes scheduling events as lines or sums, in text or JSON.

use std::io::{BufWriter, Write};

use anyhow::Context;
use serde_json::json;
use tare_render::count;
use tare_trace::sched::{
    CpuMap, JSON_VERSION, Sched, SchedAction, SchedOptions, Timehist, Waits, cpu_table,
    histogram_lines, rows_by_command, rows_by_thread, sorted_tasks, sums_document, switch_object,
    task_table,
};

use crate::cli::resolved::sched::{self as resolved, SchedForm};
use crate::exit::say;

/// Bytes of text after which it is written.
const CHUNK: usize = 1 << 16;

/// Lines of text that switches become.
enum SwitchLines {
    Timehist(Timehist),
    Map(CpuMap),
    /// Objects of JSON, or only sums at the end.
    None,
}

/// Lists context switches, or sums them up.
pub(super) struct SchedOutput<'a> {
    options: &'a resolved::Sched,
    out: BufWriter<Box<dyn Write>>,
    sched: Sched,
    lines: SwitchLines,
    text: Vec<u8>,
    from_ns: u64,
    to_ns: u64,
}

impl<'a> SchedOutput<'a> {
    /// Creates the output. Only the time from `from_ns` to `to_ns` counts.
    pub(super) fn new(
        options: &'a resolved::Sched,
        out: BufWriter<Box<dyn Write>>,
        from_ns: u64,
        to_ns: u64,
    ) -> Self {
        let mut text = Vec::new();
        let lines = match options.form {
            SchedForm::Timehist(form) if !options.json => {
                SwitchLines::Timehist(Timehist::new(form, &mut text))
            }
            SchedForm::Map => SwitchLines::Map(CpuMap::default()),
            SchedForm::Timehist(_) => {
                text.extend_from_slice(
                    format!("{}\n", json!({ "version": JSON_VERSION })).as_bytes(),
                );
                SwitchLines::None
            }
            SchedForm::Sums { .. } => SwitchLines::None,
        };
        let only_slices = options.form.lists_switches();
        let cpus = options.cpus.clone();
        let sched = Sched::new(SchedOptions { from_ns, to_ns, cpus, only_slices });
        Self { options, out, sched, lines, text, from_ns, to_ns }
    }

    /// Adds an action.
    pub(super) fn add_action(
        &mut self,
        time_ns: u64,
        action: &SchedAction<'_>,
    ) -> anyhow::Result<()> {
        let slice = self.sched.add_action(time_ns, action);
        match (&mut self.lines, self.options.form) {
            (SwitchLines::Timehist(lines), _) => {
                lines.add(time_ns, action, slice.as_ref(), &mut self.text);
            }
            (SwitchLines::Map(map), _) if (self.from_ns..=self.to_ns).contains(&time_ns) => {
                map.add(time_ns, action, &self.options.cpus, &mut self.text);
            }
            (SwitchLines::None, SchedForm::Timehist(_)) => {
                if let Some(object) = slice.and_then(|slice| switch_object(action, &slice)) {
                    self.text.extend_from_slice(format!("{object}\n").as_bytes());
                }
            }
            _ => {}
        }
        if self.text.len() >= CHUNK { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> anyhow::Result<()> {
        let written = self.out.write_all(&self.text);
        self.text.clear();
        written.context("cannot write the results")
    }

    /// Writes the collected text and flushes.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        self.write()?;
        self.out.flush().context("cannot write the results")
    }

    /// Writes the sums or the remaining text, and flushes. `time_ns` is the end of the trace, if
    /// known; `all`: all tasks were selected; `missing`: number of lost records.
    pub(super) fn finish(
        mut self,
        time_ns: Option<u64>,
        all: bool,
        missing: u64,
    ) -> anyhow::Result<()> {
        self.sched.finish(time_ns);
        if let SchedForm::Sums { by, per_thread, histogram } = self.options.form {
            let tasks = sorted_tasks(&self.sched, by);
            if self.options.json {
                let document = sums_document(&self.sched, &tasks, all, missing);
                let text = tare_format::json::to_string_pretty(&document)? + "\n";
                self.text = text.into_bytes();
            } else {
                let rows = match per_thread {
                    true => rows_by_thread(&self.sched, by),
                    false => rows_by_command(&self.sched, by),
                };
                let mut text = format!("{}\n{}", task_table(&rows), cpu_table(&self.sched, all));
                if histogram {
                    let mut waits = Waits::default();
                    tasks.iter().for_each(|task| waits.add_all(&task.waits));
                    let lines = histogram_lines(waits.buckets());
                    text.push_str(&format!(
                        "\nCPU Wait Latency Distribution Histogram, of all tasks:\n{lines}"
                    ));
                }
                self.text = text.into_bytes();
            }
        }
        self.flush()?;
        let uncounted_switches = self.sched.uncounted_switches();
        if uncounted_switches > 0 {
            say(&format!(
                "{} not counted, because the table of tasks is full",
                count(uncounted_switches, "switch")
            ));
        }
        Ok(())
    }
}
