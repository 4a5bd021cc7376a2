//! Looks up the addresses and call chains of samples as frames and stacks of a profile.

use tare_format::record::Sample;
use tare_profile::{FrameId, FramePointers, Profile, StackId};

use super::frame_pointers::BrokenChains;
use super::frames::FrameTable;
use super::steps::StepSamples;
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

    /// Returns the limit for reading a call chain from its innermost address.
    fn to_read(self) -> usize {
        if self.keeps_callers { usize::MAX } else { self.addresses }
    }

    /// Drops the addresses above the limit. As in perf, the addresses next to the root of the graph
    /// stay. The read chain may have more than its limit, which applies to each of its parts.
    fn shorten(self, chain: &mut Vec<CodeAddress>) {
        if self.keeps_callers {
            chain.drain(..chain.len().saturating_sub(self.addresses));
        } else {
            chain.truncate(self.addresses);
        }
    }
}

/// Looks up the code of samples, and judges their call chains.
#[derive(Debug)]
pub(super) struct CallStacks {
    pub(super) frames: FrameTable,
    /// The call chain of the current sample.
    chain: Vec<CodeAddress>,
    broken: BrokenChains,
    pub(super) steps: StepSamples,
    /// See [`ProfileOptions::marks_truncated`](super::ProfileOptions::marks_truncated).
    marks_truncated: bool,
}

impl CallStacks {
    pub(super) fn new(frames: FrameTable) -> Self {
        let broken = BrokenChains::default();
        let steps = StepSamples::default();
        Self { frames, chain: Vec::new(), broken, steps, marks_truncated: false }
    }

    /// Sets whether truncated call chains get a frame that says so.
    pub(super) fn with_marks(self, marks_truncated: bool) -> Self {
        Self { marks_truncated, ..self }
    }

    /// Returns the frame of a sample's own address.
    pub(super) fn find_leaf(
        &mut self,
        profile: &mut Profile,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Option<FrameId> {
        let at = code_address(sample)?;
        let pid = sample.fields.head.pid.unwrap_or(-1);
        Some(self.frames.find_frame(profile, machine, pid, at))
    }

    /// Adds the stack of a sample's call chain, if it has one.
    pub(super) fn add_stack(
        &mut self,
        profile: &mut Profile,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
        limit: ChainLimit,
    ) -> Option<StackId> {
        sample.fields.callchain?;
        let Self { frames, chain, broken, marks_truncated, .. } = self;
        machine.callchain(sample, limit.to_read(), chain);
        limit.shorten(chain);
        let pid = sample.fields.head.pid.unwrap_or(-1);
        let stack = frames.add_stack(profile, machine, pid, chain);
        let by_frame_pointers = sample.fields.stack_user.is_none()
            && sample.fields.branches.is_none()
            && !machine.recorded_chains.are_unwound();
        if let Some(stack) = stack.filter(|_| by_frame_pointers)
            && let Some(uses) = frames.frame_pointer_uses()
        {
            broken.count(profile, uses, stack, frames.last_chain());
        }
        if *marks_truncated && machine.chain_parts.is_truncated && stack.is_some() {
            return frames.add_truncated_stack(profile);
        }
        stack
    }

    /// Returns the counts of call chains that miss callers for lack of frame pointers; `None` if no
    /// chain does.
    pub(super) fn frame_pointers(&self, profile: &Profile) -> Option<FramePointers> {
        self.broken.summary(profile)
    }
}

pub(super) fn code_address(sample: &Replayed<'_, Sample<'_>>) -> Option<CodeAddress> {
    let mode = CpuMode::from_misc(sample.raw.misc);
    sample.fields.head.ip.map(|address| CodeAddress::exact(mode, address))
}

#[cfg(test)]
mod tests {
    use tare_format::Endian;
    use tare_format::file::Description;
    use tare_format::record::{Layout, RawRecord, kind};

    use super::*;
    use crate::machine::tests::machine_with;

    const CALLCHAIN: u64 = 1 << 5;

    fn addresses(chain: &[CodeAddress]) -> Vec<u64> {
        chain.iter().map(|at| at.address).collect()
    }

    #[test]
    fn a_limit_drops_the_innermost_addresses_only_to_keep_callers() {
        let at = |address| CodeAddress::exact(CpuMode::User, address);
        let mut chain = vec![at(1), at(2), at(3)];
        let limit = ChainLimit { addresses: 2, keeps_callers: true };
        assert_eq!(limit.to_read(), usize::MAX, "the callers come last");
        limit.shorten(&mut chain);
        assert_eq!(addresses(&chain), [2, 3]);
        let limit = ChainLimit { keeps_callers: false, ..limit };
        assert_eq!(limit.to_read(), 2);
        let mut parts = vec![at(1), at(2), at(3)];
        limit.shorten(&mut parts);
        assert_eq!(addresses(&parts), [1, 2], "the innermost stay");
        ChainLimit::NONE.shorten(&mut chain);
        assert_eq!(addresses(&chain), [2, 3]);
    }

    #[test]
    fn equal_call_chains_are_one_stack() {
        let body: Vec<u8> = [2_u64, 0x1000, 0x2000].map(u64::to_le_bytes).concat();
        let raw = RawRecord {
            kind: kind::PERF_RECORD_SAMPLE,
            misc: 2,
            body: &body,
            endian: Endian::Little,
        };
        let layout = Layout { sample_type: CALLCHAIN, ..Layout::default() };
        let fields = Sample::decode(&raw, &layout).unwrap();
        let description = Description::from_events(Endian::Little, []);
        let sample = Replayed {
            time_ns: None,
            description: &description,
            event: None,
            raw,
            fields: &fields,
        };
        let mut machine = machine_with(&[(-1, 0x1000, "/nonexistent/program")]);
        let mut profile = Profile::default();
        let mut stacks = CallStacks::new(FrameTable::new(None, true));
        let mut add = || stacks.add_stack(&mut profile, &mut machine, &sample, ChainLimit::NONE);
        let first = add();
        assert!(first.is_some());
        assert_eq!(add(), first);
        let none = Replayed { fields: &Sample::default(), ..sample };
        assert_eq!(stacks.add_stack(&mut profile, &mut machine, &none, ChainLimit::NONE), None);
    }
}
