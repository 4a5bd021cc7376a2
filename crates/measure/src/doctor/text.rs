//! The text of `tare doctor`: at most [`WIDTH`] columns, but for commands, which stay whole to be
//! copied.

use std::collections::HashSet;
use std::fmt::Write;

use super::Report;
use super::item::{Group, Item, RemedyAction, State};
use tare_format::printable;

const WIDTH: usize = 100;
/// Column of the findings, after two spaces, the state and the title.
const INDENT: usize = 32;

pub(super) fn render(report: &Report, color: bool) -> String {
    let mut out = String::new();
    wrapped(&mut out, &report.verdict, 0, 0);
    let mut noted = HashSet::new();
    for group in Group::ALL {
        let _ = writeln!(out, "\n{}", painted(group.heading(), "1", color));
        for item in report.items.iter().filter(|item| item.group == group) {
            render_item(&mut out, item, &mut noted, color);
        }
    }
    out
}

/// Prints an item. `noted` holds the notes printed so far, which aren't repeated.
fn render_item<'a>(out: &mut String, item: &'a Item, noted: &mut HashSet<&'a str>, color: bool) {
    let (state, code) = match item.state {
        State::Ok => ("ok", "32"),
        State::Limited => ("limited", "33"),
        State::Missing => ("missing", "31"),
        State::Unknown => ("unknown", "2"),
    };
    let _ = write!(out, "  {} {:<19} ", painted(&format!("{state:<8}"), code, color), item.title);
    wrapped(out, &item.found, INDENT - 1, INDENT - 1);
    if let Some(cost) = &item.cost {
        let _ = write!(out, "{:11}costs: ", "");
        wrapped(out, cost, 18, 18);
    }
    for remedy in &item.remedies {
        let (mark, how) = match &remedy.how {
            RemedyAction::Command(command) => ("$", command),
            RemedyAction::Setting(setting) => (">", setting),
        };
        let _ = writeln!(out, "{:11}{} {}", "", painted(mark, "36", color), one_line(how));
        if noted.insert(&remedy.note) {
            let _ = write!(out, "{:13}", "");
            wrapped(out, &remedy.note, 13, 13);
        }
    }
}

fn painted(text: &str, code: &str, color: bool) -> String {
    if color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Text from outside, on one line.
fn one_line(text: &str) -> String {
    printable(text).into_owned()
}

/// Writes words from column `at` on, and what doesn't fit on further lines from column `indent`;
/// ends the line.
fn wrapped(out: &mut String, text: &str, at: usize, indent: usize) {
    let mut column = at;
    let mut first = true;
    for word in one_line(text).split(' ') {
        let length = word.chars().count();
        if !first && column + 1 + length > WIDTH {
            let _ = write!(out, "\n{:indent$}", "");
            (column, first) = (indent, true);
        }
        let blank = if first { "" } else { " " };
        let _ = write!(out, "{blank}{word}");
        column += length + blank.len();
        first = false;
    }
    out.push('\n');
}
