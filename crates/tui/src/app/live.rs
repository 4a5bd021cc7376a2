//! Actions of the live view, and what stays displayed as old samples are dropped.

use tare_profile::{NewIds, Space, Term};

use super::App;
use super::overlay::PromptKind;
use crate::keys::Action;
use crate::model::{Model, Pace};

impl App {
    /// Executes actions of the live view; returns `false` for others.
    pub(super) fn act_live(&mut self, model: &mut Model, action: Action) -> bool {
        let Some(live) = model.live() else { return false };
        match action {
            Action::Pause => {
                live.is_paused = !live.is_paused;
                self.bottom.say(if live.is_paused {
                    "recording is paused: SPACE resumes it"
                } else {
                    "recording"
                });
            }
            Action::Zero => {
                live.pace.is_zeroed = !live.pace.is_zeroed;
                let seconds = live.pace.span().as_secs_f64();
                self.bottom.say(format!("showing the last {seconds} s"));
                self.views.invalidate();
            }
            Action::Delay => self.overlays.open_prompt(PromptKind::Delay),
            Action::HideKernel => self.query.toggle(Term::NotIn(Space::Kernel)),
            Action::HideUser => self.query.toggle(Term::NotIn(Space::User)),
            _ => return false,
        }
        true
    }

    /// Sets the refresh interval.
    pub(super) fn set_delay(&mut self, model: &mut Model, text: &str) {
        match (Pace::seconds(text), model.live()) {
            (Some(delay), Some(live)) => live.pace.delay = delay,
            _ => {
                let message = format!("'{text}' is not a number of seconds from 0.1 to 3600");
                self.bottom.say(message);
            }
        }
    }

    /// Maps ids to the profile's new ones. Selections without samples are dropped.
    pub(crate) fn renumber(&mut self, now: &NewIds) {
        self.views.renumber(now);
        self.query.renumber(now);
    }
}
