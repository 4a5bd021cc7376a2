//! What a ring brought, as figures: since the recording began, and of each of its files.

use super::meter::{Lost, Meter, Tally};

/// What a ring brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// By event.
    pub(crate) tallies: Vec<Tally>,
    /// All losses as one: how many records, from the first until the last.
    pub(crate) lost: Option<Lost>,
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

impl Figures {
    /// What came since `before`. The fullest that a ring was stays.
    fn since(self, before: &Self) -> Self {
        let zero = Tally::default();
        let tally = |(event, now): (usize, &Tally)| {
            let before = before.tallies.get(event).unwrap_or(&zero);
            now.since(before)
        };
        let lost =
            self.lost.filter(|lost| Some(*lost) != before.lost).map(|lost| match before.lost {
                Some(known) => Lost {
                    records: lost.records.saturating_sub(known.records),
                    after_ns: known.until_ns,
                    until_ns: lost.until_ns,
                },
                None => lost,
            });
        Self {
            tallies: self.tallies.iter().enumerate().map(tally).collect(),
            lost,
            throttled: self.throttled.saturating_sub(before.throttled),
            bytes: self.bytes.saturating_sub(before.bytes),
            last_ns: self.last_ns.filter(|last_ns| Some(*last_ns) != before.last_ns),
            ..self
        }
    }
}

/// The ring of a CPU, and what of it is known to have been handed to the output.
#[derive(Debug, Default)]
pub(crate) struct Handed {
    now: Figures,
    /// As they were when the file at hand began.
    before: Figures,
    /// When the first sample of the file was made.
    first_ns: Option<u64>,
}

impl Handed {
    /// What the meter saw is handed over.
    pub(crate) fn note(&mut self, meter: &Meter) {
        self.first_ns = self.first_ns.or(meter.batch_first_ns);
        self.now.clone_from(&meter.figures);
    }

    /// How often events were stopped for sampling too often.
    pub(crate) fn throttled(&self) -> u64 {
        self.now.throttled
    }

    /// Samples of the recording so far, by event.
    pub(crate) fn tallies(&self) -> &[Tally] {
        &self.now.tallies
    }

    /// What the file at hand holds; the next file begins.
    pub(crate) fn take(&mut self) -> Figures {
        let of_file =
            Figures { first_ns: self.first_ns.take(), ..self.now.clone().since(&self.before) };
        self.before.clone_from(&self.now);
        of_file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_files_sum_up_to_those_of_the_recording() {
        let figures = |samples, records, bytes, last_ns| Figures {
            tallies: vec![Tally { samples, own: 1, in_kernel: 2 }],
            lost: (records > 0).then_some(Lost { records, after_ns: Some(5), until_ns: last_ns }),
            bytes,
            last_ns,
            ..Figures::default()
        };
        let mut handed =
            Handed { now: figures(3, 0, 30, Some(7)), first_ns: Some(4), ..Handed::default() };
        assert_eq!(handed.take(), Figures { first_ns: Some(4), ..figures(3, 0, 30, Some(7)) });
        handed.now = figures(10, 4, 100, Some(9));
        let second = handed.take();
        assert_eq!(
            (second.tallies[0], second.bytes, second.first_ns),
            (Tally { samples: 7, own: 0, in_kernel: 0 }, 70, None)
        );
        assert_eq!(second.lost, Some(Lost { records: 4, after_ns: Some(5), until_ns: Some(9) }));
        handed.now = figures(10, 6, 100, Some(12));
        assert_eq!(
            handed.take().lost,
            Some(Lost { records: 2, after_ns: Some(9), until_ns: Some(12) })
        );
        let nothing = handed.take();
        assert_eq!(
            (nothing.lost, nothing.last_ns, nothing.tallies[0]),
            (None, None, Tally::default())
        );
    }
}
