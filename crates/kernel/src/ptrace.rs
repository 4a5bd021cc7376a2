//! Tracing by ptrace(2): for users who may neither load BPF programs nor open tracepoints.
//!
//! The thread that seizes a task must make all other calls for it.

use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

use rustix::io::Errno;

use crate::bpf::Call;

/// `AUDIT_ARCH_I386` and `AUDIT_ARCH_ARM`, `include/uapi/linux/audit.h`.
const ARCHITECTURES_OF_32_BITS: [u32; 2] = [0x4000_0003, 0x4000_0028];
/// `PTRACE_GET_SYSCALL_INFO`, `include/uapi/linux/ptrace.h`.
const GET_SYSCALL_INFO: libc::c_uint = 0x420e;
/// Time between two reports of an exited child whose status another thread reads.
const KEPT_INTERVAL: Duration = Duration::from_millis(1);
/// The signal of a stop at a system call, with `PTRACE_O_TRACESYSGOOD`.
const AT_CALL: i32 = libc::SIGTRAP | 0x80;

/// Why a traced task has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceeStop {
    /// It begins a system call.
    Enter {
        /// The call.
        call: Call,
        /// Its arguments.
        values: [u64; 6],
    },
    /// A system call returns this.
    Exit(i64),
    /// It has started this task, which is traced too.
    Started(i32),
    /// It executes another program. Before that, the task had this id.
    Executed(i32),
    /// A signal arrives.
    Signal {
        /// The signal's number.
        number: i32,
        /// The first 48 bytes of `siginfo_t`.
        info: [u8; 48],
    },
    /// A signal has stopped its process.
    GroupStop,
    /// It exits with this status of wait(2).
    Ending(u32),
    /// It has exited or was killed, with this status of wait(2), and is no longer traced.
    Gone(u32),
    /// It has been seized.
    Other,
}

/// `struct ptrace_syscall_info`, with its union as words.
#[derive(Clone, Copy)]
#[repr(C)]
struct CallInfo {
    operation: u8,
    padding: [u8; 3],
    architecture: u32,
    instruction: u64,
    stack: u64,
    /// At an entry the number and the arguments; at an exit the result.
    words: [u64; 8],
}

fn request(number: libc::c_uint, tid: i32, address: usize, data: usize) -> Result<usize, Errno> {
    // SAFETY: of the requests of this module, two write: the one through `data` is given a buffer
    // of the size in `address`, the others one that is large enough for what they write.
    #[allow(unsafe_code)]
    let result = unsafe { libc::ptrace(number, tid, address, data) };
    usize::try_from(result)
        .map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// Begins to trace a task, and the tasks that it starts.
///
/// # Errors
/// `EPERM` if this user may not trace it, or another tracer does.
pub fn seize(tid: i32) -> Result<(), Errno> {
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACEEXIT;
    let options = usize::try_from(options).map_err(|_| Errno::INVAL)?;
    request(libc::PTRACE_SEIZE, tid, 0, options)?;
    request(libc::PTRACE_INTERRUPT, tid, 0, 0).map(drop)
}

/// Lets a stopped task run up to the next beginning or end of a call. Delivers a signal unless it
/// is 0. A task that was killed meanwhile is ignored.
pub fn resume(tid: i32, signal: i32) {
    let _ = request(libc::PTRACE_SYSCALL, tid, 0, usize::try_from(signal).unwrap_or(0));
}

/// Leaves a task in its group stop, and waits for the end of that.
pub fn listen(tid: i32) {
    let _ = request(libc::PTRACE_LISTEN, tid, 0, 0);
}

/// Lets a stopped task run untraced.
pub fn detach(tid: i32) {
    let _ = request(libc::PTRACE_DETACH, tid, 0, 0);
}

/// Waits until a task of this thread stops or exits. `kept`: a child whose exit status another
/// thread reads, so that this function doesn't take it.
///
/// # Errors
/// `ECHILD` if this thread traces no task.
pub fn wait_for_stop(kept: Option<i32>) -> Result<(i32, TraceeStop), Errno> {
    const HERE: i32 = libc::__WALL | libc::__WNOTHREAD;
    loop {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let options = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | HERE;
        // SAFETY: waitid(2) writes at most a `siginfo_t`; zeros are a valid value of it.
        #[allow(unsafe_code)]
        let (result, info) = unsafe {
            (libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options), info.assume_init())
        };
        if result != 0 {
            match Errno::from_io_error(&std::io::Error::last_os_error()) {
                Some(Errno::INTR) => continue,
                error => return Err(error.unwrap_or(Errno::IO)),
            }
        }
        // SAFETY: the record is of a child, so it has these fields.
        #[allow(unsafe_code)]
        let tid = unsafe { info.si_pid() };
        let has_exited =
            matches!(info.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED);
        if has_exited && kept == Some(tid) {
            // It is reported until the other thread has taken its status.
            std::thread::sleep(KEPT_INTERVAL);
            return Ok((tid, TraceeStop::Gone(exit_status(&info))));
        }
        let mut status = 0;
        // SAFETY: wait4(2) writes an integer into `status` and nothing through the null pointer.
        #[allow(unsafe_code)]
        let found =
            unsafe { libc::wait4(tid, &raw mut status, libc::WNOHANG | HERE, ptr::null_mut()) };
        if found == tid {
            return Ok((tid, stop(tid, status)));
        }
    }
}

