//! Lists a machine's events, and why others are unavailable, for `tare list`.

mod inventory;
mod probe;
mod selection;
mod text;

use std::io::{self, Write};

use serde::{Serialize, Serializer};
use tare_kernel::host::Host;
use tare_kernel::open::Kernel;

use inventory::Section;
use selection::EventSelection;

/// Note about the vendor event names that `perf list` shows and tare doesn't have.
pub const VENDOR_EVENTS: &str = "Names from vendors' event tables are not included. Take the numbers from the vendor's manual: rNNN, or pmu/event=N,umask=N/ with the terms of `tare list raw`.";

/// The selected events of a machine. Events were opened to learn whether they are available, except
/// for tracepoints, raw events, and events that need a parameter. Serializes as the list of its
/// sections.
#[derive(Debug)]
pub struct Listing {
    sections: Vec<Section>,
    is_everything: bool,
}

impl Listing {
    /// Lists the events selected by `words`: kinds, patterns or parts of names. Without words,
    /// lists all events, but only counts the tracepoints of each system.
    #[must_use]
    pub fn new(words: &[String], host: &Host, kernel: &dyn Kernel) -> Self {
        let selection = EventSelection::new(words);
        let sections = inventory::list_events(&selection, host, kernel);
        Self { sections, is_everything: selection.is_everything() }
    }

    /// Writes the names of the available events, separated by spaces, in one line.
    ///
    /// # Errors
    /// Fails if writing to `out` fails.
    pub fn write_names(&self, out: &mut impl Write) -> io::Result<()> {
        let events = self.sections.iter().flat_map(|section| &section.events);
        let names: Vec<&str> = events
            .filter(|event| event.lacks.is_none())
            .flat_map(|event| [Some(&*event.name), event.alias])
            .flatten()
            .collect();
        writeln!(out, "{}", names.join(" "))
    }

    /// Whether nothing matches the selection.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    /// Writes the list as text.
    ///
    /// # Errors
    /// Fails if writing to `out` fails.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        text::write(out, &self.sections, self.is_everything.then_some(VENDOR_EVENTS))
    }
}

impl Serialize for Listing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.sections.serialize(serializer)
    }
}
