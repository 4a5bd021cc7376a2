//! The text of `tare doctor`, wrapped at [`WIDTH`] columns. Commands and settings are not wrapped,
//! so that they can be copied.

use std::collections::HashSet;
use std::fmt::Write;

use super::Report;
use super::item::{Group, Item, RemedyAction, State};
use tare_format::printable;

/// Width at which text is wrapped between words, in columns.
const WIDTH: usize = 100;
/// Column of the findings, counted from 1: they follow two spaces, the state and the title.
const INDENT: usize = 32;

pub(super) fn render(report: &Report, color: bool) -> String {
    let mut out = String::new();
    write_wrapped(&mut out, &report.verdict, 0, 0);
    let mut noted = HashSet::new();
    for group in Group::ALL {
        let _ = writeln!(out, "\n{}", paint(group.heading(), "1", color));
        for item in report.items.iter().filter(|item| item.group == group) {
            render_item(&mut out, item, &mut noted, color);
        }
    }
    out
}

/// Writes an item. `noted` holds the notes written so far, which aren't repeated.
fn render_item<'a>(out: &mut String, item: &'a Item, noted: &mut HashSet<&'a str>, color: bool) {
    let (state, code) = match item.state {
        State::Ok => ("ok", "32"),
        State::Limited => ("limited", "33"),
        State::Missing => ("missing", "31"),
        State::Unknown => ("unknown", "2"),
    };
    let _ = write!(out, "  {} {:<19} ", paint(&format!("{state:<8}"), code, color), item.title);
    write_wrapped(out, &item.found, INDENT - 1, INDENT - 1);
    if let Some(cost) = &item.cost {
        let _ = write!(out, "{:11}costs: ", "");
        write_wrapped(out, cost, 18, 18);
    }
    for remedy in &item.remedies {
        let (mark, how) = match &remedy.how {
            RemedyAction::Command(command) => ("$", command),
            RemedyAction::Setting(setting) => (">", setting),
        };
        let _ = writeln!(out, "{:11}{} {}", "", paint(mark, "36", color), one_line(how));
        if noted.insert(&remedy.note) {
            let _ = write!(out, "{:13}", "");
            write_wrapped(out, &remedy.note, 13, 13);
        }
    }
}

fn paint(text: &str, code: &str, color: bool) -> String {
    if color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Escapes control characters, so that the text stays on one line.
fn one_line(text: &str) -> String {
    printable(text).into_owned()
}

/// Writes words from column `at` (counted from 0), indents further lines by `indent` columns, and
/// ends the line.
fn write_wrapped(out: &mut String, text: &str, at: usize, indent: usize) {
    let mut column = at;
    let mut first = true;
    for word in one_line(text).split(' ') {
        let length = word.chars().count();
        if !first && column + 1 + length > WIDTH {
            let _ = write!(out, "\n{:indent$}", "");
            column = indent;
            first = true;
        }
        let blank = if first { "" } else { " " };
        let _ = write!(out, "{blank}{word}");
        column += length + blank.len();
        first = false;
    }
    out.push('\n');
}
