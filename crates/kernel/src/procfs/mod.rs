//! Processes and threads, their mappings, and the kernel's code, from `/proc`.
//!
//! Processes come and go while they are read: a process that has exited is an error of kind
//! [`io::ErrorKind::NotFound`].

mod kernel_code;
mod mappings;

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};

pub use kernel_code::{
    KernelModule, KernelText, find_module_files, kernel_functions, kernel_text, loaded_modules,
    modules,
};
pub use mappings::{Mapping, mappings};

use crate::host::Host;
use crate::pseudo_file;

/// Most bytes of a name in a record: `TASK_COMM_LEN` of `include/linux/sched.h` without the NUL.
const COMM_BYTES: usize = 15;

/// `PF_KTHREAD` of `include/linux/sched.h`, in the field `flags` of a file `stat`.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// A process, from the file `stat` of its first thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    /// Its name: at most 15 bytes, any but NUL.
    pub comm: Vec<u8>,
    /// Its parent, or the process that adopted it.
    pub ppid: i32,
    /// Whether it is a kernel thread, which has no mappings.
    pub is_kernel_thread: bool,
    /// Number of its threads.
    pub threads: u32,
}

/// Returns the process ids, ascending.
///
/// # Errors
/// Fails if `/proc` can't be read.
pub fn processes(host: &Host) -> io::Result<Vec<i32>> {
    numbers(host, "/proc")
}

/// Reads a process's name, parent, kind and number of threads.
///
/// # Errors
/// Fails if it has exited, may not be read, or has an unexpected format
/// ([`ErrorKind::InvalidData`]).
pub fn process(host: &Host, pid: i32) -> io::Result<ProcessStat> {
    // Reads the thread's file: the process's file sums over all threads, which is slower.
    let mut text = Vec::new();
    read_into(host, &format!("/proc/{pid}/task/{pid}/stat"), &mut text)?;
    parse_stat(&text).ok_or_else(|| ErrorKind::InvalidData.into())
}

/// Parses `7 (comm) S 1 7 7 0 -1 4194560 ...`. The name can hold anything, including brackets and
/// spaces.
fn parse_stat(text: &[u8]) -> Option<ProcessStat> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let comm = text.get(open + 1..close)?;
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    // Counted from `state`, which is the third of `proc(5)`.
    let mut fields = rest.split_ascii_whitespace();
    let ppid = fields.nth(1)?.parse().ok()?;
    let flags: u64 = fields.nth(4)?.parse().ok()?;
    let threads = fields.nth(10)?.parse().ok()?;
    let comm = comm[..comm.len().min(COMM_BYTES)].to_vec();
    Some(ProcessStat { comm, ppid, is_kernel_thread: flags & KERNEL_THREAD != 0, threads })
}

/// Returns a process's start time in ticks since the boot. Together with its pid that identifies it
/// until the next boot.
///
/// # Errors
/// As [`process`].
pub fn start_time(host: &Host, pid: i32) -> io::Result<u64> {
    let mut text = Vec::new();
    read_into(host, &format!("/proc/{pid}/stat"), &mut text)?;
    let rest = text
        .iter()
        .rposition(|byte| *byte == b')')
        .and_then(|close| std::str::from_utf8(&text[close + 1..]).ok());
    // The 22nd field of `proc(5)`; what follows the name is the third.
    let ticks = rest.and_then(|rest| rest.split_ascii_whitespace().nth(19)?.parse().ok());
    ticks.ok_or_else(|| ErrorKind::InvalidData.into())
}

/// Reads how far the `CLOCK_MONOTONIC` of a process's time namespace is ahead of that of the
/// initial one, in nanoseconds (`time_namespaces(7)`).
///
/// # Errors
/// As [`process`]; [`ErrorKind::NotFound`] also if the kernel has no time namespaces.
pub fn monotonic_offset_ns(host: &Host, process: impl fmt::Display) -> io::Result<i64> {
    let mut text = Vec::new();
    read_into(host, &format!("/proc/{process}/timens_offsets"), &mut text)?;
    let mut words = status_words(&text, b"monotonic").map(str::parse::<i64>);
    let [Some(Ok(seconds)), Some(Ok(ns))] = [words.next(), words.next()] else {
        return Err(ErrorKind::InvalidData.into());
    };
    Ok(seconds.saturating_mul(1_000_000_000).saturating_add(ns))
}

