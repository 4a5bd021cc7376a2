//! The registers of a CPU, in perf's names (`perf record --user-regs=?`).

use tare_format::abi::bindings as abi;

/// A register's name, and its number in `sample_regs_user` and `sample_regs_intr`.
pub type Register = (&'static str, u32);

/// `arch/x86/include/uapi/asm/perf_regs.h`, without the vector registers, and without the segment
/// registers that 64-bit kernels refuse.
#[cfg(target_arch = "x86_64")]
pub const REGISTERS: &[Register] = &[
    ("AX", abi::PERF_REG_X86_AX),
    ("BX", abi::PERF_REG_X86_BX),
    ("CX", abi::PERF_REG_X86_CX),
    ("DX", abi::PERF_REG_X86_DX),
    ("SI", abi::PERF_REG_X86_SI),
    ("DI", abi::PERF_REG_X86_DI),
    ("BP", abi::PERF_REG_X86_BP),
    ("SP", abi::PERF_REG_X86_SP),
    ("IP", abi::PERF_REG_X86_IP),
    ("FLAGS", abi::PERF_REG_X86_FLAGS),
    ("CS", abi::PERF_REG_X86_CS),
    ("SS", abi::PERF_REG_X86_SS),
    ("R8", abi::PERF_REG_X86_R8),
    ("R9", abi::PERF_REG_X86_R9),
    ("R10", abi::PERF_REG_X86_R10),
    ("R11", abi::PERF_REG_X86_R11),
    ("R12", abi::PERF_REG_X86_R12),
    ("R13", abi::PERF_REG_X86_R13),
    ("R14", abi::PERF_REG_X86_R14),
    ("R15", abi::PERF_REG_X86_R15),
];

/// `arch/arm64/include/uapi/asm/perf_regs.h`, without the length of SVE vectors.
#[cfg(target_arch = "aarch64")]
pub const REGISTERS: &[Register] = &[
    ("x0", abi::PERF_REG_ARM64_X0),
    ("x1", abi::PERF_REG_ARM64_X1),
    ("x2", abi::PERF_REG_ARM64_X2),
    ("x3", abi::PERF_REG_ARM64_X3),
    ("x4", abi::PERF_REG_ARM64_X4),
    ("x5", abi::PERF_REG_ARM64_X5),
    ("x6", abi::PERF_REG_ARM64_X6),
    ("x7", abi::PERF_REG_ARM64_X7),
    ("x8", abi::PERF_REG_ARM64_X8),
    ("x9", abi::PERF_REG_ARM64_X9),
    ("x10", abi::PERF_REG_ARM64_X10),
    ("x11", abi::PERF_REG_ARM64_X11),
    ("x12", abi::PERF_REG_ARM64_X12),
    ("x13", abi::PERF_REG_ARM64_X13),
    ("x14", abi::PERF_REG_ARM64_X14),
    ("x15", abi::PERF_REG_ARM64_X15),
    ("x16", abi::PERF_REG_ARM64_X16),
    ("x17", abi::PERF_REG_ARM64_X17),
    ("x18", abi::PERF_REG_ARM64_X18),
    ("x19", abi::PERF_REG_ARM64_X19),
    ("x20", abi::PERF_REG_ARM64_X20),
    ("x21", abi::PERF_REG_ARM64_X21),
    ("x22", abi::PERF_REG_ARM64_X22),
    ("x23", abi::PERF_REG_ARM64_X23),
    ("x24", abi::PERF_REG_ARM64_X24),
    ("x25", abi::PERF_REG_ARM64_X25),
    ("x26", abi::PERF_REG_ARM64_X26),
    ("x27", abi::PERF_REG_ARM64_X27),
    ("x28", abi::PERF_REG_ARM64_X28),
    ("x29", abi::PERF_REG_ARM64_X29),
    ("lr", abi::PERF_REG_ARM64_LR),
    ("sp", abi::PERF_REG_ARM64_SP),
    ("pc", abi::PERF_REG_ARM64_PC),
];

/// Registers of other processors have no names here.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub const REGISTERS: &[Register] = &[];

/// Reorders registers from the kernel's order (`struct pt_regs` of ptrace(2), `struct
/// user_pt_regs`) to the order of [`REGISTERS`], whose numbers ascend.
pub(crate) fn in_perfs_order(kernels: &[u64]) -> impl Iterator<Item = u64> {
    // Indexes in the kernel's order of ax, bx, cx, dx, si, di, bp, sp, ip, flags, cs, ss, r8 to
    // r15, which is the order of `REGISTERS`.
    #[cfg(target_arch = "x86_64")]
    const PLACES: [usize; 20] =
        [10, 5, 11, 12, 13, 14, 4, 19, 16, 18, 17, 20, 9, 8, 7, 6, 3, 2, 1, 0];
    #[cfg(not(target_arch = "x86_64"))]
    const PLACES: [usize; 33] = {
        let mut places = [0; 33];
        let mut at = 0;
        while at < 33 {
            places[at] = at;
            at += 1;
        }
        places
    };
    PLACES.into_iter().map(|place| kernels.get(place).copied().unwrap_or(0))
}

/// The mask of all user registers, which unwinding a stack copy needs.
#[must_use]
pub fn user_registers() -> u64 {
    REGISTERS.iter().fold(0, |bits, (_, number)| bits | 1 << number)
}
