//! Running processes and threads.

use std::io;

use crate::host::Host;

/// The threads of a process, ascending.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] where there is no such process.
pub fn threads(host: &Host, pid: i32) -> io::Result<Vec<i32>> {
    let mut tids: Vec<i32> =
        std::fs::read_dir(host.path(&format!("/proc/{pid}/task")))?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    tids.sort_unstable();
    Ok(tids)
}

/// The name of a thread (`comm`), which the thread chooses itself: any bytes but NUL. `None` where it ended.
#[must_use]
pub fn name(host: &Host, tid: i32) -> Option<String> {
    let bytes = std::fs::read(host.path(&format!("/proc/{tid}/comm"))).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned())
}

/// Whether a thread or process is there.
#[must_use]
pub fn exists(host: &Host, tid: i32) -> bool {
    host.path(&format!("/proc/{tid}")).exists()
}
