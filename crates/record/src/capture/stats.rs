//! What a ring brought, as stats: since the recording began, and of each of its files.

use std::collections::BTreeMap;

/// Samples of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampleCounts {
    /// All that were written.
    pub(crate) samples: u64,
    /// Those made by the recorder itself.
    pub(crate) own: u64,
    /// Those that interrupted the kernel.
    pub(crate) in_kernel: u64,
}

impl SampleCounts {
    /// What came since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let since = |of: fn(&Self) -> u64| of(self).saturating_sub(of(before));
        Self {
            samples: since(|tally| tally.samples),
            own: since(|tally| tally.own),
            in_kernel: since(|tally| tally.in_kernel),
        }
    }

    /// Both together.
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self {
            samples: self.samples + other.samples,
            own: self.own + other.own,
            in_kernel: self.in_kernel + other.in_kernel,
        }
    }
}

/// Records that a ring had no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LostRecords {
    /// How many.
    pub(crate) records: u64,
    /// When the last record before them was made, in the recording's clock, where that is known.
    pub(crate) after_ns: Option<u64>,
    /// When there was room again.
    pub(crate) until_ns: Option<u64>,
}

/// What a ring brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    /// By event.
    pub(crate) by_event: Vec<SampleCounts>,
    /// All losses as one: how many records, from the first until the last.
    pub(crate) lost: Option<LostRecords>,
    /// How often an event was stopped for sampling too often.
    pub(crate) throttled: u64,
    /// All bytes.
    pub(crate) bytes: u64,
    /// The most bytes that lay in the ring when it was read.
    pub(crate) fullest: usize,
    /// When the first sample was made.
    pub(crate) first_ns: Option<u64>,
    /// When the last sample was made.
    pub(crate) last_ns: Option<u64>,
}

impl Stats {
    /// What came since `before`. The fullest that a ring was stays.
    fn since(self, before: &Self) -> Self {
        let zero = SampleCounts::default();
        let tally = |(event, now): (usize, &SampleCounts)| {
            let before = before.by_event.get(event).unwrap_or(&zero);
            now.since(before)
        };
        let lost =
            self.lost.filter(|lost| Some(*lost) != before.lost).map(|lost| match before.lost {
                Some(known) => LostRecords {
                    records: lost.records.saturating_sub(known.records),
                    after_ns: known.until_ns,
                    until_ns: lost.until_ns,
                },
                None => lost,
            });
        Self {
            by_event: self.by_event.iter().enumerate().map(tally).collect(),
            lost,
            throttled: self.throttled.saturating_sub(before.throttled),
            bytes: self.bytes.saturating_sub(before.bytes),
            last_ns: self.last_ns.filter(|last_ns| Some(*last_ns) != before.last_ns),
            ..self
        }
    }
}

/// What a ring brought into a file.
#[derive(Clone, Debug)]
pub(crate) struct RingStats {
    pub(crate) cpu: u32,
    /// Its size in bytes.
    pub(crate) size: usize,
    pub(crate) stats: Stats,
}

/// What is known of a file when it is completed.
#[derive(Debug)]
pub(crate) struct FileStats {
    /// By ring.
    pub(crate) rings: Vec<RingStats>,
    /// Of them, what was read and not kept.
    pub(crate) forgotten: Stats,
    /// Of the records that were lost, those that were so before what was kept, by CPU where that is
    /// known.
    pub(crate) forgotten_losses: BTreeMap<Option<u32>, u64>,
}

/// The ring of a CPU, and what of it is known to have been appended to the output.
#[derive(Debug, Default)]
pub(crate) struct AppendedStats {
    now: Stats,
    /// As they were when the file at hand began.
    before: Stats,
    /// When the first sample of the file was made.
    first_ns: Option<u64>,
}

impl AppendedStats {
    /// What a scanner saw is handed to the output: all of it so far, and when the first sample of
    /// its last batch was made.
    pub(crate) fn note(&mut self, stats: &Stats, batch_first_ns: Option<u64>) {
        self.first_ns = self.first_ns.or(batch_first_ns);
        self.now.clone_from(stats);
    }

    /// How often events were stopped for sampling too often.
    pub(crate) fn throttled(&self) -> u64 {
        self.now.throttled
    }

    /// Samples of the recording so far, of all rings, by event.
    pub(crate) fn of_all<'s>(rings: impl Iterator<Item = &'s Self>) -> Vec<SampleCounts> {
        let mut all: Vec<SampleCounts> = Vec::new();
        for Self { now, .. } in rings {
            all.resize(all.len().max(now.by_event.len()), SampleCounts::default());
            all.iter_mut().zip(&now.by_event).for_each(|(sum, tally)| *sum = sum.and(tally));
        }
        all
    }

    /// What the file at hand holds; the next file begins.
    pub(crate) fn take(&mut self) -> Stats {
        let of_file =
            Stats { first_ns: self.first_ns.take(), ..self.now.clone().since(&self.before) };
        self.before.clone_from(&self.now);
        of_file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_files_sum_up_to_those_of_the_recording() {
        let stats = |samples, records, bytes, last_ns| Stats {
            by_event: vec![SampleCounts { samples, own: 1, in_kernel: 2 }],
            lost: (records > 0).then_some(LostRecords {
                records,
                after_ns: Some(5),
                until_ns: last_ns,
            }),
            bytes,
            last_ns,
            ..Stats::default()
        };
        let mut appended = AppendedStats {
            now: stats(3, 0, 30, Some(7)),
            first_ns: Some(4),
            ..AppendedStats::default()
        };
        assert_eq!(appended.take(), Stats { first_ns: Some(4), ..stats(3, 0, 30, Some(7)) });
        appended.now = stats(10, 4, 100, Some(9));
        let second = appended.take();
        assert_eq!(
            (second.by_event[0], second.bytes, second.first_ns),
            (SampleCounts { samples: 7, own: 0, in_kernel: 0 }, 70, None)
        );
        assert_eq!(
            second.lost,
            Some(LostRecords { records: 4, after_ns: Some(5), until_ns: Some(9) })
        );
        appended.now = stats(10, 6, 100, Some(12));
        assert_eq!(
            appended.take().lost,
            Some(LostRecords { records: 2, after_ns: Some(9), until_ns: Some(12) })
        );
        let nothing = appended.take();
        assert_eq!(
            (nothing.lost, nothing.last_ns, nothing.by_event[0]),
            (None, None, SampleCounts::default())
        );
    }
}
