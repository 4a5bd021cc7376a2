//! The rows of a table, in order.

use std::cmp::Ordering;

use tare_profile::{Entry, EventId, Profile, ProfileTable, TableOptions, Weight, table};

use crate::column::percent;
use crate::{Column, TableView};

/// Returns the table of an event, ordered, without the entries below the view's limits.
#[must_use]
pub fn rows(profile: &Profile, event: EventId, view: &TableView) -> ProfileTable {
    let keys = view.columns.iter().chain(&view.order).filter_map(|column| match column {
        Column::Key(key) => Some(*key),
        _ => None,
    });
    let mut figures = view.columns.iter().chain(&view.order);
    let latency = figures.any(|column| column.is_latency());
    let trees = view.graph.map(|graph| graph.order);
    let options = TableOptions {
        keys: keys.collect(),
        children: view.children,
        trees,
        from_entries: false,
        by_space: view
            .columns
            .iter()
            .chain(&view.order)
            .any(|column| matches!(column, Column::OverheadOf(_))),
        latency,
        filter: view.filter.clone(),
    };
    let mut table = table(profile, event, &options);
    if view.is_relative {
        table.all = Weight::default();
        table.entries.iter().for_each(|entry| table.all.add(entry.own));
        let latencies = table.entries.iter().map(|entry| entry.parts().own_latency);
        table.all_latency = latencies.fold(0, u64::saturating_add);
    }
    let all = table.all;
    table.entries.retain(|entry| is_shown(entry, all, view));
    let keys = view.columns.iter().filter(|column| matches!(column, Column::Key(_)));
    let order: Vec<_> = view.order.iter().chain(keys).map(|column| column.info()).collect();
    table.entries.sort_by(|left, right| {
        let mut orders = order.iter().map(|info| info.compare_entries(profile, left, right));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    table.entries.truncate(view.most_rows.unwrap_or(usize::MAX));
    table
}

fn is_shown(entry: &Entry, all: Weight, view: &TableView) -> bool {
    let weight = if view.children { entry.total } else { entry.own };
    percent(weight, all) >= view.percent_limit
}
