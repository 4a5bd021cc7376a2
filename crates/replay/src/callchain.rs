//! Reads recorded call chains: return addresses with markers between them. The user part may be a
//! branch stack of calls instead (LBR).

use tare_format::Words;
use tare_format::abi::Attr;
use tare_format::abi::bindings::{
    PERF_CONTEXT_MAX, PERF_CONTEXT_USER, PERF_CONTEXT_USER_DEFERRED, PERF_SAMPLE_BRANCH_CALL_STACK,
};
use tare_format::record::{Branches, Layout, Sample};
use tare_profile::TruncatedChains;

use crate::cpumode::CpuMode;

/// A recorded address of code, and the mode that selects its address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CodeAddress {
    /// Kernel, user, guest or hypervisor; of another process for a waker's address.
    pub mode: CpuMode,
    /// The address.
    pub address: u64,
    /// Whether a call returns to the address. The call, which ends one byte earlier, may be the
    /// last instruction of its function, if it calls a function that doesn't return.
    pub is_return: bool,
}

impl CodeAddress {
    /// Creates the address of an instruction.
    #[must_use]
    pub fn exact(mode: CpuMode, address: u64) -> Self {
        Self { mode, address, is_return: false }
    }

    /// Creates the address of a branch's source or target, whose mode follows from the address.
    pub(crate) fn from_branch(address: u64) -> Self {
        Self::exact(CpuMode::from_address(address), address)
    }
}

/// Frames that the kernel records if neither the event nor `kernel.perf_event_max_stack` says
/// otherwise (`PERF_MAX_STACK_DEPTH`).
const DEFAULT_FRAMES: u16 = 127;

/// Counts call chains that the kernel cut at its limit of frames. The kernel's and the user's part
/// of a chain share the limit, except if the user's part has a record of its own.
#[derive(Debug, Default)]
pub(crate) struct ChainDepths {
    counts: TruncatedChains,
    /// Whether a chain is deeper than the default, in a recording that doesn't state its limit.
    is_limit_unknown: bool,
}

impl ChainDepths {
    /// Counts a call chain of an event with this attribute, whose user part may have a record of
    /// its own with `user_frames`. Returns whether the kernel cut it.
    pub(crate) fn count(
        &mut self,
        attr: &Attr,
        chain: &Words<'_>,
        user_frames: Option<usize>,
    ) -> bool {
        let stated = (attr.sample_max_stack != 0).then_some(attr.sample_max_stack);
        let frames = stated.unwrap_or(DEFAULT_FRAMES);
        let limit = usize::from(frames);
        self.counts.stacks += 1;
        let mut depth = user_frames.unwrap_or(0);
        if chain.len() >= limit {
            let addresses = chain.iter().take_while(|word| *word != PERF_CONTEXT_USER_DEFERRED);
            depth = depth.max(addresses.filter(|word| *word < PERF_CONTEXT_MAX).count());
        }
        self.is_limit_unknown |= stated.is_none() && depth > limit;
        let is_cut = depth >= limit && !self.is_limit_unknown;
        if is_cut {
            self.counts.truncated += 1;
            self.counts.frames = frames;
        }
        is_cut
    }

    /// Returns the counts; none are truncated if the limit is unknown.
    pub(crate) fn counts(&self) -> TruncatedChains {
        match self.is_limit_unknown {
            true => TruncatedChains { truncated: 0, frames: 0, ..self.counts },
            false => self.counts,
        }
    }
}

