//! Samples' addresses and call chains as frames and stacks of a profile.

use tare_format::record::Sample;
use tare_profile::{FrameId, FramePointers, Profile, StackId};

use super::frame_pointers::BrokenChains;
use super::frames::FrameTable;
use crate::callchain::CodeAddress;
use crate::cpumode::CpuMode;
use crate::machine::Machine;
use crate::replayed::Replayed;

/// Limit of the addresses in a call chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChainLimit {
    pub(super) addresses: usize,
    /// Leave out the innermost addresses instead of the outermost.
    pub(super) keeps_callers: bool,
}

impl ChainLimit {
    pub(super) const NONE: Self = Self { addresses: usize::MAX, keeps_callers: false };
}

/// Looks up the code of samples, and judges their call chains.
#[derive(Debug)]
pub(super) struct CallStacks {
    pub(super) frames: FrameTable,
    /// The call chain of the current sample.
    chain: Vec<CodeAddress>,
    broken: BrokenChains,
}

impl CallStacks {
    pub(super) fn new(frames: FrameTable) -> Self {
        Self { frames, chain: Vec::new(), broken: BrokenChains::default() }
    }

    /// Returns the frame of a sample's own address.
    pub(super) fn leaf(
        &mut self,
        profile: &mut Profile,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Option<FrameId> {
        let at = code_address(sample)?;
        let pid = sample.fields.head.pid.unwrap_or(-1);
        Some(self.frames.frame(profile, machine, pid, at))
    }

    /// Returns the stack of a sample's call chain, if it has one.
    pub(super) fn stack(
        &mut self,
        profile: &mut Profile,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
        limit: ChainLimit,
    ) -> Option<StackId> {
        sample.fields.callchain?;
        let Self { frames, chain, broken } = self;
        let innermost = if limit.keeps_callers { usize::MAX } else { limit.addresses };
        machine.callchain(sample, innermost, chain);
        if chain.len() > limit.addresses {
            // As in perf, the addresses next to the root of the graph stay.
            chain.drain(..chain.len() - limit.addresses);
        }
        let pid = sample.fields.head.pid.unwrap_or(-1);
        let stack = frames.stack(profile, machine, pid, chain);
        let by_frame_pointers =
            sample.fields.stack_user.is_none() && sample.fields.branches.is_none();
        if let Some(stack) = stack.filter(|_| by_frame_pointers)
            && let Some(uses) = frames.frame_pointer_uses()
        {
            broken.count(profile, uses, stack, frames.last_chain());
        }
        stack
    }

    /// Returns the call chains that miss callers for lack of frame pointers.
    pub(super) fn frame_pointers(&self, profile: &Profile) -> Option<FramePointers> {
        self.broken.summary(profile)
    }
}

/// Returns the address that a sample was taken at.
pub(super) fn code_address(sample: &Replayed<'_, Sample<'_>>) -> Option<CodeAddress> {
    let mode = CpuMode::from_misc(sample.raw.misc);
    sample.fields.head.ip.map(|address| CodeAddress { mode, address })
}
