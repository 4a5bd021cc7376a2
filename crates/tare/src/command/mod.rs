//! One module per command, and modules that commands share: control files (`control`), recording
//! headers (`header`), signals (`interrupt`), output files (`output`), opening recordings
//! (`recording`), remedies (`remedy`), replaying samples (`samples`), `--vmlinux` (`vmlinux`), and
//! what gives samples names (`unnamed`).

pub(crate) mod annotate;
pub(crate) mod archive;
pub(crate) mod buildid_list;
mod control;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod evlist;
pub(crate) mod export;
pub(crate) mod flame;
pub(crate) mod header;
mod interrupt;
pub(crate) mod kallsyms;
pub(crate) mod list;
pub(crate) mod lock;
mod output;
pub(crate) mod overhead;
pub(crate) mod record;
mod recording;
mod remedy;
pub(crate) mod report;
mod samples;
pub(crate) mod sched;
pub(crate) mod script;
pub(crate) mod stat;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod unnamed;
pub(crate) mod version;
mod vmlinux;
