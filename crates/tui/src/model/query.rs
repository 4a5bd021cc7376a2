//! What views ask of a model.

use tare_profile::{
    CallTree, EventId, Filter, Function, Key, Options, Order, Profile, RowKeys, Samples,
    SelectedSamples, Selection, Table, Term, Weight, table,
};
use tare_render::View;

use super::Model;

/// What of a recording is looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Query {
    /// The event; `None` before any is known.
    pub(crate) event: Option<EventId>,
    /// What counts at all: percentages are of these, as if there were nothing else.
    pub(crate) base: Vec<Term>,
    /// The filters.
    pub(crate) terms: Vec<Term>,
    /// Percentages are of what is shown.
    pub(crate) relative: bool,
}

impl Query {
    fn selection(&self, model: &Model) -> Selection {
        let terms = self.base(model).iter().chain(&self.terms).cloned().collect();
        Selection { event: self.event, terms, without_tids: model.own_tids() }
    }

    /// What counts at all, of what is loaded by now.
    pub(super) fn base(&self, model: &Model) -> Vec<Term> {
        let since = Some(model.since_ns()).filter(|from_ns| *from_ns > 0);
        let since = since.map(|from_ns| Term::Time(from_ns, u64::MAX));
        self.base.iter().cloned().chain(since).collect()
    }

    /// All that has to hold, as it was asked for.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &Term> {
        self.base.iter().chain(&self.terms)
    }

    /// The selection, for all that is loaded by now.
    pub(super) fn selected(&self, model: &mut Model) -> SelectedSamples {
        let selection = self.selection(model);
        let (profile, samples) = model.sink.parts();
        selection.of(profile, samples)
    }

    /// From when to when samples are taken, in nanoseconds.
    pub(super) fn times(&self) -> (u64, u64) {
        let of = |(from, to): (u64, u64), term: &Term| match term {
            Term::Time(from_ns, to_ns) => (from.max(*from_ns), to.min(*to_ns)),
            _ => (from, to),
        };
        self.conditions().fold((0, u64::MAX), of)
    }

    /// Which rows are shown: conditions on files and functions are on rows too.
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

/// A row for each combination of sort keys.
#[derive(Clone, Debug)]
pub(crate) struct Functions {
    /// The rows, in their order; its 100% is what the query asks for.
    pub(crate) table: Table,
}

/// Call chains put together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    /// The chains.
    pub(crate) tree: CallTree,
    /// 100%.
    pub(crate) all: Weight,
}

impl Model {
    /// Fills the profile's rows with what a query takes. Returns what all samples of its event
    /// weigh.
    fn fill(&mut self, query: &Query, keys: RowKeys) -> Weight {
        let selected = query.selected(self);
        let all = self.events(query).into_iter().find(|(event, _)| Some(*event) == query.event);
        let (profile, samples) = self.sink.parts();
        samples.fill_rows(profile, &selected, keys);
        all.map_or(Weight::default(), |(_, weight)| weight)
    }

    /// What the samples weigh that a query takes.
    pub(crate) fn taken(&mut self, query: &Query) -> Weight {
        let selected = query.selected(self);
        let mut taken = Weight::default();
        for sample in self.samples().iter().filter(|sample| selected.takes(sample)) {
            taken.add(Weight { period: sample.period, samples: 1 });
        }
        taken
    }

    /// The rows of a view.
    pub(crate) fn functions(&mut self, query: &Query, view: &View) -> Option<Functions> {
        let event = query.event?;
        let all = self.fill(query, view.row_keys());
        let view = View { filter: query.rows(), ..view.clone() };
        let mut table = tare_render::rows(self.profile(), event, &view);
        if !query.relative {
            table.all = all;
        }
        Some(Functions { table })
    }
}

/// What the samples of each event weigh, in the order of the events.
pub(super) fn totals(profile: &Profile, samples: &Samples, selection: &Selection) -> Vec<Weight> {
    let selected = selection.of(profile, samples);
    let events: Vec<EventId> = profile.events().map(|(id, _)| id).collect();
    let mut totals = vec![Weight::default(); events.len()];
    for sample in samples.iter().filter(|sample| selected.takes(sample)) {
        if let Ok(at) = events.binary_search(&sample.event) {
            totals[at].add(Weight { period: sample.period, samples: 1 });
        }
    }
    totals
}

/// All call chains from the outermost function on, without branches of less than `percent`.
pub(crate) fn whole_tree(model: &mut Model, query: &Query, percent: f64) -> Tree {
    let Some(event) = query.event else { return Tree::default() };
    let all = model.fill(query, RowKeys::default());
    let profile = model.profile();
    let options = Options { trees: Some(Order::Caller), ..Options::default() };
    let table = table(profile, event, &options);
    let all = if query.relative { table.all } else { all };
    let least = table.all.period as f64 * percent / 100.0;
    let tree = table.entries.first().and_then(|entry| {
        let mut trees = table.call_trees(profile, least)?;
        Some(table.call_tree(&mut trees, entry))
    });
    Tree { tree: tree.unwrap_or_default(), all }
}

/// The call chains that lead to a function, from it on, and those that go on from it, without
/// branches of less than `percent` of what the function weighs.
pub(crate) fn callers_and_callees(
    model: &mut Model,
    query: &Query,
    function: Function,
    percent: f64,
) -> [Tree; 2] {
    let Some(event) = query.event else { return Default::default() };
    let all = model.fill(query, RowKeys::default());
    let profile = model.profile();
    [Order::Callee, Order::Caller].map(|order| {
        let keys = vec![Key::Symbol];
        let options = Options {
            keys,
            children: true,
            trees: Some(order),
            from_entries: true,
            by_space: false,
            ..Options::default()
        };
        let table = table(profile, event, &options);
        let all = if query.relative { table.all } else { all };
        let of = |entry: &&tare_profile::Entry| entry.function(profile) == function;
        let tree = table.entries.iter().find(of).and_then(|entry| {
            let least = entry.total.period as f64 * percent / 100.0;
            let mut trees = table.call_trees(profile, least)?;
            Some(table.call_tree(&mut trees, entry))
        });
        Tree { tree: tree.unwrap_or_default(), all }
    })
}
