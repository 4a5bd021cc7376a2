//! State of a followed command that the ring readers share: its execve and its threads.

use std::time::Instant;

use super::exec::ExecFilter;
use super::members::Members;

#[derive(Debug)]
pub(crate) struct FollowedCommand {
    /// Drops samples of the command's process from before its execve.
    pub(super) exec: ExecFilter,
    /// The command's threads; `None` unless events are opened on whole CPUs.
    members: Option<Members>,
}

impl FollowedCommand {
    /// Follows the process `root`, which waits to execute its program from `now` on.
    /// `tracks_members`: also tracks its threads.
    pub(super) fn new(root: i32, tracks_members: bool, now: Instant) -> Self {
        let members = tracks_members.then(|| Members::new(root));
        Self { exec: ExecFilter::new(root, now), members }
    }

    /// Updates the threads from fork and exit records.
    pub(super) fn see(&mut self, records: &[u8]) {
        if let Some(members) = &mut self.members {
            members.see(records);
        }
    }

    /// Notes that every ring was read since the last call.
    pub(super) fn end_round(&mut self) {
        if let Some(members) = &mut self.members {
            members.end_round();
        }
    }

    /// Time of the execve, in the recording's clock; `None` before it, or if unknown.
    pub(crate) fn exec_ns(&self) -> Option<u64> {
        self.exec.exec_ns()
    }

    /// The command's threads; empty unless events are opened on whole CPUs.
    pub(crate) fn members(&mut self) -> Vec<i32> {
        self.members.as_mut().map(Members::now).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_only_tracked_on_request() {
        let members = |tracks| FollowedCommand::new(7, tracks, Instant::now()).members();
        assert_eq!((members(true), members(false)), (vec![7], Vec::new()));
    }
}
