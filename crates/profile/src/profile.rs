//! The tables of a profile, and how they are filled.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use indexmap::IndexMap;

use crate::detail::{Detail, Value};
use crate::ids::{
    DetailsId, DsoId, EventId, FrameId, Id, RowId, Set, StackId, StringId, SymbolId, ThreadId, pair,
};
use crate::losses::Losses;
use crate::stacks::Stacks;
use crate::tables::{Dso, ExactCount, ProfileEvent, ProfileFrame, Symbol, Thread, Weight};

/// What alike samples have in common. What no sort key needs may be left out: fewer rows are then
/// told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The event.
    pub event: EventId,
    /// The thread.
    pub thread: Option<ThreadId>,
    /// The thread's name at that time.
    pub comm: Option<StringId>,
    /// The CPU.
    pub cpu: Option<u32>,
    /// Where the CPU was.
    pub leaf: Option<FrameId>,
    /// The call chain, if recorded and requested.
    pub stack: Option<StackId>,
    /// The fields of a tracepoint, as text.
    pub trace: Option<StringId>,
    /// What else tells it apart; `None` where nothing else is asked for.
    pub details: Option<DetailsId>,
}

impl Hash for Row {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(pair(self.thread, self.comm));
        state.write_u64(pair(self.leaf, self.stack));
        state.write_u64(pair(Some(self.event), self.trace));
        let details = pair(None::<EventId>, self.details);
        state.write_u64(u64::from(self.cpu.unwrap_or(u32::MAX)) << 32 | details);
    }
}

/// Samples, summed up.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    strings: Set<Box<[u8]>>,
    events: Vec<ProfileEvent>,
    threads: Set<Thread>,
    dsos: Set<Dso>,
    symbols: Set<Symbol>,
    frames: Set<ProfileFrame>,
    stacks: Stacks,
    pub(crate) detail_keys: Vec<Detail>,
    pub(crate) details: Set<Box<[Value]>>,
    pub(crate) rows: Set<Row>,
    pub(crate) weights: Vec<Weight>,
    names: IndexMap<ThreadId, StringId>,
    counts: IndexMap<(ThreadId, EventId), u64>,
    pub(crate) counted: Vec<ExactCount>,
    /// What is not in the rows.
    pub losses: Losses,
}

/// Which row each row has become when its frames were replaced.
#[derive(Clone, Debug, Default)]
pub struct ReplacedRows(Vec<RowId>);

impl ReplacedRows {
    /// What a row is by now; `None` for one that wasn't there.
    #[must_use]
    pub fn get(&self, before: RowId) -> Option<RowId> {
        self.0.get(before.index()).copied()
    }
}

impl Profile {
    /// Keeps a text.
    pub fn add_string(&mut self, text: &[u8]) -> StringId {
        self.strings.find_bytes(text).unwrap_or_else(|| self.strings.insert(text.into()))
    }

    /// Names the event at a place in the recording, counted from 0. Events are named in order; a
    /// later name replaces the first.
    pub fn name_event(&mut self, location: usize, name: StringId) -> EventId {
        match self.events.get_mut(location) {
            Some(event) => event.name = name,
            None => self.events.push(ProfileEvent { name }),
        }
        EventId::from_index(location.min(self.events.len() - 1))
    }

    /// Keeps a thread.
    pub fn add_thread(&mut self, thread: Thread) -> ThreadId {
        self.threads.insert(thread)
    }

    /// Keeps a file.
    pub fn add_dso(&mut self, dso: Dso) -> DsoId {
        self.dsos.insert(dso)
    }

    /// Keeps a function.
    pub fn add_symbol(&mut self, symbol: Symbol) -> SymbolId {
        self.symbols.insert(symbol)
    }

    /// Keeps a frame.
    pub fn add_frame(&mut self, frame: ProfileFrame) -> FrameId {
        self.frames.insert(frame)
    }

    /// Keeps a call chain, the innermost frame first; `None` where there are no frames.
    pub fn add_stack(&mut self, frames: &[FrameId]) -> Option<StackId> {
        self.stacks.insert(frames)
    }

    /// Adds samples that are alike.
    pub fn add_samples(&mut self, row: Row, weight: Weight) -> RowId {
        let id: RowId = self.rows.insert(row);
        if self.weights.len() < self.rows.len() {
            self.weights.resize(self.rows.len(), Weight::default());
        }
        self.add_to_row(id, weight);
        id
    }

    /// Adds samples to a row that is there.
    pub fn add_to_row(&mut self, row: RowId, weight: Weight) {
        if let Some(sum) = self.weights.get_mut(row.index()) {
            sum.add(weight);
        }
    }

    /// Takes all samples out. The tables stay.
    pub(crate) fn clear_rows(&mut self) {
        (self.rows, self.weights) = (Set::default(), Vec::new());
    }

