//! Why a task waits: from its state and the kernel functions on its stack.

use std::ops::Range;

use tare_format::record::encode::Encoder;
use tare_format::record::{Ksymbol, Layout, SampleId};
use tare_kernel::bpf::WaitState;
use tare_kernel::host::Host;
use tare_kernel::procfs::kernel_functions;

/// Why a task waits. Each reason is a symbol at the top of the kernel's addresses, where nothing
/// lies. It is the innermost frame of the wait's call chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Reason {
    RunQueue,
    Sleep,
    Io,
    Futex,
    Pipe,
    Socket,
    Poll,
    PageFault,
    Child,
    KernelLock,
    FileLock,
    Signal,
    Terminal,
    Ipc,
    Event,
    Memory,
    Stopped,
    Interruptible,
    Uninterruptible,
}

/// First address of waker symbols, above the reasons.
pub(crate) const WAKERS: u64 = ADDRESSES + 0x1_0000;
/// Limit on waker symbols.
pub(crate) const MOST_WAKERS: u64 = 1 << 16;

/// The last 2 MiB of all addresses, which x86 and arm64 leave free
/// (`Documentation/arch/x86/x86_64/mm.rst`, `Documentation/arch/arm64/memory.rst`).
const ADDRESSES: u64 = 0xffff_ffff_ffe0_0000;
/// Bytes per symbol.
pub(crate) const SYMBOL: u32 = 16;

impl Reason {
    const ALL: [(Self, &'static str); 19] = [
        (Self::RunQueue, "off-CPU (run queue)"),
        (Self::Sleep, "off-CPU (sleep)"),
        (Self::Io, "off-CPU (I/O)"),
        (Self::Futex, "off-CPU (futex)"),
        (Self::Pipe, "off-CPU (pipe)"),
        (Self::Socket, "off-CPU (socket)"),
        (Self::Poll, "off-CPU (poll)"),
        (Self::PageFault, "off-CPU (page fault)"),
        (Self::Child, "off-CPU (child)"),
        (Self::KernelLock, "off-CPU (kernel lock)"),
        (Self::FileLock, "off-CPU (file lock)"),
        (Self::Signal, "off-CPU (signal)"),
        (Self::Terminal, "off-CPU (terminal)"),
        (Self::Ipc, "off-CPU (System V IPC)"),
        (Self::Event, "off-CPU (event file)"),
        (Self::Memory, "off-CPU (memory)"),
        (Self::Stopped, "off-CPU (stopped)"),
        (Self::Interruptible, "off-CPU (interruptible)"),
        (Self::Uninterruptible, "off-CPU (uninterruptible)"),
    ];

    /// The address of the reason's symbol.
    pub(crate) fn address(self) -> u64 {
        let at = Self::ALL.iter().position(|(reason, _)| *reason == self).unwrap_or(0);
        ADDRESSES + u64::from(SYMBOL) * at as u64
    }

    /// Returns the records of all symbols.
    pub(crate) fn symbols(layout: &Layout) -> Vec<u8> {
        let encoder = Encoder::new(layout, &SampleId::default());
        let mut bytes = Vec::new();
        for (reason, name) in Self::ALL {
            let name = name.as_bytes();
            let symbol =
                Ksymbol { addr: reason.address(), len: SYMBOL, ksym_type: 0, flags: 0, name };
            // No symbol is too long.
            _ = encoder.ksymbol(&mut bytes, &symbol);
        }
        bytes
    }
}

/// The meaning of a function on the stack of a wait or a waker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FunctionReason {
    /// Nothing: the function belongs to the scheduler or to its tracing.
    Scheduler,
    /// An interrupt: its work isn't the running task's.
    Interrupt,
    Reason(Reason),
}

use Reason::{
    Child, Event, FileLock, Futex, Interruptible, Io, Ipc, KernelLock, Memory, PageFault, Pipe,
    Poll, RunQueue, Signal, Sleep, Socket, Stopped, Terminal, Uninterruptible,
};

