//! Counts of a ring's records: since the recording began, and by file.

use std::collections::BTreeMap;
use tare_kernel::bpf::DeepStackCounts;

/// Samples of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampleCounts {
    /// All samples.
    pub(crate) samples: u64,
    /// Samples of the recorder's own threads.
    pub(crate) own: u64,
    /// Samples that interrupted the kernel.
    pub(crate) in_kernel: u64,
}

impl SampleCounts {
    pub(crate) fn since(&self, before: &Self) -> Self {
        let since = |of: fn(&Self) -> u64| of(self).saturating_sub(of(before));
        Self {
            samples: since(|tally| tally.samples),
            own: since(|tally| tally.own),
            in_kernel: since(|tally| tally.in_kernel),
        }
    }

    /// Returns the sum of both.
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
    pub(crate) records: u64,
    /// Time of the last record before the loss, in the recording's clock, if known.
    pub(crate) after_ns: Option<u64>,
    /// Time of the record that reports the loss, which is written once there is room again; if
    /// unknown, as `after_ns`.
    pub(crate) until_ns: Option<u64>,
}

/// Counts of a ring's records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    pub(crate) by_event: Vec<SampleCounts>,
    /// All losses as one: the number of lost records, from the first loss until the last.
    pub(crate) lost: Option<LostRecords>,
    /// Number of times that an event was throttled.
    pub(crate) throttled: u64,
    /// Bytes of all records.
    pub(crate) bytes: u64,
    /// Most bytes that were read from the ring at once.
    pub(crate) fullest: usize,
    /// Time of the first sample.
    pub(crate) first_ns: Option<u64>,
    /// Time of the last sample.
    pub(crate) last_ns: Option<u64>,
}

impl Stats {
    /// Returns the counts since `before`. `fullest` and `first_ns` are kept.
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

/// Counts of a ring's records in a file.
#[derive(Clone, Debug)]
pub(crate) struct RingStats {
    pub(crate) cpu: u32,
    /// Bytes of the ring.
    pub(crate) size: usize,
    pub(crate) stats: Stats,
}

/// Counts of a completed file.
#[derive(Debug, Default)]
pub(crate) struct FileStats {
    pub(crate) rings: Vec<RingStats>,
    /// Counts of the records that expired in the flight recorder or were left in it, whose samples
    /// were dropped; they are included in `rings`. `throttled` counts only the records left in it,
    /// since the others stay in the file.
    pub(crate) forgotten: Stats,
    /// Records lost before the kept period, by CPU (`None`: CPU unknown).
    pub(crate) forgotten_losses: BTreeMap<Option<u32>, u64>,
    /// Counts of the program that copies deep stacks so far, also in earlier files.
    pub(crate) deep: DeepStackCounts,
}

/// Counts of a ring's records that were appended to the output or to the flight recorder.
#[derive(Debug, Default)]
pub(crate) struct AppendedStats {
    now: Stats,
    /// The counts when the current file began.
    before: Stats,
    /// Time of the file's first sample.
    first_ns: Option<u64>,
}

impl AppendedStats {
    /// Notes that everything a scanner has counted is appended. `batch_first_ns` is the time of the
    /// first sample in its last batch.
    pub(crate) fn note(&mut self, stats: &Stats, batch_first_ns: Option<u64>) {
        self.first_ns = self.first_ns.or(batch_first_ns);
        self.now.clone_from(stats);
    }

    /// Number of times that an event was throttled.
    pub(crate) fn throttled(&self) -> u64 {
        self.now.throttled
    }

    /// Sums up the samples of all rings, by event.
    pub(crate) fn sum_up<'s>(rings: impl Iterator<Item = &'s Self>) -> Vec<SampleCounts> {
        let mut all: Vec<SampleCounts> = Vec::new();
        for Self { now, .. } in rings {
            all.resize(all.len().max(now.by_event.len()), SampleCounts::default());
            all.iter_mut().zip(&now.by_event).for_each(|(sum, tally)| *sum = sum.and(tally));
        }
        all
    }

    /// Returns the counts of the current file, and begins the next one.
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
    fn counts_of_files_sum_up_to_the_recordings() {
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
