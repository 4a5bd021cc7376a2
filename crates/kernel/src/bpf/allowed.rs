//! Whether this process may load tracing programs with bpf(2).

use rustix::io::Errno;

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
    let attr = ProgLoad {
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
    // SAFETY: the attribute is as long as is said, and the instructions and the licence that it
    // points to are statics; the kernel writes nothing, as it was given no log.
    #[allow(unsafe_code)]
    let fd = unsafe {
        libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const attr, size_of::<ProgLoad>())
    };
    if fd < 0 {
        return Err(std::io::Error::last_os_error()
            .raw_os_error()
            .map_or(Errno::IO, Errno::from_raw_os_error));
    }
    // SAFETY: the kernel just returned this descriptor, and nobody else knows it.
    #[allow(unsafe_code)]
    let owned = unsafe {
        <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(
            i32::try_from(fd).map_err(|_| Errno::BADF)?,
        )
    };
    drop(owned);
    Ok(())
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
