//! Counts copied stacks: whole ones, the reasons why others aren't, and the copy size that would
//! have held them.

use std::collections::HashMap;

use tare_profile::{EndReasonCount, Sufficient, Unwinding};
use tare_symbols::{UnwindOutcome, limits};

use crate::copied_stack::{CopiedStack, StackFrames, UnwoundStack};
use crate::machine::Machine;

/// Bytes per step of a copy size.
const STEP: u64 = 1 << 10;

/// Largest copy in bytes: the kernel stores its size in 16 bits, and it is a multiple of a word.
const LARGEST: u64 = 65_528;

/// Number of steps, and one for stacks that no copy holds.
const SIZES: usize = 66;

/// Share of whole and truncated stacks that a sufficient copy holds, in percent.
const ENOUGH_PERCENT: u64 = 99;

/// The reason for stacks above the limit of a round, which aren't unwound.
const TOO_MANY: &str = "too many stacks at once";

/// Counts unwound stacks.
#[derive(Debug)]
pub(crate) struct UnwindStats {
    whole: u64,
    spliced: u64,
    /// Number of stacks above the limit of a round.
    pub(crate) too_many: u64,
    /// Numbers of truncated and failed stacks, by reason and file of the last unwound frame.
    ends: HashMap<(UnwindOutcome, Box<[u8]>), u64, foldhash::fast::RandomState>,
    /// Numbers of stacks whose copy ended, by [`STEP`]s from the stack pointer to the base.
    distances: [u64; SIZES],
    /// Bytes of the deepest stack whose copy ended.
    pub(crate) deepest_bytes: u64,
}

impl Default for UnwindStats {
    fn default() -> Self {
        Self {
            whole: 0,
            spliced: 0,
            too_many: 0,
            ends: HashMap::default(),
            distances: [0; SIZES],
            deepest_bytes: 0,
        }
    }
}

impl UnwindStats {
    pub(crate) fn add(
        &mut self,
        machine: &Machine,
        stack: &CopiedStack<'_>,
        unwound: &UnwoundStack,
    ) {
        self.spliced += u64::from(unwound.spliced > 0);
        if unwound.end == UnwindOutcome::Whole {
            self.whole += 1;
            return;
        }
        if unwound.end == UnwindOutcome::CopyEnded
            && let Some(distance) = stack.bytes_to_base()
        {
            let step = usize::try_from(distance.div_ceil(STEP)).unwrap_or(SIZES);
            self.distances[step.min(SIZES - 1)] += 1;
            self.deepest_bytes = self.deepest_bytes.max(distance);
        }
        let last = unwound.addresses.len().checked_sub(unwound.spliced + 1);
        let last = last.and_then(|last| unwound.addresses.get(last));
        let mapping = last.zip(stack.space.as_ref()).and_then(|(last, space)| space.find(*last));
        let name = mapping.map_or(&b""[..], |mapping| machine.dso_name(mapping.dso));
        let is_full = self.ends.len() >= limits::DSOS;
        let key = (unwound.end, if is_full { Box::default() } else { Box::from(name) });
        *self.ends.entry(key).or_default() += 1;
    }

    /// Adds a whole stack.
    pub(crate) fn add_whole(&mut self, unwound: &StackFrames) {
        self.spliced += u64::from(unwound.is_spliced());
        self.whole += 1;
    }

    pub(crate) fn summary(&self) -> Unwinding {
        let ended = |why: UnwindOutcome| {
            let of_this = self.ends.iter().filter(|((end, _), _)| *end == why);
            let stacks = of_this.clone().map(|(_, stacks)| stacks).sum();
            let most = of_this.max_by_key(|((_, name), stacks)| (**stacks, name.clone()));
            let dso = most.map(|((_, name), _)| String::from_utf8_lossy(name).into_owned());
            // The file isn't the reason why a copy ends.
            let dso = dso.filter(|name| why != UnwindOutcome::CopyEnded && !name.is_empty());
            EndReasonCount { why: why.reason(), stacks, dso }
        };
        let all = |is_wanted: fn(UnwindOutcome) -> bool| {
            let reasons = UnwindOutcome::ALL.into_iter().filter(|why| is_wanted(*why));
            let mut all: Vec<_> = reasons.map(ended).filter(|ended| ended.stacks > 0).collect();
            all.sort_by_key(|ended| std::cmp::Reverse(ended.stacks));
            all
        };
        let mut failed = all(|why| why != UnwindOutcome::Whole && !why.is_truncated());
        if self.too_many > 0 {
            failed.push(EndReasonCount { why: TOO_MANY, stacks: self.too_many, dso: None });
        }
        Unwinding {
            whole: self.whole,
            truncated: all(UnwindOutcome::is_truncated),
            failed,
            spliced: self.spliced,
            by_recorder: false,
            deepest: None,
            sufficient: self.find_sufficient_size(),
        }
    }

    /// Returns the smallest copy that would have held at least one truncated stack, and
    /// [`ENOUGH_PERCENT`] of the whole and truncated stacks. If no size suffices, returns the
    /// largest copy; if no copy was too small, `None`.
    fn find_sufficient_size(&self) -> Option<Sufficient> {
        let truncated: u64 = self.distances.iter().sum();
        let all = self.whole + truncated;
        if truncated == 0 {
            return None;
        }
        let mut held = self.whole;
        for (step, here) in self.distances.iter().enumerate().take(SIZES - 1) {
            held += here;
            if *here > 0 && held * 100 >= all * ENOUGH_PERCENT {
                let bytes = (step as u64 * STEP).min(LARGEST);
                return Some(Sufficient { bytes, stacks: held, of: all });
            }
        }
        Some(Sufficient { bytes: LARGEST, stacks: held, of: all })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sufficient copy size in bytes, and the number of stacks that it holds, for whole
    /// stacks and for truncated ones by their KiB.
    fn sufficient(whole: u64, truncated: &[(usize, u64)]) -> Option<(u64, u64)> {
        let mut stats = UnwindStats { whole, ..UnwindStats::default() };
        truncated.iter().for_each(|(step, stacks)| stats.distances[*step] = *stacks);
        stats.find_sufficient_size().map(|sufficient| (sufficient.bytes, sufficient.stacks))
    }

    #[test]
    fn the_sufficient_size_holds_99_percent_of_the_stacks() {
        assert_eq!(sufficient(10, &[]), None, "no copy was too small");
        assert_eq!(sufficient(0, &[(2, 98), (4, 1), (9, 1)]), Some((4096, 99)));
        assert_eq!(sufficient(1000, &[(2, 1), (9, 1)]), Some((2048, 1001)));
        assert_eq!(
            sufficient(0, &[(2, 1), (SIZES - 1, 1)]),
            Some((LARGEST, 1)),
            "no copy is enough"
        );
    }

    #[test]
    fn stacks_above_the_limit_of_a_round_count_as_failed() {
        let stats = UnwindStats { too_many: 3, ..UnwindStats::default() };
        let summary = stats.summary();
        assert_eq!((summary.failed.len(), summary.failed[0].stacks), (1, 3));
        assert_eq!(summary.failed[0].why, TOO_MANY);
    }
}
