//! The query of the views, and its changes.

use tare_profile::{EventId, FunctionKey, NewIds, Term, Weight};

use super::filters::is_same_kind;
use crate::model::Query;

/// The query of the views, with a number that changes with it.
///
/// Invariant: every change by the user raises the revision, so a view that was filled at another
/// revision is stale.
#[derive(Debug)]
pub(super) struct QueryState {
    query: Query,
    revision: u64,
    /// The weight of the samples that pass the filters.
    pub(super) passing: Weight,
}

impl QueryState {
    /// Starts with these filters; percentages are of the samples that `base` leaves.
    pub(super) fn new(base: Vec<Term>, terms: Vec<Term>) -> Self {
        let query = Query { base, terms, ..Query::default() };
        Self { query, revision: 0, passing: Weight::default() }
    }

    /// Returns the query.
    pub(super) fn query(&self) -> &Query {
        &self.query
    }

    /// Returns the number of the last change.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    fn change(&mut self) -> &mut Query {
        self.revision += 1;
        &mut self.query
    }

    /// Adds a filter, which replaces filters of the same kind.
    pub(super) fn add(&mut self, term: Term) {
        let terms = &mut self.change().terms;
        terms.retain(|known| !is_same_kind(known, &term));
        terms.push(term);
    }

    /// Adds a filter, or removes it if it is set.
    pub(super) fn toggle(&mut self, term: Term) {
        if !self.remove(&term) {
            self.query.terms.push(term);
        }
    }

    /// Removes a filter; returns `false` if it isn't set.
    pub(super) fn remove(&mut self, term: &Term) -> bool {
        let terms = &mut self.change().terms;
        let count = terms.len();
        terms.retain(|known| known != term);
        terms.len() < count
    }

    /// Filters by a part of a function name; an empty one removes that filter.
    pub(super) fn set_symbol_part(&mut self, part: &str) {
        let terms = &mut self.change().terms;
        terms.retain(|term| !matches!(term, Term::Symbol(_)));
        if !part.is_empty() {
            terms.push(Term::Symbol(part.as_bytes().to_vec()));
        }
    }

    /// Removes the last filter, also of those that percentages obey; returns `false` if none is
    /// set.
    pub(super) fn remove_last(&mut self) -> bool {
        self.remove_last_term() || self.change().base.pop().is_some()
    }

    /// Removes the last filter, except those that percentages obey; returns `false` if none is set.
    pub(super) fn remove_last_term(&mut self) -> bool {
        self.change().terms.pop().is_some()
    }

    /// Removes all filters.
    pub(super) fn remove_all(&mut self) {
        let query = self.change();
        query.terms.clear();
        query.base.clear();
    }

    /// Switches between percentages of the displayed samples and of all.
    pub(super) fn toggle_relative(&mut self) {
        let query = self.change();
        query.relative = !query.relative;
    }

    /// Selects an event.
    pub(super) fn set_event(&mut self, event: EventId) {
        self.change().event = Some(event);
    }

    /// Selects the first of these events unless the selected one is among them. The caller fills
    /// the views afterwards, so this doesn't raise the revision.
    pub(super) fn select_known_event(&mut self, events: &[(EventId, Weight)]) {
        if !events.iter().any(|(event, _)| Some(*event) == self.query.event) {
            self.query.event = events.first().map(|(event, _)| *event);
        }
    }

    /// Maps ids to the profile's new ones. Call chains without samples are dropped.
    pub(super) fn renumber(&mut self, now: &NewIds) {
        let renumbered = |term: Term| match term {
            Term::Stack(stack) => {
                let stack: Option<Vec<FunctionKey>> =
                    stack.into_iter().map(|function| now.function(function)).collect();
                stack.map(Term::Stack)
            }
            other => Some(other),
        };
        let terms = &mut self.change().terms;
        *terms = std::mem::take(terms).into_iter().filter_map(renumbered).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raises_the_revision_with_every_change() {
        let mut state = QueryState::new(vec![Term::Cpu(0)], Vec::new());
        let changes: [fn(&mut QueryState); 6] = [
            |state| state.add(Term::Pid(1)),
            |state| state.toggle(Term::Tid(2)),
            |state| state.set_symbol_part("work"),
            |state| state.toggle_relative(),
            |state| assert!(state.remove_last()),
            |state| state.remove_all(),
        ];
        for change in changes {
            let before = state.revision();
            change(&mut state);
            assert!(state.revision() > before);
        }
        assert_eq!(state.query().conditions().count(), 0);
    }

    #[test]
    fn replaces_filters_of_the_same_kind() {
        let mut state = QueryState::new(Vec::new(), vec![Term::Pid(1)]);
        state.add(Term::Tid(2));
        state.add(Term::Pid(3));
        assert_eq!(state.query().terms, [Term::Tid(2), Term::Pid(3)]);
        state.toggle(Term::Pid(3));
        state.set_symbol_part("");
        assert_eq!(state.query().terms, [Term::Tid(2)]);
    }

    #[test]
    fn removes_the_filters_that_percentages_obey_last() {
        let mut state = QueryState::new(vec![Term::Cpu(0)], vec![Term::Pid(1)]);
        assert!(state.remove_last_term() && !state.remove_last_term());
        assert!(state.remove_last() && !state.remove_last());
    }
}
