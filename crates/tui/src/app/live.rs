//! Keys of the live view, and what stays displayed as old samples are dropped.

use tare_profile::{FunctionKey, NewIds, Space, Term};

use super::App;
use super::overlay::PromptKind;
use crate::keys::Action;
use crate::model::{Model, Pace};

impl App {
    /// Handles keys of the live view; returns `false` for others.
    pub(super) fn act_live(&mut self, model: &mut Model, action: Action) -> bool {
        let Some(live) = model.live() else { return false };
        match action {
            Action::Pause => {
                live.is_paused = !live.is_paused;
                let now =
                    if live.is_paused { "recording stops: SPACE goes on" } else { "recording" };
                self.message = now.to_owned();
            }
            Action::Zero => {
                live.pace.is_zeroed = !live.pace.is_zeroed;
                self.message = format!("the last {} s are shown", live.pace.span().as_secs_f64());
                self.is_stale = true;
            }
            Action::Delay => self.ask(PromptKind::Delay),
            Action::HideKernel => self.toggle_term(Term::NotIn(Space::Kernel)),
            Action::HideUser => self.toggle_term(Term::NotIn(Space::User)),
            _ => return false,
        }
        true
    }

    fn toggle_term(&mut self, term: Term) {
        let before = self.query.terms.len();
        self.query.terms.retain(|known| *known != term);
        if self.query.terms.len() == before {
            self.query.terms.push(term);
        }
        self.is_stale = true;
    }

    pub(super) fn set_delay(&mut self, model: &mut Model, text: &str) {
        match (Pace::seconds(text), model.live()) {
            (Some(delay), Some(live)) => live.pace.delay = delay,
            _ => self.message = format!("'{text}' is no number of seconds from 0.1 to 3600"),
        }
    }

    /// Maps ids to the profile's new ones. Selections without samples are dropped.
    pub(crate) fn renumber(&mut self, now: &NewIds) {
        self.subject = self.subject.and_then(|frame| now.frame(frame));
        self.annotated = self.annotated.and_then(|function| now.symbol(function));
        self.flame.renumber(now);
        let renumbered = |term: Term| match term {
            Term::Stack(stack) => {
                let stack: Option<Vec<FunctionKey>> =
                    stack.into_iter().map(|function| now.function(function)).collect();
                stack.map(Term::Stack)
            }
            other => Some(other),
        };
        self.query.terms =
            std::mem::take(&mut self.query.terms).into_iter().filter_map(renumbered).collect();
        self.is_stale = true;
    }
}
