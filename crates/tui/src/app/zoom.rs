//! Filters derived from the cursor.

use tare_profile::{Profile, Term};

use super::App;
use crate::keys::Action;
use crate::model::Model;
use crate::view::Subject;

/// The kernel's name in recordings.
const KERNEL: &[u8] = b"[kernel.kallsyms]";

impl App {
    /// Filters by what is under the cursor, or removes that filter.
    pub(super) fn zoom(&mut self, model: &mut Model, action: Action) {
        let subject = self.subject(model);
        let term = term_for(action, model.profile(), &subject);
        let is_zoomed = |known: &&Term| is_zoom(action, known);
        if let Some(known) = self.query.query().terms.iter().find(is_zoomed).cloned() {
            self.query.remove(&known);
            return;
        }
        match term {
            Some(term) => self.query.add(term),
            None => self.bottom.say(format!("{}; f takes any filter", reason_for_none(action))),
        }
    }
}

/// Whether an action sets conditions like this one.
fn is_zoom(action: Action, term: &Term) -> bool {
    match (action, term) {
        (Action::ZoomThread, Term::Tid(_))
        | (Action::ZoomProcess, Term::Pid(_))
        | (Action::ZoomComm, Term::Comm(_))
        | (Action::ZoomCpu, Term::Cpu(_))
        | (Action::ZoomStack, Term::Stack(_)) => true,
        (Action::ZoomKernel, Term::Dso(name)) => name == KERNEL,
        (Action::ZoomDso, Term::Dso(name)) => name != KERNEL,
        _ => false,
    }
}

/// Returns why an action has nothing to filter by.
fn reason_for_none(action: Action) -> &'static str {
    match action {
        Action::ZoomThread | Action::ZoomProcess => {
            "the row covers several threads (--sort pid, or 5 and b, has a row for each)"
        }
        Action::ZoomComm => "the row covers several commands",
        Action::ZoomCpu => "the row covers several CPUs (5 has a row for each)",
        Action::ZoomDso => "there is no file on this line",
        _ => "there is no call chain on this line",
    }
}

fn term_for(action: Action, profile: &Profile, subject: &Subject) -> Option<Term> {
    let thread = || profile.thread(subject.thread?);
    Some(match action {
        Action::ZoomThread => Term::Tid(thread()?.tid),
        Action::ZoomProcess => Term::Pid(thread()?.pid),
        Action::ZoomComm => Term::Comm(profile.string(subject.comm?).to_vec()),
        Action::ZoomDso => {
            let dso = profile.dso(profile.frame(subject.frame?)?.dso?)?;
            Term::Dso(profile.string(dso.path).to_vec())
        }
        Action::ZoomCpu => Term::Cpu(subject.cpu?),
        Action::ZoomKernel => Term::Dso(KERNEL.to_vec()),
        Action::ZoomStack => {
            Some(subject.stack.clone()).filter(|stack| !stack.is_empty()).map(Term::Stack)?
        }
        _ => return None,
    })
}
