//! Numbers that a caller gives to frames.

use std::num::NonZeroU32;

use crate::ids::{FrameId, Id};

/// A number for each of some frames of a profile, in 4 bytes per frame of the profile.
#[derive(Clone, Debug, Default)]
pub struct FrameNumbers(Vec<Option<NonZeroU32>>);

impl FrameNumbers {
    /// Returns a frame's number.
    #[must_use]
    pub fn get(&self, frame: FrameId) -> Option<NonZeroU32> {
        self.0.get(frame.index()).copied().flatten()
    }

    /// Gives a frame a number.
    pub fn insert(&mut self, frame: FrameId, number: NonZeroU32) {
        let at = frame.index();
        if at >= self.0.len() {
            self.0.resize(at + 1, None);
        }
        self.0[at] = Some(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_the_numbers_they_were_given() {
        let mut numbers = FrameNumbers::default();
        let [first, second, third] = [3, 0, 9].map(FrameId::from_index);
        numbers.insert(first, NonZeroU32::MIN);
        numbers.insert(second, NonZeroU32::MAX);
        assert_eq!(numbers.get(first), Some(NonZeroU32::MIN));
        assert_eq!(numbers.get(second), Some(NonZeroU32::MAX));
        assert_eq!(numbers.get(third), None);
        assert_eq!(numbers.get(FrameId::from_index(1)), None);
    }
}
