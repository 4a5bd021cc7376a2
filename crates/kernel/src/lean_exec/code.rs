//! The instructions of a lean execve.
//!
//! They use registers, themselves and the region only. They unmap the gaps, reset the peak and
//! report that; a step that fails skips the rest of these. Then they execute the program, or the
//! shell for a script without `#!`, and if that fails, write the errno and exit.
// SAFETY: `global_asm` defines symbols that nothing else has. The instructions touch only what a
// `Launch` names, and make system calls that their caller vouches for.
#![allow(unsafe_code)]

use std::mem::offset_of;

/// Ranges that are kept: the code, the region and the thread's own data.
pub(super) const KEPT: usize = 3;

/// What the code reads, at the beginning of the region.
#[repr(C)]
pub(super) struct Launch {
    /// Start and length of the ranges to unmap; a length of 0 stands for none.
    pub(super) gaps: [[usize; 2]; KEPT + 1],
    /// Descriptor of `/proc/self/clear_refs`.
    pub(super) clear_refs: usize,
    /// Descriptor of the channel to this process.
    pub(super) channel: usize,
    pub(super) program: usize,
    pub(super) argv: usize,
    pub(super) environment: usize,
    pub(super) shell: usize,
    pub(super) shell_argv: usize,
    pub(super) errno: u32,
    pub(super) order: [u8; 2],
}

// SAFETY: the code below defines these, with these types.
unsafe extern "C" {
    pub(super) static tare_lean_exec_begin: u8;
    pub(super) static tare_lean_exec_end: u8;
    pub(super) fn tare_lean_exec(launch: *const Launch) -> !;
}

/// Assembles the code with the numbers that it uses: of system calls, and of places in a
/// [`Launch`].
macro_rules! assemble {
    ($($line:literal),* $(,)?) => {
        std::arch::global_asm!(
            $($line,)*
            munmap = const libc::SYS_munmap,
            write = const libc::SYS_write,
            execve = const libc::SYS_execve,
            exit_group = const libc::SYS_exit_group,
            enoexec = const libc::ENOEXEC,
            gaps_end = const (KEPT + 1) * 16,
            clear_refs = const offset_of!(Launch, clear_refs),
            channel = const offset_of!(Launch, channel),
            program = const offset_of!(Launch, program),
            argv = const offset_of!(Launch, argv),
            environment = const offset_of!(Launch, environment),
            shell = const offset_of!(Launch, shell),
            shell_argv = const offset_of!(Launch, shell_argv),
            errno = const offset_of!(Launch, errno),
            order = const offset_of!(Launch, order),
        );
    };
}

#[cfg(target_arch = "x86_64")]
assemble!(
    ".pushsection .text.tare_lean_exec, \"ax\", @progbits",
    ".globl tare_lean_exec, tare_lean_exec_begin, tare_lean_exec_end",
    ".hidden tare_lean_exec, tare_lean_exec_begin, tare_lean_exec_end",
    "tare_lean_exec_begin:",
    "tare_lean_exec:",
    "mov r12, rdi",
    "xor r13d, r13d",
    "2:",
    "mov rdi, [r12 + r13]",
    "mov rsi, [r12 + r13 + 8]",
    "test rsi, rsi",
    "jz 3f",
    "mov eax, {munmap}",
    "syscall",
    "test rax, rax",
    "jnz 4f",
    "3:",
    "add r13, 16",
    "cmp r13, {gaps_end}",
    "jb 2b",
    "mov rdi, [r12 + {clear_refs}]",
    "lea rsi, [r12 + {order}]",
    "mov edx, 1",
    "mov eax, {write}",
    "syscall",
    "cmp rax, 1",
    "jne 4f",
    "mov rdi, [r12 + {channel}]",
    "lea rsi, [r12 + {order} + 1]",
    "mov edx, 1",
    "mov eax, {write}",
    "syscall",
    "4:",
    "mov rdi, [r12 + {program}]",
    "mov rsi, [r12 + {argv}]",
    "mov rdx, [r12 + {environment}]",
    "mov eax, {execve}",
    "syscall",
    "cmp rax, -{enoexec}",
    "jne 5f",
    "mov rdi, [r12 + {shell}]",
    "mov rsi, [r12 + {shell_argv}]",
    "mov rdx, [r12 + {environment}]",
    "mov eax, {execve}",
    "syscall",
    "5:",
    "neg eax",
    "mov [r12 + {errno}], eax",
    "mov rdi, [r12 + {channel}]",
    "lea rsi, [r12 + {errno}]",
    "mov edx, 4",
    "mov eax, {write}",
    "syscall",
    "mov edi, 126",
    "mov eax, {exit_group}",
    "syscall",
    "ud2",
    "tare_lean_exec_end:",
    ".byte 0",
    ".popsection",
);

#[cfg(target_arch = "aarch64")]
assemble!(
    ".pushsection .text.tare_lean_exec, \"ax\", %progbits",
    ".globl tare_lean_exec, tare_lean_exec_begin, tare_lean_exec_end",
    ".hidden tare_lean_exec, tare_lean_exec_begin, tare_lean_exec_end",
    ".p2align 2",
    "tare_lean_exec_begin:",
    "tare_lean_exec:",
    "mov x19, x0",
    "mov x20, #0",
    "2:",
    "add x9, x19, x20",
    "ldp x0, x1, [x9]",
    "cbz x1, 3f",
    "mov x8, #{munmap}",
    "svc #0",
    "cbnz x0, 4f",
    "3:",
    "add x20, x20, #16",
    "cmp x20, #{gaps_end}",
    "b.lo 2b",
    "ldr x0, [x19, #{clear_refs}]",
    "add x1, x19, #{order}",
    "mov x2, #1",
    "mov x8, #{write}",
    "svc #0",
    "cmp x0, #1",
    "b.ne 4f",
    "ldr x0, [x19, #{channel}]",
    "add x1, x19, #{order} + 1",
    "mov x2, #1",
    "mov x8, #{write}",
    "svc #0",
    "4:",
    "ldr x0, [x19, #{program}]",
    "ldr x1, [x19, #{argv}]",
    "ldr x2, [x19, #{environment}]",
    "mov x8, #{execve}",
    "svc #0",
    "cmn x0, #{enoexec}",
    "b.ne 5f",
    "ldr x0, [x19, #{shell}]",
    "ldr x1, [x19, #{shell_argv}]",
    "ldr x2, [x19, #{environment}]",
    "mov x8, #{execve}",
    "svc #0",
    "5:",
    "neg w0, w0",
    "str w0, [x19, #{errno}]",
    "ldr x0, [x19, #{channel}]",
    "add x1, x19, #{errno}",
    "mov x2, #4",
    "mov x8, #{write}",
    "svc #0",
    "mov x0, #126",
    "mov x8, #{exit_group}",
    "svc #0",
    "udf #0",
    "tare_lean_exec_end:",
    ".4byte 0",
    ".popsection",
);
