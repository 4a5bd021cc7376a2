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
        table.entries.iter().for_each(|entry| table.all.add(entry.own()));
        let latencies = table.entries.iter().map(|entry| entry.parts().own_latency);
        table.all_latency = latencies.fold(0, u64::saturating_add);
    }
    let all = table.all;
    table.entries.retain(|entry| is_shown(entry, all, view));
    let keys = view.columns.iter().filter(|column| matches!(column, Column::Key(_)));
    let order: Vec<_> = view.order.iter().chain(keys).map(|column| column.info()).collect();
    sort(&mut table.entries, |left, right| {
        let mut orders = order.iter().map(|info| info.compare_entries(profile, left, right));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    table.entries.truncate(view.most_rows.unwrap_or(usize::MAX));
    table
}

/// Sorts entries; equal ones keep their order. [`slice::sort_by`] would need half of their memory
/// again, for millions of entries.
fn sort(entries: &mut [Entry], compare: impl Fn(&Entry, &Entry) -> Ordering) {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_unstable_by(|left, right| {
        compare(&entries[*left], &entries[*right]).then(left.cmp(right))
    });
    // Follows each cycle of the permutation: `order[at]` is the entry that belongs at `at`.
    for first in 0..entries.len() {
        let mut at = first;
        while order[at] != first {
            let next = order[at];
            entries.swap(at, next);
            order[at] = at;
            at = next;
        }
        order[at] = at;
    }
}

fn is_shown(entry: &Entry, all: Weight, view: &TableView) -> bool {
    let weight = if view.children { entry.total } else { entry.own() };
    percent(weight, all) >= view.percent_limit
}

#[cfg(test)]
mod tests {
    use tare_profile::Row;

    use super::*;

    #[test]
    fn equal_entries_keep_their_order() {
        let mut profile = Profile::default();
        let name = profile.add_string(b"cycles");
        let event = profile.name_event(0, name);
        for cpu in 0..100 {
            let period = u64::from(cpu * 7 % 10);
            let row = Row { cpu: Some(cpu), ..Row::new(event) };
            profile.add_samples(row, Weight { period, samples: 1 });
        }
        let keys = vec![tare_profile::SortKey::Cpu];
        let mut entries =
            table(&profile, event, &TableOptions { keys, ..TableOptions::default() }).entries;
        let mut expected: Vec<_> =
            entries.iter().map(|entry| (entry.own().period, entry.task.cpu)).collect();
        expected.sort_by_key(|(period, _)| *period);
        sort(&mut entries, |left, right| left.own().period.cmp(&right.own().period));
        let sorted: Vec<_> =
            entries.iter().map(|entry| (entry.own().period, entry.task.cpu)).collect();
        assert_eq!(sorted, expected);
    }
}
