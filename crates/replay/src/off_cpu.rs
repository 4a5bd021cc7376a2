//! Replays off-CPU time (`tare record --off-cpu`). A user stack is recorded once, under a key that
//! all samples with the same stack carry.
//!
//! ```text
//! offcpu-time  period 0    addr K, registers, a copy of the stack: unwound, and stored under K
//! offcpu-time  period 0    transaction W, frames                   stored as the waker W
//! offcpu-time  period ns   addr K, transaction W, kernel's frames  delivered with the user frames
//!                                                                  of K and the frames of W
//! ```

use std::collections::HashMap;

use tare_format::abi::Attr;
use tare_format::abi::bindings as abi;
use tare_format::file::Description;
use tare_format::record::Sample;
use tare_profile::OffCpuChains;

use crate::callchain::{self, CodeAddress};
use crate::cpumode::CpuMode;
use crate::machine::{Machine, UserPart};

/// Limit of addresses in all stored user stacks together.
const ADDRESSES: usize = 1 << 21;

/// Limit of wakers.
const WAKERS: usize = 1 << 16;

#[derive(Debug)]
struct UserChain {
    addresses: Box<[u64]>,
    is_whole: bool,
}

/// The call chain of a task that woke others.
#[derive(Debug)]
struct Waker {
    pid: i32,
    /// The frames that the kernel recorded.
    chain: Box<[CodeAddress]>,
    /// The key of its copied user stack; 0 without one.
    user: u64,
}

/// User stacks and wakers by key.
#[derive(Debug, Default)]
pub(crate) struct OffCpuStacks {
    /// Whether each event is off-CPU time.
    is_off_cpu: Vec<bool>,
    chains: HashMap<u64, UserChain, foldhash::fast::RandomState>,
    addresses: usize,
    wakers: HashMap<u64, Waker, foldhash::fast::RandomState>,
    pub(crate) reach: OffCpuChains,
}

/// Whether samples of an event are off-CPU time that tare recorded.
pub(crate) fn is_off_cpu(attr: &Attr) -> bool {
    let has = |field: u32| attr.sample_type & u64::from(field) != 0;
    attr.kind == abi::PERF_TYPE_SOFTWARE
        && attr.config == u64::from(abi::PERF_COUNT_SW_BPF_OUTPUT)
        && has(abi::PERF_SAMPLE_ADDR)
        && has(abi::PERF_SAMPLE_WEIGHT)
        && !has(abi::PERF_SAMPLE_RAW)
}

impl OffCpuStacks {
    /// Stores the user call chain or the waker that a sample introduces. `is_whole`: the unwound
    /// chain reaches the start of its thread. Returns whether the sample introduces one: it stands
    /// for no wait, and isn't passed to the sink.
    ///
    /// Any task can wake a task of the command, and an introduction has the time of the recorder's
    /// last drain, which may precede the command's execve. So introductions count whatever task and
    /// time they have.
    pub(crate) fn store_introduction(
        &mut self,
        description: &Description,
        event: Option<usize>,
        sample: &Sample<'_>,
        machine: &mut Machine,
        is_whole: bool,
    ) -> bool {
        machine.chain_parts.waker.clear();
        if !self.has_event(description, event) || sample.head.period.unwrap_or(0) != 0 {
            return false;
        }
        let name = sample.head.addr.unwrap_or(0);
        if let Some(user) = machine.chain_parts.user.take() {
            let addresses = user.addresses.into();
            self.store_chain(name, UserChain { addresses, is_whole });
        } else if let Some(waker) = sample.transaction.filter(|waker| *waker != 0) {
            self.store_waker(waker, name, sample);
        }
        true
    }

    /// Gives the machine the user call chain and the waker that are stored under a wait's keys.
    pub(crate) fn complete_chain(
        &mut self,
        description: &Description,
        event: Option<usize>,
        sample: &Sample<'_>,
        machine: &mut Machine,
    ) {
        if !self.has_event(description, event) {
            return;
        }
        let name = sample.head.addr.unwrap_or(0);
        if sample.stack_user.is_some() {
            let ns = sample.head.period.unwrap_or(0);
            let chain = self.chains.get(&name).filter(|_| name != 0);
            machine.chain_parts.user =
                chain.map(|chain| UserPart::unwound(chain.addresses.to_vec()));
            self.reach.ns += ns;
            self.reach.whole_ns += if chain.is_some_and(|chain| chain.is_whole) { ns } else { 0 };
        }
        if let Some(waker) = sample.transaction.and_then(|waker| self.wakers.get(&waker)) {
            machine.chain_parts.waker.extend_from_slice(&waker.chain);
            let user = self.chains.get(&waker.user).filter(|_| waker.user != 0);
            let user = user.iter().flat_map(|user| user.addresses.iter());
            let mode = CpuMode::UserOf(waker.pid);
            machine
                .chain_parts
                .waker
                .extend(user.map(|address| CodeAddress::exact(mode, *address)));
        }
    }

    /// Whether an event is off-CPU time that tare recorded.
    fn has_event(&mut self, description: &Description, event: Option<usize>) -> bool {
        let events = description.events();
        if self.is_off_cpu.len() != events.len() {
            self.is_off_cpu = events.iter().map(|event| is_off_cpu(&event.attr)).collect();
        }
        event.and_then(|event| self.is_off_cpu.get(event)) == Some(&true)
    }

    /// Stores a waker. Its user frames belong to its own process.
    fn store_waker(&mut self, waker: u64, user: u64, sample: &Sample<'_>) {
        if self.wakers.len() >= WAKERS {
            return;
        }
        let pid = sample.head.pid.unwrap_or(-1);
        let mut chain = Vec::new();
        callchain::read(sample, None, usize::MAX, true, &mut chain);
        for at in chain.iter_mut().filter(|at| at.mode == CpuMode::User) {
            at.mode = CpuMode::UserOf(pid);
        }
        self.wakers.insert(waker, Waker { pid, chain: chain.into(), user });
    }

    fn store_chain(&mut self, name: u64, chain: UserChain) {
        let more = self.addresses + chain.addresses.len();
        if more <= ADDRESSES {
            self.addresses = more;
            let before = self.chains.insert(name, chain);
            self.addresses -= before.map_or(0, |before| before.addresses.len());
        }
    }
}
