//! Unwinds stacks from registers and a copy of the stack: with the unwind tables of ELF files
//! (DWARF 5, section 6.4), and with frame pointers in code without tables.
//!
//! ```text
//! address --AddressSpace--> DSO, offset in it --Segments--> its own address
//!         --UnwindTables--> row --RegisterFrame::step--> the caller's registers
//! ```
//! The tables of a DSO are read once, for all threads, and looked up by the file's addresses, so
//! all processes share them. Each thread keeps rows of its own ([`UnwindCache`]).

mod arch;
mod assembly;
mod call;
mod frame;
mod row;
mod splice;
mod tables;
mod unwinder;

#[cfg(test)]
mod tests;

pub(crate) use arch::is_signal_return;
pub(crate) use tables::functions;
pub use unwinder::{UnwindCache, Unwinder};

/// The registers of a thread in user mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registers {
    /// x86 with 64 bits.
    X86_64 {
        /// Instruction pointer.
        ip: u64,
        /// General registers in the order of DWARF's numbers: AX, DX, CX, BX, SI, DI, BP, SP, R8 to
        /// R15 (System V psABI for x86-64, figure 3.36).
        general: [u64; 16],
    },
    /// x86 with 32 bits.
    X86 {
        /// Instruction pointer.
        ip: u64,
        /// General registers in the order of DWARF's numbers: AX, CX, DX, BX, SP, BP, SI, DI (System
        /// V psABI for Intel386, table 2.14).
        general: [u64; 8],
    },
    /// ARM with 64 bits.
    Aarch64 {
        /// Program counter.
        pc: u64,
        /// X0 to X30, and the stack pointer.
        general: [u64; 32],
    },
}

impl Registers {
    /// Reads registers of a 64-bit thread by perf's numbers
    /// (`arch/*/include/uapi/asm/perf_regs.h`). `None` if a register is missing that unwinding
    /// needs. The numbers identify the architecture: the instruction pointer is 8 on x86 and 32 on
    /// ARM, and x86 has no user register 32.
    #[must_use]
    pub fn by_perf_number(get: impl Fn(u32) -> Option<u64>) -> Option<Self> {
        const PC: u32 = 32;
        if let Some(pc) = get(PC) {
            let _fp = get(29)?;
            let _lr = get(30)?;
            let _sp = get(31)?;
            let mut general = [0; 32];
            (0..).zip(&mut general).for_each(|(number, value)| *value = get(number).unwrap_or(0));
            return Some(Self::Aarch64 { pc, general });
        }
        let ip = get(8)?;
        let _sp = get(7)?;
        let general = [0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23]
            .map(|number| get(number).unwrap_or(0));
        Some(Self::X86_64 { ip, general })
    }

    /// Reads registers of a 32-bit thread by perf's numbers. `None` if one is missing that unwinding
    /// needs, and on ARM.
    #[must_use]
    pub fn by_perf_number_in_32_bits(get: impl Fn(u32) -> Option<u64>) -> Option<Self> {
        const ARM_PC: u32 = 32;
        if get(ARM_PC).is_some() {
            return None;
        }
        let ip = get(8)?;
        let _sp = get(7)?;
        let general = [0, 2, 3, 1, 7, 6, 4, 5].map(|number| get(number).unwrap_or(0));
        Some(Self::X86 { ip, general })
    }

    /// The instruction pointer.
    #[must_use]
    pub fn instruction_pointer(&self) -> u64 {
        match self {
            Self::X86_64 { ip, .. } | Self::X86 { ip, .. } => *ip,
            Self::Aarch64 { pc, .. } => *pc,
        }
    }

    /// The stack pointer.
    #[must_use]
    pub fn stack_pointer(&self) -> u64 {
        match self {
            Self::X86_64 { general, .. } => general[7],
            Self::X86 { general, .. } => general[4],
            Self::Aarch64 { general, .. } => general[31],
        }
    }
}

