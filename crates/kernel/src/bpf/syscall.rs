//! bpf(2) itself, for what the loader has no call for.

use std::os::fd::{FromRawFd, OwnedFd};

use rustix::io::Errno;

/// Calls bpf(2) with a command of `enum bpf_cmd` and its part of `union bpf_attr`, into which the
/// kernel may answer; what isn't given it takes as zero.
pub(super) fn bpf<T>(command: libc::c_int, attr: &mut T) -> Result<libc::c_int, Errno> {
    // SAFETY: the attribute is as long as is said. What it points to, and what that points to, is
    // alive in the caller and as long as is said there; the kernel writes plain numbers.
    #[allow(unsafe_code)]
    let done =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>()) };
    if done < 0 {
        let error = std::io::Error::last_os_error().raw_os_error();
        return Err(error.map_or(Errno::IO, Errno::from_raw_os_error));
    }
    libc::c_int::try_from(done).map_err(|_| Errno::IO)
}

/// The same for a command that answers with a descriptor.
pub(crate) fn bpf_fd<T>(command: libc::c_int, attr: &mut T) -> Result<OwnedFd, Errno> {
    let fd = bpf(command, attr)?;
    // SAFETY: the kernel just returned this descriptor, and nobody else knows it.
    #[allow(unsafe_code)]
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

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
