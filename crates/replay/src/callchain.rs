//! Reads recorded call chains: return addresses with markers between them. The user part may be a
//! branch stack of calls instead (LBR).

use tare_format::Words;
use tare_format::abi::bindings::{
    PERF_CONTEXT_MAX, PERF_CONTEXT_USER, PERF_CONTEXT_USER_DEFERRED, PERF_SAMPLE_BRANCH_CALL_STACK,
};
use tare_format::record::{Branches, Layout, Sample};

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
