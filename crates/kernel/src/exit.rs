//! How a process exited and what it used: `wait4(2)`.

use std::time::{Duration, Instant};
use std::{io, mem};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// How a child exited and what it used, including the children that it waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChildExit {
    /// Its exit status, or 128 + the number of the signal that killed it.
    pub status: u8,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// Time from its start until its exit was noticed.
    pub elapsed: Duration,
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// The largest resident set of any of its processes in bytes (`ru_maxrss`). `None` where the
    /// kernel's figure may be that of the forked process before its execve.
    pub peak_memory: Option<u64>,
    /// Page faults, minor and major.
    pub page_faults: u64,
    /// Context switches, voluntary or not.
    pub context_switches: u64,
}

impl ChildExit {
    /// Describes an exit with another status than 0, as [`describe_failure`].
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        describe_failure(self.status, self.signal)
    }
}

/// Describes an exit with another status than 0: `exited with status 9`, `was killed by signal 11
/// (SIGSEGV)`.
#[must_use]
pub fn describe_failure(status: u8, signal: Option<i32>) -> Option<String> {
    match (signal, status) {
        (Some(signal), _) => Some(match signal_name(signal) {
            Some(name) => format!("was killed by signal {signal} ({name})"),
            None => format!("was killed by signal {signal}"),
        }),
        (None, 0) => None,
        (None, status) => Some(format!("exited with status {status}")),
    }
}

/// Returns the name of a signal that ends a process by default; `None` for a real-time signal.
fn signal_name(number: i32) -> Option<&'static str> {
    Some(match number {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGSTKFLT => "SIGSTKFLT",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGVTALRM => "SIGVTALRM",
        libc::SIGPROF => "SIGPROF",
        libc::SIGIO => "SIGIO",
        libc::SIGPWR => "SIGPWR",
        libc::SIGSYS => "SIGSYS",
        _ => return None,
    })
}

/// Waits until a child of this process exits. `started` is when it was started.
///
/// # Errors
/// Fails if there is no such child.
pub fn wait_for(pid: i32, started: Instant) -> io::Result<ChildExit> {
    wait(pid, started, 0)?.ok_or_else(|| io::Error::other("wait4 returned without a status"))
}

/// Returns `None` if `options` has WNOHANG and the child still runs.
pub(crate) fn wait(pid: i32, started: Instant, options: i32) -> io::Result<Option<ChildExit>> {
    let Some((status, usage)) = wait4(pid, options)? else { return Ok(None) };
    let elapsed = started.elapsed();
    let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
    let code = signal.map_or(libc::WEXITSTATUS(status), |signal| 128 + signal);
    Ok(Some(ChildExit {
        status: u8::try_from(code).unwrap_or(255),
        signal,
        elapsed,
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        peak_memory: Some(count(usage.ru_maxrss).saturating_mul(1024)),
        page_faults: count(usage.ru_minflt).saturating_add(count(usage.ru_majflt)),
        context_switches: count(usage.ru_nvcsw).saturating_add(count(usage.ru_nivcsw)),
    }))
}

/// Whether a child has exited, without taking its status or its ptrace stops. Unless `at_once`,
/// waits for that.
pub(crate) fn has_exited(pid: i32, at_once: bool) -> io::Result<bool> {
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let mut files = [PollFd::new(&process, PollFlags::IN)];
    let limit = at_once.then(Timespec::default);
    Ok(rustix::io::retry_on_intr(|| poll(&mut files, limit.as_ref()))? > 0)
}

/// Calls `wait4`; `None` if `options` has WNOHANG and the child still runs.
fn wait4(pid: i32, options: i32) -> io::Result<Option<(i32, libc::rusage)>> {
    let mut status = 0;
    let mut usage = mem::MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are to locals of the right type; zeros are a valid `rusage`.
        #[allow(unsafe_code)]
        let (result, usage) = unsafe {
            (libc::wait4(pid, &raw mut status, options, usage.as_mut_ptr()), usage.assume_init())
        };
        match result {
            0 => return Ok(None),
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            -1 => return Err(io::Error::last_os_error()),
            _ => return Ok(Some((status, usage))),
        }
    }
}

fn count(number: libc::c_long) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn duration(time: libc::timeval) -> Duration {
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0)) + Duration::from_micros(micros)
}
