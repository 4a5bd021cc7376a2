//! Running processes and threads, their mappings, and the kernel's own code, as `/proc` shows them.
//!
//! Processes come and go while they are read: what is gone is an error of kind
//! [`io::ErrorKind::NotFound`].

mod kernel_code;
mod mappings;

use std::fs::File;
use std::io::{self, ErrorKind};

pub use kernel_code::{
    KernelModule, KernelText, find_module_files, kernel_functions, kernel_text, loaded_modules,
    modules,
};
pub use mappings::{Mapping, mappings};

use crate::host::Host;
use crate::pseudo_file;

/// `TASK_COMM_LEN` of `include/linux/sched.h`, less its NUL: the most bytes that a name has in a
/// record.
const COMM_BYTES: usize = 15;

/// `PF_KTHREAD` of `include/linux/sched.h`, in the field `flags` of `/proc/PID/stat`.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// A process, as `/proc/PID/stat` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    /// Its name, of at most 15 bytes, any but NUL.
    pub comm: Vec<u8>,
    /// The process that it came from, or that took it over.
    pub ppid: i32,
    /// It runs in the kernel alone, and has no mappings.
    pub is_kernel_thread: bool,
    /// How many threads it has.
    pub threads: u32,
}

/// The processes, ascending.
///
/// # Errors
/// `/proc` can't be read.
pub fn processes(host: &Host) -> io::Result<Vec<i32>> {
    numbers(host, "/proc")
}

/// What a process is.
///
/// # Errors
/// It is gone, may not be looked at, or says something else than a process does
/// ([`ErrorKind::InvalidData`]).
pub fn process(host: &Host, pid: i32) -> io::Result<ProcessStat> {
    // The folder of the thread: the numbers of the process as a whole are sums over its threads,
    // which take time.
    let mut text = Vec::new();
    read_into(host, &format!("/proc/{pid}/task/{pid}/stat"), &mut text)?;
    parse_stat(&text).ok_or_else(|| ErrorKind::InvalidData.into())
}

/// `7 (comm) S 1 7 7 0 -1 4194560 ...`: the name can hold anything, also brackets and spaces.
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

/// When a process started, in ticks since the machine did. With its number that names it for good.
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

/// Who a process is, as far as its user and its own view go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its effective user.
    pub uid: u32,
    /// Its number in its own namespace, as it knows itself.
    pub own_pid: i32,
}

/// Who a process is.
///
/// # Errors
/// As [`process`].
pub fn identity(host: &Host, pid: i32) -> io::Result<Identity> {
    let mut text = Vec::new();
    read_into(host, &format!("/proc/{pid}/status"), &mut text)?;
    // Real, effective, saved and file system user; numbers from this namespace to the innermost.
    let uid = status_words(&text, b"Uid:").nth(1).and_then(|uid| uid.parse().ok());
    let own_pid = status_words(&text, b"NSpid:").last().and_then(|pid| pid.parse().ok());
    let uid = uid.ok_or(ErrorKind::InvalidData)?;
    Ok(Identity { uid, own_pid: own_pid.unwrap_or(pid) })
}

/// The words behind a name in a text of `/proc/PID/status`. Names of threads are escaped there: none
/// can look like a line of its own.
fn status_words<'a>(text: &'a [u8], name: &[u8]) -> impl Iterator<Item = &'a str> {
    let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name));
    let line = line.and_then(|line| std::str::from_utf8(line).ok());
    line.unwrap_or_default().split_ascii_whitespace()
}

/// The threads of a process, ascending.
///
/// # Errors
/// [`ErrorKind::NotFound`] where there is no such process.
pub fn threads(host: &Host, pid: i32) -> io::Result<Vec<i32>> {
    numbers(host, &format!("/proc/{pid}/task"))
}

/// The process that a thread belongs to.
///
/// # Errors
/// It is gone, or may not be looked at.
pub fn process_of(host: &Host, tid: i32) -> io::Result<i32> {
    let mut text = Vec::new();
    read_into(host, &format!("/proc/{tid}/status"), &mut text)?;
    let number = status_words(&text, b"Tgid:").next().and_then(|number| number.parse().ok());
    number.ok_or_else(|| ErrorKind::InvalidData.into())
}

/// What a thread waits in, as `prev_state` of `sched:sched_switch` has it (`include/linux/sched.h`);
/// `None` where it runs, could run, has ended, or may not be looked at.
#[must_use]
pub fn wait_state(host: &Host, pid: i32, tid: i32) -> Option<u32> {
    let mut text = Vec::new();
    read_into(host, &format!("/proc/{pid}/task/{tid}/stat"), &mut text).ok()?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let states = [(b'S', 1), (b'D', 2), (b'T', 4), (b't', 8), (b'I', 0x80)];
    let letter = text.get(close + 2)?;
    states.iter().find(|(state, _)| state == letter).map(|(_, number)| *number)
}

/// The name of a thread (`comm`), which the thread chooses itself: any bytes but NUL. `None` where
/// it ended.
#[must_use]
pub fn name(host: &Host, tid: i32) -> Option<String> {
    let bytes = std::fs::read(host.path(&format!("/proc/{tid}/comm"))).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned())
}

/// The name of a thread as its bytes, of which there are at most 15.
///
/// # Errors
/// It is gone, or may not be looked at.
pub fn thread_comm(host: &Host, pid: i32, tid: i32) -> io::Result<Vec<u8>> {
    let mut comm = Vec::new();
    read_into(host, &format!("/proc/{pid}/task/{tid}/comm"), &mut comm)?;
    if comm.last() == Some(&b'\n') {
        comm.pop();
    }
    comm.truncate(COMM_BYTES);
    Ok(comm)
}

/// Device and inode of the namespaces that a thread is in, in the order of the kernel's
/// `NET_NS_INDEX` and so on (`include/uapi/linux/perf_event.h`); zeros for one that may not be
/// looked at.
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

/// Reads the mappings of a process as text, for [`mappings`]; what `into` held is gone.
///
/// # Errors
/// It is gone, or may not be looked at.
pub fn read_mappings(host: &Host, pid: i32, into: &mut Vec<u8>) -> io::Result<()> {
    read_into(host, &format!("/proc/{pid}/maps"), into)
}

/// Whether a thread or process is there.
#[must_use]
pub fn exists(host: &Host, tid: i32) -> bool {
    host.path(&format!("/proc/{tid}")).exists()
}

/// Replaces what is in `into` by a file. That a process ended after its file was opened is the same
/// as before (`ESRCH`).
fn read_into(host: &Host, path: &str, into: &mut Vec<u8>) -> io::Result<()> {
    let gone = |error: io::Error| match error.raw_os_error() {
        Some(libc::ESRCH) => ErrorKind::NotFound.into(),
        _ => error,
    };
    let file = File::open(host.path(path)).map_err(gone)?;
    pseudo_file::read_into(&file, into).map_err(gone)
}

/// The numbers among the names in a folder, ascending.
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
