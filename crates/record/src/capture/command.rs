//! What readers of rings know of a followed command: when its program began, and its threads.

use std::time::Instant;

use super::exec::ExecFilter;
use super::members::Members;

/// A followed command.
#[derive(Debug)]
pub(crate) struct FollowedCommand {
    /// Leaves out what its process did before its execve.
    pub(super) exec: ExecFilter,
    /// Its threads, where events are of whole CPUs.
    members: Option<Members>,
}

impl FollowedCommand {
    /// `root`: its process, which waits to execute its program from `now` on. `notes_members`: its threads have to be told from others.
    pub(super) fn new(root: i32, notes_members: bool, now: Instant) -> Self {
        let members = notes_members.then(|| Members::new(root));
        Self { exec: ExecFilter::new(root, now), members }
    }

    /// Takes in records of tasks.
    pub(super) fn see(&mut self, records: &[u8]) {
        if let Some(members) = &mut self.members {
            members.see(records);
        }
    }

    /// Every ring was read since the last call.
    pub(super) fn end_round(&mut self) {
        if let Some(members) = &mut self.members {
            members.end_round();
        }
    }

    /// When its process executed its program, in the recording's clock.
    pub(crate) fn exec_ns(&self) -> Option<u64> {
        self.exec.exec_ns()
    }

    /// Its threads, where events are of whole CPUs.
    pub(crate) fn members(&mut self) -> Vec<i32> {
        self.members.as_mut().map(Members::now).unwrap_or_default()
    }
}
