//! `--exact`: finds out which groups fit on the counters together, by opening them.

use rustix::io::Errno;
use tare_format::abi::Count;
use tare_kernel::open::Kernel;

use super::{CounterOptions, Counters, Inheritance, Scope, Start};
use tare_events::EventGroup;
use tare_events::OpenError;

/// Sets of groups, as indices in ascending order. Each set counts without multiplexing, except for
/// a group that doesn't fit on the counters even alone, which is its own set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExactSets(pub Vec<Vec<usize>>);

/// Packs groups into sets by first fit, so that all groups of a set are on counters at once.
///
/// Each candidate set is opened pinned on `scope`, enabled and read: a pinned group without a
/// counter reads as end of file (`perf_event_open(2)`). Unavailable groups fit into any set, as
/// they take no counter. A group that doesn't fit even alone gets its own set and reads as not
/// counted.
///
/// # Errors
/// See [`OpenError`].
pub fn plan_exact(
    kernel: &dyn Kernel,
    groups: &[EventGroup],
    scope: &Scope,
) -> Result<ExactSets, OpenError> {
    let mut sets: Vec<Vec<usize>> = Vec::new();
    if fits(kernel, groups, &(0..groups.len()).collect::<Vec<_>>(), scope)? {
        return Ok(ExactSets(vec![(0..groups.len()).collect()]));
    }
    for group in 0..groups.len() {
        let mut taken = false;
        for set in &mut sets {
            set.push(group);
            if fits(kernel, groups, set, scope)? {
                taken = true;
                break;
            }
            set.pop();
        }
        if !taken {
            sets.push(vec![group]);
        }
    }
    Ok(ExactSets(sets))
}

fn fits(
    kernel: &dyn Kernel,
    groups: &[EventGroup],
    set: &[usize],
    scope: &Scope,
) -> Result<bool, OpenError> {
    let chosen: Vec<EventGroup> = set.iter().map(|&index| groups[index].clone()).collect();
    let options = CounterOptions {
        start: Start::WhenEnabled,
        inheritance: Inheritance::None,
        leave_out_forbidden: true,
        no_cpu_pmu: false,
        pinned: true,
    };
    let counters = Counters::open(kernel, &chosen, scope, options)?;
    counters
        .enable()
        .map_err(|errno: Errno| OpenError::Other { event: "--exact".to_owned(), errno })?;
    let snapshot = counters.read();
    let on_a_counter = |event: usize| {
        let counter = &counters.as_slice()[event];
        counter.unavailable().is_some()
            || (0..counter.locations().count())
                .all(|place| snapshot.get(event, place).is_some_and(Count::is_exact))
    };
    Ok((0..counters.as_slice().len()).all(on_a_counter))
}
