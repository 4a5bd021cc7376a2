//! The bpf(2) system call, for commands that this crate calls itself instead of aya, and a check
//! whether this process may load programs.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use aya_obj::generated::bpf_func_info;
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

// Of `enum bpf_cmd`, `include/uapi/linux/bpf.h`.
const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_BTF_LOAD: libc::c_int = 18;
const BPF_MAP_FREEZE: libc::c_int = 22;
// Of `enum bpf_prog_type`.
const TRACEPOINT: u32 = 5;
const PERF_EVENT: u32 = 7;
/// `r0 = 0; exit`: `struct bpf_insn` is opcode, registers, 16-bit offset, 32-bit immediate.
const RETURN_0: [[u8; 8]; 2] = [[0xb7, 0, 0, 0, 0, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];

/// The first fields of `BPF_PROG_LOAD` in `union bpf_attr`; the kernel takes the rest as zero.
#[repr(C)]
#[derive(Default)]
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
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
}

/// Bytes of `struct bpf_func_info`.
const FUNCTION_BYTES: u32 = 8;

/// The parts of a program. An instruction `I` has eight bytes.
pub(super) struct ProgramParts<'a, I> {
    pub(super) name: &'a str,
    pub(super) instructions: &'a [I],
    pub(super) license: &'a CStr,
    /// BTF of the program, from [`load_types`].
    pub(super) types: Option<BorrowedFd<'a>>,
    /// The types of its functions.
    pub(super) functions: &'a [bpf_func_info],
}

fn address_of<T>(values: &[T]) -> u64 {
    values.as_ptr().expose_provenance() as u64
}

fn length<T>(values: &[T]) -> Result<u32, Errno> {
    u32::try_from(values.len()).map_err(|_| Errno::TOOBIG)
}

fn number(file: BorrowedFd<'_>) -> Result<u32, Errno> {
    u32::try_from(file.as_raw_fd()).map_err(|_| Errno::BADF)
}

/// Loads a program for perf events.
///
/// # Errors
/// The errors of `BPF_PROG_LOAD`: `EINVAL` if the verifier rejects the program.
pub(super) fn load_perf_event<I>(parts: &ProgramParts<'_, I>) -> Result<OwnedFd, Errno> {
    let ProgramParts { name, instructions, license, types, functions } = *parts;
    let mut attr = ProgLoad {
        prog_type: PERF_EVENT,
        insn_cnt: length(instructions)?,
        insns: address_of(instructions),
        license: license.as_ptr().expose_provenance() as u64,
        ..ProgLoad::default()
    };
    // The last byte stays zero.
    attr.prog_name.iter_mut().zip(name.bytes()).take(15).for_each(|(to, byte)| *to = byte);
    if let Some(types) = types {
        attr.prog_btf_fd = number(types)?;
        attr.func_info_rec_size = FUNCTION_BYTES;
        attr.func_info = address_of(functions);
        attr.func_info_cnt = length(functions)?;
    }
    bpf_fd(BPF_PROG_LOAD, &mut attr)
}

/// The first fields of `BPF_BTF_LOAD`.
#[repr(C)]
struct BtfLoad {
    btf: u64,
    btf_log_buf: u64,
    btf_size: u32,
    btf_log_size: u32,
    btf_log_level: u32,
}

/// Loads the BTF of a program.
///
/// # Errors
/// The errors of `BPF_BTF_LOAD`.
pub(super) fn load_types(types: &[u8]) -> Result<OwnedFd, Errno> {
    let mut attr = BtfLoad {
        btf: address_of(types),
        btf_log_buf: 0,
        btf_size: length(types)?,
        btf_log_size: 0,
        btf_log_level: 0,
    };
    bpf_fd(BPF_BTF_LOAD, &mut attr)
}

