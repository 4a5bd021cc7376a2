//! Which samples are taken.

use tare_format::record::Sample;

use crate::cli::resolved::script::Filter;
use tare_replay::{Machine, Replayed};

pub(crate) struct Passing<'a> {
    filter: &'a Filter,
}

impl<'a> Passing<'a> {
    pub(crate) fn new(filter: &'a Filter) -> Self {
        Self { filter }
    }

    /// Whether everything that is still to come is too late.
    pub(crate) fn is_past(&self, time_ns: Option<u64>) -> bool {
        time_ns.is_some_and(|time_ns| time_ns > self.filter.time_ns.1)
    }

    /// Whether a sample may pass; how its thread is called isn't known yet.
    pub(crate) fn may_pass(&self, sample: &Replayed<'_, Sample<'_>>) -> bool {
        !self.is_past(sample.time_ns) && self.passes_by_numbers(sample)
    }

    pub(crate) fn passes(&mut self, machine: &Machine, sample: &Replayed<'_, Sample<'_>>) -> bool {
        let comms = &self.filter.comms;
        self.passes_by_numbers(sample)
            && (comms.is_empty() || {
                let comm = sample.fields.head.tid.and_then(|tid| machine.comm(tid));
                let comm = comm.unwrap_or_default();
                comms.iter().any(|wanted| wanted.as_bytes() == comm)
            })
    }

    fn passes_by_numbers(&self, sample: &Replayed<'_, Sample<'_>>) -> bool {
        let Filter { pids, tids, cpus, time_ns: (first, last), .. } = self.filter;
        let head = &sample.fields.head;
        let among = |list: &[i32], id: Option<i32>| {
            list.is_empty() || id.is_some_and(|id| list.contains(&id))
        };
        head.time_ns.is_none_or(|time_ns| (*first..=*last).contains(&time_ns))
            && among(pids, head.pid)
            && among(tids, head.tid)
            && (cpus.is_empty() || head.cpu.is_some_and(|cpu| cpus.contains(&cpu)))
    }
}
