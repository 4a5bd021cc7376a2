//! Which view is on the screen, and where ESC leads.

use crate::keys::View;

/// The view on the screen and the view behind it.
///
/// Invariant: `return_to` is never the instruction view, so ESC always leaves that view.
#[derive(Debug)]
pub(super) struct Navigation {
    view: View,
    /// The view that ESC shows after the instruction view.
    return_to: View,
    /// The interface opened with the instruction view, so ESC quits there.
    starts_with_code: bool,
}

/// The result of one step back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BackStep {
    /// Another view is on the screen.
    Switched,
    /// The first view is on the screen; no view is behind it.
    AtFirst,
    /// The interface ends here.
    Quit,
}

impl Navigation {
    /// Starts with the function table.
    pub(super) fn new() -> Self {
        Self { view: View::Functions, return_to: View::Functions, starts_with_code: false }
    }

    /// Returns the view on the screen.
    pub(super) fn view(&self) -> View {
        self.view
    }

    /// Switches to a view. On entering the instructions, remembers the view that
    /// [`Self::step_back`] returns to.
    pub(super) fn show(&mut self, view: View) {
        if view == View::Annotate && self.view != View::Annotate {
            self.return_to = self.view;
        }
        self.view = view;
    }

    /// Makes the instruction view the first one: ESC quits there.
    pub(super) fn start_with_code(&mut self) {
        self.starts_with_code = true;
    }

    /// Goes back to the view behind the current one.
    pub(super) fn step_back(&mut self) -> BackStep {
        match self.view {
            View::Annotate if self.starts_with_code => return BackStep::Quit,
            View::Functions => return BackStep::AtFirst,
            View::Annotate => self.view = self.return_to,
            _ => self.view = View::Functions,
        }
        BackStep::Switched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_back_from_instructions_to_the_view_they_were_opened_in() {
        let mut navigation = Navigation::new();
        assert_eq!(navigation.step_back(), BackStep::AtFirst);
        navigation.show(View::Tree);
        navigation.show(View::Annotate);
        // The next function's instructions replace the first one's.
        navigation.show(View::Annotate);
        assert_eq!((navigation.step_back(), navigation.view()), (BackStep::Switched, View::Tree));
        assert_eq!(navigation.step_back(), BackStep::Switched);
        assert_eq!(
            (navigation.step_back(), navigation.view()),
            (BackStep::AtFirst, View::Functions)
        );
    }

    #[test]
    fn quits_from_instructions_that_it_started_with() {
        let mut navigation = Navigation::new();
        navigation.start_with_code();
        navigation.show(View::Annotate);
        assert_eq!(navigation.step_back(), BackStep::Quit);
        navigation.show(View::Flame);
        assert_eq!(navigation.step_back(), BackStep::Switched);
    }
}
