//! Weight by service, version, host and hour.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tare_store::schema::SampleColumn;
use tare_store::{StoreReader, TextDictionary};

use crate::engine::RunControl;
use crate::engine::built_in::sums::{Sums, sum};
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
    let sums = sum(reader, selection, &LABELS, Some(SampleColumn::Window), control)?;
    let lengths = read_lengths(reader, selection)?;
    control.check()?;
    let mut hours = Hours::default();
    for (key, sum) in sums.groups() {
        let hour_us = key.number - key.number.rem_euclid(HOUR_US);
        let host = sums.text(key.texts[3]).unwrap_or_default();
        let length_us = lengths.get(host).and_then(|windows| windows.get(&key.number));
        let [covered, weight] = hours.entry((key.texts, hour_us)).or_default();
        *covered += length_us.copied().unwrap_or(0);
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

/// Length of windows by host and start.
type Lengths = HashMap<String, HashMap<i64, i64, RandomState>, RandomState>;

/// Reads the length of each host's windows.
fn read_lengths(reader: &StoreReader, selection: &Selection) -> Result<Lengths, FleetError> {
    let wanted = [SampleColumn::Host, SampleColumn::Window, SampleColumn::WindowUs];
    let sinks = reader.scan(&selection.query(), &wanted, Lengths::default, |lengths, batch| {
        let starts = batch.ints(SampleColumn::Window);
        let window_us = batch.ints(SampleColumn::WindowUs);
        let hosts = batch.codes(SampleColumn::Host);
        let name =
            |code: u32| batch.texts(SampleColumn::Host).and_then(|t: &TextDictionary| t.get(code));
        let mut begin = 0;
        for row in 1..=batch.rows() {
            let is_equal = row < batch.rows()
                && (hosts[row], starts[row], window_us[row])
                    == (hosts[begin], starts[begin], window_us[begin]);
            if is_equal {
                continue;
            }
            let host = name(hosts[begin]).unwrap_or_default();
            let windows = match lengths.get_mut(host) {
                Some(windows) => windows,
                None => lengths.entry(host.to_owned()).or_default(),
            };
            let length = windows.entry(starts[begin]).or_insert(0);
            *length = (*length).max(window_us[begin]);
            begin = row;
        }
    })?;
    let mut lengths = Lengths::default();
    for (host, windows) in sinks.into_iter().flatten() {
        let known = lengths.entry(host).or_default();
        for (start, length_us) in windows {
            let length = known.entry(start).or_insert(0);
            *length = (*length).max(length_us);
        }
    }
    Ok(lengths)
}
