//! Filters derived from the cursor.

use tare_profile::{Profile, Term};

use super::{App, filters};
use crate::keys::Action;
use crate::model::Model;
use crate::view::Subject;

/// The kernel's name in recordings.
const KERNEL: &[u8] = b"[kernel.kallsyms]";

impl App {
    /// Adds a condition; it replaces one on the same thing.
    pub(super) fn filter(&mut self, term: Term) {
        self.query.terms.retain(|known| !filters::is_same_kind(known, &term));
        self.query.terms.push(term);
        self.is_stale = true;
    }

    /// Filters by what is under the cursor, or removes that filter.
    pub(super) fn zoom(&mut self, model: &mut Model, action: Action) {
        let subject = self.subject(model);
        let profile = model.profile();
        let found = term(profile, &subject, action);
        let is_zoomed = |known: &&Term| is_of(action, known);
        if let Some(at) = self.query.terms.iter().find(is_zoomed).cloned() {
            self.query.terms.retain(|known| *known != at);
            self.is_stale = true;
            return;
        }
        match found {
            Some(term) => self.filter(term),
            None => self.message = format!("{} here: f takes any filter", lacking(action)),
        }
    }
}

/// Whether a condition comes from this zoom.
fn is_of(action: Action, term: &Term) -> bool {
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

fn lacking(action: Action) -> &'static str {
    match action {
        Action::ZoomThread | Action::ZoomProcess => {
            "rows are of several threads (apart with --sort pid, or 5 and b)"
        }
        Action::ZoomComm => "rows are of several commands",
        Action::ZoomCpu => "the row is not of one CPU (5 has rows by CPU)",
        Action::ZoomDso => "there is no file",
        _ => "there is no call chain",
    }
}

fn term(profile: &Profile, subject: &Subject, action: Action) -> Option<Term> {
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
