//! Columns and sort keys of `tare report`, by perf's names.

use tare_profile::{Detail, SortKey, Space};
use tare_render::Column;

use crate::cli::raw;
use crate::exit::Refusal;

/// Typed columns and sort keys.
pub(super) struct Columns {
    pub(super) fields: Vec<Column>,
    pub(super) sort: Vec<Column>,
    pub(super) figures: Vec<Column>,
}

impl Columns {
    pub(super) fn resolve(raw: &raw::ReportArgs) -> Result<Self, Refusal> {
        let (mut fields, adds_fields) = columns(&raw.keys.fields)?;
        let (mut sort, adds_keys) = columns(&raw.keys.sort)?;
        let figures = [
            (raw.keys.show_cpu_utilization, Column::OverheadOf(Space::Kernel)),
            (raw.keys.show_cpu_utilization, Column::OverheadOf(Space::User)),
            (raw.rows.show_nr_samples, Column::Samples),
            (raw.rows.show_total_period, Column::Period),
        ];
        let mut figures: Vec<_> =
            figures.iter().filter(|(is_typed, _)| *is_typed).map(|(_, column)| *column).collect();
        let defaults = || default_keys(raw).map(Column::Key);
        // As in perf, named columns are sort keys too.
        let is_unnamed = sort.is_empty() && (fields.is_empty() || adds_fields);
        if adds_keys || is_unnamed && (raw.keys.mem_mode || raw.keys.branch_stack) {
            sort.splice(0..0, defaults());
        }
        if adds_fields {
            let (keys, more): (Vec<_>, Vec<_>) =
                fields.drain(..).partition(|column| matches!(column, Column::Key(_)));
            figures.extend(more);
            if sort.is_empty() && !keys.is_empty() {
                sort.extend(defaults());
            }
            sort.extend(keys);
        }
        let parent = Column::Key(SortKey::Detail(Detail::Parent));
        if (raw.calls.parent.is_some() || raw.filters.exclude_other) && !sort.contains(&parent) {
            if sort.is_empty() {
                sort.extend(defaults());
            }
            sort.push(parent);
        }
        Ok(Self { fields, sort, figures })
    }
}

/// Returns the default keys: perf's for memory accesses and branches.
fn default_keys(raw: &raw::ReportArgs) -> impl Iterator<Item = SortKey> + use<> {
    let detail_keys =
        |details: &[Detail]| details.iter().copied().map(SortKey::Detail).collect::<Vec<_>>();
    let keys = if raw.keys.mem_mode {
        let mut keys = detail_keys(&[Detail::LocalWeight, Detail::Memory]);
        keys.extend([SortKey::Symbol, SortKey::Dso]);
        keys.extend(detail_keys(&[
            Detail::DataSymbol,
            Detail::DataDso,
            Detail::Snoop,
            Detail::Tlb,
        ]));
        keys.extend(detail_keys(&[Detail::Locked, Detail::Blocked]));
        keys
    } else if raw.keys.branch_stack {
        let mut keys = vec![SortKey::Comm];
        keys.extend(detail_keys(&[
            Detail::DsoFrom,
            Detail::SymbolFrom,
            Detail::SymbolTo,
            Detail::Cycles,
        ]));
        keys
    } else {
        vec![SortKey::Comm, SortKey::Dso, SortKey::Symbol]
    };
    keys.into_iter()
}

/// Looks up columns by name. Also returns whether they add to the default (`+` before the first).
fn columns(words: &[String]) -> Result<(Vec<Column>, bool), Refusal> {
    let adds = words.first().is_some_and(|word| word.starts_with('+'));
    let names = words.iter().map(|word| word.trim_start_matches('+'));
    let columns: Result<_, String> = names.map(Column::from_name).collect();
    Ok((columns.map_err(Refusal::usage)?, adds))
}
