//! The bpf(2) system call, for commands that this crate calls itself instead of aya, and a check
//! whether this process may load programs.

use std::os::fd::{FromRawFd, OwnedFd};

use rustix::io::Errno;

/// Calls bpf(2) with a command of `enum bpf_cmd` and its part of `union bpf_attr`. The kernel may
/// write into the attribute, and takes missing fields as zero.
pub(super) fn bpf<T>(command: libc::c_int, attr: &mut T) -> Result<libc::c_int, Errno> {
    // SAFETY: the size is the attribute's. The memory that it points to, and the memory that this
    // points to in turn, outlives the call and has the sizes that the caller states; the kernel
    // writes plain integers.
    #[allow(unsafe_code)]
    let done =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>()) };
    if done < 0 {
        let error = std::io::Error::last_os_error().raw_os_error();
        return Err(error.map_or(Errno::IO, Errno::from_raw_os_error));
    }
    libc::c_int::try_from(done).map_err(|_| Errno::IO)
}

/// Calls bpf(2) with a command that returns a descriptor.
pub(crate) fn bpf_fd<T>(command: libc::c_int, attr: &mut T) -> Result<OwnedFd, Errno> {
    let fd = bpf(command, attr)?;
    // SAFETY: the kernel just returned this descriptor, and nothing else owns it.
    #[allow(unsafe_code)]
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `BPF_PROG_LOAD` of `enum bpf_cmd`, `include/uapi/linux/bpf.h`.
const BPF_PROG_LOAD: libc::c_int = 5;
/// `BPF_PROG_TYPE_TRACEPOINT` of `enum bpf_prog_type`.
const TRACEPOINT: u32 = 5;
/// `r0 = 0; exit`: `struct bpf_insn` is opcode, registers, 16-bit offset, 32-bit immediate.
const RETURN_0: [[u8; 8]; 2] = [[0xb7, 0, 0, 0, 0, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];

/// The first fields of `BPF_PROG_LOAD` in `union bpf_attr`; the kernel takes the rest as zero.
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

/// Loads a tracepoint program of two instructions and closes it again; it is never attached.
///
/// # Errors
/// `EPERM` without `CAP_BPF` and `CAP_PERFMON` (or `CAP_SYS_ADMIN`), or under a seccomp filter;
/// `ENOSYS` on a kernel without bpf(2).
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

    /// The kernel's layout: 48 bytes up to and including `prog_flags`.
    #[test]
    fn the_attribute_has_the_kernels_layout() {
        assert_eq!(size_of::<ProgLoad>(), 48);
        assert_eq!(std::mem::offset_of!(ProgLoad, log_buf), 32);
    }

    /// The kernel may refuse this process, but must not reject the program itself.
    #[test]
    fn the_program_is_accepted_or_forbidden() {
        assert!(
            matches!(try_load(), Ok(()) | Err(Errno::PERM | Errno::ACCESS | Errno::NOSYS)),
            "{:?}",
            try_load()
        );
    }
}