/// A stack to unwind: a snapshot of a thread at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Stack<'a> {
    /// The thread's registers.
    pub registers: &'a Registers,
    /// Bytes of memory from the stack pointer upwards, in the processor's byte order
    /// (little-endian). May end before the stack does: the chain then ends there. Memory that couldn't
    /// be read has [`crate::UNREAD_BYTE`] for each byte.
    pub copy: &'a [u8],
    /// Recorded frame-pointer chain, if any: the instruction pointer, then return addresses. It
    /// supplies the callers beyond the copy.
    pub frame_pointers: &'a [u64],
}

/// A frame of an unwound stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnwoundFrame {
    /// The instruction at which the frame continues.
    pub pc: u64,
    /// Whether a call returns there. The innermost frame, code that a signal interrupted, and the
    /// trampoline that a handler returns to aren't called.
    pub is_return: bool,
}

impl UnwoundFrame {
    pub(crate) fn exact(pc: u64) -> Self {
        Self { pc, is_return: false }
    }

    /// The address whose function and line the frame has: for a return address, the last byte of
    /// the call.
    #[must_use]
    pub fn code_address(&self) -> u64 {
        self.pc.wrapping_sub(u64::from(self.is_return))
    }
}

/// The frames of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallChain {
    /// Innermost first. The first one is the code at the instruction pointer; it is missing only if
    /// that is in no mapping.
    pub frames: Vec<UnwoundFrame>,
    /// Whether the frames reach the thread's first function; otherwise, why not.
    pub outcome: UnwindOutcome,
    /// Number of outer frames taken from [`Stack::frame_pointers`].
    pub spliced: usize,
}

/// How unwinding a stack ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UnwindOutcome {
    /// Complete: it reached the thread's first function.
    Whole,
    /// Truncated: the copy ended.
    CopyEnded,
    /// Truncated: the program is being replaced in execve(2), and its stack is gone already.
    Replaced,
    /// Truncated: the callers are on another stack than the copied one, as with `sigaltstack(2)`.
    OtherStack,
    /// Truncated: the file has unwind tables, but none for this code: hand-written assembly.
    Assembly,
    /// Truncated: it reached [`crate::limits::FRAMES`].
    TooDeep,
    /// Failed: the recorded file isn't here, can't be read, or is for another architecture.
    NoBinary,
    /// Failed: the code has no unwind tables, and its frame pointer is invalid.
    NoTable,
    /// Failed: an address is in no mapping, or in no segment of its file.
    NoMapping,
    /// Failed: the sample lacks a register that unwinding needs.
    NoRegisters,
    /// Failed: registers or tables are damaged, or don't match.
    Damaged,
}

impl UnwindOutcome {
    /// All outcomes.
    pub const ALL: [Self; 11] = [
        Self::Whole,
        Self::CopyEnded,
        Self::Replaced,
        Self::OtherStack,
        Self::Assembly,
        Self::TooDeep,
        Self::NoBinary,
        Self::NoTable,
        Self::NoMapping,
        Self::NoRegisters,
        Self::Damaged,
    ];

    /// Whether the inner frames are valid, and the rest is missing for a reason that is no failure.
    #[must_use]
    pub const fn is_truncated(self) -> bool {
        matches!(
            self,
            Self::CopyEnded | Self::Replaced | Self::OtherStack | Self::Assembly | Self::TooDeep
        )
    }

    /// Why the stack isn't complete, as a message.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::CopyEnded => "the copy ended",
            Self::Replaced => "execve was replacing the program",
            Self::OtherStack => "went on on another stack",
            Self::Assembly => "code without call frames in a file that has them",
            Self::TooDeep => "too many frames",
            Self::NoBinary => "no binary",
            Self::NoTable => "no unwind table",
            Self::NoMapping => "return address in no mapping",
            Self::NoRegisters => "no registers",
            Self::Damaged => "bad registers or unwind table",
        }
    }
}