    /// Takes samples out: those of rows for which `goes` holds. Returns what they weigh.
    pub fn remove_rows(&mut self, mut goes: impl FnMut(&Self, &Row) -> bool) -> Weight {
        let mut removed = Weight::default();
        // Usually there are no such rows.
        if !self.rows().any(|(row, _)| goes(self, row)) {
            return removed;
        }
        let mut rows = Set::default();
        let mut weights = Vec::new();
        for (row, weight) in self.rows() {
            if goes(self, row) {
                removed.add(weight);
            } else {
                let _: RowId = rows.insert(*row);
                weights.push(weight);
            }
        }
        (self.rows, self.weights) = (rows, weights);
        removed
    }

    /// Replaces frames: `leaf` returns the frame of a sample, and `frames` appends those for a
    /// frame of a call chain, innermost first; its last argument says whether the previous frame is
    /// in the same space and was called by this one. Returns the new row of each row.
    pub fn replace_frames(
        &mut self,
        leaf: impl Fn(FrameId) -> FrameId,
        frames: impl Fn(FrameId, bool, &mut Vec<FrameId>),
    ) -> ReplacedRows {
        let stacks = std::mem::take(&mut self.stacks);
        let mut replaced: HashMap<StackId, Option<StackId>, foldhash::fast::RandomState> =
            HashMap::default();
        let mut chain = Vec::new();
        let mut now = Vec::new();
        let rows = std::mem::take(&mut self.rows);
        let weights = std::mem::take(&mut self.weights);
        for (row, weight) in rows.iter().zip(weights) {
            let stack = row.stack.and_then(|stack| {
                *replaced.entry(stack).or_insert_with(|| {
                    chain.clear();
                    let mut space_before = None;
                    for frame in stacks.get(stack) {
                        let space = self.frames.get(*frame).map(|frame| frame.space);
                        let is_caller = space_before.replace(space) == Some(space);
                        frames(*frame, is_caller, &mut chain);
                    }
                    self.stacks.insert(&chain)
                })
            });
            now.push(self.add_samples(Row { leaf: row.leaf.map(&leaf), stack, ..*row }, weight));
        }
        ReplacedRows(now)
    }

    /// Says what a thread was called last.
    pub fn name_thread(&mut self, thread: ThreadId, name: StringId) {
        self.names.insert(thread, name);
    }

    /// Adds to what an event counted in a thread.
    pub fn add_count(&mut self, thread: ThreadId, event: EventId, count: u64) {
        let sum = self.counts.entry((thread, event)).or_default();
        *sum = sum.saturating_add(count);
    }

    /// What events counted in threads, where that was recorded.
    pub fn counts(&self) -> impl Iterator<Item = (ThreadId, EventId, u64)> {
        self.counts.iter().map(|((thread, event), count)| (*thread, *event, *count))
    }

    /// What a thread was called last.
    #[must_use]
    pub fn name_of(&self, thread: ThreadId) -> Option<StringId> {
        self.names.get(&thread).copied()
    }

    /// A text; empty where the id is another profile's.
    #[must_use]
    pub fn string(&self, id: StringId) -> &[u8] {
        self.strings.get(id).map_or(&[], |text| text)
    }

    /// The events, with their ids.
    pub fn events(&self) -> impl Iterator<Item = (EventId, &ProfileEvent)> {
        self.events.iter().enumerate().map(|(index, event)| (EventId::from_index(index), event))
    }

    /// An event.
    #[must_use]
    pub fn event(&self, id: EventId) -> Option<&ProfileEvent> {
        self.events.get(id.index())
    }

    /// A thread.
    #[must_use]
    pub fn thread(&self, id: ThreadId) -> Option<&Thread> {
        self.threads.get(id)
    }

    /// A file.
    #[must_use]
    pub fn dso(&self, id: DsoId) -> Option<&Dso> {
        self.dsos.get(id)
    }

    /// A function.
    #[must_use]
    pub fn symbol(&self, id: SymbolId) -> Option<&Symbol> {
        self.symbols.get(id)
    }

    /// A frame.
    #[must_use]
    pub fn frame(&self, id: FrameId) -> Option<&ProfileFrame> {
        self.frames.get(id)
    }

    /// All frames, in the order of their ids.
    pub(crate) fn frame_ids(&self) -> impl Iterator<Item = FrameId> + use<> {
        (0..self.frames.len()).map(FrameId::from_index)
    }

    /// The frames of a call chain, the innermost first; none where there is no chain.
    #[must_use]
    pub fn frames_of(&self, id: Option<StackId>) -> &[FrameId] {
        id.map_or(&[], |id| self.stacks.get(id))
    }

    /// The rows, with what they weigh.
    pub fn rows(&self) -> impl Iterator<Item = (&Row, Weight)> {
        self.rows.iter().zip(self.weights.iter().copied())
    }

    /// A row, with what it weighs.
    #[must_use]
    pub fn row(&self, id: RowId) -> Option<(&Row, Weight)> {
        Some((self.rows.get(id)?, *self.weights.get(id.index())?))
    }

    /// What all samples of an event weigh.
    #[must_use]
    pub fn total(&self, event: EventId) -> Weight {
        let mut total = Weight::default();
        self.rows().filter(|(row, _)| row.event == event).for_each(|(_, weight)| total.add(weight));
        total
    }
}
