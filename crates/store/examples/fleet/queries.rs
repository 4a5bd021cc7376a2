//! Queries of a fleet, timed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

use tare_store::schema::SampleColumn;
use tare_store::{Query, SampleBatch, StoreReader, TextDictionary};

use crate::fleet::DAY_US;

const HOUR_US: i64 = 3_600_000_000;

/// Sums of weights by number of a text, for one row group at a time.
#[derive(Default)]
struct NameSums {
    /// By number of the current row group's dictionary.
    group: Vec<i64>,
    names: Vec<Option<String>>,
    sums: HashMap<Option<String>, i64>,
}

impl NameSums {
    fn add(&mut self, batch: &SampleBatch<'_>, column: SampleColumn) {
        if batch.has_new_dictionaries() {
            self.end_group();
        }
        let Some(texts) = batch.texts(column) else { return };
        self.group.resize(texts.len() + 1, 0);
        for (code, weight) in batch.codes(column).iter().zip(batch.ints(SampleColumn::Weight)) {
            self.group[*code as usize] += weight;
        }
        self.names = (0..=texts.len()).map(|code| name(texts, code)).collect();
    }

    fn end_group(&mut self) {
        for (name, sum) in self.names.drain(..).zip(self.group.drain(..)) {
            if sum != 0 {
                *self.sums.entry(name).or_default() += sum;
            }
        }
    }
}

fn name(texts: &TextDictionary, code: usize) -> Option<String> {
    texts.get(u32::try_from(code).ok()?).map(str::to_owned)
}

/// Runs all queries and prints their times.
pub(crate) fn run(folder: &Path, threads: usize) -> Result<(), Box<dyn Error>> {
    let reader = StoreReader::open(folder, threads)?;
    let by = |filters: &[&str], times: Option<[i64; 2]>| -> Result<Query, Box<dyn Error>> {
        let filters = filters.iter().map(|filter| filter.parse()).collect::<Result<_, _>>()?;
        let [since_us, until_us] = [0, 1].map(|at| times.map(|times| times[at]));
        Ok(Query { since_us, until_us, filters })
    };
    let top = |query: &Query, column: SampleColumn| -> Result<usize, Box<dyn Error>> {
        let wanted = [column, SampleColumn::Weight];
        let sinks = reader
            .scan(query, &wanted, NameSums::default, |sums, batch| sums.add(batch, column))?;
        let mut sums = BTreeMap::new();
        for mut sink in sinks {
            sink.end_group();
            for (name, sum) in sink.sums {
                *sums.entry(name).or_insert(0) += sum;
            }
        }
        Ok(sums.len())
    };
    let flame = |query: &Query| -> Result<usize, Box<dyn Error>> {
        let wanted = [SampleColumn::StackId, SampleColumn::Weight];
        let sinks = reader.scan(query, &wanted, HashMap::<i64, i64>::new, |sums, batch| {
            let stacks = batch.ints(SampleColumn::StackId).iter();
            for (stack, weight) in stacks.zip(batch.ints(SampleColumn::Weight)) {
                *sums.entry(*stack).or_default() += weight;
            }
        })?;
        let wanted: HashSet<i64> = sinks.iter().flat_map(|sums| sums.keys().copied()).collect();
        let stacks = reader.stacks(query, &wanted)?;
        Ok(wanted.iter().map(|stack| stacks.frames(*stack).len()).sum())
    };

    let service = by(&["service=service-07"], None)?;
    time("one service's day by function", || top(&service, SampleColumn::Function))?;
    time("one service's day by stack", || flame(&service))?;
    let hour = [DAY_US + 14 * HOUR_US, DAY_US + 15 * HOUR_US];
    let container = by(&["service=service-07", "host=host-000"], Some(hour))?;
    time("a service's hour on a host by stack", || flame(&container))?;
    let container = by(&["pod=service-07-000-2"], Some(hour))?;
    time("a pod's hour by stack", || flame(&container))?;
    time("two versions of a service by function", || {
        let [old, new] = ["1.4.2", "1.5.0"].map(|version| format!("version={version}"));
        let old = top(&by(&["service=service-07", &old], None)?, SampleColumn::Function)?;
        Ok(old + top(&by(&["service=service-07", &new], None)?, SampleColumn::Function)?)
    })?;
    let all = by(&[], None)?;
    time("the fleet's day by service", || top(&all, SampleColumn::Service))?;
    time("the fleet's day by function", || top(&all, SampleColumn::Function))?;
    time("the fleet's day by stack", || flame(&all))?;
    time("the fleet's segments", || Ok(reader.segments(&all, || 0, |count, _| *count += 1)?))?;
    Ok(())
}

fn time(
    title: &str,
    query: impl FnOnce() -> Result<usize, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    let results = query()?;
    println!("{title}: {results} results, {:.3} s", begin.elapsed().as_secs_f64());
    Ok(())
}