/// Functions by reason; a star matches any text. The names are from Linux 5.18 to 7.3.
const FUNCTIONS: &[(Reason, &[&str])] = &[
    (PageFault, &["handle_mm_fault", "exc_page_fault", "do_user_addr_fault", "do_page_fault"]),
    (Futex, &["futex_*", "__futex_*", "do_futex"]),
    (Sleep, &["do_nanosleep", "hrtimer_nanosleep", "common_nsleep*", "msleep*", "usleep_range*"]),
    (Pipe, &["pipe_*", "anon_pipe_*", "fifo_open", "wait_for_partner", "splice_from_pipe*"]),
    (
        Socket,
        &[
            "sk_wait_data",
            "sk_stream_wait*",
            "inet_csk_accept",
            "inet_wait_for_connect",
            "inet_stream_connect",
            "unix_*",
            "__skb_wait_for_more_packets",
            "__skb_recv*",
            "sock_*",
            "__sock_*",
            "tcp_*",
            "udp_*",
            "netlink_*",
            "packet_*",
            "vsock_*",
        ],
    ),
    (Poll, &["do_epoll_wait", "ep_poll", "do_poll*", "do_sys_poll", "do_select", "do_pselect*"]),
    (Child, &["do_wait", "kernel_wait4", "kernel_clone", "wait_for_vfork_done", "kernel_waitid*"]),
    (Signal, &["do_sigtimedwait", "sigsuspend", "do_rt_sigtimedwait", "__*_sys_pause"]),
    (Terminal, &["n_tty_*", "tty_*"]),
    (Ipc, &["do_msg*", "do_sem*", "__do_semtimedop", "wq_sleep", "do_mq_*"]),
    (Event, &["eventfd_*", "timerfd_*", "signalfd_*", "inotify_*", "fanotify_*"]),
    (FileLock, &["flock_lock*", "locks_lock_inode_wait", "fcntl_setlk*", "do_lock_file_wait"]),
    (Memory, &["mem_cgroup_*", "shrink_*", "try_to_free_*", "throttle_direct_reclaim"]),
    (
        Io,
        &[
            "io_schedule*",
            "folio_wait_*",
            "__folio_lock*",
            "wait_on_page*",
            "__lock_page*",
            "__wait_on_buffer",
            "bit_wait_io*",
            "blk_*",
            "blkdev_*",
            "bio_*",
            "submit_bio*",
            "rq_qos_wait",
            "blk_throtl*",
            "jbd2_*",
            "ext4_*",
            "xfs_*",
            "btrfs_*",
            "nfs*",
            "fuse_*",
            "request_wait_answer",
            "filemap_*",
            "balance_dirty_pages*",
            "read_events",
            "do_io_getevents",
            "io_cqring_wait",
            "iomap_*",
            "dio_*",
            "__blockdev_direct_IO",
            "sync_*",
            "vfs_fsync*",
            "p9_*",
            "v9fs_*",
            "netfs_*",
        ],
    ),
    (
        KernelLock,
        &[
            "mutex_lock*",
            "__mutex_lock*",
            "rwsem_*",
            "down_*",
            "__down*",
            "percpu_*",
            "rt_mutex_*",
            "rtlock_*",
            "wait_rcu*",
            "__wait_rcu*",
            "synchronize_*",
        ],
    ),
    (Stopped, &["do_signal_stop", "ptrace_stop", "do_jobctl_trap"]),
];

const SCHEDULER: &[&str] = &[
    "__schedule",
    "schedule",
    "schedule_*",
    "__cond_resched*",
    "preempt_schedule*",
    "do_wait_intr*",
    "wait_woken",
    "prepare_to_wait*",
    "__wait_on_bit*",
    "out_of_line_wait*",
    "bit_wait",
    "wait_for_completion*",
    "__wait_for_common",
    "__traceiter_sched_*",
    "__bpf_trace_sched_*",
    "__probestub_sched_*",
    "bpf_trace_run*",
    "bpf_get_stack*",
    "try_to_wake_up",
    "wake_up_process",
    "wake_up_q",
    "default_wake_function",
    "autoremove_wake_function",
    "__wake_up*",
    "pollwake",
    "ep_poll_callback",
];

const INTERRUPTS: &[&str] = &[
    "asm_sysvec_*",
    "asm_common_interrupt",
    "common_interrupt",
    "handle_softirqs",
    "__do_softirq",
    "irq_exit*",
    "el*_irq*",
    "el*_interrupt",
    "gic_handle_irq",
];

fn matches_pattern(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => {
            name.strip_prefix(before).is_some_and(|rest| after.is_empty() || rest.ends_with(after))
        }
    }
}

fn classify(name: &[u8]) -> Option<FunctionReason> {
    // Compilers split and specialize functions: `futex_wait.isra.0`.
    let name = name.split(|byte| *byte == b'.').next().unwrap_or_default();
    let name = std::str::from_utf8(name).ok()?;
    let fits_one =
        |patterns: &[&str]| patterns.iter().any(|pattern| matches_pattern(pattern, name));
    if fits_one(SCHEDULER) {
        return Some(FunctionReason::Scheduler);
    }
    if fits_one(INTERRUPTS) {
        return Some(FunctionReason::Interrupt);
    }
    let found = FUNCTIONS.iter().find(|(_, patterns)| fits_one(patterns));
    found.map(|(reason, _)| FunctionReason::Reason(*reason))
}

/// The functions of the running kernel that reveal why a task waits, and whether an interrupt woke
/// it.
#[derive(Debug, Default)]
pub(crate) struct WaitFunctions {
    /// Sorted by address.
    functions: Vec<(Range<u64>, FunctionReason)>,
}

