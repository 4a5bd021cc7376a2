//! Text pages, the printed report, the menu, and refreshing of views.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use tare_profile::FunctionKey;
use tare_render::{function_name, ledger_lines, loss_lines};

use super::overlay::Menu;
use super::{App, status};
use crate::keys::{Action, View};
use crate::model::{Model, Progress, Tree, callers_and_callees, whole_tree};
use crate::view::trees::Part;

/// Percentage below which branches of a tree are left out.
const LEAST_PERCENT: f64 = 0.01;

/// Maximum number of printed reports in a directory.
const PRINTED: u32 = 1000;

impl App {
    /// Refreshes the visible view with what is loaded.
    pub(super) fn refresh_view(&mut self, model: &mut Model) {
        match self.view {
            View::Tree => {
                let tree = whole_tree(model, &self.query, LEAST_PERCENT);
                self.miss_chains(model, &tree);
                let part =
                    Part { title: String::new(), tree, of: None, has_own: true, from_root: true };
                self.tree.replace(model.profile(), vec![part]);
            }
            View::Flame => {
                let tree = whole_tree(model, &self.query, LEAST_PERCENT);
                self.miss_chains(model, &tree);
                self.flame.replace(model.profile(), tree);
            }
            View::Callers => self.refresh_callers(model),
            View::Timeline => self.timeline.refresh(model, &self.query, self.size.width),
            // The instructions are those of the time they were opened.
            View::Annotate => {}
            _ => self.functions.refresh(model, &self.query),
        }
    }

    /// Explains why there is nothing to draw.
    fn miss_chains(&mut self, model: &mut Model, tree: &Tree) {
        let is_loaded = *model.progress() == Progress::Done && model.live().is_none();
        if is_loaded && tree.tree.nodes().is_empty() && self.query.terms.is_empty() {
            self.message = "these have no call chains (tare record -g records them)".to_owned();
        }
    }

    fn refresh_callers(&mut self, model: &mut Model) {
        let Some(frame) = self.subject else { return };
        let profile = model.profile();
        let function = FunctionKey::at_frame(profile, Some(frame));
        let name = function_name(profile, Some(frame));
        let [callers, callees] = callers_and_callees(model, &self.query, function, LEAST_PERCENT);
        let part = |title: String, tree, has_own| {
            let of = Some(frame);
            Part { title, tree, of, has_own, from_root: false }
        };
        let parts = vec![
            part(format!("Who calls {name}"), callers, false),
            part(format!("What {name} calls"), callees, true),
        ];
        self.callers.replace(model.profile(), parts);
    }

    /// Writes the filtered report as text into a new file.
    pub(super) fn print(&mut self, model: &mut Model) {
        self.functions.refresh(model, &self.query);
        let mut printed = Vec::new();
        let written = tare_render::text(&mut printed, model.accounted(), &self.functions.view);
        self.print_into("tare.report", written.map(|()| printed));
    }

    /// Writes a text into a new numbered file.
    pub(super) fn print_into(&mut self, front: &str, text: std::io::Result<Vec<u8>>) {
        let file = (1..=PRINTED).find_map(|number| {
            let name = format!("{front}.{number}");
            let mut options = std::fs::OpenOptions::new();
            match options.write(true).create_new(true).mode(0o600).open(&name) {
                Ok(file) => Some(Ok((name, file))),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => None,
                Err(error) => Some(Err(error)),
            }
        });
        self.message = match file.map(|file| {
            let (name, mut file) = file?;
            file.write_all(&text?)?;
            Ok::<_, std::io::Error>(name)
        }) {
            Some(Ok(name)) => format!("written to {name}"),
            Some(Err(error)) => format!("the report can't be written: {error}"),
            None => format!("{front}.1 to {front}.{PRINTED} are there already"),
        };
    }

    /// Opens the menu of what is under the cursor.
    pub(super) fn open_menu(&mut self, model: &mut Model) {
        let subject = self.subject(model);
        let profile = model.profile();
        let mut items = Vec::new();
        let mut add = |text: String, action| items.push((text, action));
        if let Some(frame) = subject.frame {
            let dso = profile.frame(frame).and_then(|found| profile.dso(found.dso?));
            if let Some(dso) = dso {
                let name = tare_format::printable(profile.string(dso.short));
                add(format!("Zoom into file (DSO) {name}"), Action::ZoomDso);
            }
        }
        if let Some(thread) = subject.thread.and_then(|thread| profile.thread(thread)) {
            add(format!("Zoom into thread {}", thread.tid), Action::ZoomThread);
            add(format!("Zoom into process {}", thread.pid), Action::ZoomProcess);
        }
        if let Some(comm) = subject.comm {
            let name = tare_format::printable(profile.string(comm));
            add(format!("Zoom into command {name}"), Action::ZoomComm);
        }
        if subject.stack.len() > 1 {
            let name = function_name(profile, subject.frame);
            add(format!("Zoom into this call chain, to {name}"), Action::ZoomStack);
        }
        add("Zoom into the kernel".to_owned(), Action::ZoomKernel);
        if self.query.conditions().next().is_some() {
            add("Take the last filter back".to_owned(), Action::Unfilter);
        }
        add("Open or close call chains".to_owned(), Action::Enter);
        add("Header of the recording".to_owned(), Action::Header);
        add("Ledger and losses".to_owned(), Action::Ledger);
        add("Quit".to_owned(), Action::Quit);
        self.menu = Some(Menu { items, cursor: 0 });
    }
}

/// Returns the lines of the ledger and the losses.
pub(super) fn ledger(model: &mut Model) -> Vec<String> {
    let mut lines = vec![format!("Missing: {}", status::missing(model))];
    lines.extend(loss_lines(model.losses()));
    lines.push(String::new());
    if let Some(live) = model.live() {
        lines.push(tare_render::live_line(&live.figures));
        return lines;
    }
    match model.ledger() {
        Some(ledger) => lines.extend(ledger_lines(ledger)),
        None => lines.push(
            "The recording has no ledger: its recorder was not tare, or the end is not loaded yet"
                .to_owned(),
        ),
    }
    lines
}
