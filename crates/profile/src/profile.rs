//! The profile: tables of names, code and threads, and rows of samples that refer to them.

use std::collections::HashMap;

use crate::detail::{Detail, DetailTable, Value};
use crate::files::FileTable;
use crate::frames::FrameTable;
use crate::ids::{DsoId, EventId, FrameId, Id, RowId, StackId, StringId, SymbolId, ThreadId};
use crate::losses::Losses;
use crate::rows::{Row, RowTable};
use crate::sets::{ListSet, Set};
use crate::tables::{
    Dso, MappedFile, MappedRange, ProfileEvent, ProfileFrame, Symbol, Thread, Weight,
};
use crate::threads::ThreadTable;

/// Summed samples. Ids are valid in the profile that returned them.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    strings: ListSet<u8>,
    events: Vec<ProfileEvent>,
    pub(crate) threads: ThreadTable,
    symbols: Set<Symbol>,
    frames: FrameTable,
    stacks: ListSet<FrameId>,
    files: FileTable,
    pub(crate) details: DetailTable,
    pub(crate) rows: RowTable,
    /// The account of everything that the rows lack.
    pub losses: Losses,
}

/// Maps each row to its new row, after frames were replaced.
#[derive(Clone, Debug, Default)]
pub struct ReplacedRows(Vec<RowId>);

impl ReplacedRows {
    /// Returns the new row of a row; `None` if the id was unknown.
    #[must_use]
    pub fn get(&self, before: RowId) -> Option<RowId> {
        self.0.get(before.index()).copied()
    }
}

impl Profile {
    /// Adds a text. Equal texts are kept once; so are equal threads, files, functions, frames, call
    /// chains and rows.
    pub fn add_string(&mut self, text: &[u8]) -> StringId {
        self.strings.insert(text)
    }

    /// Names the event with this index in the recording. Events must be named in order; a later
    /// name replaces the first.
    pub fn name_event(&mut self, index: usize, name: StringId) -> EventId {
        match self.events.get_mut(index) {
            Some(event) => event.name = name,
            None => self.events.push(ProfileEvent { name }),
        }
        EventId::from_index(index.min(self.events.len() - 1))
    }

    /// Adds a thread.
    pub fn add_thread(&mut self, thread: Thread) -> ThreadId {
        self.threads.insert(thread)
    }

    /// Adds a file.
    pub fn add_dso(&mut self, dso: Dso) -> DsoId {
        self.files.add(dso)
    }

    /// Adds a function.
    pub fn add_symbol(&mut self, symbol: Symbol) -> SymbolId {
        self.symbols.insert(symbol)
    }

    /// Adds a frame.
    pub fn add_frame(&mut self, frame: ProfileFrame) -> FrameId {
        self.frames.insert(frame)
    }

    /// Adds a call chain, the innermost frame first. Returns `None` if there are no frames.
    pub fn add_stack(&mut self, frames: &[FrameId]) -> Option<StackId> {
        (!frames.is_empty()).then(|| self.stacks.insert(frames))
    }

    /// Adds samples that are alike.
    pub fn add_samples(&mut self, row: Row, weight: Weight) -> RowId {
        self.rows.add(row, weight)
    }

    /// Adds samples to an existing row.
    pub fn add_to_row(&mut self, row: RowId, weight: Weight) {
        self.rows.add_to(row, weight);
    }

    /// Frees memory that only additions need: the next ones take longer.
    pub fn free_indexes(&mut self) {
        self.strings.drop_index();
        self.frames.drop_index();
        self.stacks.drop_index();
        self.rows.drop_index();
    }

    /// Removes all samples. The other tables stay.
    pub(crate) fn clear_rows(&mut self) {
        self.rows = RowTable::default();
    }

    /// Removes the rows for which `is_unwanted` holds. Returns their weight.
    pub fn remove_rows(&mut self, mut is_unwanted: impl FnMut(&Self, &Row) -> bool) -> Weight {
        let mut removed = Weight::default();
        // Usually there are no such rows.
        if !self.rows().any(|(row, _)| is_unwanted(self, row)) {
            return removed;
        }
        let mut rows = RowTable::default();
        for (row, weight) in self.rows() {
            if is_unwanted(self, row) {
                removed.add(weight);
            } else {
                rows.add(*row, weight);
            }
        }
        self.rows = rows;
        removed
    }

    /// Replaces the name that a thread's samples have so far. Row ids stay the same.
    pub fn replace_comm(&mut self, tid: i32, before: StringId, now: StringId) {
        let Self { rows, threads, .. } = self;
        let is_of_thread = |id: Option<ThreadId>| {
            id.and_then(|id| threads.get(id)).is_some_and(|of| of.tid == tid)
        };
        rows.replace(|row| {
            let is_replaced = row.comm == Some(before) && is_of_thread(row.thread);
            is_replaced.then_some(Row { comm: Some(now), ..*row })
        });
    }

