//! `tare doctor`: what this machine and user can do, what each limit costs, and what lifts it.

mod cgroups;
mod events;
mod facts;
mod item;
mod limits;
mod machine;
mod remedy;
mod text;

use serde::Serialize;

use self::facts::Facts;
use self::item::{Group, Item};

/// The version of the `--json` document: raised when a field or an id changes its meaning or goes.
const VERSION: u32 = 1;

/// All that doctor found.
#[derive(Debug, Serialize)]
pub struct Report {
    version: u32,
    /// What tare can do here, in a sentence.
    verdict: String,
    /// Whether each kind of counting works.
    abilities: events::Abilities,
    items: Vec<Item>,
}

impl Report {
    /// Checks this machine and user.
    #[must_use]
    pub fn of_this_machine() -> Self {
        examine(&Facts::of_this_machine())
    }

    /// As text, at most 100 columns wide but for commands; with colours on a terminal.
    #[must_use]
    pub fn text(&self, color: bool) -> String {
        text::render(self, color)
    }
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
