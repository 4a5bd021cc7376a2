//! Functions of this process, on which the cost of probes is measured. They differ in their first
//! instruction, in the place of which the kernel traps.
// SAFETY: `global_asm` defines symbols that nothing else has. The functions take and return nothing,
// and leave all registers but the return value's as they are.
#![allow(unsafe_code)]

// SAFETY: the code below defines these, with these types.
unsafe extern "C" {
    fn tare_probed_emulated();
    fn tare_probed_landing();
    fn tare_probed_stepped();
}

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.tare_probed, \"ax\"",
    ".balign 16",
    "tare_probed_emulated:",
    "push rbp",
    "pop rbp",
    "ret",
    ".balign 16",
    "tare_probed_landing:",
    "endbr64",
    "ret",
    ".balign 16",
    "tare_probed_stepped:",
    "lea rax, [rsp]",
    "ret",
    ".popsection",
);

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .text.tare_probed, \"ax\"",
    ".balign 16",
    "tare_probed_emulated:",
    "nop",
    "ret",
    ".balign 16",
    "tare_probed_landing:",
    "hint #34",
    "ret",
    ".balign 16",
    "tare_probed_stepped:",
    "mov x0, sp",
    "ret",
    ".popsection",
);

/// How the kernel executes the instruction that a probe replaces. It decides what a probe costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FirstInstruction {
    /// It emulates it: a push, a branch.
    Emulated,
    /// A landing pad of indirect branches.
    Landing,
    /// It lets the CPU execute a copy of it, and traps once more behind it.
    Stepped,
}

impl FirstInstruction {
    /// Bytes that tell instructions apart.
    pub(super) const BYTES: usize = 4;

    /// Classifies machine code: `branch_setup_xol_ops` and `push_setup_xol_ops` of
    /// `arch/x86/kernel/uprobes.c`; `arm_probe_decode_insn` of
    /// `arch/arm64/kernel/probes/decode-insn.c`.
    pub(super) fn classify(code: [u8; Self::BYTES]) -> Self {
        if cfg!(target_arch = "x86_64") { Self::of_x86(code) } else { Self::of_arm(code) }
    }

    fn of_x86(code: [u8; Self::BYTES]) -> Self {
        match code {
            [0xf3, 0x0f, 0x1e, 0xfa] => Self::Landing,
            [0x50..=0x57 | 0x70..=0x7f | 0x90 | 0xe8 | 0xe9 | 0xeb, ..]
            | [0x41, 0x50..=0x57, ..]
            | [0x0f, 0x80..=0x8f, ..] => Self::Emulated,
            _ => Self::Stepped,
        }
    }

    fn of_arm(code: [u8; Self::BYTES]) -> Self {
        let word = u32::from_le_bytes(code);
        let is_hint = word & 0xffff_f01f == 0xd503_201f;
        let is_landing = is_hint && matches!(word >> 5 & 0x7f, 25 | 27 | 32 | 34 | 36 | 38);
        let is_branch = word & 0x7c00_0000 == 0x1400_0000 || word & 0x7e00_0000 == 0x3400_0000;
        match () {
            () if is_landing => Self::Landing,
            () if is_hint || is_branch => Self::Emulated,
            () => Self::Stepped,
        }
    }

    fn function(self) -> unsafe extern "C" fn() {
        match self {
            Self::Emulated => tare_probed_emulated,
            Self::Landing => tare_probed_landing,
            Self::Stepped => tare_probed_stepped,
        }
    }

    /// The address of the function that begins like this.
    pub(super) fn address(self) -> u64 {
        (self.function() as *const ()).addr() as u64
    }

    /// Calls the function.
    pub(super) fn call(self) {
        // SAFETY: the functions take and return nothing.
        unsafe { self.function()() }
    }
}

#[cfg(test)]
mod tests {
    use super::FirstInstruction::{Emulated, Landing, Stepped};
    use super::*;

    #[test]
    fn the_own_functions_begin_as_they_say() {
        for kind in [Emulated, Landing, Stepped] {
            kind.call();
            let code = kind.function() as *const [u8; 4];
            // SAFETY: the code of this process can be read, and is longer.
            let code = unsafe { std::ptr::read_unaligned(code) };
            assert_eq!(FirstInstruction::classify(code), kind);
        }
    }

    #[test]
    fn first_instructions_are_classified() {
        let x86 = FirstInstruction::of_x86;
        assert_eq!(x86([0x55, 0x48, 0x89, 0xe5]), Emulated);
        assert_eq!(x86([0x41, 0x57, 0, 0]), Emulated);
        assert_eq!(x86([0xe9, 1, 2, 3]), Emulated);
        assert_eq!(x86([0x48, 0x83, 0xec, 0x08]), Stepped);
        assert_eq!(x86([0x8d, 0x47, 0x01, 0xc3]), Stepped);
        let arm = |word: u32| FirstInstruction::of_arm(word.to_le_bytes());
        assert_eq!(arm(0xd503_201f), Emulated, "nop");
        assert_eq!(arm(0x1400_0010), Emulated, "b");
        assert_eq!((arm(0xd503_245f), arm(0xd503_233f)), (Landing, Landing), "bti c, paciasp");
        assert_eq!(arm(0xa9bf_7bfd), Stepped, "stp x29, x30, [sp, #-16]!");
    }
}
