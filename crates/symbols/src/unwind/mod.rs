//! Who called whom, from registers and a copy of the stack.

mod bounded;
mod dwarf;

pub use dwarf::Unwinder;

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
        /// The link register.
        lr: u64,
        /// The stack pointer.
        sp: u64,
        /// The frame pointer.
        fp: u64,
    },
}

impl Registers {
    /// The stack pointer.
    #[must_use]
    pub fn stack_pointer(&self) -> u64 {
        match self {
            Self::X86_64 { general, .. } => general[7],
            Self::Aarch64 { sp, .. } => *sp,
        }
    }
}

/// How far a stack was unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwound {
    /// To the thread's first function, or as far as was asked for.
    Complete,
    /// Not so far: the copy of the stack is too short, a file is gone or says nothing, or the stack
    /// is damaged.
    Incomplete,
}
