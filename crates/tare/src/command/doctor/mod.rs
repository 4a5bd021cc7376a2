//! `tare doctor`: what this machine and user can do, what each limit costs, and what lifts it.

mod cgroups;
mod events;
mod facts;
mod item;
mod limits;
mod machine;
mod remedy;
mod text;

use std::io::{IsTerminal, Write};

use serde::Serialize;

use self::facts::Facts;
use self::item::{Group, Item};
use crate::Outcome;
use crate::cli::raw::Doctor;
use crate::exit::Exit;
use crate::terminal;

/// The version of the `--json` document: raised when a field or an id changes its meaning or goes.
const VERSION: u32 = 1;

/// All that doctor found.
#[derive(Debug, Serialize)]
struct Report {
    version: u32,
    /// What tare can do here, in a sentence.
    verdict: String,
    /// Whether each kind of counting works.
    abilities: events::Abilities,
    items: Vec<Item>,
}

pub(crate) fn run(raw: &Doctor) -> Outcome {
    let report = examine(&Facts::of_this_machine());
    let stdout = std::io::stdout();
    let output = if raw.json {
        serde_json::to_string_pretty(&report)? + "\n"
    } else {
        text::render(&report, stdout.is_terminal() && !terminal::is_plain())
    };
    stdout.lock().write_all(output.as_bytes())?;
    Ok(Exit::Success)
}

fn examine(facts: &Facts<'_>) -> Report {
    let (abilities, event_items) = events::examine(facts);
    let mut items = machine::examine(facts);
    items.extend(event_items);
    items.extend(limits::examine(facts));
    items.extend(cgroups::examine(facts));
    items.extend(machine::examine_bpf(facts));
    items.sort_by_key(|item| Group::ALL.iter().position(|group| *group == item.group));
    Report { version: VERSION, verdict: abilities.verdict(), abilities, items }
}

#[cfg(test)]
mod tests;
