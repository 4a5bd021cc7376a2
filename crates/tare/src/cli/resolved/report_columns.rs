//! Columns and sort keys of `tare report`, by perf's names.

use tare_profile::{Detail, SortKey, Space};
use tare_render::Column;

use crate::cli::raw;
use crate::exit::Refusal;

/// What rows are made of, as it was typed.
pub(super) struct Columns {
    pub(super) fields: Vec<Column>,
    pub(super) sort: Vec<Column>,
    pub(super) figures: Vec<Column>,
}

impl Columns {
    pub(super) fn resolve(raw: &raw::ReportArgs) -> Result<Self, Refusal> {
        let (mut fields, adds_fields) = columns(&raw.fields)?;
        let (mut sort, adds_keys) = columns(&raw.sort)?;
        let figures = [
            (raw.show_cpu_utilization, Column::OverheadOf(Space::Kernel)),
            (raw.show_cpu_utilization, Column::OverheadOf(Space::User)),
            (raw.show_nr_samples, Column::Samples),
            (raw.show_total_period, Column::Period),
        ];
        let mut figures: Vec<_> =
            figures.iter().filter(|(wanted, _)| *wanted).map(|(_, column)| *column).collect();
        let usual = || usual_keys(raw).map(Column::Key);
        // As in perf, columns that are named are the keys too.
        let is_unnamed = sort.is_empty() && (fields.is_empty() || adds_fields);
        if adds_keys || is_unnamed && (raw.mem_mode || raw.branch_stack) {
            sort.splice(0..0, usual());
        }
        if adds_fields {
            let (keys, more): (Vec<_>, Vec<_>) =
                fields.drain(..).partition(|column| matches!(column, Column::Key(_)));
            figures.extend(more);
            if sort.is_empty() && !keys.is_empty() {
                sort.extend(usual());
            }
            sort.extend(keys);
        }
        let parent = Column::Key(SortKey::Detail(Detail::Parent));
        if (raw.parent.is_some() || raw.exclude_other) && !sort.contains(&parent) {
            if sort.is_empty() {
                sort.extend(usual());
            }
            sort.push(parent);
        }
        Ok(Self { fields, sort, figures })
    }
}

/// The keys where none are named; those of memory accesses and of branches are perf's.
fn usual_keys(raw: &raw::ReportArgs) -> impl Iterator<Item = SortKey> + use<> {
    let of = |details: &[Detail]| details.iter().copied().map(SortKey::Detail).collect::<Vec<_>>();
    let keys = if raw.mem_mode {
        let mut keys = of(&[Detail::LocalWeight, Detail::Memory]);
        keys.extend([SortKey::Symbol, SortKey::Dso]);
        keys.extend(of(&[Detail::DataSymbol, Detail::DataDso, Detail::Snoop, Detail::Tlb]));
        keys.extend(of(&[Detail::Locked, Detail::Blocked]));
        keys
    } else if raw.branch_stack {
        let mut keys = vec![SortKey::Comm];
        keys.extend(of(&[Detail::DsoFrom, Detail::SymbolFrom, Detail::SymbolTo, Detail::Cycles]));
        keys
    } else {
        vec![SortKey::Comm, SortKey::Dso, SortKey::Symbol]
    };
    keys.into_iter()
}

/// Columns by name, and whether they are added to the usual ones (`+` before the first).
fn columns(words: &[String]) -> Result<(Vec<Column>, bool), Refusal> {
    let adds = words.first().is_some_and(|word| word.starts_with('+'));
    let names = words.iter().map(|word| word.trim_start_matches('+'));
    let columns: Result<_, String> = names.map(Column::from_name).collect();
    Ok((columns.map_err(Refusal::usage)?, adds))
}
