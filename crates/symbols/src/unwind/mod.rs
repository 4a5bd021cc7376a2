//! Who called whom, from registers and a copy of the stack: by the tables of call frames (DWARF 5,
//! section 6.4) that ELF files have; in code without a file by frame pointers.
//!
//! ```text
//! address --AddressSpace--> DSO, offset in it --Segments--> its own address --Tables--> row --Frame::step--> the caller's registers
//! ```
//! Each DSO's tables are read once, for all threads, and asked in its own addresses: where processes have it mapped
//! doesn't matter. Rows are kept by each thread for itself ([`UnwindCache`]).

mod arch;
mod frame;
mod row;
mod splice;
mod tables;
mod unwinder;

#[cfg(test)]
mod tests;

pub use unwinder::{UnwindCache, Unwinder};

/// The registers of a thread in user mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registers {
    /// x86 with 64 bits.
    X86_64 {
        /// Where the CPU was.
        ip: u64,
        /// The others in the order of DWARF's numbers: AX, DX, CX, BX, SI, DI, BP, SP, R8 to R15
        /// (System V psABI for x86-64, figure 3.36).
        general: [u64; 16],
    },
    /// ARM with 64 bits.
    Aarch64 {
        /// Where the CPU was.
        pc: u64,
        /// X0 to X30, and the stack pointer.
        general: [u64; 32],
    },
}

impl Registers {
    /// By perf's numbers (`arch/*/include/uapi/asm/perf_regs.h`), of a thread of 64 bits; `None` where
    /// not all were recorded that unwinding needs. The numbers tell the machine: an instruction
    /// pointer is 8 on x86 and 32 on ARM, and user registers of x86 end before 32.
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

    /// The stack pointer.
    #[must_use]
    pub fn stack_pointer(&self) -> u64 {
        match self {
            Self::X86_64 { general, .. } => general[7],
            Self::Aarch64 { general, .. } => general[31],
        }
    }
}

/// A stack to be unwound.
#[derive(Clone, Copy, Debug)]
pub struct Stack<'a> {
    /// The thread's registers.
    pub registers: &'a Registers,
    /// The memory from the stack pointer on.
    pub copy: &'a [u8],
    /// What following the frame pointers found, where that was recorded too: where the CPU was, and
    /// return addresses. It takes the place of callers that the copy doesn't tell.
    pub frame_pointers: &'a [u64],
}

/// How far a stack was unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UnwindEnd {
    /// To the thread's first function.
    Whole,
    /// Truncated: the copy ended.
    CopyEnded,
    /// Truncated: it goes on on another stack than the one that was copied, as with
    /// `sigaltstack(2)`.
    OtherStack,
    /// Truncated: a file has tables of call frames, and none for this code: hand-written assembly.
    Assembly,
    /// Truncated: [`crate::limits::FRAMES`] were found.
    TooDeep,
    /// Failed: the file isn't there, isn't the one that was recorded, or can't be read.
    NoBinary,
    /// Failed: code without tables of call frames, and its frame pointers lead nowhere.
    NoTable,
    /// Failed: a return address lies in nothing that was mapped.
    NoMapping,
    /// Failed: the sample has not the registers that it takes.
    NoRegisters,
    /// Failed: registers and tables don't fit together, or either is damaged.
    Damaged,
}

impl UnwindEnd {
    /// All there are.
    pub const ALL: [Self; 10] = [
        Self::Whole,
        Self::CopyEnded,
        Self::OtherStack,
        Self::Assembly,
        Self::TooDeep,
        Self::NoBinary,
        Self::NoTable,
        Self::NoMapping,
        Self::NoRegisters,
        Self::Damaged,
    ];

    /// It has its inner frames, and they end for a reason that isn't a failure.
    #[must_use]
    pub const fn is_truncated(self) -> bool {
        matches!(self, Self::CopyEnded | Self::OtherStack | Self::Assembly | Self::TooDeep)
    }

    /// Why it isn't whole, in words.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::CopyEnded => "the copy ended",
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