    /// Replaces frames. `leaf` returns the new frame of a sample. `frames` appends the new frames
    /// for a frame of a call chain, innermost first. Returns the new row of each row.
    pub fn replace_frames(
        &mut self,
        leaf: impl Fn(FrameId) -> FrameId,
        frames: impl Fn(FrameId, &mut Vec<FrameId>),
    ) -> ReplacedRows {
        let stacks = std::mem::take(&mut self.stacks);
        let mut replaced: HashMap<StackId, Option<StackId>, foldhash::fast::RandomState> =
            HashMap::default();
        let mut chain = Vec::new();
        let mut now = Vec::new();
        let rows = std::mem::take(&mut self.rows);
        for (row, weight) in rows.iter() {
            let stack = row.stack.and_then(|stack| {
                *replaced.entry(stack).or_insert_with(|| {
                    chain.clear();
                    stacks.get(stack).iter().for_each(|frame| frames(*frame, &mut chain));
                    self.add_stack(&chain)
                })
            });
            now.push(self.add_samples(Row { leaf: row.leaf.map(&leaf), stack, ..*row }, weight));
        }
        ReplacedRows(now)
    }

    /// Notes that a file was mapped. Further mappings of the same part are ignored.
    pub fn add_mapping(&mut self, dso: DsoId, range: MappedRange, build_id: &[u8]) {
        self.files.add_mapping(dso, range, build_id);
    }

    /// The mappings of a file; `None` if none was noted.
    #[must_use]
    pub fn mapped_file(&self, dso: DsoId) -> Option<&MappedFile> {
        self.files.mapped_file(dso)
    }

    /// Sets the name that a function has in its file, if that isn't the displayed one.
    pub fn set_linkage_name(&mut self, symbol: SymbolId, name: StringId) {
        self.files.set_linkage_name(symbol, name);
    }

    /// The name that a function has in its file, if it was set.
    #[must_use]
    pub fn linkage_name(&self, symbol: SymbolId) -> Option<StringId> {
        self.files.linkage_name(symbol)
    }

    /// Sets a thread's last name.
    pub fn name_thread(&mut self, thread: ThreadId, name: StringId) {
        self.threads.set_name(thread, name);
    }

    /// Adds to the count of an event in a thread.
    pub fn add_count(&mut self, thread: ThreadId, event: EventId, count: u64) {
        self.threads.add_count(thread, event, count);
    }

    /// The counts of events in threads, if they were recorded.
    pub fn counts(&self) -> impl Iterator<Item = (ThreadId, EventId, u64)> {
        self.threads.counts()
    }

    /// A thread's last name.
    #[must_use]
    pub fn last_name(&self, thread: ThreadId) -> Option<StringId> {
        self.threads.last_name(thread)
    }

    /// A text; empty if the id is unknown.
    #[must_use]
    pub fn string(&self, id: StringId) -> &[u8] {
        self.strings.get(id)
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
        self.files.dso(id)
    }

    /// A function.
    #[must_use]
    pub fn symbol(&self, id: SymbolId) -> Option<&Symbol> {
        self.symbols.get(id)
    }

    /// A frame.
    #[must_use]
    pub fn frame(&self, id: FrameId) -> Option<ProfileFrame> {
        self.frames.get(id)
    }

    /// Returns the number of frames.
    #[must_use]
    pub fn frame_count(&self) -> usize {
        self.frames.len()
    }

    /// All frames, in the order of their ids.
    pub(crate) fn frame_ids(&self) -> impl Iterator<Item = FrameId> + use<> {
        (0..self.frames.len()).map(FrameId::from_index)
    }

    /// The frames of a call chain, the innermost first; empty without a chain.
    #[must_use]
    pub fn frames_of(&self, id: Option<StackId>) -> &[FrameId] {
        id.map_or(&[], |id| self.stacks.get(id))
    }

    /// The rows with their weights.
    pub fn rows(&self) -> impl Iterator<Item = (&Row, Weight)> {
        self.rows.iter()
    }

    /// A row with its weight.
    #[must_use]
    pub fn row(&self, id: RowId) -> Option<(&Row, Weight)> {
        self.rows.get(id)
    }

    /// Returns how many threads ran when the samples of a row were taken; 1 if the profile has no
    /// [`Detail::Parallelism`].
    #[must_use]
    pub fn parallelism(&self, row: &Row) -> u64 {
        match self.detail(row.details, Detail::Parallelism) {
            Value::Number(running) => running.max(1),
            Value::None | Value::Text(_) => 1,
        }
    }

    /// Returns a weight's part of the time that passes while several threads run: the period
    /// divided by their number, in thousandths.
    #[must_use]
    pub fn latency(&self, row: &Row, weight: Weight) -> u64 {
        weight.period.saturating_mul(1000) / self.parallelism(row)
    }

    /// Sums the weight of all samples of an event.
    #[must_use]
    pub fn total(&self, event: EventId) -> Weight {
        let mut total = Weight::default();
        self.rows().filter(|(row, _)| row.event == event).for_each(|(_, weight)| total.add(weight));
        total
    }
}
