//! The time that tasks were not on a CPU (`tare record --off-cpu`): user stacks that were copied once
//! stand for all waits that name them.
//!
//! ```text
//! offcpu-time  period 0    addr K, registers, a copy of the stack: unwound, and kept under K
//! offcpu-time  period 0    transaction W, frames                   kept as the waker W
//! offcpu-time  period ns   addr K, transaction W, kernel's frames  goes out with the user's frames of K, and W's
//! ```

use std::collections::HashMap;

use tare_format::abi::Attr;
use tare_format::abi::bindings as abi;
use tare_format::file::Description;
use tare_format::record::Sample;
use tare_profile::OffCpuChains;

use crate::callchain::{self, CodeAddress};
use crate::cpumode::CpuMode;
use crate::machine::Machine;

/// Addresses that are kept in all.
const ADDRESSES: usize = 1 << 21;

/// Wakers that are kept.
const WAKERS: usize = 1 << 16;

/// A user call chain.
#[derive(Debug)]
struct Chain {
    addresses: Box<[u64]>,
    is_whole: bool,
}

/// Who woke tasks.
#[derive(Debug)]
struct Waker {
    pid: i32,
    /// Without what was copied of the user stack.
    chain: Box<[CodeAddress]>,
    /// The name of that.
    user: u64,
}

/// User stacks by name.
#[derive(Debug, Default)]
pub(crate) struct OffCpuStacks {
    /// By event.
    is_off_cpu: Vec<bool>,
    chains: HashMap<u64, Chain, foldhash::fast::RandomState>,
    addresses: usize,
    wakers: HashMap<u64, Waker, foldhash::fast::RandomState>,
    pub(crate) reach: OffCpuChains,
}

/// Whether samples of an event are waits as tare records them.
fn is_off_cpu(attr: &Attr) -> bool {
    let has = |field: u32| attr.sample_type & u64::from(field) != 0;
    attr.kind == abi::PERF_TYPE_SOFTWARE
        && attr.config == u64::from(abi::PERF_COUNT_SW_BPF_OUTPUT)
        && has(abi::PERF_SAMPLE_ADDR)
        && has(abi::PERF_SAMPLE_WEIGHT)
        && !has(abi::PERF_SAMPLE_RAW)
}

impl OffCpuStacks {
    /// Looks at a sample whose turn it is: keeps its user call chain, or finds the one that it names.
    /// `is_whole`: a chain that was unwound begins where the thread did. Whether the sample goes out.
    pub(crate) fn pass(
        &mut self,
        description: &Description,
        event: Option<usize>,
        sample: &Sample<'_>,
        machine: &mut Machine,
        is_whole: bool,
    ) -> bool {
        machine.waker_chain.clear();
        let events = description.events();
        if self.is_off_cpu.len() != events.len() {
            self.is_off_cpu = events.iter().map(|event| is_off_cpu(&event.attr)).collect();
        }
        if event.is_none_or(|event| self.is_off_cpu.get(event) != Some(&true)) {
            return true;
        }
        let name = sample.head.addr.unwrap_or(0);
        let ns = sample.head.period.unwrap_or(0);
        if ns == 0 {
            if let Some(addresses) = machine.user_chain.take() {
                self.keep(name, Chain { addresses: addresses.into(), is_whole });
            } else if let Some(waker) = sample.transaction.filter(|waker| *waker != 0) {
                self.keep_waker(waker, name, sample);
            }
            return false;
        }
        if sample.stack_user.is_some() {
            let chain = self.chains.get(&name).filter(|_| name != 0);
            machine.user_chain = chain.map(|chain| chain.addresses.to_vec());
            self.reach.ns += ns;
            self.reach.whole_ns += if chain.is_some_and(|chain| chain.is_whole) { ns } else { 0 };
        }
        if let Some(waker) = sample.transaction.and_then(|waker| self.wakers.get(&waker)) {
            machine.waker_chain.extend_from_slice(&waker.chain);
            let user = self.chains.get(&waker.user).filter(|_| waker.user != 0);
            let user = user.iter().flat_map(|user| user.addresses.iter());
            let mode = CpuMode::UserOf(waker.pid);
            machine.waker_chain.extend(user.map(|address| CodeAddress { mode, address: *address }));
        }
        true
    }

    /// Keeps who woke tasks: its frames lie in its own process.
    fn keep_waker(&mut self, waker: u64, user: u64, sample: &Sample<'_>) {
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

    fn keep(&mut self, name: u64, chain: Chain) {
        let more = self.addresses + chain.addresses.len();
        if more <= ADDRESSES {
            self.addresses = more;
            let before = self.chains.insert(name, chain);
            self.addresses -= before.map_or(0, |before| before.addresses.len());
        }
    }
}
