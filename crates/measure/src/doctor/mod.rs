//! `tare doctor`: the abilities of this machine and user, the cost of each limit, and its remedies.

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

/// The version of the `--json` document. It rises if a field or an id changes its meaning or is
/// removed.
const VERSION: u32 = 1;

/// The results of all checks.
#[derive(Debug, Serialize)]
pub struct Report {
    version: u32,
    /// States in one or two sentences what tare can count and what it can't.
    verdict: String,
    /// Whether each kind of counting works.
    abilities: events::Abilities,
    items: Vec<Item>,
}

impl Report {
    /// Checks this machine and user.
    #[must_use]
    pub fn for_this_machine() -> Self {
        examine(&Facts::for_this_machine())
    }

    /// Formats the report as text, wrapped at 100 columns except for commands and settings.
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
