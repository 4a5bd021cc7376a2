//! Lists the loaded programs and the addresses of their machine code.

use std::os::fd::{AsRawFd, OwnedFd};

use super::btf::FunctionNames;
use super::syscall::{bpf, bpf_fd};

// `enum bpf_cmd`, `include/uapi/linux/bpf.h`.
const PROG_GET_NEXT_ID: libc::c_int = 11;
const PROG_GET_FD_BY_ID: libc::c_int = 13;
const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const BTF_GET_FD_BY_ID: libc::c_int = 19;

/// Most programs that are listed.
const PROGRAMS: usize = 1 << 14;
/// Most functions that are listed of a program.
const FUNCTIONS: u32 = 1 << 12;

/// Most bytes that are read of a program's types.
const BTF_BYTES: u32 = 1 << 24;

/// Bytes of `struct bpf_func_info`: the offset of an instruction, and the type of its function.
const FUNC_INFO: u32 = 8;

/// A loaded program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedProgram {
    /// Its id, which no other loaded program has.
    pub id: u32,
    /// A hash of its instructions.
    pub tag: [u8; 8],
    /// Its functions with known addresses.
    pub functions: Vec<LoadedFunction>,
}

/// A function of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedFunction {
    /// Its name in `/proc/kallsyms`: `bpf_prog_TAG_NAME`.
    pub name: Vec<u8>,
    /// First address.
    pub start: u64,
    /// Size in bytes.
    pub len: u32,
}

/// `struct bpf_prog_info` of Linux 5.0. The kernel fills as many bytes as it is given.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ProgInfo {
    kind: u32,
    id: u32,
    tag: [u8; 8],
    jited_prog_len: u32,
    xlated_prog_len: u32,
    jited_prog_insns: u64,
    xlated_prog_insns: u64,
    load_time: u64,
    created_by_uid: u32,
    nr_map_ids: u32,
    map_ids: u64,
    name: [u8; 16],
    ifindex: u32,
    gpl_compatible: u32,
    netns_dev: u64,
    netns_ino: u64,
    nr_jited_ksyms: u32,
    nr_jited_func_lens: u32,
    jited_ksyms: u64,
    jited_func_lens: u64,
    btf_id: u32,
    func_info_rec_size: u32,
    func_info: u64,
    nr_func_info: u32,
    nr_line_info: u32,
    line_info: u64,
    jited_line_info: u64,
    nr_jited_line_info: u32,
    line_info_rec_size: u32,
    jited_line_info_rec_size: u32,
    nr_prog_tags: u32,
    prog_tags: u64,
}

/// `struct bpf_btf_info` up to `id`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct BtfInfo {
    btf: u64,
    btf_size: u32,
    id: u32,
}

