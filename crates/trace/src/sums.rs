//! Sums of system calls from their records, for when no BPF program can sum them.

use std::collections::{HashMap, HashSet};

use tare_kernel::bpf::{Call, CallBeginning, CallSums, SumKey, Sums, TaskEvent, ThreadName};
use tare_kernel::histogram::Histogram;

use crate::record::TraceRecord;

/// Maximum number of pairs of a call and a thread or cgroup, as in the kernel's table.
const MOST: usize = 65_536;

/// Sums calls, in total or by thread or cgroup.
#[derive(Debug)]
pub struct CallAdder {
    by: SumKey,
    calls: HashMap<(u64, Call), CallSums>,
    names: HashMap<u32, [u8; 16]>,
    /// Threads whose call began before the trace.
    in_earlier_call: HashSet<u32>,
    sums: Sums,
}

impl CallAdder {
    /// Creates empty sums.
    #[must_use]
    pub fn new(by: SumKey) -> Self {
        Self {
            by,
            calls: HashMap::new(),
            names: HashMap::new(),
            in_earlier_call: HashSet::new(),
            sums: Sums::default(),
        }
    }

    /// Adds a record.
    pub fn add(&mut self, record: &TraceRecord<'_>) {
        match *record {
            TraceRecord::Name { tid, comm, .. } if self.by == SumKey::Thread => {
                let mut name = [0; 16];
                for (to, from) in name.iter_mut().take(15).zip(comm) {
                    *to = *from;
                }
                self.names.insert(tid, name);
            }
            TraceRecord::Missing(records) => self.sums.missing_calls += records,
            TraceRecord::Task { record, cgroup } => match record.event {
                TaskEvent::Enter { beginning: CallBeginning::BeforeTrace, .. } => {
                    self.in_earlier_call.insert(record.tid);
                }
                TaskEvent::Exit { call, .. } if self.in_earlier_call.remove(&record.tid) => {
                    *self.sums.begun_before.entry(call).or_default() += 1;
                }
                TaskEvent::Exit { call, result, duration_ns, .. } => {
                    let scope = match self.by {
                        SumKey::Call => 0,
                        SumKey::Thread => record.tid.into(),
                        SumKey::Cgroup => cgroup,
                    };
                    self.add_call(scope, call, result, duration_ns);
                }
                TaskEvent::Fork { tid, .. } => {
                    // A new thread has its parent's name.
                    if let Some(name) = self.names.get(&record.tid).copied() {
                        self.names.insert(tid, name);
                    }
                }
                TaskEvent::End(_) => {
                    if let Some(comm) = self.names.remove(&record.tid) {
                        let ended = ThreadName { process: record.process, comm };
                        self.sums.ended.insert(record.tid, ended);
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn add_call(&mut self, scope: u64, call: Call, result: i64, duration_ns: u64) {
        let is_full = self.calls.len() >= MOST;
        let key = (scope, call);
        if is_full && !self.calls.contains_key(&key) {
            self.sums.missing_calls += 1;
            return;
        }
        let sums = self.calls.entry(key).or_insert_with(|| CallSums {
            call,
            scope,
            calls: 0,
            total_ns: 0,
            max_ns: 0,
            histogram: Histogram::EMPTY,
            errors: std::collections::BTreeMap::new(),
        });
        sums.calls += 1;
        sums.total_ns += duration_ns;
        sums.max_ns = sums.max_ns.max(duration_ns);
        sums.histogram.count(duration_ns);
        if let Ok(errno @ 1..=4095) = u32::try_from(-result) {
            *sums.errors.entry(errno).or_default() += 1;
        }
    }

    /// Takes the sums out, with the names of exited threads as far as records had them. The names
    /// of running threads are in /proc.
    pub fn take_sums(&mut self) -> Sums {
        self.sums.calls = self.calls.drain().map(|(_, sums)| sums).collect();
        std::mem::take(&mut self.sums)
    }
}
