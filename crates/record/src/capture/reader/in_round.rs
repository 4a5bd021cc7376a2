use super::SharedOutput;
use crate::output::Result;

impl SharedOutput {
    /// Appends whole records that are no older than the records before the last mark. They belong
    /// to the current round, so they go the way of ring records: into the flight recorder, if there
    /// is one.
    ///
    /// # Errors
    /// Fails if the output takes nothing more.
    pub(crate) fn append_in_round(&self, records: &[u8]) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let mut state = self.lock();
        state.rounds.appended();
        state.take(&[records])
    }
}
