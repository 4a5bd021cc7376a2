//! The measured command: forked first, it waits while its counters are opened, and is then started.
//!
//! ```text
//! tare   fork ----- open counters on the child ----- start-------------- wait4 --- read counters
//! child       wait for the byte ....................... execve | main ... exit
//! counters                                                     |---------|    (enable_on_exec .. exit)
//! ```
//! Between fork and execve the child only makes system calls on memory prepared before the fork. It
//! allocates nothing.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Instant;
use std::{io, mem, ptr};

use linux_raw_sys::general::{CLONE_INTO_CGROUP, clone_args};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::cgroup::move_to;
pub use crate::command::{ChildCommand, CommandError};
use crate::exit;
pub use crate::exit::ChildExit;
use crate::host::open_files;
use crate::inherited;
use crate::lean_exec::{self, LeanExec, RESET, environ};
use crate::signals::{Dispositions, Signals};

/// A forked child that waits to be started. Dropped before that, it exits without executing
/// anything.
#[derive(Debug)]
pub struct WaitingChild {
    pid: i32,
    /// Taken when the child is started.
    channel: Option<OwnedFd>,
    name: String,
    memory: Option<ChildMemory>,
    is_traced: bool,
}

/// A started child.
#[derive(Debug)]
pub struct RunningChild {
    pid: i32,
    channel: OwnedFd,
    name: String,
    /// When the child was started.
    pub started: Instant,
    ended: Option<ChildExit>,
    memory: Option<ChildMemory>,
    is_traced: bool,
}

/// The limit of open files to restore for the command, as tare may raise its own.
#[derive(Clone, Copy, Debug)]
pub struct FileLimit {
    soft: Option<u64>,
    hard: Option<u64>,
}

impl FileLimit {
    /// Returns this process's limits.
    #[must_use]
    pub fn now() -> Self {
        let limit = open_files();
        Self { soft: limit.current, hard: limit.maximum }
    }

    /// Returns the soft limit; `None` for no limit.
    #[must_use]
    pub fn soft(&self) -> Option<u64> {
        self.soft
    }

    /// Returns the hard limit; `None` for no limit.
    #[must_use]
    pub fn hard(&self) -> Option<u64> {
        self.hard
    }

    /// Raises the soft limit to the hard one. `self` keeps the earlier limit for the command.
    pub fn raise(&self) {
        let raised = rustix::process::Rlimit { current: self.hard, maximum: self.hard };
        // If the kernel refuses, the limit stays, and opening an event reports the shortage.
        let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised);
    }

    fn restore(&self) {
        let before = rustix::process::Rlimit { current: self.soft, maximum: self.hard };
        let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, before);
    }
}

impl WaitingChild {
    /// Forks; the child waits. `signals` and `files` are restored for the command.
    ///
    /// # Errors
    /// Fails if no process, memory or file descriptor is left.
    pub fn fork(
        command: &ChildCommand,
        signals: &Signals,
        files: &FileLimit,
    ) -> Result<Self, CommandError> {
        Self::fork_into(command, signals, files, None)
    }

    /// Forks like [`WaitingChild::fork`], into the cgroup of a folder, so that the command never
    /// runs outside of it.
    ///
    /// # Errors
    /// As [`WaitingChild::fork`], and if the child may not enter the cgroup.
    pub fn fork_into(
        command: &ChildCommand,
        signals: &Signals,
        files: &FileLimit,
        cgroup: Option<BorrowedFd<'_>>,
    ) -> Result<Self, CommandError> {
        Self::fork_as(command, signals, files, ForkOptions { cgroup, is_lean: false })
    }

