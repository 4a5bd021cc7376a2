//! Queries of the views.

use tare_profile::{
    CallTree, EventId, Filter, FunctionKey, Order, Profile, ProfileTable, RowKeys, SampleStore,
    SelectedSamples, Selection, SortKey, TableOptions, Term, Weight, table,
};
use tare_render::TableView;

use super::Model;

/// The selected part of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Query {
    /// The event; `None` until one is known.
    pub(crate) event: Option<EventId>,
    /// Filters that percentages obey: the samples that pass them are 100%.
    pub(crate) base: Vec<Term>,
    /// Further filters.
    pub(crate) terms: Vec<Term>,
    /// Percentages are of the displayed samples.
    pub(crate) relative: bool,
}

impl Query {
    fn selection(&self, model: &Model) -> Selection {
        let terms = self.base(model).iter().chain(&self.terms).cloned().collect();
        Selection { event: self.event, terms, without_tids: model.own_tids() }
    }

    /// Returns the base filters, resolved for what is loaded.
    pub(super) fn base(&self, model: &Model) -> Vec<Term> {
        let since = Some(model.since_ns()).filter(|from_ns| *from_ns > 0);
        let since = since.map(|from_ns| Term::Time(from_ns, u64::MAX));
        self.base.iter().cloned().chain(since).collect()
    }

    /// Iterates over all filters.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &Term> {
        self.base.iter().chain(&self.terms)
    }

    /// Returns the selection among the loaded samples.
    pub(super) fn selected(&self, model: &mut Model) -> SelectedSamples {
        let selection = self.selection(model);
        let (profile, samples) = model.sink.parts();
        selection.resolve(profile, samples)
    }

    /// Returns the selected time range in nanoseconds.
    pub(super) fn times(&self) -> (u64, u64) {
        let narrow = |(from, to): (u64, u64), term: &Term| match term {
            Term::Time(from_ns, to_ns) => (from.max(*from_ns), to.min(*to_ns)),
            _ => (from, to),
        };
        self.conditions().fold((0, u64::MAX), narrow)
    }

    /// Returns the row filter: conditions on files and functions apply to rows too.
    fn rows(&self) -> Filter {
        let mut filter = Filter::default();
        for term in self.terms.iter().flat_map(Term::alternatives) {
            match term {
                Term::Dso(name) => filter.dsos.push(name.clone()),
                Term::Function(name) => filter.symbols.push(name.clone()),
                Term::Symbol(part) => filter.symbol_part = Some(part.clone()),
                _ => {}
            }
        }
        filter
    }
}

/// A row per combination of sort keys.
#[derive(Clone, Debug)]
pub(crate) struct Functions {
    /// The rows, in order.
    pub(crate) table: ProfileTable,
}

/// Merged call chains.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    /// The chains.
    pub(crate) tree: CallTree,
    /// The weight that is 100%.
    pub(crate) all: Weight,
}

impl Model {
    /// Fills the profile's rows with the selected samples. Returns the weight of the event's
    /// samples that pass the base filters.
    fn fill(&mut self, query: &Query, keys: RowKeys) -> Weight {
        let selected = query.selected(self);
        let all = self.events(query).into_iter().find(|(event, _)| Some(*event) == query.event);
        let (profile, samples) = self.sink.parts();
        samples.fill_rows(profile, &selected, keys);
        all.map_or(Weight::default(), |(_, weight)| weight)
    }

    /// Returns the weight of the selected samples.
    pub(crate) fn selected_weight(&mut self, query: &Query) -> Weight {
        let selected = query.selected(self);
        let mut weight = Weight::default();
        for sample in self.samples().iter().filter(|sample| selected.takes(sample)) {
            weight.add(Weight { period: sample.period, samples: 1 });
        }
        weight
    }

    /// Returns the rows of a view.
    pub(crate) fn functions(&mut self, query: &Query, view: &TableView) -> Option<Functions> {
        let event = query.event?;
        let all = self.fill(query, view.row_keys());
        let view = TableView { filter: query.rows(), ..view.clone() };
        let mut table = tare_render::rows(self.profile(), event, &view);
        if !query.relative {
            table.all = all;
        }
        Some(Functions { table })
    }
}

/// Returns the weight of each event's samples, in event order.
pub(super) fn totals(
    profile: &Profile,
    samples: &SampleStore,
    selection: &Selection,
) -> Vec<Weight> {
    let selected = selection.resolve(profile, samples);
    let events: Vec<EventId> = profile.events().map(|(id, _)| id).collect();
    let mut totals = vec![Weight::default(); events.len()];
    for sample in samples.iter().filter(|sample| selected.takes(sample)) {
        if let Ok(at) = events.binary_search(&sample.event) {
            totals[at].add(Weight { period: sample.period, samples: 1 });
        }
    }
    totals
}

/// Returns all call chains from the outermost function, without branches below `percent`.
pub(crate) fn whole_tree(model: &mut Model, query: &Query, percent: f64) -> Tree {
    let Some(event) = query.event else { return Tree::default() };
    let all = model.fill(query, RowKeys::default());
    let profile = model.profile();
    let options = TableOptions { trees: Some(Order::Caller), ..TableOptions::default() };
    let table = table(profile, event, &options);
    let all = if query.relative { table.all } else { all };
    let least = table.all.period as f64 * percent / 100.0;
    let tree = table.entries.first().and_then(|entry| {
        let mut trees = table.call_trees(profile, least)?;
        Some(table.call_tree(&mut trees, entry))
    });
    Tree { tree: tree.unwrap_or_default(), all }
}

/// Returns the callers and the callees of a function, without branches below `percent` of
/// the function's weight.
pub(crate) fn callers_and_callees(
    model: &mut Model,
    query: &Query,
    function: FunctionKey,
    percent: f64,
) -> [Tree; 2] {
    let Some(event) = query.event else { return Default::default() };
    let all = model.fill(query, RowKeys::default());
    let profile = model.profile();
    [Order::Callee, Order::Caller].map(|order| {
        let keys = vec![SortKey::Symbol];
        let options = TableOptions {
            keys,
            children: true,
            trees: Some(order),
            from_entries: true,
            by_space: false,
            ..TableOptions::default()
        };
        let table = table(profile, event, &options);
        let all = if query.relative { table.all } else { all };
        let has_function = |entry: &&tare_profile::Entry| entry.function(profile) == function;
        let tree = table.entries.iter().find(has_function).and_then(|entry| {
            let least = entry.total.period as f64 * percent / 100.0;
            let mut trees = table.call_trees(profile, least)?;
            Some(table.call_tree(&mut trees, entry))
        });
        Tree { tree: tree.unwrap_or_default(), all }
    })
}
