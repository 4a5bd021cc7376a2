//! What the child does between fork and execve.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::{io, ptr};

use super::{FileLimit, fork};
use crate::command::ChildCommand;
use crate::inherited;
use crate::signals::{Dispositions, Signals};

/// Bytes of the child's stack. It uses some hundred.
const STACK: usize = 64 << 10;

/// What the child needs until its execve.
#[derive(Debug)]
pub(super) struct ExecPlan {
    program: CString,
    /// What `argv` and `shell_argv` point to.
    _args: Vec<CString>,
    argv: Vec<*const c_char>,
    /// For a script without '#!': sh SCRIPT ARGS, as execvp(3) does.
    shell_argv: Vec<*const c_char>,
    standard: [Option<RawFd>; 3],
    dispositions: Dispositions,
    files: FileLimit,
    /// The child's end of the channel, and tare's.
    channel: [RawFd; 2],
}

impl ExecPlan {
    pub(super) fn new(
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
            _args: args,
            argv,
            shell_argv,
            standard: command.standard.each_ref().map(|file| file.as_ref().map(AsRawFd::as_raw_fd)),
            dispositions: signals.before(),
            files: *files,
            channel: [childs.as_raw_fd(), ours.as_raw_fd()],
        }
    }
}

/// What a child that shares tare's memory runs on, until its execve or its end.
#[derive(Debug)]
pub(super) struct ChildMemory {
    prepared: Box<ExecPlan>,
    stack: Box<[MaybeUninit<u8>]>,
}

impl ChildMemory {
    pub(super) fn new(prepared: ExecPlan) -> Self {
        Self { prepared: Box::new(prepared), stack: Box::new_uninit_slice(STACK) }
    }

    /// Starts a child that shares this process's memory; by fork(2) where that is refused, as by
    /// some emulators.
    pub(super) fn clone_child(&mut self) -> io::Result<i32> {
        let prepared: *const ExecPlan = &raw const *self.prepared;
        let top = self.stack.as_mut_ptr_range().end;
        // The ABIs of all architectures want no more.
        let top = top.wrapping_sub(top.addr() % 16);
        // SAFETY: the stack and what is prepared belong to the child until it has executed a program
        // or is gone (see the `Drop`s of who holds them), and nobody writes to them meanwhile. The
        // child makes system calls alone. Those that may fail don't go through the C library, whose
        // `errno` would be that of tare's thread.
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
    // SAFETY: `clone_child` hands this over, and keeps it as long as the child needs it.
    #[allow(unsafe_code)]
    run_child(unsafe { &*prepared.cast_const().cast() })
}

// SAFETY: POSIX defines this variable (environ(7)); the `libc` crate names it for some C libraries
// only.
#[allow(unsafe_code)]
unsafe extern "C" {
    static environ: *const *const c_char;
}

/// The child's side of the fork.
pub(super) fn run_child(prepared: &ExecPlan) -> ! {
    let [channel, tares] = prepared.channel;
    // SAFETY: the descriptors are open in this process, as copies of tare's. While this one has a copy
    // of tare's end, it would never learn that tare is gone.
    #[allow(unsafe_code)]
    let channel = unsafe {
        libc::close(tares);
        BorrowedFd::borrow_raw(channel)
    };
    let mut byte = [0];
    let gone = !matches!(rustix::io::retry_on_intr(|| rustix::io::read(channel, &mut byte)), Ok(1));
    if gone {
        // SAFETY: `_exit` runs no destructors, which is what a forked copy wants.
        #[allow(unsafe_code)]
        unsafe {
            libc::_exit(0)
        }
    }
    prepared.files.restore();
    prepared.dispositions.restore();
    // SAFETY: plain system calls, which can't fail but for execve(2); `argv` arrays end with a null
    // pointer and point to strings of `prepared`. The C library's environment doesn't change.
    #[allow(unsafe_code)]
    unsafe {
        if !inherited::sigpipe_was_ignored() {
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        }
        inherited::closed_descriptors().for_each(|fd| {
            libc::close(fd);
        });
        for (fd, file) in (0..).zip(prepared.standard) {
            if let Some(file) = file {
                libc::dup2(file, fd);
            }
        }
        let mut errno = execve(&prepared.program, &prepared.argv, environ);
        if errno == libc::ENOEXEC {
            errno = execve(c"/bin/sh", &prepared.shell_argv, environ);
        }
        let _ = rustix::io::write(channel, &errno.to_ne_bytes());
        libc::_exit(126)
    }
}

/// `execve(2)`, past the C library: where it fails, the errno.
///
/// # Safety
/// `argv` ends with a null pointer, and so does what `environment` points to; both have pointers to C
/// strings.
#[allow(unsafe_code)]
unsafe fn execve(
    program: &CStr,
    argv: &[*const c_char],
    environment: *const *const c_char,
) -> c_int {
    let failed: c_long;
    // SAFETY: the kernel reads what the caller vouches for. The call returns only where it failed, and
    // then has written nothing but its result, and on x86-64 RCX and R11.
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
