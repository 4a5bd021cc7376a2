//! Modules of the kernel that are loaded while it is recorded.
//!
//! The kernel makes no record of them. They are looked for when devices come or go (the kernel sends
//! `add@/module/NAME`), from time to time, and at the end. The records belong to no time, so readers
//! take them in where they lie in the file, which is before the samples of the round at hand go out:
//! what a module did until it was seen has its names. A module that was unloaded before that has none.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use tare_format::record::Layout;
use tare_kernel::host::Host;
use tare_kernel::procfs::{self, KernelModule};

use super::{Recording, StopReason};
use crate::describe::module_build_id;
use crate::session::Session;
use crate::synthesize;

/// How often they are looked for where a message tells when devices come or go.
const LOOK: Duration = Duration::from_secs(1);

/// Which modules the recording knows of.
#[derive(Debug)]
pub(super) struct Modules {
    /// `None` where no event counts in the kernel.
    known: Option<Vec<KernelModule>>,
    /// How many folders `/sys/module` has: one for each, and for some parts of the kernel.
    folders: Option<u64>,
    /// Whether the build ids were read of those that were there when the recording began.
    has_ids: bool,
    /// When they were looked for last.
    looked: Option<Instant>,
}

impl Modules {
    /// To be asked for before it is read which there are.
    pub(super) fn new(session: &Session) -> Self {
        let is_wanted = session.tracking().is_some() && session.counts_in_kernel();
        let folders = if is_wanted { folders(&session.backend.host) } else { None };
        Self { known: is_wanted.then(Vec::new), folders, has_ids: false, looked: None }
    }

    /// Whether it is time to look for them, though no message told so.
    pub(super) fn is_look_due(&self, now: Instant) -> bool {
        self.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= LOOK)
    }

    /// The recording, or its next file, begins with these.
    pub(super) fn begin(&mut self, there: Vec<KernelModule>) {
        self.known = self.known.take().map(|_| there);
    }
}

fn folders(host: &Host) -> Option<u64> {
    std::fs::metadata(host.path("/sys/module")).ok().map(|folder| folder.nlink())
}

impl Recording {
    /// Writes the mappings of modules that were loaded since, if there may be any.
    pub(super) fn look_at_modules(&mut self, now: Instant) {
        if self.is_stopped() || self.modules.known.is_none() {
            return;
        }
        self.modules.looked = Some(now);
        self.read_build_ids_of_modules();
        self.counts.system_calls += 1;
        let folders = folders(&self.session.backend.host);
        if folders != self.modules.folders {
            self.modules.folders = folders;
            self.note_modules();
        }
    }

    /// Build ids are read of what is loaded. It takes some 10 us a module, which a recording that
    /// ends at once is spared.
    fn read_build_ids_of_modules(&mut self) {
        let Some(known) = self.modules.known.as_ref().filter(|_| !self.modules.has_ids) else {
            return;
        };
        if self.session.options.build_ids {
            let host = &self.session.backend.host;
            for module in known {
                let id = module_build_id(host, &module.name);
                let name = synthesize::module_name(module);
                id.into_iter().for_each(|id| self.shared.see_module(name.as_bytes(), id));
            }
        }
        self.modules.has_ids = true;
    }

    /// Writes the mappings of modules that were loaded since.
    pub(super) fn note_modules(&mut self) {
        if self.is_stopped() {
            return;
        }
        let Self { session, shared, modules, .. } = self;
        let layout = session.tracking().map(|event| &session.plan.events[event].attr);
        let Some((known, layout)) = modules.known.as_mut().zip(layout.map(Layout::from)) else {
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
            // A path that is too long to be recorded is none of a module.
            let record = synthesize::module(module, id.as_deref(), &layout);
            records.extend(record.into_iter().flatten());
        }
        shared.see_mappings(&records);
        if let Err(error) = shared.append(&[&records]) {
            self.stop_recording(StopReason::Output(error));
        }
    }
}