    /// Forks like [`WaitingChild::fork_into`], and keeps this process's memory out of the command's
    /// peak ([`ChildExit::peak_memory`]). The command starts some ten microseconds later.
    ///
    /// # Errors
    /// As [`WaitingChild::fork_into`].
    pub fn fork_lean(
        command: &ChildCommand,
        signals: &Signals,
        files: &FileLimit,
        cgroup: Option<BorrowedFd<'_>>,
    ) -> Result<Self, CommandError> {
        Self::fork_as(command, signals, files, ForkOptions { cgroup, is_lean: true })
    }

    fn fork_as(
        command: &ChildCommand,
        signals: &Signals,
        files: &FileLimit,
        ForkOptions { cgroup, is_lean }: ForkOptions<'_>,
    ) -> Result<Self, CommandError> {
        let (ours, childs) = channel()?;
        let mut prepared = ExecPlan::new(command, signals, files, [&ours, &childs]);
        if is_lean {
            prepared.lean = LeanExec::prepare(&command.program, &prepared.args, &command.variables);
        }
        let inside = cgroup.and_then(clone_into);
        let pid = match inside.map_or_else(fork, Ok)? {
            0 => run_child(&prepared),
            pid => pid,
        };
        let child =
            Self { pid, channel: Some(ours), name: command.name(), memory: None, is_traced: false };
        if let Some(cgroup) = cgroup.filter(|_| inside.is_none()) {
            move_to(cgroup, pid)?;
        }
        Ok(child)
    }

    /// Forks like [`WaitingChild::fork`], but the child runs in this process's memory (`CLONE_VM`)
    /// on its own stack until its execve, which saves the kernel the copy of the page tables. The
    /// drawback: the command's peak memory, which the kernel keeps across execve, is at least this
    /// process's.
    ///
    /// # Errors
    /// As [`WaitingChild::fork`].
    pub fn fork_sharing(
        command: &ChildCommand,
        signals: &Signals,
        files: &FileLimit,
    ) -> Result<Self, CommandError> {
        let (ours, childs) = channel()?;
        let mut memory = ChildMemory::new(ExecPlan::new(command, signals, files, [&ours, &childs]));
        let pid = memory.clone_child()?;
        let name = command.name();
        Ok(Self { pid, channel: Some(ours), name, memory: Some(memory), is_traced: false })
    }

    /// Returns the child's process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Takes note that a thread of this process traces the child by ptrace(2). wait4(2) would then
    /// take the child's stops away from that thread.
    pub fn expect_ptrace(&mut self) {
        self.is_traced = true;
    }

    /// Starts the command.
    ///
    /// # Errors
    /// Fails if the child has exited.
    pub fn start(mut self) -> io::Result<RunningChild> {
        let channel =
            self.channel.take().ok_or_else(|| io::Error::other("the child was started before"))?;
        let started = Instant::now();
        rustix::io::retry_on_intr(|| rustix::io::write(&channel, b"g"))?;
        let running = RunningChild {
            pid: self.pid,
            channel,
            name: mem::take(&mut self.name),
            started,
            ended: None,
            memory: self.memory.take(),
            is_traced: self.is_traced,
        };
        self.pid = 0;
        Ok(running)
    }
}

/// How a child is forked.
struct ForkOptions<'a> {
    /// The folder of the cgroup that it begins in.
    cgroup: Option<BorrowedFd<'a>>,
    /// Whether the memory of this process is kept out of the command's peak.
    is_lean: bool,
}

/// Creates the channel: tare's end and the child's. tare writes one byte to start the child. The
/// child writes [`RESET`] if its peak memory was reset, and then an errno if execve fails.
fn channel() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

/// Calls `fork(2)`; returns 0 in the child.
fn fork() -> io::Result<i32> {
    // SAFETY: the child makes only async-signal-safe calls until it executes or exits, see
    // `run_child`.
    #[allow(unsafe_code)]
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(pid),
    }
}