/// Returns the status of wait(2) of a child that has exited.
fn exit_status(info: &libc::siginfo_t) -> u32 {
    // SAFETY: the record is of a child, so it has this field.
    #[allow(unsafe_code)]
    let status = unsafe { info.si_status() }.cast_unsigned();
    match info.si_code {
        libc::CLD_EXITED => status << 8,
        libc::CLD_DUMPED => status | 0x80,
        _ => status,
    }
}

fn stop(tid: i32, status: i32) -> TraceeStop {
    if !libc::WIFSTOPPED(status) {
        return TraceeStop::Gone(status.cast_unsigned());
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
            TraceeStop::Started(i32::try_from(event_message(tid)).unwrap_or(0))
        }
        libc::PTRACE_EVENT_EXEC => {
            TraceeStop::Executed(i32::try_from(event_message(tid)).unwrap_or(tid))
        }
        libc::PTRACE_EVENT_EXIT => {
            TraceeStop::Ending(u32::try_from(event_message(tid)).unwrap_or(0))
        }
        0 if signal == AT_CALL => stop_at_call(tid).unwrap_or(TraceeStop::Other),
        0 => TraceeStop::Signal { number: signal, info: signal_info(tid) },
        _ if matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU) => {
            TraceeStop::GroupStop
        }
        _ => TraceeStop::Other,
    }
}

/// Reads the number that belongs to an event; 0 if the task was killed.
fn event_message(tid: i32) -> u64 {
    let mut message: libc::c_ulong = 0;
    let address = (&raw mut message).expose_provenance();
    let _ = request(libc::PTRACE_GETEVENTMSG, tid, 0, address);
    message
}

fn signal_info(tid: i32) -> [u8; 48] {
    let mut info = [0_u8; 128];
    let address = info.as_mut_ptr().expose_provenance();
    let _ = request(libc::PTRACE_GETSIGINFO, tid, 0, address);
    std::array::from_fn(|at| info[at])
}

fn stop_at_call(tid: i32) -> Option<TraceeStop> {
    let mut info = CallInfo {
        operation: 0,
        padding: [0; 3],
        architecture: 0,
        instruction: 0,
        stack: 0,
        words: [0; 8],
    };
    let address = (&raw mut info).expose_provenance();
    request(GET_SYSCALL_INFO, tid, size_of::<CallInfo>(), address).ok()?;
    let compat = ARCHITECTURES_OF_32_BITS.contains(&info.architecture);
    match info.operation {
        1 => {
            let number = u32::try_from(info.words[0] & 0xffff_ffff).unwrap_or(Call::BEYOND);
            let values = std::array::from_fn(|at| info.words[at + 1]);
            Some(TraceeStop::Enter { call: Call { number, compat }, values })
        }
        2 => Some(TraceeStop::Exit(info.words[0].cast_signed())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_kernels() {
        assert_eq!(size_of::<CallInfo>(), 88);
        assert_eq!(std::mem::offset_of!(CallInfo, words), 24);
    }
}
