//! The time of day of the current record.

use tare_format::file::Description;
use tare_format::file::features::ClockData;

/// The time of the current record, and how it converts to the time of day.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecordedTime {
    /// Time of the last record with one, in nanoseconds of the recording's clock; 0 for records of
    /// what existed before the recording.
    pub(crate) now_ns: u64,
    clock: Option<ClockData>,
    /// Time of the first sample, if known.
    first_ns: Option<u64>,
    /// When the recording was written, in nanoseconds since 1970, if it is a file.
    pub(crate) written_ns: Option<u64>,
}

impl RecordedTime {
    pub(crate) fn learn(&mut self, description: &Description) {
        let features = description.features();
        self.clock = features.clock_data().ok().or(self.clock);
        let first_ns = features.sample_time_ns().ok().map(|(first_ns, _)| first_ns);
        self.first_ns = first_ns.filter(|first_ns| *first_ns != 0).or(self.first_ns);
    }

    /// Returns the time of the current record in nanoseconds since 1970, if it has one and the
    /// recording has the time of day.
    pub(crate) fn exact_wall_ns(&self) -> Option<u64> {
        self.clock.filter(|_| self.now_ns != 0).map(|clock| clock.to_wall_ns(self.now_ns))
    }

    /// Returns the time in nanoseconds since 1970: of a record without a time, that of the first
    /// sample. A recording without a time of day has the one at which its file was written, if any.
    pub(crate) fn wall_ns(&self) -> Option<u64> {
        let Some(clock) = self.clock else { return self.written_ns };
        Some(match self.now_ns {
            0 => self.first_ns.map_or(clock.wall_clock_ns, |first_ns| clock.to_wall_ns(first_ns)),
            now_ns => clock.to_wall_ns(now_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_before_the_first_sample_have_its_time() {
        let clock = ClockData { clockid: 1, wall_clock_ns: 1_000_000, clock_ns: 500 };
        let mut time = RecordedTime::default();
        assert_eq!(time.wall_ns(), None);
        time.written_ns = Some(9);
        assert_eq!(time.wall_ns(), Some(9));
        time.clock = Some(clock);
        assert_eq!(time.wall_ns(), Some(1_000_000));
        time.first_ns = Some(400);
        assert_eq!((time.wall_ns(), time.exact_wall_ns()), (Some(999_900), None));
        time.now_ns = 700;
        assert_eq!(time.wall_ns(), Some(1_000_200));
        assert_eq!(time.exact_wall_ns(), Some(1_000_200));
    }
}
