//! Samples by stack, with the stacks' frames.

use std::collections::{BTreeMap, HashMap, HashSet};

use foldhash::fast::RandomState;
use regex_lite::Regex;
use tare_store::schema::SampleColumn;
use tare_store::{StackTable, StoreReader, StoredFrame};

use crate::engine::RunControl;
use crate::engine::built_in::NamedSum;
use crate::engine::built_in::sums::{GroupSum, SumOptions, Sums, sum};
use crate::error::FleetError;
use crate::question::{Grouping, Selection};
use crate::rows::{RowSink, RowValue};

/// Weight of a stack in an event.
type StackWeights = HashMap<(u32, i64), i64, RandomState>;

/// Sums by event, innermost function and stack, and the frames.
pub(super) struct StackSums {
    sums: Sums,
    stacks: StackTable,
}

impl StackSums {
    pub(super) fn read(
        reader: &StoreReader,
        selection: &Selection,
        control: &RunControl<'_>,
    ) -> Result<Self, FleetError> {
        Self::read_by(reader, selection, &[SampleColumn::Function], false, control)
    }

    /// Reads sums by event, other columns and stack; with `has_spans` also the times of events.
    pub(super) fn read_by(
        reader: &StoreReader,
        selection: &Selection,
        others: &[SampleColumn],
        has_spans: bool,
        control: &RunControl<'_>,
    ) -> Result<Self, FleetError> {
        let columns = [&[SampleColumn::Event], others].concat();
        let number = Some(SampleColumn::StackId);
        let by = SumOptions { columns: &columns, number, has_spans, ..SumOptions::default() };
        let sums = sum(reader, selection, by, control)?;
        let wanted: HashSet<i64, RandomState> = sums.groups().map(|(key, _)| key.number).collect();
        let stacks = reader.stacks(&selection.query(), &wanted)?;
        control.check()?;
        Ok(Self { sums, stacks })
    }

    /// Returns the weight of all samples by event.
    pub(super) fn weights(&self) -> BTreeMap<String, i64> {
        let mut weights = BTreeMap::new();
        for (key, sum) in self.sums.groups() {
            let event = self.sums.text(key.texts[0]).unwrap_or_default();
            *weights.entry(event.to_owned()).or_insert(0) += sum.weight;
        }
        weights
    }

    fn by_stack(&self) -> StackWeights {
        let mut stacks = StackWeights::default();
        for (key, sum) in self.sums.groups() {
            *stacks.entry((key.texts[0], key.number)).or_default() += sum.weight;
        }
        stacks
    }

