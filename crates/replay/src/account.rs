//! What of a recording could not be shown, and why.

use tare_format::file::Losses;

/// Losses while a recording was made, and while it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Records that found no room in their ring (`LOST`).
    pub lost: u64,
    /// How often that was said.
    pub lost_records: u64,
    /// Samples that the events or the hardware lost (`LOST_SAMPLES`).
    pub lost_samples: u64,
    /// Times that the kernel stopped an event that interrupted too often.
    pub throttled: u64,
    /// Records that are shorter than they should be, or belong to no known event.
    pub undecodable: u64,
    /// Records that came too late to be put in order.
    pub late: u64,
    /// Samples of what is not the command's: of other tasks, and of its process before it executed
    /// the command.
    pub outside: u64,
    /// Copies of user stacks that were unwound.
    pub unwound: u64,
    /// Of these, the ones whose end was not reached.
    pub incomplete: u64,
    /// What could not be read of the file.
    pub unread: Losses,
}

impl Account {
    /// A line for each kind of loss; none where nothing was lost.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut say = |count: u64, line: String| lines.extend((count > 0).then_some(line));
        say(
            self.lost,
            format!(
                "{} records were lost while recording, in {} places: their ring was full (larger rings: -m)",
                self.lost, self.lost_records
            ),
        );
        say(
            self.lost_samples,
            format!(
                "{} samples were lost while recording, by the account of the events themselves",
                self.lost_samples
            ),
        );
        say(
            self.throttled,
            format!(
                "the kernel stopped events {} times, as they interrupted too often (a lower rate: -F)",
                self.throttled
            ),
        );
        say(self.undecodable, format!("{} records could not be decoded", self.undecodable));
        say(self.late, format!("{} records came too late to be shown in order", self.late));
        say(
            self.outside,
            format!("{} samples of what is not the command's are left out", self.outside),
        );
        lines.extend(self.incomplete_stacks());
        let mut say = |count: u64, line: String| lines.extend((count > 0).then_some(line));
        for gap in self.unread.gaps() {
            say(
                gap.bytes,
                format!(
                    "{} bytes at offset {} of the recording were left out: {}",
                    gap.bytes, gap.offset, gap.why
                ),
            );
        }
        say(
            self.unread.more(),
            format!("{} more gaps, {} bytes in all", self.unread.more(), self.unread.bytes()),
        );
        say(self.unread.unfinished.into(), "the recorder was ended before it could finish the recording: what it had written is shown".to_owned());
        lines
    }

    /// What is missing of user call chains.
    #[must_use]
    pub fn incomplete_stacks(&self) -> Option<String> {
        let Self { unwound, incomplete, .. } = self;
        (*incomplete > 0).then(|| {
            format!(
                "{incomplete} of {unwound} copies of user stacks don't reach their thread's first function (more of them: --call-graph dwarf,BYTES)"
            )
        })
    }
}
