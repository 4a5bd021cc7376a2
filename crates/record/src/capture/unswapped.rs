//! Events that keep the counts of a task and its children apart.
//!
//! If a task and its child have the same events, the kernel swaps their events at a context switch
//! rather than the counters' contents. It then exchanges the tasks' counts (`inherit_stat`) event
//! by event along two lists. The lists have the same order only if the child's events were created
//! in the order of the parent's, which fails with several CPUs or several PMUs
//! (`perf_event_sync_stat` and `perf_event_groups_cmp` in the kernel). One event of the task that
//! its children don't inherit prevents the swap (`inherited_all`).

use std::collections::BTreeSet;

use tare_format::abi::bindings::{
    PERF_COUNT_SW_DUMMY, PERF_TYPE_BREAKPOINT, PERF_TYPE_SOFTWARE, PERF_TYPE_TRACEPOINT,
};
use tare_format::abi::{Attr, Flags, Sampling};
use tare_kernel::open::EventTarget;

use super::EventToOpen;

/// Returns the events to open and never enable: for each thread whose children are counted
/// separately, one of each PMU of its events, where software events, tracepoints and breakpoints
/// count as one. Before Linux 6.2 the kernel swaps the events of software and of hardware PMUs
/// separately.
pub(super) fn unswapped(wanted: &[EventToOpen]) -> Vec<(String, Attr, EventTarget)> {
    let mut done = BTreeSet::new();
    let mut apart = Vec::new();
    for EventToOpen { name, attr, targets, .. } in
        wanted.iter().filter(|wanted| wanted.attr.flags.contains(Flags::INHERIT_STAT))
    {
        let own =
            matches!(attr.kind, PERF_TYPE_SOFTWARE | PERF_TYPE_TRACEPOINT | PERF_TYPE_BREAKPOINT);
        let levels = attr.flags & (Flags::EXCLUDE_KERNEL | Flags::EXCLUDE_USER | Flags::EXCLUDE_HV)
            | Flags::DISABLED;
        let still = |attr: &Attr| Attr {
            kind: attr.kind,
            config: attr.config,
            config1: attr.config1,
            config2: attr.config2,
            ..Attr::default()
        };
        let attr = if own {
            Attr { kind: PERF_TYPE_SOFTWARE, config: PERF_COUNT_SW_DUMMY.into(), ..Attr::default() }
        } else {
            still(attr)
        };
        let tids: BTreeSet<i32> =
            targets
                .iter()
                .filter_map(|(_, target)| {
                    if let EventTarget::TaskOnCpu(tid, _) = target { Some(*tid) } else { None }
                })
                .collect();
        for tid in tids {
            if done.insert((attr.kind, tid)) {
                apart.push((
                    name.clone(),
                    Attr { flags: levels, sampling: Sampling::None, ..attr.clone() },
                    EventTarget::Task(tid),
                ));
            }
        }
    }
    apart
}

#[cfg(test)]
mod tests {
    use tare_format::abi::bindings::{PERF_COUNT_SW_PAGE_FAULTS, PERF_TYPE_HARDWARE};

    use super::*;

    #[test]
    fn each_thread_gets_one_software_event_and_one_per_pmu() {
        let event = |kind, config: u64, flags| EventToOpen {
            name: "e".to_owned(),
            attr: Attr { kind, config, flags, ..Attr::default() },
            slower: Vec::new(),
            leader: None,
            targets: [0, 1].map(|cpu| (cpu, EventTarget::TaskOnCpu(7, cpu))).to_vec(),
        };
        let wanted = [
            event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS.into(), Flags::INHERIT_STAT),
            event(PERF_TYPE_SOFTWARE, 0, Flags::INHERIT_STAT),
            event(PERF_TYPE_HARDWARE, 1, Flags::INHERIT_STAT),
            event(PERF_TYPE_HARDWARE + 9, 1, Flags::empty()),
        ];
        let apart = unswapped(&wanted).into_iter();
        let found: Vec<_> =
            apart.map(|(_, attr, target)| (attr.kind, attr.config, target)).collect();
        let task = EventTarget::Task(7);
        assert_eq!(
            found,
            [(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY.into(), task), (PERF_TYPE_HARDWARE, 1, task)]
        );
    }
}
