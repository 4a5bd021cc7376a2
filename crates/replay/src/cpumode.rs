//! The mode of a CPU: a program, the kernel, a guest, or a hypervisor.

use tare_format::abi::bindings::{
    PERF_CONTEXT_GUEST, PERF_CONTEXT_GUEST_KERNEL, PERF_CONTEXT_GUEST_USER, PERF_CONTEXT_HV,
    PERF_CONTEXT_KERNEL, PERF_CONTEXT_USER, PERF_RECORD_MISC_CPUMODE_MASK,
    PERF_RECORD_MISC_GUEST_KERNEL, PERF_RECORD_MISC_GUEST_USER, PERF_RECORD_MISC_HYPERVISOR,
    PERF_RECORD_MISC_KERNEL, PERF_RECORD_MISC_USER,
};

/// The CPU's mode (`PERF_RECORD_MISC_CPUMODE_MASK`), which selects the address space of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CpuMode {
    /// The kernel.
    Kernel,
    /// A program.
    User,
    /// The program of another process than the sample's, by process id: the waker's.
    UserOf(i32),
    /// A guest's kernel. A guest's addresses can't be looked up.
    GuestKernel,
    /// A guest's program.
    GuestUser,
    /// A hypervisor.
    Hypervisor,
    /// The record's mode is unknown (`PERF_RECORD_MISC_CPUMODE_UNKNOWN`, or another value).
    Unknown,
}

impl CpuMode {
    /// Guesses the mode of an address whose record lacks one: the kernel has the upper half of the
    /// address space.
    #[must_use]
    pub fn from_address(address: u64) -> Self {
        if address >> 63 == 1 { Self::Kernel } else { Self::User }
    }

    /// Returns the mode and the process of an address in a sample of process `pid`.
    pub(crate) fn in_process(self, pid: i32) -> (Self, i32) {
        if let Self::UserOf(other) = self { (Self::User, other) } else { (self, pid) }
    }

    /// Reads the mode from a record's `misc`.
    #[must_use]
    pub fn from_misc(misc: u16) -> Self {
        match u32::from(misc) & PERF_RECORD_MISC_CPUMODE_MASK {
            PERF_RECORD_MISC_KERNEL => Self::Kernel,
            PERF_RECORD_MISC_USER => Self::User,
            PERF_RECORD_MISC_GUEST_KERNEL => Self::GuestKernel,
            PERF_RECORD_MISC_GUEST_USER => Self::GuestUser,
            PERF_RECORD_MISC_HYPERVISOR => Self::Hypervisor,
            _ => Self::Unknown,
        }
    }

    /// Returns the mode of the addresses behind a marker in a call chain (`enum
    /// perf_callchain_context`), or `None` for an unknown marker.
    #[must_use]
    pub fn from_context(marker: u64) -> Option<Self> {
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
