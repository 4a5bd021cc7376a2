//! Weights of functions or stacks in several recordings on two sides.
//!
//! ```text
//! profile of a recording -- names without compiler suffixes --> DiffEntry
//! DiffEntry -> weight in each run of each side
//! ```
//! Each recording has its own ids, so entries are matched by name. `tare_measure::compare::runs`
//! tests the differences.

mod name;

use std::collections::HashMap;

use indexmap::IndexSet;

use crate::filter::Filter;
use crate::ids::{EventId, FrameId, NameId, StackId, StringId};
use crate::key::{SortKey, short_name};
use crate::profile::Profile;
use crate::rows::Row;
use crate::sets::ListSet;
use crate::tables::{Space, Weight};

pub use name::source_name;

type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// How entries are distinguished.
#[derive(Clone, Debug, Default)]
pub struct DiffOptions {
    /// [`SortKey::Comm`], [`SortKey::Dso`] or [`SortKey::Symbol`]; others are ignored.
    pub keys: Vec<SortKey>,
    /// Compares whole call chains instead of functions.
    pub stacks: bool,
    /// Includes callees in the weight of a function.
    pub children: bool,
    /// Which samples and frames are compared: by thread name, file and function only.
    pub filter: Filter,
    /// Totals are those of accepted samples, not of all.
    pub relative: bool,
    /// Keeps the weight of each slice of time.
    pub slices: bool,
}

/// Samples that are compared: those of a function, a file or a thread name, by the keys, or those
/// of a stack. Properties that aren't keys are `None`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DiffEntry {
    /// An index of [`Runs::events`].
    pub event: usize,
    /// The thread's name.
    pub comm: Option<NameId>,
    /// The short name of the file.
    pub dso: Option<NameId>,
    /// The function, or its file in brackets if the function is unknown.
    pub symbol: Option<NameId>,
    /// The function's space, if functions are distinguished.
    pub space: Option<Space>,
    /// With [`DiffOptions::stacks`], the functions of the call chain, the outermost first.
    pub stack: Vec<NameId>,
}

/// The weights of a recording.
#[derive(Clone, Debug, Default)]
struct DiffRun {
    /// By entry.
    weights: Map<usize, Weight>,
    /// By event: the weights that are 100%.
    totals: Vec<Weight>,
    /// Periods by entry and slice of time.
    slices: Map<(usize, u32), u64>,
    /// Periods by event and slice of time.
    slice_totals: Map<(usize, u32), u64>,
    slice_count: u32,
}

/// Samples that are alike, in one slice of a recording's time.
#[derive(Clone, Copy, Debug)]
pub struct SliceRow {
    /// Their common properties.
    pub row: Row,
    /// The index of the slice; all slices have the same length.
    pub slice: u32,
    /// Their weight.
    pub weight: Weight,
}

/// The recordings of two sides.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    options: DiffOptions,
    names: ListSet<u8>,
    entries: IndexSet<DiffEntry, foldhash::fast::RandomState>,
    events: Vec<Box<[u8]>>,
    sides: [Vec<DiffRun>; 2],
}

