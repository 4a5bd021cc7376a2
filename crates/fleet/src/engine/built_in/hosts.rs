//! Segments by host.

use std::collections::BTreeMap;

use tare_store::{SegmentSummary, StoreReader};

use crate::engine::RunControl;
use crate::error::FleetError;
use crate::question::Selection;
use crate::rows::{RowSink, RowValue};

/// Sums of a host's segments, in the order of the columns of `Part::Hosts` after its name.
struct HostSums {
    counts: [i64; 10],
    first_us: i64,
    last_us: i64,
}

impl HostSums {
    fn new() -> Self {
        Self { counts: [0; 10], first_us: i64::MAX, last_us: 0 }
    }

    fn add(&mut self, segment: &SegmentSummary<'_>) {
        let figures = &segment.figures;
        let int = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.first_us = self.first_us.min(segment.start_us);
        let added = if segment.is_gap {
            [0, 1, 0, 0, int(figures.samples), 0, 0, 0, 0, 0]
        } else {
            self.last_us = self.last_us.max(segment.end_us);
            let length_us = segment.end_us - segment.start_us;
            [
                1,
                0,
                int(figures.samples),
                int(figures.lost),
                0,
                int(figures.truncated),
                int(figures.unnamed),
                int(segment.omitted),
                int(figures.recorder_cpu_us.saturating_add(figures.kernel_us)),
                int(figures.cpus).saturating_mul(length_us),
            ]
        };
        for (count, added) in self.counts.iter_mut().zip(added) {
            *count = count.saturating_add(added);
        }
    }
}

/// Passes the rows of `Part::Hosts`.
pub(super) fn pass(
    reader: &StoreReader,
    selection: &Selection,
    control: &RunControl<'_>,
    each: &mut RowSink<'_>,
) -> Result<(), FleetError> {
    let hosts = reader.segments(
        &selection.query(),
        BTreeMap::<String, HostSums>::new,
        |hosts, segment| match hosts.get_mut(segment.host) {
            Some(sums) => sums.add(segment),
            None => {
                let sums = hosts.entry(segment.host.to_owned()).or_insert_with(HostSums::new);
                sums.add(segment);
            }
        },
    )?;
    control.check()?;
    for (host, sums) in &hosts {
        let mut row = vec![RowValue::Text(host)];
        row.extend(sums.counts.iter().map(|count| RowValue::Int(*count)));
        row.extend([RowValue::Int(sums.first_us), RowValue::Int(sums.last_us)]);
        each(&row)?;
    }
    Ok(())
}
