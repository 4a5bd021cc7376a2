//! The events that a machine has, and why it lacks others: what `tare list` shows.

mod inventory;
mod probe;
mod selection;
mod text;

use std::io::{self, Write};

use serde::{Serialize, Serializer};
use tare_kernel::host::Host;
use tare_kernel::open::Kernel;

use inventory::Section;
use selection::Selection;

/// What users of `perf` look for in vain, and what to do instead.
pub const VENDOR_EVENTS: &str = "Names from vendors' event tables are not included. Take the numbers from the vendor's manual: rNNN, or pmu/event=N,umask=N/ with the terms of `tare list raw`.";

/// The events of a machine, or those of them that were asked for. What is shown as available was
/// opened once. Serialized it is the list of its sections.
#[derive(Debug)]
pub struct Listing {
    sections: Vec<Section>,
    is_everything: bool,
}

impl Listing {
    /// Looks for what `what` names: kinds, patterns or parts of names; nothing is everything.
    #[must_use]
    pub fn new(what: &[String], host: &Host, kernel: &dyn Kernel) -> Self {
        let selection = Selection::new(what);
        let sections = inventory::sections(&selection, host, kernel);
        Self { sections, is_everything: selection.is_everything() }
    }

    /// Whether nothing has such a name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    /// Writes it for people.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        text::write(out, &self.sections, self.is_everything.then_some(VENDOR_EVENTS))
    }
}

impl Serialize for Listing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.sections.serialize(serializer)
    }
}
