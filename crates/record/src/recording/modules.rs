//! Finds kernel modules that are loaded during a recording.
//!
//! The kernel writes no record of them. They are looked up when devices come or go (the kernel
//! sends `add@/module/NAME`), from time to time, before the next file of a series, and at the end.
//! Their records have no time, so readers apply them at their position in the file, which is before
//! the samples of the current round. Samples in a module that are read after the lookup can
//! therefore be symbolized.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use tare_format::record::Layout;
use tare_kernel::host::Host;
use tare_kernel::procfs::{self, KernelModule};

use super::{Recording, StopReason};
use crate::describe::module_build_id;
use crate::session::RecordSession;
use crate::synthesize;

/// Shortest interval of lookups without a message, if the kernel's messages are received. Otherwise
/// each flush looks.
const LOOK: Duration = Duration::from_secs(1);

/// The modules that the recording has described.
#[derive(Debug)]
pub(super) struct Modules {
    /// `None` if no event counts in the kernel.
    known: Option<Vec<KernelModule>>,
    /// Number of folders in `/sys/module`: one per module, and some for parts of the kernel.
    folders: Option<u64>,
    /// Whether the build ids of the initial modules were read.
    has_ids: bool,
    /// Time of the last lookup.
    looked: Option<Instant>,
}

impl Modules {
    /// Must be called before the list of modules is read.
    pub(super) fn new(session: &RecordSession) -> Self {
        let is_wanted = session.tracking().is_some() && session.counts_in_kernel();
        let folders = if is_wanted { folders(&session.backend.host) } else { None };
        Self { known: is_wanted.then(Vec::new), folders, has_ids: false, looked: None }
    }

    /// Whether a lookup is due without a message.
    pub(super) fn is_look_due(&self, now: Instant) -> bool {
        self.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= LOOK)
    }

    /// Sets the modules with which the recording, or its next file, begins.
    pub(super) fn begin(&mut self, there: Vec<KernelModule>) {
        self.known = self.known.take().map(|_| there);
    }
}

fn folders(host: &Host) -> Option<u64> {
    std::fs::metadata(host.path("/sys/module")).ok().map(|folder| folder.nlink())
}

impl Recording {
    /// Writes the mappings of newly loaded modules, if the number of folders in `/sys/module` has
    /// changed. The first call reads the build ids of the initial modules.
    pub(super) fn look_at_modules(&mut self, now: Instant) {
        if self.is_stopped() || self.watch.modules.known.is_none() {
            return;
        }
        self.watch.modules.looked = Some(now);
        self.read_build_ids_of_modules();
        self.account.counts.system_calls += 1;
        let folders = folders(&self.session.backend.host);
        if folders != self.watch.modules.folders {
            self.watch.modules.folders = folders;
            self.note_modules();
        }
    }

    /// Reads the build ids of the initial modules, once. That takes some 10 us per module, so
    /// recordings that end before the first lookup don't do it.
    fn read_build_ids_of_modules(&mut self) {
        let Some(known) = self.watch.modules.known.as_ref().filter(|_| !self.watch.modules.has_ids)
        else {
            return;
        };
        if self.session.options.build_ids {
            let host = &self.session.backend.host;
            for module in known {
                let id = module_build_id(host, &module.name);
                let name = synthesize::module_name(module);
                id.into_iter().for_each(|id| self.capture.shared.see_module(name.as_bytes(), id));
            }
        }
        self.watch.modules.has_ids = true;
    }

    /// Writes the mappings of newly loaded modules.
    pub(super) fn note_modules(&mut self) {
        if self.is_stopped() {
            return;
        }
        let Self { session, capture, watch, .. } = self;
        let shared = &capture.shared;
        let layout = session.tracking().map(|event| &session.plan.events[event].attr);
        let Some((known, layout)) = watch.modules.known.as_mut().zip(layout.map(Layout::from))
        else {
            return;
        };
        let host = &session.backend.host;
        let there = procfs::loaded_modules(host);
        let place = |module: &KernelModule| (module.name.clone(), module.start);
        let before: HashSet<_> = known.iter().map(place).collect();
        let mut new: Vec<_> = there.clone();
        new.retain(|module| !before.contains(&place(module)));
        *known = there;
        if new.is_empty() {
            return;
        }
        procfs::find_module_files(host, &mut new);
        let mut records = Vec::new();
        for module in &new {
            let id = module_build_id(host, &module.name);
            // No module has a path that is too long for a record.
            let record = synthesize::module(module, id.as_deref(), &layout);
            records.extend(record.into_iter().flatten());
        }
        shared.see_mappings(&records);
        if let Err(error) = shared.append(&[&records]) {
            self.stop_recording(StopReason::Output(error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_looked_up_once_a_second_and_only_for_events_in_the_kernel() {
        let module = KernelModule { name: "m".to_owned(), start: 1, len: 1, path: None };
        let mut user = Modules { known: None, folders: None, has_ids: false, looked: None };
        user.begin(vec![module.clone()]);
        assert_eq!(user.known, None);
        let now = Instant::now();
        assert!(user.is_look_due(now), "the first lookup");
        let known = Some(Vec::new());
        let mut kernel = Modules { known, folders: None, has_ids: false, looked: Some(now) };
        kernel.begin(vec![module]);
        assert_eq!(kernel.known.as_ref().map(Vec::len), Some(1));
        assert_eq!([LOOK / 2, LOOK].map(|later| kernel.is_look_due(now + later)), [false, true]);
    }
}