/// Calls `clone3(2)` with `CLONE_INTO_CGROUP` (Linux 5.7); returns 0 in the child, like fork.
/// `None` if the kernel or a seccomp filter refuses; forking and moving the child then reports the
/// reason.
fn clone_into(cgroup: BorrowedFd<'_>) -> Option<i32> {
    // SAFETY: a structure of integers, where 0 means 'not requested'.
    #[allow(unsafe_code)]
    let nothing: clone_args = unsafe { mem::zeroed() };
    let exit_signal = u64::try_from(libc::SIGCHLD).ok()?;
    let cgroup = u64::try_from(cgroup.as_raw_fd()).ok()?;
    let args = clone_args { flags: CLONE_INTO_CGROUP, exit_signal, cgroup, ..nothing };
    // SAFETY: without CLONE_VM this is a fork: the child has a copy of all memory. It makes only
    // async-signal-safe calls until it executes or exits, see `run_child`, and none of these needs
    // what libc's own fork would renew. The pointer is to a structure of the given size.
    #[allow(unsafe_code)]
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<clone_args>()) };
    i32::try_from(pid).ok().filter(|&pid| pid >= 0)
}

impl Drop for WaitingChild {
    fn drop(&mut self) {
        // Closing the channel makes the child exit; waiting for it leaves no zombie.
        self.channel = None;
        if self.pid > 0 {
            let _ = exit::wait(self.pid, Instant::now(), 0);
        }
    }
}

impl Drop for RunningChild {
    fn drop(&mut self) {
        // The child may still run on this memory before its execve.
        if self.ended.is_none() {
            mem::forget(self.memory.take());
        }
    }
}

impl RunningChild {
    /// Returns the child's process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Checks whether the child has exited, without waiting.
    ///
    /// # Errors
    /// Fails if the program can't be executed, or wait4(2) fails.
    pub fn try_wait(&mut self) -> Result<Option<ChildExit>, CommandError> {
        self.wait_with(libc::WNOHANG)
    }

    /// Waits until the child exits.
    ///
    /// # Errors
    /// As [`RunningChild::try_wait`].
    pub fn wait(&mut self) -> Result<ChildExit, CommandError> {
        self.wait_with(0)?.ok_or_else(|| io::Error::other("wait4 returned without a status").into())
    }

    fn wait_with(&mut self, options: i32) -> Result<Option<ChildExit>, CommandError> {
        if self.ended.is_some() {
            return Ok(self.ended);
        }
        if self.is_traced && !exit::has_exited(self.pid, options == libc::WNOHANG)? {
            return Ok(None);
        }
        self.ended = exit::wait(self.pid, self.started, options)?;
        let Some(ended) = &mut self.ended else { return Ok(None) };
        let report = ExecReport::read(&self.channel).unwrap_or_default();
        if !report.is_peak_reset {
            let own_peak = lean_exec::own_peak()?;
            ended.peak_memory = ended.peak_memory.filter(|&peak| peak > own_peak);
        }
        match report.error {
            Some(error) => {
                Err(CommandError::NotExecutable { program: mem::take(&mut self.name), error })
            }
            None => Ok(self.ended),
        }
    }

    /// Sends a signal, unless the child was waited for.
    pub fn signal(&self, number: i32) {
        if self.ended.is_none() {
            // SAFETY: the pid is a child's that was not waited for, so it can't name another
            // process.
            #[allow(unsafe_code)]
            unsafe {
                libc::kill(self.pid, number);
            }
        }
    }
}

/// What the child reported about its execve.
#[derive(Debug, Default)]
struct ExecReport {
    /// Whether the peak of its memory was reset before.
    is_peak_reset: bool,
    /// Why it failed.
    error: Option<io::Error>,
}

