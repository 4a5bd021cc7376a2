//! The views, and what each line-based action does in each of them.

use tare_profile::{FrameId, FunctionKey, NewIds, Profile, SymbolId};
use tare_render::{TableView, function_name};

use super::query_state::QueryState;
use crate::keys::View;
use crate::list::{Item, List};
use crate::model::{Model, Query, Tree, callers_and_callees, whole_tree};
use crate::paint::has;
use crate::view::Subject;
use crate::view::annotate::{AnnotateView, CodeView};
use crate::view::flame::FlameView;
use crate::view::functions::FunctionsView;
use crate::view::timeline::TimelineView;
use crate::view::trees::{TreePart, TreesView};

/// Percentage below which branches of a tree are left out.
const LEAST_PERCENT: f64 = 0.01;

/// The views. Each keeps its cursor and its expanded lines while others are on the screen.
///
/// Invariant: the view on the screen was filled at the revision `filled`; it is stale at any other.
pub(super) struct Views {
    pub(super) functions: FunctionsView,
    pub(super) callers: TreesView,
    pub(super) tree: TreesView,
    pub(super) flame: FlameView,
    pub(super) timeline: TimelineView,
    pub(super) annotate: AnnotateView,
    /// The function whose callers and callees are shown.
    callers_of: Option<FrameId>,
    /// The query's revision that the view on the screen shows; `None` if it has to be filled
    /// whatever the query.
    filled: Option<u64>,
}

impl Views {
    /// Creates empty views.
    pub(super) fn new(table: TableView, code: CodeView) -> Self {
        Self {
            functions: FunctionsView::new(table),
            callers: TreesView::default(),
            tree: TreesView::default(),
            flame: FlameView::default(),
            timeline: TimelineView::default(),
            annotate: AnnotateView::new(code),
            callers_of: None,
            filled: None,
        }
    }

    /// Has the view on the screen filled again.
    pub(super) fn invalidate(&mut self) {
        self.filled = None;
    }

    /// Whether the view on the screen shows this revision of the query.
    pub(super) fn is_filled_at(&self, revision: u64) -> bool {
        self.filled == Some(revision)
    }

    /// Fills a view with the loaded samples, for a screen of this width. Returns `false` if the
    /// view needs call chains and no sample has one.
    pub(super) fn fill(
        &mut self,
        view: View,
        model: &mut Model,
        query: &QueryState,
        cells: u16,
    ) -> bool {
        self.filled = Some(query.revision());
        let query = query.query();
        match view {
            View::Tree | View::Flame => {
                let tree = whole_tree(model, query, LEAST_PERCENT);
                let has_chains = !tree.tree.nodes().is_empty();
                if view == View::Flame {
                    self.flame.replace(model.profile(), tree);
                } else {
                    self.tree.replace(model.profile(), vec![TreePart::whole(tree)]);
                }
                return has_chains;
            }
            View::Callers => self.fill_callers(model, query),
            View::Timeline => self.timeline.refresh(model, query, cells),
            // Instructions keep the weights of the moment when they were opened.
            View::Annotate => {}
            View::Functions | View::Text => self.functions.refresh(model, query),
        }
        true
    }

    fn fill_callers(&mut self, model: &mut Model, query: &Query) {
        let Some(frame) = self.callers_of else { return };
        let profile = model.profile();
        let function = FunctionKey::at_frame(profile, Some(frame));
        let name = function_name(profile, Some(frame));
        let [callers, callees] = callers_and_callees(model, query, function, LEAST_PERCENT);
        let part = |title: String, tree: Tree, has_own| {
            let function = Some(frame);
            TreePart { title, tree, function, has_own, starts_at_root: false }
        };
        let parts = vec![
            part(format!("Callers of {name}"), callers, false),
            part(format!("Callees of {name}"), callees, true),
        ];
        self.callers.replace(model.profile(), parts);
    }

    /// Selects the function whose callers and callees are shown; without one, keeps the last.
    /// Returns `false` if none was ever selected.
    pub(super) fn set_callers_of(&mut self, frame: Option<FrameId>) -> bool {
        self.callers_of = frame.or(self.callers_of);
        self.callers_of.is_some()
    }

    /// Maps ids to the profile's new ones. Functions without samples are dropped.
    pub(super) fn renumber(&mut self, now: &NewIds) {
        self.callers_of = self.callers_of.and_then(|frame| now.frame(frame));
        let renumbered = |function: SymbolId| now.symbol(function);
        self.annotate.function = self.annotate.function.and_then(renumbered);
        self.flame.renumber(now);
        self.invalidate();
    }

