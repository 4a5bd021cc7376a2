//! Counts, and the results of `read(2)` on an event's descriptor.

use std::fmt;

use super::ReadFormat;

/// A count with its enabled and running times. It can't be built without them.
///
/// ```text
/// enabled  |-----------------------------|     the event was enabled
/// running  |------|        |------|            it was on a counter
/// value       n1              n2               n1 + n2 were counted
///
/// scaled() = value * enabled / running
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Count {
    value: u64,
    enabled_ns: u64,
    running_ns: u64,
}

impl Count {
    /// Creates a count of occurrences (nanoseconds for clocks) from its value and times.
    #[must_use]
    pub fn new(value: u64, enabled_ns: u64, running_ns: u64) -> Self {
        Self { value, enabled_ns, running_ns }
    }

    /// Returns the unscaled count.
    #[must_use]
    pub fn value(self) -> u64 {
        self.value
    }

    /// Returns the nanoseconds that the event was enabled.
    #[must_use]
    pub fn enabled_ns(self) -> u64 {
        self.enabled_ns
    }

    /// Returns the nanoseconds that the event was on a counter.
    #[must_use]
    pub fn running_ns(self) -> u64 {
        self.running_ns
    }

    /// Whether the event was on a counter for all of the time that it was enabled.
    #[must_use]
    pub fn is_exact(self) -> bool {
        self.running_ns >= self.enabled_ns
    }

    /// Returns the share of the enabled time during which the event was on a counter, from 0 to 1;
    /// 1 if it was never enabled.
    #[must_use]
    pub fn running_share(self) -> f64 {
        if self.is_exact() { 1.0 } else { self.running_ns as f64 / self.enabled_ns as f64 }
    }

    /// Estimates the count of the whole enabled time; `None` if the event was enabled but never
    /// ran.
    #[must_use]
    pub fn scaled(self) -> Option<f64> {
        match (self.is_exact(), self.running_ns) {
            (true, _) => Some(self.value as f64),
            (false, 0) => None,
            (false, _) => Some(self.value as f64 * self.enabled_ns as f64 / self.running_ns as f64),
        }
    }

    /// Adds the count of another CPU or thread: values and times add up.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            value: self.value.wrapping_add(other.value),
            enabled_ns: self.enabled_ns.saturating_add(other.enabled_ns),
            running_ns: self.running_ns.saturating_add(other.running_ns),
        }
    }

    /// Returns the count since `earlier`, of the same event.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            value: self.value.wrapping_sub(earlier.value),
            enabled_ns: self.enabled_ns.saturating_sub(earlier.enabled_ns),
            running_ns: self.running_ns.saturating_sub(earlier.running_ns),
        }
    }
}

/// The counts of an event, or of a group's members in the order in which they were opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// A count per member, the leader first.
    pub counts: Vec<Count>,
    /// Number of samples that each member lost because the ring was full; empty if the format
    /// doesn't include it.
    pub lost: Vec<u64>,
}

/// Why bytes don't match the read format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadingError {
    /// The format lacks one of the two times, without which no count can be built.
    NoTimes,
    /// `read(2)` returned no bytes: a pinned event could not be put on a counter.
    PinnedNotRunning,
    /// The bytes end early.
    Truncated {
        /// Number of bytes that were read.
        len: usize,
    },
}

impl fmt::Display for ReadingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTimes => {
                write!(f, "the event was opened without its enabled and running times")
            }
            Self::PinnedNotRunning => write!(f, "the pinned event found no free counter"),
            Self::Truncated { len } => {
                write!(f, "a read of {len} bytes is shorter than its format")
            }
        }
    }
}

impl std::error::Error for ReadingError {}