impl ExecReport {
    /// Reads the channel. Called only after the child's exit, so that the channel never wakes tare
    /// while the command runs. `None` if the channel can't be read: the child wrote nothing.
    fn read(channel: &OwnedFd) -> Option<Self> {
        let mut bytes = [0; 5];
        rustix::io::ioctl_fionbio(channel.as_fd(), true).ok()?;
        let length = rustix::io::retry_on_intr(|| rustix::io::read(channel, &mut bytes)).ok()?;
        let read = &bytes[..length];
        let (is_peak_reset, errno) = match read.strip_prefix(&[RESET]) {
            // An errno has four bytes, the first of which may be of the same value.
            Some(rest) if length != 4 => (true, rest),
            _ => (false, read),
        };
        let error = errno.try_into().ok().map(i32::from_ne_bytes);
        Some(Self { is_peak_reset, error: error.map(io::Error::from_raw_os_error) })
    }
}

/// Bytes of the stack of a child that shares this process's memory.
const STACK: usize = 64 << 10;

/// Everything that the child needs until its execve.
#[derive(Debug)]
struct ExecPlan {
    program: CString,
    /// The arguments that `argv` and `shell_argv` point to.
    args: Vec<CString>,
    argv: Vec<*const c_char>,
    /// For a script without '#!': sh SCRIPT ARGS, as execvp(3) does.
    shell_argv: Vec<*const c_char>,
    standard: [Option<RawFd>; 3],
    dispositions: Dispositions,
    files: FileLimit,
    /// The child's end of the channel, and tare's.
    channel: [RawFd; 2],
    /// Keeps this process's memory out of the command's peak.
    lean: Option<LeanExec>,
    /// The command's environment, if it isn't this process's.
    environment: Option<Environment>,
    /// The folder that it runs in, if it isn't this process's.
    folder: Option<CString>,
}

/// A command's own environment.
#[derive(Debug)]
struct Environment {
    /// The strings that `pointers` points to.
    _strings: Vec<CString>,
    /// Ends with a null pointer.
    pointers: Vec<*const c_char>,
}

impl Environment {
    /// This process's environment with these variables; `None` without any.
    fn with(variables: &[CString]) -> Option<Self> {
        if variables.is_empty() {
            return None;
        }
        let strings = lean_exec::environment(variables);
        let strings: Vec<CString> = strings.into_iter().map(CStr::to_owned).collect();
        let null = std::iter::once(ptr::null());
        let pointers = strings.iter().map(|string| string.as_ptr()).chain(null).collect();
        Some(Self { _strings: strings, pointers })
    }
}

impl ExecPlan {
    fn new(
        command: &ChildCommand,
        signals: &Signals,
        files: &FileLimit,
        [ours, childs]: [&OwnedFd; 2],
    ) -> Self {
        let program = command.program.clone();
        let args = command.args.clone();
        let null = std::iter::once(ptr::null());
        let pointers = args.iter().map(|arg| arg.as_ptr());
        let argv: Vec<_> = pointers.chain(null).collect();
        let mut shell_argv = vec![c"sh".as_ptr(), program.as_ptr()];
        shell_argv.extend(argv.iter().skip(1));
        Self {
            program,
            args,
            argv,
            shell_argv,
            standard: command.standard.each_ref().map(|file| file.as_ref().map(AsRawFd::as_raw_fd)),
            dispositions: signals.before(),
            files: *files,
            channel: [childs.as_raw_fd(), ours.as_raw_fd()],
            lean: None,
            environment: Environment::with(&command.variables),
            folder: command.folder.clone(),
        }
    }
}

/// The memory that a child with `CLONE_VM` uses until its execve or exit.
#[derive(Debug)]
struct ChildMemory {
    prepared: Box<ExecPlan>,
    stack: Box<[MaybeUninit<u8>]>,
}

impl ChildMemory {
    fn new(prepared: ExecPlan) -> Self {
        Self { prepared: Box::new(prepared), stack: Box::new_uninit_slice(STACK) }
    }

