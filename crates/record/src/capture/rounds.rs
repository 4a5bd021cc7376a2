//! Which readers have drained their rings since the last mark, and when the next mark is due.
//!
//! `PERF_RECORD_FINISHED_ROUND` promises readers of a file that no later record is older than the
//! records before the previous mark. That holds if every ring was drained between two marks, by a
//! pass that began after the first of them:
//!
//! ```text
//! marks        |  n                                   |  n+1
//! reader 0        [pass]    [pass]       [pass]
//! reader 1      pass]    [pass]              [pass]      the first began before mark n, and doesn't count
//! ```

/// The round under way.
#[derive(Debug)]
pub(super) struct Rounds {
    number: u64,
    drained: Vec<bool>,
    /// Whether anything was appended since the last mark. Two marks in a row would be useless.
    appended: bool,
}

impl Rounds {
    pub(super) fn new(readers: usize) -> Self {
        Self { number: 0, drained: vec![false; readers], appended: false }
    }

    /// The round of a pass that begins now.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn note_appended(&mut self) {
        self.appended = true;
    }

    /// Notes that a reader has drained all of its rings, in a pass that began in round `since`.
    /// Returns whether the round is complete: then a mark is due, and the next round begins.
    pub(super) fn note_drained(&mut self, reader: usize, since: u64) -> bool {
        if since == self.number {
            self.drained[reader] = true;
        }
        let complete = self.appended && self.drained.iter().all(|&drained| drained);
        if complete {
            self.number += 1;
            self.appended = false;
            self.drained.fill(false);
        }
        complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_follows_when_every_reader_has_passed_since_the_last() {
        let mut rounds = Rounds::new(2);
        let early = rounds.number();
        rounds.note_appended();
        assert!(!rounds.note_drained(0, early));
        assert!(rounds.note_drained(1, early));
        rounds.note_appended();
        let now = rounds.number();
        assert!(!rounds.note_drained(0, now));
        assert!(!rounds.note_drained(1, early), "a pass that began before the mark");
        assert!(rounds.note_drained(1, now));
    }

    #[test]
    fn no_mark_follows_where_nothing_was_appended() {
        let mut rounds = Rounds::new(1);
        assert!(!rounds.note_drained(0, rounds.number()));
        rounds.note_appended();
        assert!(rounds.note_drained(0, rounds.number()));
        assert!(!rounds.note_drained(0, rounds.number()));
    }
}
