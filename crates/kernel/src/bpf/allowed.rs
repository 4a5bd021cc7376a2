//! Whether this process may load tracing programs with bpf(2).

use rustix::io::Errno;

use super::syscall::bpf_fd;

/// `BPF_PROG_LOAD` of `enum bpf_cmd`, `include/uapi/linux/bpf.h`.
const BPF_PROG_LOAD: libc::c_int = 5;
/// `BPF_PROG_TYPE_TRACEPOINT` of `enum bpf_prog_type`.
const TRACEPOINT: u32 = 5;
/// `r0 = 0; exit`: `struct bpf_insn` is opcode, registers, 16-bit offset, 32-bit immediate.
const RETURN_0: [[u8; 8]; 2] = [[0xb7, 0, 0, 0, 0, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];

/// The part of `union bpf_attr` that `BPF_PROG_LOAD` has had since it came; the kernel takes the
/// rest as zero.
#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
}

/// Loads a tracepoint program of two instructions, and lets go of it: it is attached to nothing.
///
/// # Errors
/// `EPERM` without `CAP_BPF` and `CAP_PERFMON` (or `CAP_SYS_ADMIN`), or where a seccomp filter
/// refuses; `ENOSYS` on a kernel without bpf(2).
pub fn try_load() -> Result<(), Errno> {
    let mut attr = ProgLoad {
        prog_type: TRACEPOINT,
        insn_cnt: 2,
        insns: RETURN_0.as_ptr().expose_provenance() as u64,
        license: c"GPL".as_ptr().expose_provenance() as u64,
        log_level: 0,
        log_size: 0,
        log_buf: 0,
        kern_version: 0,
        prog_flags: 0,
    };
    bpf_fd(BPF_PROG_LOAD, &mut attr).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layout is the kernel's: 48 bytes up to and with `prog_flags`.
    #[test]
    fn layout() {
        assert_eq!(size_of::<ProgLoad>(), 48);
        assert_eq!(std::mem::offset_of!(ProgLoad, log_buf), 32);
    }

    /// Only a refusal that is documented may come, never a complaint about the program itself.
    #[test]
    fn the_program_is_accepted_or_forbidden() {
        assert!(
            matches!(try_load(), Ok(()) | Err(Errno::PERM | Errno::ACCESS | Errno::NOSYS)),
            "{:?}",
            try_load()
        );
    }
}