    /// Starts a child that shares this process's memory, or forks if that is refused, as by some
    /// emulators.
    fn clone_child(&mut self) -> io::Result<i32> {
        let prepared: *const ExecPlan = &raw const *self.prepared;
        let top = self.stack.as_mut_ptr_range().end;
        // The ABIs of x86-64 and aarch64 require a stack that is aligned to 16 bytes.
        let top = top.wrapping_sub(top.addr() % 16);
        // SAFETY: the stack and the plan belong to the child until it has executed a program or
        // exited (see the `Drop`s of their owners), and nothing writes to them meanwhile. The child
        // only makes system calls. Calls that may fail bypass the C library, whose `errno` would be
        // that of tare's thread.
        #[allow(unsafe_code)]
        let pid = unsafe {
            let flags = libc::CLONE_VM | libc::SIGCHLD;
            libc::clone(child_main, top.cast(), flags, prepared.cast_mut().cast())
        };
        if pid >= 0 {
            return Ok(pid);
        }
        match fork()? {
            0 => run_child(&self.prepared),
            pid => Ok(pid),
        }
    }
}

extern "C" fn child_main(prepared: *mut c_void) -> c_int {
    // SAFETY: `clone_child` passes this pointer, and keeps the plan while the child needs it.
    #[allow(unsafe_code)]
    run_child(unsafe { &*prepared.cast_const().cast() })
}

/// The child's side of the fork.
fn run_child(prepared: &ExecPlan) -> ! {
    let [channel, tares] = prepared.channel;
    // SAFETY: the descriptors are open in this process as copies of tare's. With a copy of tare's
    // end the child would never notice that tare has exited.
    #[allow(unsafe_code)]
    let channel = unsafe {
        libc::close(tares);
        BorrowedFd::borrow_raw(channel)
    };
    let mut byte = [0];
    let tare_exited =
        !matches!(rustix::io::retry_on_intr(|| rustix::io::read(channel, &mut byte)), Ok(1));
    if tare_exited {
        // SAFETY: `_exit` runs no destructors, as a forked copy must not.
        #[allow(unsafe_code)]
        unsafe {
            libc::_exit(0)
        }
    }
    prepared.files.restore();
    prepared.dispositions.restore();
    // SAFETY: plain system calls, of which only execve(2) can fail; the `argv` arrays end with a
    // null pointer and point to strings of `prepared`. The C library's environment doesn't change.
    #[allow(unsafe_code)]
    unsafe {
        inherited::signals_to_restore().for_each(|signal| {
            libc::signal(signal, libc::SIG_DFL);
        });
        inherited::closed_descriptors().for_each(|fd| {
            libc::close(fd);
        });
        for (fd, file) in (0..).zip(prepared.standard) {
            if let Some(file) = file {
                libc::dup2(file, fd);
            }
        }
        if let Some(folder) = &prepared.folder
            && libc::chdir(folder.as_ptr()) != 0
        {
            let errno = *libc::__errno_location();
            let _ = rustix::io::write(channel, &errno.to_ne_bytes());
            libc::_exit(126)
        }
        if let Some(lean) = &prepared.lean {
            lean.execute(channel);
        }
        let environment =
            prepared.environment.as_ref().map_or(environ, |own| own.pointers.as_ptr());
        let mut errno = execve(&prepared.program, &prepared.argv, environment);
        if errno == libc::ENOEXEC {
            errno = execve(c"/bin/sh", &prepared.shell_argv, environment);
        }
        let _ = rustix::io::write(channel, &errno.to_ne_bytes());
        libc::_exit(126)
    }
}

