//! Sums of system calls as table rows.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tare_kernel::bpf::{CallSums, Sums};
use tare_kernel::histogram::Histogram;

use crate::chosen::CallSelection;
use crate::names::{Abi, CallNames, Errno};

/// The tasks that a row covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// All tasks.
    All,
    /// One thread.
    Thread {
        /// Its id, in the initial pid namespace.
        tid: u32,
        /// Its current or last name; empty if unknown.
        comm: String,
    },
    /// A cgroup's path from the top of the hierarchy, or its id in parentheses if it is gone.
    Cgroup(String),
}

/// The sums of one system call.
#[derive(Clone, Debug)]
pub struct CallRow {
    /// The call's name.
    pub call: Cow<'static, str>,
    /// The call's number.
    pub number: u32,
    /// The ABI of the number.
    pub abi: Abi,
    /// Number of calls that returned.
    pub calls: u64,
    /// Number of failed calls, by the error's name.
    pub errors: BTreeMap<Cow<'static, str>, u64>,
    /// Total duration in nanoseconds.
    pub total_ns: u64,
    /// Longest duration in nanoseconds.
    pub max_ns: u64,
    /// Distribution of the durations.
    pub histogram: Histogram,
}

impl CallRow {
    /// Returns the mean duration in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.total_ns as f64 / self.calls as f64 }
    }

    /// Returns the duration in nanoseconds that this share of the calls didn't exceed, within a
    /// bucket of the histogram (a quarter of a power of two) and at most the longest duration.
    #[must_use]
    pub fn quantile_ns(&self, share: f64) -> f64 {
        self.histogram.quantile(share).min(self.max_ns as f64)
    }

    /// Returns the number of failed calls.
    #[must_use]
    pub fn failed_calls(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// A call that hadn't returned when the trace ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnfinishedCall {
    /// The call's name.
    pub call: Cow<'static, str>,
    /// The thread.
    pub tid: u32,
    /// Whether the call began before the trace.
    pub is_begun_before: bool,
}

/// The rows of each subject, sorted by total duration.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Subjects with their rows.
    pub subjects: Vec<(Subject, Vec<CallRow>)>,
    /// Number of calls that began before the trace and returned during it, by name.
    pub begun_before: BTreeMap<Cow<'static, str>, u64>,
    /// Calls in progress at the end.
    pub in_progress: Vec<UnfinishedCall>,
    /// Calls that didn't fit in the table; with perf events, also lost records.
    pub missing_calls: u64,
    /// Errors of counted calls that didn't fit.
    pub missing_errors: u64,
}

impl Summary {
    /// Sorts the sums of the selected calls into rows. `subject` returns the tasks of a scope.
    #[must_use]
    pub fn new(sums: &Sums, chosen: &CallSelection, subject: impl Fn(u64) -> Subject) -> Self {
        let names = CallNames::default();
        let errnos = Errno::default();
        let mut by_subject: BTreeMap<Subject, Vec<CallRow>> = BTreeMap::new();
        for sums in sums.calls.iter().filter(|sums| chosen.has_call(&names, sums.call)) {
            by_subject.entry(subject(sums.scope)).or_default().push(row(sums, &names, &errnos));
        }
        let mut subjects: Vec<_> = by_subject.into_iter().collect();
        for (_, rows) in &mut subjects {
            rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.call.cmp(&b.call)));
        }
        let total = |rows: &[CallRow]| rows.iter().map(|row| row.total_ns).sum::<u64>();
        subjects.sort_by_key(|(_, rows)| std::cmp::Reverse(total(rows)));
        let mut begun_before = BTreeMap::new();
        let earlier = sums.begun_before.iter();
        for (call, number) in earlier.filter(|(call, _)| chosen.has_call(&names, **call)) {
            *begun_before.entry(names.name(*call)).or_default() += number;
        }
        let in_progress = sums.in_progress.iter();
        let in_progress = in_progress.filter(|call| chosen.has_call(&names, call.call));
        let mut in_progress: Vec<_> = in_progress
            .map(|call| UnfinishedCall {
                call: names.name(call.call),
                tid: call.tid,
                is_begun_before: call.start_ns.is_none(),
            })
            .collect();
        in_progress.sort();
        Self {
            subjects,
            begun_before,
            in_progress,
            missing_calls: sums.missing_calls,
            missing_errors: sums.missing_errors,
        }
    }
}

fn row(sums: &CallSums, names: &CallNames, errnos: &Errno) -> CallRow {
    let errors = sums.errors.iter().map(|(&errno, &count)| (errnos.name(errno), count));
    CallRow {
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