impl Reading {
    /// Decodes the bytes that `read(2)` returned for an event that was opened with `format`.
    ///
    /// ```text
    /// without GROUP: value  enabled running        [id] [lost]
    /// with GROUP:    nr     enabled running  nr x { value [id] [lost] }       (eight bytes each)
    /// ```
    /// Source: `include/uapi/linux/perf_event.h`, at `enum perf_event_read_format`.
    ///
    /// # Errors
    /// See [`ReadingError`].
    pub fn decode(bytes: &[u8], format: ReadFormat) -> Result<Self, ReadingError> {
        if !format.contains(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING) {
            return Err(ReadingError::NoTimes);
        }
        if bytes.is_empty() {
            return Err(ReadingError::PinnedNotRunning);
        }
        let truncated = ReadingError::Truncated { len: bytes.len() };
        let word = |i: usize| {
            bytes
                .get(i * 8..i * 8 + 8)
                .map(|b| u64::from_ne_bytes(std::array::from_fn(|k| b[k])))
                .ok_or(truncated)
        };
        let first = word(0)?;
        let enabled = word(1)?;
        let running = word(2)?;
        let with_id = usize::from(format.contains(ReadFormat::ID));
        let with_lost = format.contains(ReadFormat::LOST);
        if !format.contains(ReadFormat::GROUP) {
            let lost = if with_lost { vec![word(3 + with_id)?] } else { Vec::new() };
            return Ok(Self { counts: vec![Count::new(first, enabled, running)], lost });
        }
        let words_per_member = 1 + with_id + usize::from(with_lost);
        let members = usize::try_from(first)
            .ok()
            .filter(|&n| n <= bytes.len() / (8 * words_per_member))
            .ok_or(truncated)?;
        let counts = (0..members)
            .map(|m| Ok(Count::new(word(3 + m * words_per_member)?, enabled, running)))
            .collect::<Result<_, _>>()?;
        let lost = (0..members)
            .filter(|_| with_lost)
            .map(|m| word(3 + m * words_per_member + 1 + with_id))
            .collect::<Result<_, _>>()?;
        Ok(Self { counts, lost })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: ReadFormat = ReadFormat::TOTAL_TIME_ENABLED.union(ReadFormat::TOTAL_TIME_RUNNING);

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_ne_bytes()).collect()
    }

    #[test]
    fn decodes_a_single_event() {
        let read = Reading::decode(&bytes(&[7, 100, 50, 99]), TIMES | ReadFormat::ID).unwrap();
        assert_eq!(read.counts, [Count::new(7, 100, 50)]);
        assert_eq!(read.counts[0].scaled(), Some(14.0));
        assert!((read.counts[0].running_share() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn decodes_groups_with_ids_and_losses() {
        let format = TIMES | ReadFormat::GROUP | ReadFormat::ID | ReadFormat::LOST;
        let read = Reading::decode(&bytes(&[2, 10, 10, 5, 1, 0, 6, 2, 0]), format).unwrap();
        assert_eq!(read.counts, [Count::new(5, 10, 10), Count::new(6, 10, 10)]);
        assert_eq!(read.lost, [0, 0]);
        let single = Reading::decode(
            &bytes(&[7, 100, 50, 99, 3]),
            TIMES | ReadFormat::ID | ReadFormat::LOST,
        )
        .unwrap();
        assert_eq!((single.counts[0].value(), single.lost), (7, vec![3]));
        assert_eq!(
            Reading::decode(&bytes(&[7, 100, 50]), TIMES | ReadFormat::LOST),
            Err(ReadingError::Truncated { len: 24 })
        );
    }

    #[test]
    fn hostile_and_short_reads_are_errors() {
        let format = TIMES | ReadFormat::GROUP;
        assert_eq!(Reading::decode(&[], format), Err(ReadingError::PinnedNotRunning));
        assert_eq!(
            Reading::decode(&bytes(&[u64::MAX, 1, 1]), format),
            Err(ReadingError::Truncated { len: 24 })
        );
        assert_eq!(
            Reading::decode(&bytes(&[3, 1, 1, 5]), format),
            Err(ReadingError::Truncated { len: 32 })
        );
        assert_eq!(
            Reading::decode(&bytes(&[1, 1]), TIMES),
            Err(ReadingError::Truncated { len: 16 })
        );
        assert_eq!(
            Reading::decode(&bytes(&[1]), ReadFormat::TOTAL_TIME_ENABLED),
            Err(ReadingError::NoTimes)
        );
    }

    #[test]
    fn an_event_that_never_ran_has_no_estimate() {
        assert_eq!(Count::new(0, 100, 0).scaled(), None);
        assert_eq!(Count::new(0, 0, 0).scaled(), Some(0.0));
    }

    #[test]
    fn differences_survive_a_wrapped_counter() {
        assert_eq!(
            Count::new(1, 20, 20).since(Count::new(u64::MAX, 10, 10)),
            Count::new(2, 10, 10)
        );
    }
}
