//! Names of a recording's finished files, which end with the time.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, RenameFlags, rename, renameat_with};
use rustix::io::Errno;
use tare_kernel::calendar_time::CalendarTime;

use super::destination::with_ending;

/// Resolution of the time in names.
const STEP: Duration = Duration::from_millis(10);
/// Number of names to try if files with these names exist.
const STEPS: u32 = 100;

/// Renames a finished file to end with the time, `YYYYMMDDhhmmsscc` with hundredths of seconds, as
/// perf does. If a name is taken, tries the next hundredth.
pub(super) fn stamp(path: &Path, now: SystemTime) -> Result<PathBuf, Errno> {
    for step in 0..STEPS {
        let stamped = with_ending(path, &format!(".{}", format_time(now + STEP * step)));
        match renameat_with(CWD, path, CWD, &stamped, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(stamped),
            Err(Errno::EXIST) => {}
            // The file system can't check and rename in one step.
            Err(Errno::INVAL) if !stamped.exists() => {
                return rename(path, &stamped).map(|()| stamped);
            }
            Err(Errno::INVAL) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::EXIST)
}

/// Formats a time as the ending of a name.
pub(super) fn format_time(at: SystemTime) -> String {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let hundredths = since.subsec_millis() / 10;
    match CalendarTime::local(seconds) {
        Some(CalendarTime { year, month, day, hour, minute, second }) => {
            format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}{hundredths:02}")
        }
        None => format!("{seconds}{hundredths:02}"),
    }
}

/// The finished files that are kept.
#[derive(Debug, Default)]
pub(super) struct KeptFiles {
    files: VecDeque<PathBuf>,
}

impl KeptFiles {
    /// Adds the newest file, and removes the oldest if there are more than `max`, but never the
    /// newest.
    pub(super) fn add(
        &mut self,
        file: PathBuf,
        max: Option<usize>,
        remove: impl Fn(&Path) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        self.files.push_back(file);
        while max.is_some_and(|max| self.files.len() > max.max(1)) {
            let oldest = self.files.pop_front().unwrap_or_default();
            remove(&oldest)?;
        }
        Ok(())
    }

    /// Returns all kept files, oldest first.
    pub(super) fn into_files(self) -> Vec<PathBuf> {
        self.files.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_files_are_kept() {
        let removed = std::cell::RefCell::new(Vec::new());
        let remove = |path: &Path| {
            removed.borrow_mut().push(path.to_owned());
            Ok(())
        };
        let mut kept = KeptFiles::default();
        for name in ["a", "b", "c"] {
            kept.add(name.into(), Some(2), remove).unwrap();
        }
        assert_eq!(*removed.borrow(), [PathBuf::from("a")]);
        kept.add("d".into(), Some(0), remove).unwrap();
        assert_eq!(kept.into_files(), [PathBuf::from("d")], "the newest is always kept");
    }

    #[test]
    fn a_taken_name_is_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf.data");
        let mut names = Vec::new();
        for _ in 0..2 {
            std::fs::write(&path, "").unwrap();
            names.push(stamp(&path, SystemTime::UNIX_EPOCH).unwrap());
        }
        assert!(names[0] < names[1] && names.iter().all(|name| name.exists()), "{names:?}");
    }
}
