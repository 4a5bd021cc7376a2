//! Opening events, with as many descriptors as that takes and the remedy where it fails.

use tare_events::EventGroup;
use tare_kernel::child::FileLimit;
use tare_kernel::host::Host;
use tare_kernel::open::Kernel;
use tare_measure::count::{Counters, Options, Scope, Start, needed_files};

use crate::cli::resolved::stat::Stat;
use crate::command::remedy;

/// Descriptors beside those of events: the standard ones, pipes, signals, outputs.
const OTHER_FILES: usize = 24;

/// Opens each of these sets of groups on the scope.
pub(super) fn open(
    stat: &Stat,
    host: &Host,
    kernel: &dyn Kernel,
    files: &FileLimit,
    sets: &[Vec<EventGroup>],
    scope: &Scope,
    start: Start,
) -> anyhow::Result<Vec<Counters>> {
    let options = Options {
        start,
        inheritance: stat.inheritance,
        leave_out_forbidden: !stat.by_name,
        no_cpu_pmu: stat.no_cpu_pmu,
        pinned: stat.exact,
    };
    let needed = sets.iter().map(|set| needed_files(set, scope)).sum::<usize>() + OTHER_FILES;
    if files.soft().is_some_and(|soft| soft < needed as u64) {
        files.raise();
    }
    let open = |set: &Vec<EventGroup>| {
        Counters::open(kernel, set, scope, options)
            .map_err(|error| remedy::for_open(&error, host, files).into())
    };
    sets.iter().map(open).collect()
}
