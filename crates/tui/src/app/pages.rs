//! The ledger page, the menu's entries, and files that are printed.

use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;

use tare_format::printable;
use tare_profile::Profile;
use tare_render::{TableView, function_name, ledger_lines, loss_lines};

use super::overlay::MenuItem;
use super::status;
use crate::keys::Action;
use crate::model::Model;
use crate::view::Subject;

/// Highest number of a printed file.
const MAX_NUMBER: u32 = 1000;

/// Returns the lines of the ledger and the losses.
pub(super) fn ledger_page(model: &mut Model) -> Vec<String> {
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
            "There is no ledger: another recorder made the recording, or its end isn't loaded yet"
                .to_owned(),
        ),
    }
    lines
}

/// Returns the entries of the menu of what is under the cursor.
pub(super) fn menu_items(profile: &Profile, subject: &Subject, has_filters: bool) -> Vec<MenuItem> {
    let mut items = Vec::new();
    let mut add = |text: String, action| items.push(MenuItem { text, action });
    let frame = subject.frame.and_then(|frame| profile.frame(frame));
    if let Some(dso) = frame.and_then(|frame| profile.dso(frame.dso?)) {
        let name = printable(profile.string(dso.short));
        add(format!("Zoom into file (DSO) {name}"), Action::ZoomDso);
    }
    if let Some(thread) = subject.thread.and_then(|thread| profile.thread(thread)) {
        add(format!("Zoom into thread {}", thread.tid), Action::ZoomThread);
        add(format!("Zoom into process {}", thread.pid), Action::ZoomProcess);
    }
    if let Some(comm) = subject.comm {
        let name = printable(profile.string(comm));
        add(format!("Zoom into command {name}"), Action::ZoomComm);
    }
    if subject.stack.len() > 1 {
        let name = function_name(profile, subject.frame);
        add(format!("Zoom into this call chain, to {name}"), Action::ZoomStack);
    }
    add("Zoom into the kernel".to_owned(), Action::ZoomKernel);
    if has_filters {
        add("Remove the last filter".to_owned(), Action::Unfilter);
    }
    add("Expand or collapse call chains".to_owned(), Action::Enter);
    add("Header of the recording".to_owned(), Action::Header);
    add("Ledger and losses".to_owned(), Action::Ledger);
    add("Quit".to_owned(), Action::Quit);
    items
}

/// Returns the function table as text, as `tare report --stdio` prints it.
pub(super) fn print_report(model: &mut Model, view: &TableView) -> io::Result<Vec<u8>> {
    let mut printed = Vec::new();
    tare_render::text(&mut printed, model.profile_with_losses(), view)?;
    Ok(printed)
}

/// Writes a text to a new file, `front` and the first free number. Returns the message for the
/// user.
pub(super) fn write_numbered(front: &str, text: io::Result<Vec<u8>>) -> String {
    let create = |number| {
        let name = format!("{front}.{number}");
        let mut options = std::fs::OpenOptions::new();
        match options.write(true).create_new(true).mode(0o600).open(&name) {
            Ok(file) => Some(Ok((name, file))),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => None,
            Err(error) => Some(Err(error)),
        }
    };
    let Some(created) = (1..=MAX_NUMBER).find_map(create) else {
        return format!("{front}.1 to {front}.{MAX_NUMBER} exist: remove some of them");
    };
    let written = created.and_then(|(name, mut file)| {
        file.write_all(&text?)?;
        Ok(name)
    });
    match written {
        Ok(name) => format!("written to {name}"),
        Err(error) => format!("can't write the file: {error}"),
    }
}