/// Replaces `chain` with the recorded call chain of a sample, innermost address first, limited to
/// `most` addresses. Without `with_user_part`, user addresses are left out.
///
/// With `PERF_SAMPLE_BRANCH_CALL_STACK` the user part is the branch stack's: where the innermost
/// call went, then where each call came from (`lbr_callchain_add_lbr_ip` in
/// `tools/perf/util/machine.c`).
pub(crate) fn read(
    sample: &Sample<'_>,
    layout: Option<&Layout>,
    most: usize,
    with_user_part: bool,
    chain: &mut Vec<CodeAddress>,
) {
    chain.clear();
    let of_calls = layout.is_some_and(|layout| {
        layout.branch_sample_type & u64::from(PERF_SAMPLE_BRANCH_CALL_STACK) != 0
    });
    let calls = sample.branches.filter(|_| of_calls);
    let mut mode = CpuMode::User;
    // The first address of each mode is where the CPU was.
    let mut is_return = false;
    for ip in sample.callchain.iter().flat_map(|recorded| recorded.iter()) {
        if ip < PERF_CONTEXT_MAX {
            if chain.len() >= most {
                break;
            }
            if mode == CpuMode::User && !with_user_part {
                continue;
            }
            chain.push(CodeAddress { mode, address: ip, is_return });
            is_return = true;
        } else if let (PERF_CONTEXT_USER, Some(calls), true) =
            (ip, calls.filter(has_calls), with_user_part)
        {
            add_calls(&calls, most, chain);
            break;
        } else if ip == PERF_CONTEXT_USER_DEFERRED {
            // The user part follows in a record of its own.
            break;
        } else if let Some(context) = CpuMode::from_context(ip) {
            mode = context;
            is_return = false;
        } else {
            // An invalid marker: like perf, drop the whole chain.
            chain.clear();
            break;
        }
    }
}

/// Returns the addresses in the user part of a recorded call chain.
pub(crate) fn user_part<'a>(sample: &Sample<'a>) -> impl Iterator<Item = u64> + use<'a> {
    let words = sample.callchain.into_iter().flat_map(Words::iter);
    let from_mark = words.skip_while(|word| *word != PERF_CONTEXT_USER).skip(1);
    from_mark.take_while(|word| *word < PERF_CONTEXT_MAX)
}

fn has_calls(calls: &Branches<'_>) -> bool {
    calls.iter().next().is_some()
}

fn add_calls(calls: &Branches<'_>, most: usize, chain: &mut Vec<CodeAddress>) {
    let innermost = calls.iter().next().map(|call| call.to);
    let addresses = innermost.into_iter().chain(calls.iter().map(|call| call.from));
    let user = addresses.map(|address| CodeAddress::exact(CpuMode::User, address));
    chain.extend(user.take(most.saturating_sub(chain.len())));
}

#[cfg(test)]
mod tests {
    use tare_format::Endian;
    use tare_format::abi::bindings::PERF_CONTEXT_KERNEL;

    use super::*;

    /// Counts chains of a kernel part and a user part with these frames.
    fn count(max_stack: u16, parts: &[(usize, usize)]) -> (Vec<bool>, TruncatedChains) {
        let mut depths = ChainDepths::default();
        let attr = Attr { sample_max_stack: max_stack, ..Attr::default() };
        let mut is_cut = Vec::new();
        for (kernel, user) in parts {
            let mut words = vec![PERF_CONTEXT_KERNEL];
            words.extend(std::iter::repeat_n(0x10, *kernel));
            words.push(PERF_CONTEXT_USER);
            words.extend(std::iter::repeat_n(0x20, *user));
            let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
            is_cut.push(depths.count(&attr, &Words::new(&bytes, Endian::Little), None));
        }
        (is_cut, depths.counts())
    }

    #[test]
    fn a_chain_with_as_many_frames_as_the_kernel_records_is_truncated() {
        let counts = |truncated, frames| TruncatedChains { stacks: 2, truncated, frames };
        assert_eq!(count(0, &[(3, 123), (3, 124)]), (vec![false, true], counts(1, 127)));
        assert_eq!(count(64, &[(0, 64), (0, 63)]), (vec![true, false], counts(1, 64)));
        assert_eq!(count(512, &[(0, 127), (1, 511)]).1, counts(1, 512));
        let higher = count(0, &[(0, 300), (0, 127)]);
        assert_eq!(higher, (vec![false, false], counts(0, 0)), "the limit was raised");
    }
}
