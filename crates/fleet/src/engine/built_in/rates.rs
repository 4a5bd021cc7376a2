//! Weight by service, version, host and hour.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tare_store::StoreReader;
use tare_store::schema::SampleColumn;

use crate::engine::RunControl;
use crate::engine::built_in::sums::{SumOptions, Sums, sum};
use crate::error::FleetError;
use crate::question::Selection;
use crate::rows::{RowSink, RowValue};

const HOUR_US: i64 = 3_600_000_000;

/// Event, service, version, host.
const LABELS: [SampleColumn; 4] =
    [SampleColumn::Event, SampleColumn::Service, SampleColumn::Version, SampleColumn::Host];

/// Sums by labels and hour: microseconds and weight.
type Hours = HashMap<([u32; 4], i64), [i64; 2], RandomState>;

/// Passes the rows of `Part::Rates`.
pub(super) fn pass(
    reader: &StoreReader,
    selection: &Selection,
    control: &RunControl<'_>,
    each: &mut RowSink<'_>,
) -> Result<(), FleetError> {
    let number = Some(SampleColumn::Window);
    let by = SumOptions { columns: &LABELS, number, has_lengths: true, ..SumOptions::default() };
    let sums = sum(reader, selection, by, control)?;
    let mut hours = Hours::default();
    for (key, sum) in sums.groups() {
        let hour_us = key.number - key.number.rem_euclid(HOUR_US);
        let [covered, weight] = hours.entry((key.texts, hour_us)).or_default();
        *covered += sum.length_us;
        *weight += sum.weight;
    }
    let mut rows: Vec<_> = hours.into_iter().collect();
    rows.sort_unstable_by_key(|((texts, hour_us), _)| order(&sums, *texts, *hour_us));
    for ((texts, hour_us), [covered, weight]) in rows {
        let [event, service, version, host] =
            texts.map(|number| RowValue::from_text(sums.text(number)));
        let [hour_us, covered, weight] = [hour_us, covered, weight].map(RowValue::Int);
        each(&[event, service, version, host, hour_us, covered, weight])?;
    }
    Ok(())
}

fn order(sums: &Sums, texts: [u32; 4], hour_us: i64) -> impl Ord {
    (texts.map(|number| (number == 0, sums.text(number))), hour_us)
}
