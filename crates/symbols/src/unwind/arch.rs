//! Properties of processors that unwinding needs. Registers have DWARF's numbers: System V psABI
//! for x86-64, figure 3.36; System V psABI for Intel386, table 2.14; DWARF for the Arm 64-bit
//! Architecture, section 4.1.

use object::elf;

/// A processor architecture.
#[derive(Debug)]
pub(super) struct Arch {
    pub(super) machine: elf::Machine,
    /// Bytes of an address and of a word on the stack.
    pub(super) word_bytes: u8,
    /// Number of registers tracked.
    pub(super) registers: usize,
    pub(super) stack_pointer: u8,
    pub(super) frame_pointer: u8,
    /// Register of the return address. Without a link register it stands for the instruction
    /// pointer, and calls push the return address on the stack.
    pub(super) return_address: u8,
    pub(super) has_link_register: bool,
    /// The instruction of a system call.
    pub(super) system_call: &'static [u8],
    /// Instructions that a signal handler returns to: the call of `rt_sigreturn(2)`.
    pub(super) signal_return: &'static [u8],
    /// Layout of the stack at these instructions.
    pub(super) signal_frame: SignalFrame,
    /// Bytes of a PLT stub up to the end of its push, and of the whole stub. `None` if stubs push
    /// nothing.
    pub(super) stub: Option<(u64, u64)>,
}

/// Where the kernel saves the interrupted registers, as offsets from the stack pointer in a call of
/// `rt_sigreturn(2)`, in bytes.
#[derive(Debug)]
pub(super) struct SignalFrame {
    /// Registers with their offsets.
    pub(super) registers: &'static [(u8, u16)],
    pub(super) pc: u16,
}

/// `struct rt_sigframe` without its return address: a `ucontext` whose machine context begins at 40
/// (`arch/x86/include/asm/sigframe.h`, `arch/x86/include/uapi/asm/sigcontext.h`).
const SIGNAL_FRAME_X86_64: SignalFrame = SignalFrame {
    registers: &[
        (8, 40),
        (9, 48),
        (10, 56),
        (11, 64),
        (12, 72),
        (13, 80),
        (14, 88),
        (15, 96),
        (5, 104),
        (4, 112),
        (6, 120),
        (3, 128),
        (1, 136),
        (0, 144),
        (2, 152),
        (7, 160),
    ],
    pc: 168,
};

/// `struct rt_sigframe_ia32` without its return address: three words, `siginfo` with 128 bytes, and
/// a `ucontext` whose machine context begins at 20 (`arch/x86/include/asm/sigframe.h`,
/// `arch/x86/include/uapi/asm/sigcontext.h`).
const SIGNAL_FRAME_X86: SignalFrame = SignalFrame {
    registers: &[(7, 176), (6, 180), (5, 184), (4, 188), (3, 192), (2, 196), (1, 200), (0, 204)],
    pc: 216,
};

/// `struct rt_sigframe`: `siginfo` with 128 bytes, and a `ucontext` whose machine context begins at
/// 176 (`arch/arm64/kernel/signal.c`, `arch/arm64/include/uapi/asm/ucontext.h`); there an address
/// comes before the registers.
const SIGNAL_FRAME_AARCH64: SignalFrame = SignalFrame {
    registers: &{
        let mut registers = [(0, 0); 32];
        let mut register = 0;
        while register < 32 {
            registers[register as usize] = (register, 128 + 176 + 8 + 8 * register as u16);
            register += 1;
        }
        registers
    },
    pc: 128 + 176 + 8 + 8 * 32,
};

/// Whether code begins with the instructions that a signal handler returns to.
pub(crate) fn is_signal_return(code: &[u8]) -> bool {
    [&X86_64, &X86, &AARCH64].iter().any(|arch| code.starts_with(arch.signal_return))
}

pub(super) const X86_64: Arch = Arch {
    machine: elf::EM_X86_64,
    word_bytes: 8,
    registers: 17,
    stack_pointer: 7,
    frame_pointer: 6,
    return_address: 16,
    has_link_register: false,
    // syscall
    system_call: &[0x0f, 0x05],
    // mov $15, %rax; syscall
    signal_return: &[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05],
    signal_frame: SIGNAL_FRAME_X86_64,
    // jmp *GOT; push; jmp to the first stub
    stub: Some((11, 16)),
};

/// x86 with 32 bits.
pub(super) const X86: Arch = Arch {
    machine: elf::EM_386,
    word_bytes: 4,
    registers: 9,
    stack_pointer: 4,
    frame_pointer: 5,
    return_address: 8,
    has_link_register: false,
    // int $0x80
    system_call: &[0xcd, 0x80],
    // mov $173, %eax; int $0x80
    signal_return: &[0xb8, 0xad, 0, 0, 0, 0xcd, 0x80],
    signal_frame: SIGNAL_FRAME_X86,
    stub: Some((11, 16)),
};

pub(super) const AARCH64: Arch = Arch {
    machine: elf::EM_AARCH64,
    word_bytes: 8,
    registers: 32,
    stack_pointer: 31,
    frame_pointer: 29,
    return_address: 30,
    has_link_register: true,
    // svc #0
    system_call: &[0x01, 0, 0, 0xd4],
    // mov x8, #139; svc #0
    signal_return: &[0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4],
    signal_frame: SIGNAL_FRAME_AARCH64,
    stub: None,
};