    /// Returns the lines of a view.
    pub(super) fn list(&mut self, view: View) -> &mut List {
        match view {
            View::Callers => &mut self.callers.list,
            View::Tree => &mut self.tree.list,
            View::Timeline => &mut self.timeline.list,
            View::Annotate => &mut self.annotate.list,
            View::Functions | View::Flame | View::Text => &mut self.functions.list,
        }
    }

    /// Returns the text of a view's line.
    fn text(&self, view: View, profile: &Profile, item: &Item) -> String {
        match view {
            View::Callers => self.callers.text(profile, item),
            View::Tree => self.tree.text(profile, item),
            View::Timeline => self.timeline.text(profile, item),
            View::Annotate => self.annotate.text(item),
            View::Functions | View::Flame | View::Text => self.functions.text(profile, item),
        }
    }

    /// Moves the cursor to the next line or function that contains the text; returns `false` if the
    /// view has no match.
    pub(super) fn find(
        &mut self,
        view: View,
        profile: &Profile,
        wanted: &str,
        forward: bool,
    ) -> bool {
        if view == View::Flame {
            return self.flame.find(profile, wanted, forward);
        }
        let mut list = std::mem::take(self.list(view));
        let found = list.find(forward, |item| has(&self.text(view, profile, item), wanted));
        *self.list(view) = list;
        found
    }

    /// Returns what is under the cursor.
    pub(super) fn subject(&self, view: View, profile: &Profile) -> Subject {
        match view {
            View::Callers => self.callers.subject(profile),
            View::Tree => self.tree.subject(profile),
            View::Flame => self.flame.subject(profile),
            View::Timeline => self.timeline.subject(),
            View::Functions | View::Annotate | View::Text => self.functions.subject(),
        }
    }

    /// Expands or collapses the selected line; returns `false` if nothing is below it.
    pub(super) fn toggle(&mut self, view: View, profile: &Profile) -> bool {
        match view {
            View::Callers => self.callers.toggle(profile),
            View::Tree => self.tree.toggle(profile),
            _ => self.functions.toggle(profile),
        }
    }

    /// Expands or collapses everything below the selected row.
    pub(super) fn expand_row(&mut self, view: View, profile: &Profile) {
        match view {
            View::Callers => self.callers.expand(profile, true),
            View::Tree => self.tree.expand(profile, true),
            _ => self.functions.expand(profile, true),
        }
    }

    /// Collapses the selected line or, if it isn't expanded, its parent.
    pub(super) fn collapse(&mut self, view: View, profile: &Profile) {
        match view {
            View::Callers => self.callers.close(profile),
            View::Tree => self.tree.close(profile),
            _ => self.functions.close(profile),
        }
    }

    /// Expands or collapses everything.
    pub(super) fn open_all(&mut self, view: View, profile: &Profile, open: bool) {
        match view {
            View::Callers => self.callers.open_all(profile, open),
            View::Tree => self.tree.open_all(profile, open),
            _ => self.functions.open_all(profile, open),
        }
    }

    /// Switches between names with and without whole paths.
    pub(super) fn toggle_verbose(&mut self) {
        let verbose = !self.functions.verbose;
        self.functions.verbose = verbose;
        self.callers.verbose = verbose;
        self.tree.verbose = verbose;
    }

    /// Scrolls names to the left or right, by a number of cells.
    pub(super) fn scroll(&mut self, cells: isize) {
        for shift in [&mut self.functions.shift, &mut self.callers.shift, &mut self.tree.shift] {
            *shift = shift.saturating_add_signed(cells);
        }
    }

    /// Hides rows and branches below a percentage.
    pub(super) fn set_percent_limit(&mut self, percent: f64) {
        self.functions.view.percent_limit = percent;
        if let Some(graph) = &mut self.functions.view.graph {
            graph.percent_limit = percent;
        }
        self.invalidate();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::{LineKind, Mark};

    fn views() -> Views {
        Views::new(TableView::default(), CodeView::default())
    }

    #[test]
    fn are_stale_at_another_revision() {
        let mut views = views();
        assert!(!views.is_filled_at(0));
        views.filled = Some(3);
        assert!(views.is_filled_at(3) && !views.is_filled_at(4));
        views.set_percent_limit(0.5);
        assert!(!views.is_filled_at(3));
    }

    #[test]
    fn each_view_has_its_own_cursor() {
        let mut views = views();
        let item = |key| Item { key, kind: LineKind::Row(0), depth: 0, mark: Mark::Leaf };
        for view in [View::Functions, View::Callers, View::Tree] {
            views.list(view).replace((0..5).map(item).collect());
        }
        views.list(View::Callers).move_cursor(2);
        views.list(View::Tree).move_cursor(4);
        let cursors =
            [View::Functions, View::Callers, View::Tree].map(|view| views.list(view).cursor);
        assert_eq!(cursors, [0, 2, 4]);
    }
}