/// The attribute of the commands that take an id.
#[repr(C)]
struct IdAttr {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

/// The attribute of `BPF_OBJ_GET_INFO_BY_FD`.
#[repr(C)]
struct InfoByFd {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

/// Returns the loaded programs, with five system calls or more for each. The list is empty without
/// `CAP_SYS_ADMIN`; programs that the kernel interprets have no functions.
#[must_use]
pub fn loaded_programs() -> Vec<LoadedProgram> {
    let mut programs = Vec::new();
    let mut at = IdAttr { id: 0, next_id: 0, open_flags: 0 };
    while programs.len() < PROGRAMS {
        // The kernel writes its answer into the attribute.
        if bpf(PROG_GET_NEXT_ID, &mut at).is_err() || at.next_id <= at.id {
            break;
        }
        at.id = at.next_id;
        // A program that was unloaded meanwhile is skipped.
        programs.extend(program(at.id));
    }
    programs
}

fn program(id: u32) -> Option<LoadedProgram> {
    let file = open(PROG_GET_FD_BY_ID, id)?;
    let mut sizes = ProgInfo::default();
    info(&file, &mut sizes)?;
    let count = sizes.nr_jited_ksyms.min(FUNCTIONS) as usize;
    let mut starts = vec![0_u64; count];
    let mut lens = vec![0_u32; count];
    let mut tags = vec![[0_u8; 8]; count];
    // Two words for each function; none if this kernel's records have another size.
    let mut types = vec![[0_u32; 2]; if sizes.func_info_rec_size == FUNC_INFO { count } else { 0 }];
    let number = |len: usize| u32::try_from(len).unwrap_or(0);
    let mut program = ProgInfo {
        nr_jited_ksyms: number(starts.len()),
        jited_ksyms: starts.as_mut_ptr().expose_provenance() as u64,
        nr_jited_func_lens: number(lens.len()),
        jited_func_lens: lens.as_mut_ptr().expose_provenance() as u64,
        nr_prog_tags: number(tags.len()),
        prog_tags: tags.as_mut_ptr().expose_provenance() as u64,
        nr_func_info: number(types.len()),
        func_info_rec_size: FUNC_INFO,
        func_info: types.as_mut_ptr().expose_provenance() as u64,
        ..ProgInfo::default()
    };
    info(&file, &mut program)?;
    let names = if program.btf_id == 0 { None } else { function_names(program.btf_id) };
    let own = program.name.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = |at: usize| {
        let of_type = types.get(at).and_then(|[_, kind]| names.as_ref()?.get(*kind));
        let name = of_type.unwrap_or(if at == 0 { own } else { b"F" });
        // The first function carries the whole program's tag, as in `/proc/kallsyms`.
        let tag = tare_format::hex(if at == 0 { &program.tag } else { &tags[at] });
        let parts: [&[u8]; 4] = [b"bpf_prog_", tag.as_bytes(), b"_", name];
        parts[..if name.is_empty() { 2 } else { 4 }].concat()
    };
    // The kernel reports zeros to users who may not see addresses.
    let known = (0..count).filter(|at| starts[*at] != 0 && lens[*at] != 0);
    let function = |at| LoadedFunction { name: name(at), start: starts[at], len: lens[at] };
    Some(LoadedProgram { id, tag: program.tag, functions: known.map(function).collect() })
}

/// Returns the function names in a program's types.
fn function_names(id: u32) -> Option<FunctionNames> {
    let file = open(BTF_GET_FD_BY_ID, id)?;
    let mut size = BtfInfo::default();
    info(&file, &mut size)?;
    let mut bytes = vec![0_u8; size.btf_size.min(BTF_BYTES) as usize];
    let mut types = BtfInfo {
        btf: bytes.as_mut_ptr().expose_provenance() as u64,
        btf_size: u32::try_from(bytes.len()).ok()?,
        id: 0,
    };
    info(&file, &mut types)?;
    FunctionNames::read(&bytes)
}

fn open(kind: libc::c_int, id: u32) -> Option<OwnedFd> {
    bpf_fd(kind, &mut IdAttr { id, next_id: 0, open_flags: 0 }).ok()
}

/// Reads the kernel's information on a program or on types into a structure, and into the arrays it
/// points to.
fn info<T>(file: &OwnedFd, into: &mut T) -> Option<()> {
    let mut attr = InfoByFd {
        bpf_fd: u32::try_from(file.as_raw_fd()).ok()?,
        info_len: u32::try_from(size_of::<T>()).ok()?,
        info: std::ptr::from_mut(into).expose_provenance() as u64,
    };
    bpf(OBJ_GET_INFO_BY_FD, &mut attr).ok().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of `bpf_prog_info` up to and including `prog_tags`, and of `bpf_btf_info` up to
    /// and including `id`.
    #[test]
    fn layouts_are_those_of_the_kernel() {
        assert_eq!((size_of::<ProgInfo>(), size_of::<BtfInfo>()), (192, 16));
        assert_eq!((size_of::<IdAttr>(), size_of::<InfoByFd>()), (12, 16));
        assert_eq!(std::mem::offset_of!(ProgInfo, jited_ksyms), 112);
        assert_eq!(std::mem::offset_of!(ProgInfo, func_info), 136);
    }
}