/// A process's user, and its pid in its own namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its effective user.
    pub uid: u32,
    /// Its pid in its own namespace.
    pub own_pid: i32,
}

/// Reads a process's user and own pid.
///
/// # Errors
/// As [`process`].
pub fn identity(host: &Host, pid: i32) -> io::Result<Identity> {
    let mut text = Vec::new();
    read_into(host, &format!("/proc/{pid}/status"), &mut text)?;
    // `Uid:` lists real, effective, saved and file system user; `NSpid:` the pids from this
    // namespace to the innermost.
    let uid = status_words(&text, b"Uid:").nth(1).and_then(|uid| uid.parse().ok());
    let own_pid = status_words(&text, b"NSpid:").last().and_then(|pid| pid.parse().ok());
    let uid = uid.ok_or(ErrorKind::InvalidData)?;
    Ok(Identity { uid, own_pid: own_pid.unwrap_or(pid) })
}

/// Returns the words after a name in `/proc/PID/status`. Thread names are escaped there, so none
/// can look like a line of its own.
fn status_words<'a>(text: &'a [u8], name: &[u8]) -> impl Iterator<Item = &'a str> {
    let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name));
    let line = line.and_then(|line| std::str::from_utf8(line).ok());
    line.unwrap_or_default().split_ascii_whitespace()
}

/// Returns a process's thread ids, ascending.
///
/// # Errors
/// [`ErrorKind::NotFound`] if there is no such process.
pub fn threads(host: &Host, pid: i32) -> io::Result<Vec<i32>> {
    numbers(host, &format!("/proc/{pid}/task"))
}

/// Returns the process of a thread.
///
/// # Errors
/// Fails if it has exited or may not be read.
pub fn process_of(host: &Host, tid: i32) -> io::Result<i32> {
    let mut text = Vec::new();
    read_into(host, &format!("/proc/{tid}/status"), &mut text)?;
    let number = status_words(&text, b"Tgid:").next().and_then(|number| number.parse().ok());
    number.ok_or_else(|| ErrorKind::InvalidData.into())
}

/// Returns a thread's wait state, as in `prev_state` of `sched:sched_switch`
/// (`include/linux/sched.h`). `None` in other states, such as running, and if it has exited or may
/// not be read.
#[must_use]
pub fn wait_state(host: &Host, pid: i32, tid: i32) -> Option<u32> {
    let mut text = Vec::new();
    read_into(host, &format!("/proc/{pid}/task/{tid}/stat"), &mut text).ok()?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let states = [(b'S', 1), (b'D', 2), (b'T', 4), (b't', 8), (b'I', 0x80)];
    let letter = text.get(close + 2)?;
    states.iter().find(|(state, _)| state == letter).map(|(_, number)| *number)
}

/// Returns a thread's name (`comm`), which the thread chooses; invalid UTF-8 is replaced. `None` if
/// it has exited or may not be read.
#[must_use]
pub fn name(host: &Host, tid: i32) -> Option<String> {
    let bytes = std::fs::read(host.path(&format!("/proc/{tid}/comm"))).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned())
}

/// Returns a thread's name as bytes, at most 15.
///
/// # Errors
/// Fails if it has exited or may not be read.
pub fn thread_comm(host: &Host, pid: i32, tid: i32) -> io::Result<Vec<u8>> {
    let mut comm = Vec::new();
    read_into(host, &format!("/proc/{pid}/task/{tid}/comm"), &mut comm)?;
    if comm.last() == Some(&b'\n') {
        comm.pop();
    }
    comm.truncate(COMM_BYTES);
    Ok(comm)
}

/// Returns device and inode of a thread's namespaces in the order of the kernel's `NET_NS_INDEX`
/// and its successors (`include/uapi/linux/perf_event.h`); zeros for an unreadable one.
#[must_use]
pub fn namespaces(host: &Host, pid: i32, tid: i32) -> [(u64, u64); 7] {
    use std::os::unix::fs::MetadataExt;
    let folder = host.path(&format!("/proc/{pid}/task/{tid}/ns"));
    ["net", "uts", "ipc", "pid", "user", "mnt", "cgroup"].map(|name| {
        match std::fs::metadata(folder.join(name)) {
            Ok(file) => (file.dev(), file.ino()),
            Err(_) => (0, 0),
        }
    })
}

