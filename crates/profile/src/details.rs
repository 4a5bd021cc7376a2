//! The details of rows, and edits of rows by their call chains.

use crate::detail::{Detail, Value};
use crate::ids::{DetailsId, FrameId, Id, StringId};
use crate::key::FunctionKey;
use crate::profile::Profile;
use crate::rows::{Row, RowTable};

impl Profile {
    /// Sets the details that rows have, in the order of their values.
    pub fn set_details(&mut self, details: &[Detail]) {
        self.details.set_keys(details);
    }

    /// Adds the values of a row's details.
    pub fn add_details(&mut self, values: &[Value]) -> DetailsId {
        self.details.insert(values)
    }

    /// Returns the value of a detail.
    #[must_use]
    pub fn detail(&self, details: Option<DetailsId>, key: Detail) -> Value {
        details.map_or(Value::None, |id| self.details.value(id, key))
    }

    /// Sets [`Detail::Parent`] of each row to the innermost function of its call chain whose name
    /// satisfies `is_parent`.
    pub fn find_parents(&mut self, is_parent: impl Fn(&[u8]) -> bool) {
        if !self.details.keys().contains(&Detail::Parent) {
            return;
        }
        let parents: Vec<Option<StringId>> = self
            .frame_ids()
            .map(|frame| self.function_name(frame).filter(|name| is_parent(self.string(*name))))
            .collect();
        for (row, weight) in self.take_rows().iter() {
            let mut frames = self.frames_of(row.stack).iter();
            let parent = frames.find_map(|frame| parents.get(frame.index())?.as_ref());
            let parent = parent.map_or(Value::None, |name| Value::Text(*name));
            let details = Some(self.details.insert_with(row.details, Detail::Parent, parent));
            self.add_samples(Row { details, ..*row }, weight);
        }
    }

    /// Attributes the callees of matching functions to these functions: removes the frames of each
    /// call chain inside of the outermost matching one.
    pub fn ignore_callees(&mut self, is_match: impl Fn(&[u8]) -> bool) {
        let matches: Vec<bool> = self
            .frame_ids()
            .map(|frame| self.function_name(frame).is_some_and(|name| is_match(self.string(name))))
            .collect();
        for (row, weight) in self.take_rows().iter() {
            let chain = self.frames_of(row.stack);
            let is_match = |frame: &FrameId| matches.get(frame.index()) == Some(&true);
            let outermost = chain.iter().rposition(is_match);
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

    /// Removes all rows and returns them.
    fn take_rows(&mut self) -> RowTable {
        std::mem::take(&mut self.rows)
    }

    fn function_name(&self, frame: FrameId) -> Option<StringId> {
        let FunctionKey::Named(symbol) = FunctionKey::at_frame(self, Some(frame)) else {
            return None;
        };
        Some(self.symbol(symbol)?.name)
    }
}