impl WaitFunctions {
    /// Reads the kernel's symbols. Returns no functions if this user may not see their addresses.
    pub(crate) fn read(host: &Host) -> Self {
        Self { functions: kernel_functions(host, classify) }
    }

    fn classify(&self, address: u64) -> Option<FunctionReason> {
        let after = self.functions.partition_point(|(range, _)| range.start <= address);
        let (range, classify) = self.functions.get(after.checked_sub(1)?)?;
        range.contains(&address).then_some(*classify)
    }

    /// Returns a waker's frames without the functions that wake, and whether the waker is an
    /// interrupt.
    pub(crate) fn waker<'f>(&self, frames: &'f [u64]) -> (&'f [u64], bool) {
        let is_scheduler = |frame: &u64| self.classify(*frame) == Some(FunctionReason::Scheduler);
        let last = frames.iter().rposition(is_scheduler).map_or(0, |last| last + 1);
        let by_interrupt =
            frames.iter().any(|frame| self.classify(*frame) == Some(FunctionReason::Interrupt));
        (frames.get(last..).unwrap_or_default(), by_interrupt)
    }

    /// Returns why a task waits that called the scheduler from these frames, and the frames without
    /// the scheduler's own.
    pub(crate) fn reason<'f>(&self, state: WaitState, frames: &'f [u64]) -> (Reason, &'f [u64]) {
        let is_scheduler = |frame: &u64| self.classify(*frame) == Some(FunctionReason::Scheduler);
        let first = frames.iter().position(is_scheduler).unwrap_or(0);
        let called = frames.get(first..).unwrap_or_default();
        let inner = called.iter().take_while(|frame| is_scheduler(frame)).count();
        let called = called.get(inner..).unwrap_or_default();
        if state.on_run_queue {
            return (RunQueue, called);
        }
        if state.state & (STOPPED | TRACED) != 0 {
            return (Stopped, called);
        }
        let reasons = frames.iter().filter_map(|frame| match self.classify(*frame)? {
            FunctionReason::Scheduler | FunctionReason::Interrupt => None,
            FunctionReason::Reason(reason) => Some(reason),
        });
        // A wait within a page fault belongs to the fault.
        let mut found = None;
        for reason in reasons {
            if reason == PageFault {
                return (PageFault, called);
            }
            found = found.or(Some(reason));
        }
        let by_state =
            if state.state & UNINTERRUPTIBLE != 0 { Uninterruptible } else { Interruptible };
        let by_state = if state.io { Io } else { by_state };
        (found.unwrap_or(by_state), called)
    }
}

/// `include/linux/sched.h`
const UNINTERRUPTIBLE: u32 = 2;
const STOPPED: u32 = 4;
const TRACED: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_names_give_the_reason() {
        let classify = |name: &str| classify(name.as_bytes());
        assert_eq!(classify("futex_wait_queue"), Some(FunctionReason::Reason(Futex)));
        assert_eq!(classify("do_nanosleep.isra.0"), Some(FunctionReason::Reason(Sleep)));
        assert_eq!(classify("__x64_sys_pause"), Some(FunctionReason::Reason(Signal)));
        assert_eq!(classify("schedule_timeout"), Some(FunctionReason::Scheduler));
        assert_eq!(classify("do_syscall_64"), None);
    }

    #[test]
    fn the_innermost_known_function_gives_the_reason_unless_it_is_a_fault() {
        let function = |at: u64, classify| (16 * at..16 * at + 16, classify);
        let known = WaitFunctions {
            functions: vec![
                function(1, FunctionReason::Scheduler),
                function(2, FunctionReason::Reason(Io)),
                function(3, FunctionReason::Reason(Pipe)),
                function(4, FunctionReason::Reason(PageFault)),
            ],
        };
        let state = WaitState { state: 1, io: false, on_run_queue: false };
        let of = |state, frames: &[u64]| {
            let (reason, rest) = known.reason(state, frames);
            (reason, rest.to_vec())
        };
        // 0 is a tracing function, 200 the system call.
        assert_eq!(of(state, &[0, 17, 18, 33, 50, 200]), (Io, vec![33, 50, 200]));
        assert_eq!(of(state, &[17, 33, 64, 200]).0, PageFault);
        assert_eq!(of(state, &[200]), (Interruptible, vec![200]));
        assert_eq!(of(WaitState { io: true, state: 2, ..state }, &[]).0, Io);
        assert_eq!(of(WaitState { on_run_queue: true, ..state }, &[17, 50]), (RunQueue, vec![50]));
        assert_eq!(of(WaitState { state: 4, ..state }, &[50]).0, Stopped);
    }
}
