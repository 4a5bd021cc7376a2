//! Records that come from no ring, and are as old as those of rings.

use super::SharedOutput;
use crate::output::Result;

impl SharedOutput {
    /// Appends whole records that are no older than what rings brought before the last mark: they
    /// belong into the round under way, and are kept back where the records of rings are.
    ///
    /// # Errors
    /// The output's own.
    pub(crate) fn append_in_round(&self, records: &[u8]) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let mut state = self.lock();
        state.rounds.appended();
        state.take(&[records])
    }
}
