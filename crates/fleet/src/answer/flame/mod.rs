//! Where is the time, by call chain?
//!
//! ```text
//! rows -> FlameGraph (call chains with their sums) -> CallTree -> text, JSON, folded stacks
//!                                                  \-> page
//! ```

mod page;
mod tree;
mod write;

use std::collections::HashMap;
use std::io::{self, Write};

use foldhash::fast::RandomState;
use indexmap::IndexSet;

use crate::answer::AnswerFormat;
use crate::engine::{Engine, RunControl};
use crate::error::FleetError;
use crate::question::{Grouping, Request};
use crate::rows::{Part, RowValue};

/// Most frames of a call chain that are kept.
const MAX_DEPTH: usize = 1 << 16;

/// Sums by call chain. Texts are numbers of `texts`, counted from 1; 0 is NULL.
pub struct FlameGraph {
    /// What is shown, in words.
    title: String,
    texts: IndexSet<String, RandomState>,
    /// Distinct frames: function and module.
    frames: IndexSet<[u32; 2], RandomState>,
    /// Indexes of all stacks' frames, innermost first.
    chains: Vec<u32>,
    /// Begin and end of a stack in `chains`.
    stacks: HashMap<i64, [usize; 2], RandomState>,
    sums: Vec<StackSum>,
}

/// Sums of a stack by event, label and wait reason.
#[derive(Clone, Copy)]
struct StackSum {
    event: u32,
    name: u32,
    reason: u32,
    stack: i64,
    samples: i64,
    weight: i64,
}

impl FlameGraph {
    /// Asks an engine.
    ///
    /// # Errors
    /// Fails if the engine does, if the time is over or the caller gave up, and if the rows
    /// contradict each other.
    pub fn ask(
        request: &Request,
        by: Grouping,
        engine: &dyn Engine,
        control: &RunControl<'_>,
    ) -> Result<Self, FleetError> {
        if by.has_callers() {
            let message = format!("flame: --by takes a label, not {}", by.name());
            return Err(FleetError::Question(message));
        }
        let mut graph = Self::new(title(request, by));
        engine.rows(request, control, &mut |part, row| {
            let is_right = match part {
                Part::Frames => graph.add_frame(row),
                _ => graph.add_sum(row),
            };
            let message = || format!("{row:?}");
            is_right.ok_or_else(|| FleetError::Row { engine: engine.name(), message: message() })
        })?;
        Ok(graph)
    }

    fn new(title: String) -> Self {
        Self {
            title,
            texts: IndexSet::default(),
            frames: IndexSet::default(),
            chains: Vec::new(),
            stacks: HashMap::default(),
            sums: Vec::new(),
        }
    }

    fn number(&mut self, text: Option<&str>) -> u32 {
        let Some(text) = text else { return 0 };
        let at = self.texts.get_index_of(text);
        let at = at.unwrap_or_else(|| self.texts.insert_full(text.to_owned()).0);
        u32::try_from(at + 1).unwrap_or(0)
    }

    fn text(&self, number: u32) -> Option<&str> {
        self.texts.get_index((number as usize).checked_sub(1)?).map(String::as_str)
    }

    /// Adds a row of [`Part::Stacks`]; `None` if it can't be one.
    fn add_sum(&mut self, row: &[RowValue<'_>]) -> Option<()> {
        let [event, name, reason] = [0, 1, 2].map(|at| self.number(row[at].text()));
        let [stack, samples, weight] = [3, 4, 5].map(|at| row[at].int());
        self.sums.push(StackSum { event, name, reason, stack, samples, weight });
        (samples >= 0 && weight >= 0).then_some(())
    }

    /// Adds a row of [`Part::Frames`], which are sorted by stack and depth; `None` if it isn't one.
    fn add_frame(&mut self, row: &[RowValue<'_>]) -> Option<()> {
        let depth = usize::try_from(row[1].int()).ok()?;
        let frame = [2, 3].map(|at| self.number(row[at].text()));
        let end = self.chains.len();
        let [begin, known_end] = self.stacks.entry(row[0].int()).or_insert([end, end]);
        // A depth without a row is a frame about which nothing is known.
        if *known_end != end || depth < end - *begin {
            return None;
        }
        if depth < MAX_DEPTH {
            let unknown = index(self.frames.insert_full([0, 0]).0);
            self.chains.resize(*begin + depth, unknown);
            self.chains.push(index(self.frames.insert_full(frame).0));
            *known_end = self.chains.len();
        }
        Some(())
    }

    /// Returns the frames of a stack, innermost first.
    fn chain(&self, stack: i64) -> &[u32] {
        self.stacks.get(&stack).map_or(&[], |[begin, end]| &self.chains[*begin..*end])
    }

    /// Returns the function and the module of a frame.
    fn frame(&self, frame: u32) -> [Option<&str>; 2] {
        let texts = self.frames.get_index(frame as usize).copied().unwrap_or_default();
        texts.map(|number| self.text(number))
    }

    /// Writes the answer: a tree as text or JSON, folded stacks as CSV, or a page.
    ///
    /// # Errors
    /// Fails if `out` can't be written.
    pub fn write(&self, format: AnswerFormat, out: &mut dyn Write) -> io::Result<()> {
        match format {
            AnswerFormat::Text => write::text(self, out),
            AnswerFormat::Json => write::json(self, out),
            AnswerFormat::Csv => write::csv(self, out),
            AnswerFormat::Page => page::write(self, out),
        }
    }
}

fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Returns what is shown, in words.
fn title(request: &Request, by: Grouping) -> String {
    let selection = &request.selection;
    let time = |word: &str, time_us: Option<i64>| {
        time_us.map(|time_us| format!("{word} {}", crate::time::rfc3339(time_us)))
    };
    let conditions = selection.conditions.iter().map(|condition| condition.text().to_owned());
    let times = [time("since", selection.since_us), time("until", selection.until_us)];
    let words: Vec<String> = conditions.chain(times.into_iter().flatten()).collect();
    let words = if words.is_empty() { "all samples".to_owned() } else { words.join(", ") };
    format!("{words}, by {}", by.name())
}

#[cfg(test)]
mod tests;
