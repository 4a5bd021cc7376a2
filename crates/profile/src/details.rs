//! Details of rows in a profile, and what is asked of their call chains afterwards.

use crate::detail::{Detail, Value};
use crate::ids::{DetailsId, FrameId, Id, StringId};
use crate::key::FunctionKey;
use crate::profile::{Profile, Row};

impl Profile {
    /// Says which details rows have, in their order.
    pub fn set_details(&mut self, details: &[Detail]) {
        self.detail_keys = details.to_vec();
    }

    /// Keeps the values of a row, one for each of its details.
    pub fn add_details(&mut self, values: &[Value]) -> DetailsId {
        self.details.insert(values.into())
    }

    /// The value of a detail.
    #[must_use]
    pub fn detail(&self, details: Option<DetailsId>, wanted: Detail) -> Value {
        let at = self.detail_keys.iter().position(|detail| *detail == wanted);
        let values = details.and_then(|details| self.details.get(details));
        at.zip(values).and_then(|(at, values)| values.get(at).copied()).unwrap_or_default()
    }

    /// Gives each row the innermost frame of its call chain whose function `is_parent`, as
    /// [`Detail::Parent`].
    pub fn find_parents(&mut self, is_parent: impl Fn(&[u8]) -> bool) {
        let Some(at) = self.detail_keys.iter().position(|detail| *detail == Detail::Parent) else {
            return;
        };
        let fits: Vec<Option<StringId>> = self
            .frame_ids()
            .map(|frame| self.function_name(frame).filter(|name| is_parent(self.string(*name))))
            .collect();
        let rows = std::mem::take(&mut self.rows);
        let weights = std::mem::take(&mut self.weights);
        for (row, weight) in rows.iter().zip(weights) {
            let mut frames = self.frames_of(row.stack).iter();
            let parent = frames.find_map(|frame| fits.get(frame.index())?.as_ref());
            let parent = parent.map_or(Value::None, |name| Value::Text(*name));
            let known = row.details.and_then(|details| self.details.get(details));
            let mut values = known.map_or_else(Vec::new, |values| values.to_vec());
            values.resize(self.detail_keys.len(), Value::None);
            values[at] = parent;
            let details = Some(self.add_details(&values));
            self.add_samples(Row { details, ..*row }, weight);
        }
    }

    /// Counts what functions that fit call for these functions themselves: of each call chain what
    /// is inside of the outermost one is left out.
    pub fn ignore_callees(&mut self, fits: impl Fn(&[u8]) -> bool) {
        let is_meant: Vec<bool> = self
            .frame_ids()
            .map(|frame| self.function_name(frame).is_some_and(|name| fits(self.string(name))))
            .collect();
        let rows = std::mem::take(&mut self.rows);
        let weights = std::mem::take(&mut self.weights);
        for (row, weight) in rows.iter().zip(weights) {
            let chain = self.frames_of(row.stack);
            let is_meant = |frame: &FrameId| is_meant.get(frame.index()) == Some(&true);
            let outermost = chain.iter().rposition(is_meant);
            let rest = outermost.map(|at| chain[at..].to_vec());
            let row = match rest {
                Some(rest) => {
                    Row { leaf: rest.first().copied(), stack: self.add_stack(&rest), ..*row }
                }
                None => *row,
            };
            self.add_samples(row, weight);
        }
    }

    fn function_name(&self, frame: FrameId) -> Option<StringId> {
        let FunctionKey::Named(symbol) = FunctionKey::at_frame(self, Some(frame)) else {
            return None;
        };
        Some(self.symbol(symbol)?.name)
    }
}
