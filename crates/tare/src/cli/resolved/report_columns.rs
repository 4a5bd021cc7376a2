//! Columns and sort keys of `tare report`, by perf's names.

use tare_profile::{Detail, Key, Space};
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
        let parent = Column::Key(Key::Detail(Detail::Parent));
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
fn usual_keys(raw: &raw::ReportArgs) -> impl Iterator<Item = Key> + use<> {
    let of = |details: &[Detail]| details.iter().copied().map(Key::Detail).collect::<Vec<_>>();
    let keys = if raw.mem_mode {
        let mut keys = of(&[Detail::LocalWeight, Detail::Memory]);
        keys.extend([Key::Symbol, Key::Dso]);
        keys.extend(of(&[Detail::DataSymbol, Detail::DataDso, Detail::Snoop, Detail::Tlb]));
        keys.extend(of(&[Detail::Locked, Detail::Blocked]));
        keys
    } else if raw.branch_stack {
        let mut keys = vec![Key::Comm];
        keys.extend(of(&[Detail::DsoFrom, Detail::SymbolFrom, Detail::SymbolTo, Detail::Cycles]));
        keys
    } else {
        vec![Key::Comm, Key::Dso, Key::Symbol]
    };
    keys.into_iter()
}

/// Columns by name, and whether they are added to the usual ones (`+` before the first).
fn columns(words: &[String]) -> Result<(Vec<Column>, bool), Refusal> {
    let adds = words.first().is_some_and(|word| word.starts_with('+'));
    let names = words.iter().map(|word| word.trim_start_matches('+'));
    Ok((names.map(column).collect::<Result<_, _>>()?, adds))
}

/// Keys of perf's that tare lacks, and why.
const LACKING: [(&str, &str); 7] = [
    ("type", "types of data are not looked for"),
    ("typeoff", "types of data are not looked for"),
    ("simd", "it is of Arm's SPE traces, which are not decoded"),
    ("srcline_from", "`tare script -F ip,brstackinsn,srccode` shows the lines of branches"),
    ("srcline_to", "`tare script -F ip,brstackinsn,srccode` shows the lines of branches"),
    ("ipc_null", "`tare script -F ip,brstackinsn` shows instructions by cycle"),
    ("ipc_lbr", "`tare script -F ip,brstackinsn` shows instructions by cycle"),
];

fn column(word: &str) -> Result<Column, Refusal> {
    if let Some(column) = Column::by_name(word) {
        return Ok(column);
    }
    if let Some((name, why)) = LACKING.iter().find(|(name, _)| *name == word) {
        return Err(Refusal::usage(format!("perf's sort key {name} is not there: {why}")));
    }
    let known = Column::names().collect::<Vec<_>>().join(", ");
    Err(Refusal::usage(format!("there is no column or sort key '{word}': there are {known}")))
}
