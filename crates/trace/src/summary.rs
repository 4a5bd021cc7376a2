//! Sums of system calls as rows of a table.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tare_kernel::bpf::{CallSums, Sums};
use tare_kernel::histogram::Histogram;

use crate::chosen::CallSelection;
use crate::names::{Abi, CallNames, Errno};

/// Whose calls a row has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// Everybody's.
    All,
    /// A thread's.
    Thread {
        /// Its id, in the first pid namespace.
        tid: u32,
        /// Its name when it ended, or now; empty where nobody knows it.
        comm: String,
    },
    /// A cgroup's: its path from the top of the hierarchy, or its id where that is gone.
    Cgroup(String),
}

/// The sums of one system call.
#[derive(Clone, Debug)]
pub struct Row {
    /// The call's name.
    pub call: Cow<'static, str>,
    /// The call's number.
    pub number: u32,
    /// Whose number that is.
    pub abi: Abi,
    /// How many calls returned.
    pub calls: u64,
    /// How many failed, by the error's name.
    pub errors: BTreeMap<Cow<'static, str>, u64>,
    /// How long all took, in nanoseconds.
    pub total_ns: u64,
    /// How long the longest took, in nanoseconds.
    pub max_ns: u64,
    /// How long they took, by buckets.
    pub histogram: Histogram,
}

impl Row {
    /// The mean duration, in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.total_ns as f64 / self.calls as f64 }
    }

    /// The duration, in nanoseconds, that this share of the calls was not longer than, to within a
    /// bucket of the histogram (a quarter of a power of two). Never above the longest.
    #[must_use]
    pub fn quantile_ns(&self, share: f64) -> f64 {
        self.histogram.quantile(share).min(self.max_ns as f64)
    }

    /// How many calls failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// The rows of each subject: those that took longest first, calls and subjects alike.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Subjects with their rows.
    pub subjects: Vec<(Subject, Vec<Row>)>,
    /// Calls that found no room in the kernel's table.
    pub missing_calls: u64,
    /// Errors of counted calls that found no room.
    pub missing_errors: u64,
}

impl Summary {
    /// Sorts sums into rows. `subject` says whose a scope's are.
    #[must_use]
    pub fn new(sums: &Sums, chosen: &CallSelection, subject: impl Fn(u64) -> Subject) -> Self {
        let names = CallNames::default();
        let errnos = Errno::default();
        let mut by_subject: BTreeMap<Subject, Vec<Row>> = BTreeMap::new();
        for sums in sums.calls.iter().filter(|sums| chosen.has_call(&names, sums.call)) {
            by_subject.entry(subject(sums.scope)).or_default().push(row(sums, &names, &errnos));
        }
        let mut subjects: Vec<_> = by_subject.into_iter().collect();
        for (_, rows) in &mut subjects {
            rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.call.cmp(&b.call)));
        }
        let total = |rows: &[Row]| rows.iter().map(|row| row.total_ns).sum::<u64>();
        subjects.sort_by_key(|(_, rows)| std::cmp::Reverse(total(rows)));
        Self { subjects, missing_calls: sums.missing_calls, missing_errors: sums.missing_errors }
    }
}

fn row(sums: &CallSums, names: &CallNames, errnos: &Errno) -> Row {
    let errors = sums.errors.iter().map(|(&errno, &count)| (errnos.name(errno), count));
    Row {
        call: names.name(sums.call),
        number: sums.call.number,
        abi: Abi::for_call(sums.call),
        calls: sums.calls,
        errors: errors.collect(),
        total_ns: sums.total_ns,
        max_ns: sums.max_ns,
        histogram: sums.histogram,
    }
}