/// Reads a process's mappings as text for [`mappings`], replacing the content of `into`.
///
/// # Errors
/// Fails if it has exited or may not be read.
pub fn read_mappings(host: &Host, pid: i32, into: &mut Vec<u8>) -> io::Result<()> {
    read_into(host, &format!("/proc/{pid}/maps"), into)
}

/// Whether a thread or process exists.
#[must_use]
pub fn exists(host: &Host, tid: i32) -> bool {
    host.path(&format!("/proc/{tid}")).exists()
}

/// Replaces the content of `into` by a file's. ESRCH, which means that a process exited after its
/// file was opened, becomes `NotFound`.
fn read_into(host: &Host, path: &str, into: &mut Vec<u8>) -> io::Result<()> {
    let gone = |error: io::Error| match error.raw_os_error() {
        Some(libc::ESRCH) => ErrorKind::NotFound.into(),
        _ => error,
    };
    let file = File::open(host.path(path)).map_err(gone)?;
    pseudo_file::read_into(&file, into).map_err(gone)
}

/// Returns the numbers among the names in a folder, ascending.
fn numbers(host: &Host, folder: &str) -> io::Result<Vec<i32>> {
    let names = std::fs::read_dir(host.path(folder))?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<i32> = names.collect();
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fixture::machine;

    const STAT: &str = " S 41 7 7 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 3 0 500 1000 10 18446744073709551615 1 1 0\n";

    #[test]
    fn names_can_hold_anything() {
        for comm in ["sh", "a) R 1 (b", "x\ny", ") (", ""] {
            let text = format!("7 ({comm}){STAT}");
            let wanted = ProcessStat {
                comm: comm.as_bytes().to_vec(),
                ppid: 41,
                is_kernel_thread: false,
                threads: 3,
            };
            assert_eq!(parse_stat(text.as_bytes()), Some(wanted));
        }
        let kworker =
            format!("9 (kworker/u8:0-events_unbound){STAT}").replace("4194560", "69238880");
        let found = parse_stat(kworker.as_bytes()).unwrap();
        assert!(found.is_kernel_thread && found.comm == b"kworker/u8:0-ev");
        assert_eq!(parse_stat(b"7 (sh) S 1"), None);
        assert_eq!(parse_stat(b")("), None);
    }

    #[test]
    fn a_process_is_found_by_its_files() {
        let machine = machine(&[
            ("/proc/7/task/7/stat", format!("7 (sh){STAT}")),
            ("/proc/7/task/12/comm", "a\nb\n".to_owned()),
            (
                "/proc/12/status",
                "Name:\ta\\nTgid:\t9\nTgid:\t7\nUid:\t5\t6\t7\t8\nNSpid:\t12\t1\n".to_owned(),
            ),
            ("/proc/version", String::new()),
        ]);
        let host = machine.host();
        assert_eq!(
            (processes(&host).unwrap(), threads(&host, 7).unwrap()),
            (vec![7, 12], vec![7, 12])
        );
        assert_eq!((process(&host, 7).unwrap().ppid, process_of(&host, 12).unwrap()), (41, 7));
        assert_eq!(identity(&host, 12).unwrap(), Identity { uid: 6, own_pid: 1 });
        assert_eq!(thread_comm(&host, 7, 12).unwrap(), b"a\nb");
        assert_eq!(process(&host, 8).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(namespaces(&host, 7, 7), [(0, 0); 7]);
    }

    #[test]
    fn this_process_is_there() {
        let host = Host::default();
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let own = process(&host, pid).unwrap();
        assert!(own.threads > 1 && !own.is_kernel_thread);
        assert!(namespaces(&host, pid, pid).iter().all(|(dev, inode)| *dev != 0 && *inode != 0));
        let mut text = Vec::new();
        read_mappings(&host, pid, &mut text).unwrap();
        let program = std::env::current_exe().unwrap();
        let code = mappings(&text)
            .find(|mapping| mapping.prot & libc::PROT_EXEC.cast_unsigned() != 0)
            .unwrap();
        assert_eq!(&*code.path, program.as_os_str().as_encoded_bytes());
    }
}
