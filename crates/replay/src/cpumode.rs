//! What a CPU ran: a program, the kernel, a guest's.

use tare_format::abi::bindings::{
    PERF_CONTEXT_GUEST, PERF_CONTEXT_GUEST_KERNEL, PERF_CONTEXT_GUEST_USER, PERF_CONTEXT_HV,
    PERF_CONTEXT_KERNEL, PERF_CONTEXT_USER, PERF_RECORD_MISC_CPUMODE_MASK,
    PERF_RECORD_MISC_GUEST_KERNEL, PERF_RECORD_MISC_GUEST_USER, PERF_RECORD_MISC_HYPERVISOR,
    PERF_RECORD_MISC_KERNEL, PERF_RECORD_MISC_USER,
};

/// The CPU's mode (`PERF_RECORD_MISC_CPUMODE_MASK`), which says what an address lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CpuMode {
    /// The kernel.
    Kernel,
    /// A program.
    User,
    /// The program of another process than the sample's: of the one that woke it.
    UserOf(i32),
    /// A guest's kernel. Nothing is known of a guest's addresses.
    GuestKernel,
    /// A guest's program.
    GuestUser,
    /// A hypervisor.
    Hypervisor,
    /// The record doesn't say.
    Unknown,
}

impl CpuMode {
    /// The mode that code at an address runs in, where a record doesn't say it: which half of the
    /// address space it is tells user from kernel.
    #[must_use]
    pub fn of_address(address: u64) -> Self {
        if address >> 63 == 1 { Self::Kernel } else { Self::User }
    }

    /// The mode of an address in a sample of this process, and the process that the address is of.
    pub(crate) fn in_process(self, pid: i32) -> (Self, i32) {
        if let Self::UserOf(other) = self { (Self::User, other) } else { (self, pid) }
    }

    /// The mode that a record's `misc` says.
    #[must_use]
    pub fn of_misc(misc: u16) -> Self {
        match u32::from(misc) & PERF_RECORD_MISC_CPUMODE_MASK {
            PERF_RECORD_MISC_KERNEL => Self::Kernel,
            PERF_RECORD_MISC_USER => Self::User,
            PERF_RECORD_MISC_GUEST_KERNEL => Self::GuestKernel,
            PERF_RECORD_MISC_GUEST_USER => Self::GuestUser,
            PERF_RECORD_MISC_HYPERVISOR => Self::Hypervisor,
            _ => Self::Unknown,
        }
    }

    /// The mode of the addresses behind a marker in a call chain (`enum perf_callchain_context`);
    /// `None`: it is no marker that is known.
    #[must_use]
    pub fn of_context(marker: u64) -> Option<Self> {
        Some(match marker {
            PERF_CONTEXT_KERNEL => Self::Kernel,
            PERF_CONTEXT_USER => Self::User,
            PERF_CONTEXT_GUEST | PERF_CONTEXT_GUEST_KERNEL => Self::GuestKernel,
            PERF_CONTEXT_GUEST_USER => Self::GuestUser,
            PERF_CONTEXT_HV => Self::Hypervisor,
            _ => return None,
        })
    }
}