    /// Returns the sums by function or module, of names that match.
    pub(super) fn totals(&self, by: Grouping, pattern: Option<&Regex>) -> Vec<NamedSum> {
        let is_wanted = |name: Option<&str>| {
            pattern.is_none_or(|pattern| name.is_some_and(|name| pattern.is_match(name)))
        };
        type Totals<'a> = HashMap<(u32, Option<&'a str>), (GroupSum, i64), RandomState>;
        let mut totals = Totals::default();
        // A stack's innermost names: several if files know different ones.
        let mut leafs: HashMap<i64, Vec<Option<&str>>, RandomState> = HashMap::default();
        for (key, sum) in self.sums.groups() {
            let leaf = match by {
                Grouping::Module => {
                    self.stacks.frames(key.number).next().and_then(|frame| frame.module)
                }
                Grouping::Column(_) => self.sums.text(key.texts[1]),
            };
            leafs.entry(key.number).or_default().push(leaf);
            if is_wanted(leaf) {
                totals.entry((key.texts[0], leaf)).or_default().0.add(*sum);
            }
        }
        let mut names: Vec<Option<&str>> = Vec::new();
        for ((event, stack), weight) in self.by_stack() {
            names.clear();
            names.extend(self.stacks.frames(stack).map(|frame| name(&frame, by)));
            names.extend(leafs.get(&stack).into_iter().flatten());
            names.sort_unstable();
            names.dedup();
            for name in names.iter().filter(|name| is_wanted(**name)) {
                totals.entry((event, *name)).or_default().1 += weight;
            }
        }
        let rows = totals.into_iter().map(|((event, name), (own, total))| NamedSum {
            event: self.sums.text(event).unwrap_or_default().to_owned(),
            name: name.map(str::to_owned),
            samples: own.samples,
            own: own.weight,
            total,
        });
        rows.collect()
    }

    /// Passes the first and last moment of the samples by event.
    pub(super) fn pass_times(&self, each: &mut RowSink<'_>) -> Result<(), FleetError> {
        let event = |number| self.sums.text(number).unwrap_or_default();
        let spans: BTreeMap<&str, [i64; 2]> =
            self.sums.spans().map(|(number, span)| (event(number), span)).collect();
        for (event, [first, last]) in spans {
            each(&[RowValue::Text(event), RowValue::Int(first), RowValue::Int(last)])?;
        }
        Ok(())
    }

    /// Passes the sums by the label and the reason that they were read by.
    pub(super) fn pass_labelled(&self, each: &mut RowSink<'_>) -> Result<(), FleetError> {
        let text = |number| self.sums.text(number);
        let mut rows: Vec<_> = self.sums.groups().collect();
        rows.sort_unstable_by_key(|(key, _)| {
            let [event, name, reason] = [0, 1, 2].map(|at| text(key.texts[at]));
            (event, name.is_none(), name, reason.is_none(), reason, key.number)
        });
        for (key, sum) in rows {
            let [event, name, reason] =
                [0, 1, 2].map(|at| RowValue::from_text(text(key.texts[at])));
            let numbers = [key.number, sum.samples, sum.weight].map(RowValue::Int);
            each(&[event, name, reason, numbers[0], numbers[1], numbers[2]])?;
        }
        Ok(())
    }

    /// Passes the frames of all stacks.
    pub(super) fn pass_frames(&self, each: &mut RowSink<'_>) -> Result<(), FleetError> {
        let mut stacks: Vec<i64> = self.sums.groups().map(|(key, _)| key.number).collect();
        stacks.sort_unstable();
        stacks.dedup();
        for stack in stacks {
            for (depth, frame) in (0..).zip(self.stacks.frames(stack)) {
                if frame != StoredFrame::default() {
                    let [function, module] =
                        [frame.function, frame.module].map(RowValue::from_text);
                    each(&[RowValue::Int(stack), RowValue::Int(depth), function, module])?;
                }
            }
        }
        Ok(())
    }

    /// Passes the callers of matching functions.
    pub(super) fn pass_callers(
        &self,
        pattern: &Regex,
        each: &mut RowSink<'_>,
    ) -> Result<(), FleetError> {
        type Calls<'a> = HashMap<(u32, &'a str, Option<&'a str>), i64, RandomState>;
        let mut calls = Calls::default();
        let mut found = Vec::new();
        for ((event, stack), weight) in self.by_stack() {
            let frames: Vec<StoredFrame<'_>> = self.stacks.frames(stack).collect();
            found.clear();
            for (depth, frame) in frames.iter().enumerate() {
                if let Some(name) = frame.function.filter(|name| pattern.is_match(name)) {
                    found.push((name, frames.get(depth + 1).and_then(|caller| caller.function)));
                }
            }
            found.sort_unstable();
            found.dedup();
            for (name, caller) in &found {
                *calls.entry((event, *name, *caller)).or_default() += weight;
            }
        }
        let event = |number: u32| self.sums.text(number).unwrap_or_default();
        let mut rows: Vec<_> = calls.into_iter().collect();
        rows.sort_unstable_by_key(|((number, name, caller), weight)| {
            (event(*number), *name, -weight, caller.is_none(), *caller)
        });
        for ((number, name, caller), weight) in rows {
            each(&[
                RowValue::Text(event(number)),
                RowValue::Text(name),
                RowValue::from_text(caller),
                RowValue::Int(weight),
            ])?;
        }
        Ok(())
    }

    /// Passes the builds that have frames without a name.
    pub(super) fn pass_builds(&self, each: &mut RowSink<'_>) -> Result<(), FleetError> {
        type Build<'a> = (Option<&'a str>, Option<&'a str>);
        let mut builds: HashMap<(u32, Build<'_>), [i64; 2], RandomState> = HashMap::default();
        let mut found: Vec<(Build<'_>, bool)> = Vec::new();
        for ((event, stack), weight) in self.by_stack() {
            found.clear();
            for (depth, frame) in self.stacks.frames(stack).enumerate() {
                if frame.function.is_none() && frame != StoredFrame::default() {
                    found.push(((frame.build_id, frame.module), depth > 0));
                }
            }
            // Of equal builds the innermost is first.
            found.sort_unstable();
            found.dedup_by_key(|(build, _)| *build);
            for (build, has_callee) in &found {
                let [own, total] = builds.entry((event, *build)).or_default();
                *own += if *has_callee { 0 } else { weight };
                *total += weight;
            }
        }
        let weights = self.weights();
        let event = |number: u32| self.sums.text(number).unwrap_or_default();
        let mut rows: Vec<_> = builds.into_iter().collect();
        rows.sort_unstable_by_key(|((number, (build_id, module)), [own, total])| {
            let order = (build_id.is_none(), *build_id, module.is_none(), *module);
            (event(*number), -total, -own, order)
        });
        for ((number, (build_id, module)), [own, total]) in rows {
            each(&[
                RowValue::Text(event(number)),
                RowValue::from_text(build_id),
                RowValue::from_text(module),
                RowValue::Int(own),
                RowValue::Int(total),
                RowValue::Int(weights.get(event(number)).copied().unwrap_or(0)),
            ])?;
        }
        Ok(())
    }
}

fn name<'a>(frame: &StoredFrame<'a>, by: Grouping) -> Option<&'a str> {
    match by {
        Grouping::Module => frame.module,
        Grouping::Column(_) => frame.function,
    }
}