impl Runs {
    /// Creates a comparison without recordings.
    #[must_use]
    pub fn new(options: DiffOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Adds a recording to side A (0) or B (1).
    pub fn add(&mut self, side: usize, profile: &Profile, samples: impl Iterator<Item = SliceRow>) {
        let mut builder =
            RunBuilder { known: Map::default(), names: Map::default(), run: DiffRun::default() };
        for sample in samples {
            builder.add(self, profile, &sample);
        }
        if let Some(runs) = self.sides.get_mut(side) {
            runs.push(builder.run);
        }
    }

    /// The names of events.
    #[must_use]
    pub fn events(&self) -> &[Box<[u8]>] {
        &self.events
    }

    /// All entries.
    pub fn entries(&self) -> impl Iterator<Item = &DiffEntry> {
        self.entries.iter()
    }

    /// A name.
    #[must_use]
    pub fn name(&self, id: NameId) -> &[u8] {
        self.names.get(id)
    }

    /// The number of recordings on a side.
    #[must_use]
    pub fn count(&self, side: usize) -> usize {
        self.sides.get(side).map_or(0, Vec::len)
    }

    /// The weight of an entry, by its index in [`Runs::entries`], in each recording of a side.
    pub fn weights(&self, side: usize, entry: usize) -> impl Iterator<Item = Weight> {
        self.sides
            .get(side)
            .into_iter()
            .flatten()
            .map(move |run| run.weights.get(&entry).copied().unwrap_or_default())
    }

    /// The weight of an event that is 100%, in each recording of a side.
    pub fn totals(&self, side: usize, event: usize) -> impl Iterator<Item = Weight> {
        self.sides
            .get(side)
            .into_iter()
            .flatten()
            .map(move |run| run.totals.get(event).copied().unwrap_or_default())
    }

    /// The periods of an entry, or of a whole event, in each slice of a side's first recording.
    #[must_use]
    pub fn slices(&self, side: usize, subject: SliceSubject) -> Vec<f64> {
        let Some(run) = self.sides.get(side).and_then(|runs| runs.first()) else {
            return Vec::new();
        };
        let period = |slice: u32| match subject {
            SliceSubject::Entry(entry) => run.slices.get(&(entry, slice)),
            SliceSubject::Event(event) => run.slice_totals.get(&(event, slice)),
        };
        (0..run.slice_count)
            .map(|slice| period(slice).map_or(0.0, |period| *period as f64))
            .collect()
    }

    /// Returns the index of an event, which is added if it is new.
    fn find_or_add_event(&mut self, name: &[u8]) -> usize {
        self.events.iter().position(|event| **event == *name).unwrap_or_else(|| {
            self.events.push(name.into());
            self.events.len() - 1
        })
    }

    fn intern(&mut self, name: &[u8]) -> NameId {
        self.names.insert(name)
    }
}

/// The entry or event whose slices are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceSubject {
    /// An index of [`Runs::entries`].
    Entry(usize),
    /// An index of [`Runs::events`].
    Event(usize),
}

/// The properties of a row that select its entries.
type RowChain = (EventId, Option<StringId>, Option<FrameId>, Option<StackId>);

/// The entries to which a row's weight is added.
struct ChainEntries {
    event: usize,
    /// Whether the weight is also part of the event's total.
    counts: bool,
    entries: Vec<usize>,
}

/// A recording while it is added.
struct RunBuilder {
    known: Map<RowChain, ChainEntries>,
    names: Map<FrameId, NameId>,
    run: DiffRun,
}

impl RunBuilder {
    fn add(&mut self, runs: &mut Runs, profile: &Profile, sample: &SliceRow) {
        let SliceRow { row, slice, weight } = *sample;
        let chain = (row.event, row.comm, row.leaf, row.stack);
        if !self.known.contains_key(&chain) {
            let event = profile.event(row.event).map(|event| profile.string(event.name));
            let event = runs.find_or_add_event(event.unwrap_or_default());
            let entries = self.find_entries(runs, profile, &row, event);
            let counts = !runs.options.relative || !entries.is_empty();
            self.known.insert(chain, ChainEntries { event, counts, entries });
        }
        let Some(ChainEntries { event, counts, entries }) = self.known.get(&chain) else { return };
        let run = &mut self.run;
        if *counts {
            run.totals.resize(run.totals.len().max(event + 1), Weight::default());
            run.totals[*event].add(weight);
        }
        for entry in entries {
            run.weights.entry(*entry).or_default().add(weight);
        }
        if runs.options.slices {
            run.slice_count = run.slice_count.max(slice.saturating_add(1));
            if *counts {
                *run.slice_totals.entry((*event, slice)).or_default() += weight.period;
            }
            for entry in entries {
                *run.slices.entry((*entry, slice)).or_default() += weight.period;
            }
        }
    }

