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