/// The fields of `BPF_MAP_UPDATE_ELEM`.
#[repr(C)]
struct MapUpdate {
    map_fd: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Sets the first entry of an array.
///
/// # Errors
/// The errors of `BPF_MAP_UPDATE_ELEM`.
pub(super) fn set_first(map: BorrowedFd<'_>, value: &[u8]) -> Result<(), Errno> {
    let key = [0_u32];
    let map_fd = number(map)?;
    let mut attr = MapUpdate { map_fd, key: address_of(&key), value: address_of(value), flags: 0 };
    bpf(BPF_MAP_UPDATE_ELEM, &mut attr).map(drop)
}

/// Makes a map constant.
///
/// # Errors
/// The errors of `BPF_MAP_FREEZE`.
pub(super) fn freeze(map: BorrowedFd<'_>) -> Result<(), Errno> {
    bpf(BPF_MAP_FREEZE, &mut number(map)?).map(drop)
}

/// `BPF_MAP_TYPE_PROG_ARRAY` of `enum bpf_map_type`.
const PROGRAM_ARRAY: u32 = 3;

/// The first fields of `BPF_MAP_CREATE`.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

/// A program for perf events that runs another one, once that is set.
#[derive(Debug)]
pub(super) struct ProgramSlot {
    /// Closing it empties the slot (`map_release_uref` of program arrays).
    array: OwnedFd,
    program: OwnedFd,
}

impl ProgramSlot {
    /// Loads the program, with an empty slot.
    ///
    /// # Errors
    /// `EPERM` without `CAP_BPF` and `CAP_PERFMON` (or `CAP_SYS_ADMIN`), or under a seccomp filter;
    /// `ENOSYS` on a kernel without bpf(2).
    pub(super) fn new(name: &str) -> Result<Self, Errno> {
        let mut attr = MapCreate {
            map_type: PROGRAM_ARRAY,
            key_size: 4,
            value_size: 4,
            max_entries: 1,
            map_flags: 0,
        };
        let array = bpf_fd(BPF_MAP_CREATE, &mut attr)?;
        let [a, b, c, d] = number(array.as_fd())?.to_ne_bytes();
        let instructions: [[u8; 8]; 6] = [
            [0x18, 0x12, 0, 0, a, b, c, d], // r2 = the array
            [0; 8],
            [0xb7, 3, 0, 0, 0, 0, 0, 0],  // r3 = 0
            [0x85, 0, 0, 0, 12, 0, 0, 0], // bpf_tail_call(r1, r2, r3), which returns if it fails
            [0xb7, 0, 0, 0, 1, 0, 0, 0],  // r0 = 1: the sample is taken
            [0x95, 0, 0, 0, 0, 0, 0, 0],  // exit
        ];
        let instructions = &instructions[..];
        let parts =
            ProgramParts { name, instructions, license: c"GPL", types: None, functions: &[] };
        Ok(Self { program: load_perf_event(&parts)?, array })
    }

    pub(super) fn program(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    /// Makes the program run another one.
    ///
    /// # Errors
    /// The errors of `BPF_MAP_UPDATE_ELEM`.
    pub(super) fn set(&self, program: BorrowedFd<'_>) -> Result<(), Errno> {
        set_first(self.array.as_fd(), &number(program)?.to_ne_bytes())
    }
}

/// Loads a tracepoint program of two instructions and closes it again; it is never attached.
///
/// # Errors
/// `EPERM` without `CAP_BPF` and `CAP_PERFMON` (or `CAP_SYS_ADMIN`), or under a seccomp filter;
/// `ENOSYS` on a kernel without bpf(2).
pub fn try_load() -> Result<(), Errno> {
    let mut attr = ProgLoad {
        prog_type: TRACEPOINT,
        insn_cnt: length(&RETURN_0)?,
        insns: address_of(&RETURN_0),
        license: c"GPL".as_ptr().expose_provenance() as u64,
        ..ProgLoad::default()
    };
    bpf_fd(BPF_PROG_LOAD, &mut attr).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's layout: 96 bytes up to and including `line_info_rec_size`.
    #[test]
    fn the_attribute_has_the_kernels_layout() {
        assert_eq!((size_of::<ProgLoad>(), std::mem::offset_of!(ProgLoad, func_info)), (96, 80));
        assert_eq!(size_of::<bpf_func_info>(), FUNCTION_BYTES as usize);
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