/// Calls `execve(2)` without the C library. Returns the errno if it fails.
///
/// # Safety
/// `argv` and the array at `environment` must end with a null pointer and hold pointers to C
/// strings.
#[allow(unsafe_code)]
unsafe fn execve(
    program: &CStr,
    argv: &[*const c_char],
    environment: *const *const c_char,
) -> c_int {
    let failed: c_long;
    // SAFETY: the kernel reads what the caller vouches for. The call returns only if it failed;
    // then it has written only its result, and on x86-64 RCX and R11.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_execve => failed,
            in("rdi") program.as_ptr(),
            in("rsi") argv.as_ptr(),
            in("rdx") environment,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") libc::SYS_execve,
            inlateout("x0") program.as_ptr() => failed,
            in("x1") argv.as_ptr(),
            in("x2") environment,
            options(nostack),
        );
    }
    c_int::try_from(-failed).unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    fn run(words: &[&str]) -> Result<ChildExit, CommandError> {
        let signals = Signals::block()?;
        let command = ChildCommand::find(words, std::env::var_os("PATH").as_deref())?;
        let files = FileLimit::now();
        let shared = WaitingChild::fork_sharing(&command, &signals, &files)?;
        let forked = WaitingChild::fork(&command, &signals, &files)?.start()?.wait();
        // The command may be dropped before the child is started.
        drop(command);
        let shared = shared.start()?.wait();
        match (&forked, &shared) {
            (Ok(one), Ok(other)) => {
                assert_eq!((one.status, one.signal), (other.status, other.signal));
            }
            (Err(one), Err(other)) => assert_eq!(one.to_string(), other.to_string()),
            _ => panic!("{forked:?}, {shared:?}"),
        }
        shared
    }

    #[test]
    fn status_and_signal_are_returned() {
        assert_eq!(run(&["sh", "-c", "exit 7"]).unwrap().status, 7);
        let killed = run(&["sh", "-c", "kill -9 $$"]).unwrap();
        assert_eq!((killed.status, killed.signal), (137, Some(9)));
    }

    /// If the kernel refuses to fork into the cgroup, the child is moved there.
    #[test]
    fn a_child_begins_inside_its_cgroup() {
        let _alone = crate::cgroup::alone();
        let host = crate::host::Host::default();
        let cgroup = match crate::cgroup::TransientParent::find(&host)
            .and_then(|place| place.create(&host))
        {
            Ok(cgroup) => cgroup,
            Err(error) => return println!("skipped: {error}"),
        };
        let signals = Signals::block().unwrap();
        let command = ChildCommand::find(&["true"], std::env::var_os("PATH").as_deref()).unwrap();
        let child =
            WaitingChild::fork_into(&command, &signals, &FileLimit::now(), Some(cgroup.as_fd()))
                .unwrap();
        assert_eq!(cgroup.processes().unwrap(), [child.pid()]);
        assert_eq!(child.start().unwrap().wait().unwrap().status, 0);
        assert!(cgroup.remove().gone);
    }

    #[test]
    fn standard_files_replace_tares_own() {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let null = || Some(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
        let words = ["sh", "-c", "cat; echo to stdout"];
        let command = ChildCommand::find(&words, std::env::var_os("PATH").as_deref())
            .unwrap()
            .with_standard_files([null(), Some(write), None]);
        let signals = Signals::block().unwrap();
        assert_eq!(
            WaitingChild::fork(&command, &signals, &FileLimit::now())
                .unwrap()
                .start()
                .unwrap()
                .wait()
                .unwrap()
                .status,
            0
        );
        drop(command);
        assert_eq!(io::read_to_string(std::fs::File::from(read)).unwrap(), "to stdout\n");
    }

    #[test]
    fn failures_to_run_have_the_shells_status() {
        assert_eq!(run(&["no-such-program-here"]).unwrap_err().status(), 127);
        assert_eq!(run(&["/no/such/folder/x"]).unwrap_err().status(), 127);
        assert_eq!(run(&["/etc/passwd"]).unwrap_err().status(), 126);
        assert_eq!(run(&["/tmp"]).unwrap_err().status(), 126);
        assert_eq!(run(&[]).unwrap_err().status(), 127);
        assert_eq!(run(&["true", "a\0b"]).unwrap_err().status(), 125);
    }

    #[test]
    fn a_command_runs_in_its_folder() {
        let signals = Signals::block().unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("here"), "#!/bin/sh\n[ -e here ]\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path().join("here"), mode).unwrap();
        let command = ChildCommand::find_in(folder.path(), &["./here"], None).unwrap();
        let files = FileLimit::now();
        let status = |child: WaitingChild| child.start().unwrap().wait().unwrap().status;
        assert_eq!(status(WaitingChild::fork(&command, &signals, &files).unwrap()), 0);
        assert_eq!(status(WaitingChild::fork_lean(&command, &signals, &files, None).unwrap()), 0);
    }

    #[test]
    fn variables_replace_and_extend_the_environment() {
        let signals = Signals::block().unwrap();
        let words = ["sh", "-c", "[ \"$HOME\" = here ] && [ \"$NEW\" = 7 ] && [ -n \"$PATH\" ]"];
        let mut command = ChildCommand::find(&words, std::env::var_os("PATH").as_deref()).unwrap();
        command.set_variables(&[("HOME", "here"), ("NEW", "7")]);
        let files = FileLimit::now();
        let status = |child: WaitingChild| child.start().unwrap().wait().unwrap().status;
        assert_eq!(status(WaitingChild::fork(&command, &signals, &files).unwrap()), 0);
        assert_eq!(status(WaitingChild::fork_lean(&command, &signals, &files, None).unwrap()), 0);
        assert_eq!(status(WaitingChild::fork_sharing(&command, &signals, &files).unwrap()), 0);
        command.set_variables(&[("NEW", "8")]);
        assert_eq!(status(WaitingChild::fork(&command, &signals, &files).unwrap()), 1);
    }

    #[test]
    fn a_child_that_is_never_started_leaves_no_zombie() {
        let signals = Signals::block().unwrap();
        let command = ChildCommand::find(&["true"], None).unwrap();
        for fork in [WaitingChild::fork, WaitingChild::fork_sharing] {
            let child = fork(&command, &signals, &FileLimit::now()).unwrap();
            let pid = child.pid();
            drop(child);
            assert!(!Path::new(&format!("/proc/{pid}")).exists());
        }
    }

    /// The kernel keeps the peak of a process's memory over execve.
    #[test]
    fn peak_memory_is_the_commands_own_or_unknown() {
        let signals = Signals::block().unwrap();
        let command = ChildCommand::find(&["true"], std::env::var_os("PATH").as_deref()).unwrap();
        let files = FileLimit::now();
        // A copy of this process has as much.
        let own = vec![1u8; 64 << 20];
        let peak = |child: WaitingChild| child.start().unwrap().wait().unwrap().peak_memory;
        let lean = peak(WaitingChild::fork_lean(&command, &signals, &files, None).unwrap());
        assert!(lean.is_some_and(|peak| peak > 0 && peak < 16 << 20), "{lean:?}");
        assert_eq!(peak(WaitingChild::fork(&command, &signals, &files).unwrap()), None);
        assert_eq!(peak(WaitingChild::fork_sharing(&command, &signals, &files).unwrap()), None);
        drop(own);
    }

    /// Whatever the execve needs survives: arguments, environment, and the shell for a script.
    #[test]
    fn a_lean_child_gets_its_arguments_and_environment() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, "[ \"$1/$2\" = \"a b/\" ] && [ -n \"$PATH\" ]\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, mode).unwrap();
        let signals = Signals::block().unwrap();
        let words = [script.to_str().unwrap(), "a b", ""];
        let command = ChildCommand::find(&words, None).unwrap();
        for _ in 0..20 {
            let child =
                WaitingChild::fork_lean(&command, &signals, &FileLimit::now(), None).unwrap();
            let ended = child.start().unwrap().wait().unwrap();
            assert_eq!((ended.status, ended.signal), (0, None));
        }
        std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
        let child = WaitingChild::fork_lean(&command, &signals, &FileLimit::now(), None).unwrap();
        assert_eq!(child.start().unwrap().wait().unwrap_err().status(), 126);
    }
}
