//! Finds the function that waits for a futex: the first of the call chain outside lock libraries.

use crate::stacks::UserFrame;

/// Prefixes of the names of files that implement locks with futexes.
const FILES: [&str; 6] = ["libc.so", "libc-", "libpthread", "ld-linux", "ld-musl", "libstdc++.so"];

/// Prefixes of lock functions, which may also be linked into the program.
const FUNCTIONS: [&str; 19] = [
    "__lll_",
    "lll_",
    "__futex",
    "futex",
    "__GI_",
    "pthread_",
    "__pthread_",
    "___pthread_",
    "__new_sem_",
    "sem_",
    "__sem_",
    "syscall",
    "__syscall",
    "__internal_syscall",
    "__timedwait",
    "std::sys::",
    "std::sync::",
    "std::__",
    "runtime.",
];

fn is_lock_code(frame: &UserFrame) -> bool {
    let file = frame.file.rsplit('/').next().unwrap_or_default();
    let name = frame.symbol.as_deref().unwrap_or_default();
    let name = name.trim_start_matches('<');
    FILES.iter().any(|start| file.starts_with(start))
        || FUNCTIONS.iter().any(|start| name.starts_with(start))
}

/// Returns the first frame outside lock code; if all are within, the outermost one.
pub(super) fn caller(frames: &[UserFrame]) -> Option<&UserFrame> {
    frames.iter().find(|frame| !is_lock_code(frame)).or(frames.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_frames_of_lock_libraries() {
        let frame = |symbol: &str, file: &str| UserFrame {
            symbol: Some(symbol.to_owned()),
            file: file.to_owned(),
            address: 0,
        };
        let chain = [
            frame("__lll_lock_wait", "/prog"),
            frame("pthread_mutex_lock", "/usr/lib/libc.so.6"),
            frame("take", "/prog"),
            frame("main", "/prog"),
        ];
        assert_eq!(caller(&chain).unwrap().symbol.as_deref(), Some("take"));
        assert_eq!(caller(&chain[..2]).unwrap().symbol.as_deref(), Some("pthread_mutex_lock"));
        assert!(caller(&[]).is_none());
    }
}