    /// Returns the indices of the entries to which a row's weight is added. Adds missing entries to
    /// `runs`.
    fn find_entries(
        &mut self,
        runs: &mut Runs,
        profile: &Profile,
        row: &Row,
        event: usize,
    ) -> Vec<usize> {
        let options = runs.options.clone();
        let mut frames = Vec::new();
        profile.frames_of_row(row, &mut frames);
        let is_taken = options.filter.takes_row(profile, row);
        let by_dso = Filter { symbols: Vec::new(), ..options.filter.clone() };
        // The filter may name a function by its symbol or by its source name.
        let is_named = |frame: FrameId| {
            let symbol = profile.symbol(profile.frame(frame)?.function.ok()?)?;
            let name = profile.string(symbol.name);
            let wanted = &options.filter.symbols;
            Some(wanted.iter().any(|one| one == name || **one == *source_name(name)))
        };
        let takes = |frame: Option<FrameId>| {
            let takes_all = options.filter.symbols.is_empty();
            let is_wanted = takes_all || frame.and_then(is_named).unwrap_or(false);
            is_wanted && by_dso.takes_frame(profile, frame)
        };
        let leaf = row.leaf.or_else(|| frames.first().copied());
        let mut found: Vec<usize> = Vec::new();
        if options.children && !options.stacks && is_taken {
            for frame in frames.iter().filter(|frame| takes(Some(**frame))) {
                let entry = self.create_entry(runs, profile, row, event, Some(*frame));
                found.push(runs.entries.insert_full(entry).0);
            }
        } else if is_taken && takes(leaf) {
            let mut entry = self.create_entry(runs, profile, row, event, leaf);
            if options.stacks {
                entry.stack = frames
                    .iter()
                    .rev()
                    .map(|frame| self.name_frame(runs, profile, *frame))
                    .collect();
            }
            found.push(runs.entries.insert_full(entry).0);
        }
        // A row counts once for an entry that several of its frames have: a recursive function, or
        // functions of one file without the symbol key.
        found.sort_unstable();
        found.dedup();
        found
    }

    fn create_entry(
        &mut self,
        runs: &mut Runs,
        profile: &Profile,
        row: &Row,
        event: usize,
        frame: Option<FrameId>,
    ) -> DiffEntry {
        let has = |runs: &Runs, key| runs.options.keys.contains(&key);
        let comm = row.comm.filter(|_| has(runs, SortKey::Comm));
        let dso = short_name(profile, frame).filter(|_| has(runs, SortKey::Dso));
        let by_symbol = has(runs, SortKey::Symbol) && !runs.options.stacks;
        let found = frame.and_then(|frame| profile.frame(frame));
        DiffEntry {
            event,
            comm: comm.map(|comm| runs.intern(profile.string(comm))),
            dso: dso.map(|dso| runs.intern(profile.string(dso))),
            symbol: by_symbol.then(|| match frame {
                Some(frame) => self.name_frame(runs, profile, frame),
                None => runs.intern(b"[unknown]"),
            }),
            space: by_symbol.then(|| found.map_or(Space::Unknown, |frame| frame.space)),
            stack: Vec::new(),
        }
    }

    /// Names a frame's function; if it is unknown, returns its file in brackets.
    fn name_frame(&mut self, runs: &mut Runs, profile: &Profile, frame: FrameId) -> NameId {
        if let Some(known) = self.names.get(&frame) {
            return *known;
        }
        let symbol = profile.frame(frame).and_then(|frame| profile.symbol(frame.function.ok()?));
        let dso = short_name(profile, Some(frame)).map(|dso| profile.string(dso));
        let id = match (symbol, dso) {
            (Some(symbol), _) => runs.intern(&source_name(profile.string(symbol.name))),
            (None, Some(dso)) if dso.starts_with(b"[") => runs.intern(dso),
            (None, Some(dso)) => runs.intern(&[b"[", dso, b"]"].concat()),
            (None, None) => runs.intern(b"[unknown]"),
        };
        self.names.insert(frame, id);
        id
    }
}

#[cfg(test)]
mod tests;
