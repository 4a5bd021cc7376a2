use super::*;
use crate::address_space::{AddressSpace, Mapping};
use crate::dso::{Dso, DsoId, DsoKind, DsoTable};
use crate::search::SymbolOptions;

const JIT: DsoKind = DsoKind::PerfMap { pid: 1 };
const START: u64 = 0x7fff_0000;

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// One mapping of code, and one of the stack.
struct Process {
    dsos: DsoTable,
    space: AddressSpace,
}

impl Process {
    fn new(kind: DsoKind, name: &[u8], pgoff: u64) -> Self {
        let mut dsos = DsoTable::default();
        let mut intern = |kind, name: &[u8]| -> DsoId {
            dsos.intern(Dso { kind, name: name.to_vec(), build_id: None }).unwrap()
        };
        let dso = intern(kind, name);
        let stack = intern(DsoKind::Anonymous, b"[stack]");
        let mut space = AddressSpace::default();
        space.add(Mapping { start: 0x1000, end: 0x9000, pgoff, dso });
        space.add(Mapping { start: START, end: START + 0x10000, pgoff: 0, dso: stack });
        Self { dsos, space }
    }

    fn unwind(
        &self,
        registers: &Registers,
        stack: &[u64],
        frame_pointers: &[u64],
    ) -> (UnwindEnd, usize, Vec<u64>) {
        let mut cache = UnwindCache::default();
        let mut addresses = Vec::new();
        let stack = Stack { registers, copy: &bytes(stack), frame_pointers };
        let unwinder = Unwinder::new(SymbolOptions::default());
        let (end, spliced) =
            unwinder.unwind(&mut cache, &self.dsos, &self.space, &stack, &mut addresses);
        (end, spliced, addresses)
    }
}

fn at(ip: u64, frame_pointer: u64) -> Registers {
    let mut general = [0; 16];
    (general[6], general[7]) = (frame_pointer, START);
    Registers::X86_64 { ip, general }
}

/// Unwinds a stack by frame pointers alone: the code is in no file.
fn unwound(stack: &[u64], frame_pointer: u64) -> (UnwindEnd, Vec<u64>) {
    let process = Process::new(JIT, b"/tmp/perf-1.map", 0);
    let (end, _, addresses) = process.unwind(&at(0x1000, frame_pointer), stack, &[]);
    (end, addresses)
}

#[test]
fn code_without_tables_is_unwound_by_its_frame_pointers() {
    let stack = [0, 0, START + 32, 0x2001, 0, 0x3001];
    let whole = (UnwindEnd::Whole, vec![0x1000, 0x2000, 0x3000]);
    assert_eq!(unwound(&stack, START + 16), whole);
    assert_eq!(unwound(&stack[..4], START + 16), (UnwindEnd::CopyEnded, whole.1[..2].to_vec()));
}

#[test]
fn damaged_stacks_end() {
    // A frame pointer that points to itself, backwards, out of the copy; callers that lie
    // nowhere.
    for (stack, frame_pointer, expected) in [
        (vec![START, 0x2001], START, UnwindEnd::NoTable),
        (vec![START + 16, 0x2001, START, 0x3001], START, UnwindEnd::NoTable),
        (vec![START + 16, 0x2001, START - 16, 0x3001], START, UnwindEnd::NoTable),
        (vec![u64::MAX, 0x2001], START, UnwindEnd::NoTable),
        (vec![START + 16, 0xffff_ffff_ffff_ffff], START, UnwindEnd::NoMapping),
        (vec![], u64::MAX - 7, UnwindEnd::Damaged),
    ] {
        let (end, addresses) = unwound(&stack, frame_pointer);
        assert!(end == expected && addresses.len() <= 4, "{stack:x?}: {end:?} {addresses:x?}");
    }
}

/// ```text
/// copy    ra(0x2001) fp      beyond it    ra ...
/// ```
#[test]
fn frame_pointers_go_on_where_the_copy_ended() {
    let process = Process::new(JIT, b"/tmp/perf-1.map", 0);
    let copy = [START + 32, 0x2001, 0, 0, START + 64, 0x3001, 0, 0];
    let chain = [0x1000, 0x2001, 0x3001, 0x4001, 0x5001];
    let (end, spliced, addresses) = process.unwind(&at(0x1000, START), &copy, &chain);
    assert_eq!((end, spliced), (UnwindEnd::CopyEnded, 2));
    assert_eq!(addresses, [0x1000, 0x2000, 0x3000, 0x4000, 0x5000]);
    // A chain that is of another stack has nothing to go on with.
    let other = [0x1000, 0x6001, 0x7001];
    let (_, spliced, addresses) = process.unwind(&at(0x1000, START), &copy, &other);
    assert_eq!((spliced, addresses), (0, vec![0x1000, 0x2000, 0x3000]));
    // Where no frame is in the copy, both know the last return address.
    let (end, spliced, addresses) = process.unwind(&at(0x1000, START), &[], &chain);
    assert_eq!((end, spliced), (UnwindEnd::CopyEnded, 4), "{addresses:x?}");
}

/// Code without a file that calls Python's interpreter has a word below its return address, and keeps
/// its caller's frame pointer or saves it there.
#[test]
fn trampolines_of_python_lead_to_the_interpreter() {
    let mut process = Process::new(JIT, b"/tmp/perf-1.map", 0);
    // It has no tables here, and keeps a frame pointer.
    let kind = DsoKind::PerfMap { pid: 2 };
    let name = b"/usr/lib/libpython3.13.so.1.0".to_vec();
    let interpreter = process.dsos.intern(Dso { kind, name, build_id: None }).unwrap();
    process.space.add(Mapping { start: 0x10000, end: 0x11000, pgoff: 0, dso: interpreter });
    let caller = [0, 0, 0, 0x3001];
    for (front, ip, frame_pointer) in [
        ([0x77, 0x10011], 0x1004, START + 32),
        ([START + 32, 0x10011], 0x1004, START),
        // At its first instruction, or at its last.
        ([0x10011, 0x77], 0x1000, START + 32),
    ] {
        let stack = [&front[..], &caller].concat();
        let (end, _, addresses) = process.unwind(&at(ip, frame_pointer), &stack, &[]);
        assert_eq!((end, addresses), (UnwindEnd::Whole, vec![ip, 0x10010, 0x3000]), "{stack:x?}");
    }
    // What is called by other code has its frame pointer.
    let stack = [START + 16, 0x2001, 0, 0x3001];
    let (end, _, addresses) = process.unwind(&at(0x1000, START), &stack, &[]);
    assert_eq!((end, addresses), (UnwindEnd::Whole, vec![0x1000, 0x2000, 0x3000]));
    assert_eq!(process.unwind(&at(0x1000, 3), &stack, &[]).0, UnwindEnd::NoTable);
}

/// A shared object from assembly, for x86-64; `None` where it can't be made here.
fn assembled(folder: &std::path::Path, text: &str) -> Option<std::path::PathBuf> {
    let source = folder.join("code.s");
    let path = folder.join("code.so");
    std::fs::write(&source, text).unwrap();
    let mut cc = std::process::Command::new("cc");
    let built = cc.args(["-shared", "-nostdlib", "-o"]).arg(&path).arg(&source).status();
    let can = cfg!(target_arch = "x86_64") && built.is_ok_and(|status| status.success());
    if !can {
        println!("skipped: no C compiler for x86_64");
    }
    can.then_some(path)
}

/// The code lies at 0x1000 in the file, as it does in what linkers make.
fn of_file(path: &std::path::Path) -> Process {
    Process::new(DsoKind::Elf, path.as_os_str().as_encoded_bytes(), 0x1000)
}

/// `DW_CFA_def_cfa_expression`, with a `DW_OP_skip` to itself and with one over nothing.
#[test]
fn an_expression_without_end_ends() {
    for (skip, expected) in [
        ("0xfd, 0xff", (UnwindEnd::Damaged, vec![0x1000])),
        ("0x00, 0x00, 0x77, 0x10", (UnwindEnd::CopyEnded, vec![0x1000, 0x2000])),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let length = 1 + skip.split(',').count();
        let text = format!(
            ".text\nf: .cfi_startproc\n.cfi_escape 0x0f, {length}, 0x2f, {skip}\n.cfi_offset 16, -8\nnop\nret\n.fill 0x3000, 1, 0x90\n.cfi_endproc\n"
        );
        let Some(path) = assembled(folder.path(), &text) else { return };
        let (end, _, addresses) = of_file(&path).unwind(&at(0x1000, 0), &[0, 0x2001], &[]);
        assert_eq!((end, addresses), expected);
    }
}

/// All registers that a function saved are its caller's again, also the one that a caller's frame
/// hangs on; a popped one is as it is.
#[test]
fn saved_registers_are_the_callers() {
    let text = "
.text
f: .cfi_startproc
.cfi_def_cfa_offset 16
.cfi_offset 3, -16
nop
.cfi_endproc
.balign 0x100
g: .cfi_startproc
.cfi_def_cfa 3, 24
nop
nop
.cfi_endproc
.balign 0x100
popped: .cfi_startproc
.cfi_offset 3, -16
nop
.cfi_endproc
.balign 0x100
last: .cfi_startproc
.cfi_undefined 16
nop
nop
.cfi_endproc
.balign 0x100
bare: nop
";
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = assembled(folder.path(), text) else { return };
    let process = of_file(&path);
    // f has saved rbx and returns to g, whose frame is at rbx.
    let stack = [START + 24, 0x1101, 0, 0, 0, 0x1301];
    let all = vec![0x1000, 0x1100, 0x1300];
    assert_eq!(process.unwind(&at(0x1000, 0), &stack, &[]), (UnwindEnd::Whole, 0, all));
    let mut popped = at(0x1200, 0);
    if let Registers::X86_64 { general, .. } = &mut popped {
        general[3] = START + 8;
    }
    let all = vec![0x1200, 0x1100, 0x1300];
    assert_eq!(process.unwind(&popped, &[0x1101, 0, 0, 0x1301], &[]), (UnwindEnd::Whole, 0, all));
    // What no entry describes is where it ends.
    let (end, _, addresses) = process.unwind(&at(0x1400, START), &stack, &[]);
    assert_eq!((end, addresses), (UnwindEnd::Assembly, vec![0x1400]));
}

/// A handler returns to a function that it wasn't called from, and what was interrupted is at its
/// first instruction.
#[test]
fn signal_frames_are_left_by_what_the_kernel_put_there() {
    let text = "
.text
f: .cfi_startproc
nop
nop
.cfi_endproc
.balign 0x100
back: mov $15, %rax
syscall
.balign 0x100
last: .cfi_startproc
.cfi_undefined 16
nop
nop
.cfi_endproc
";
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = assembled(folder.path(), text) else { return };
    let mut stack = vec![0x1100];
    stack.resize(40, 0);
    // The stack pointer is 8 bytes up: registers begin 40 bytes further.
    (stack[1 + 160 / 8], stack[1 + 168 / 8]) = (START + 8 * 39, 0x1000);
    stack[39] = 0x1201;
    let (end, _, addresses) = of_file(&path).unwind(&at(0x1000, 0), &stack, &[]);
    assert_eq!((end, addresses), (UnwindEnd::Whole, vec![0x1000, 0x10ff, 0x1000, 0x1200]));
}

/// Signed return addresses lose their signature, and the frame lies as the compiler puts it.
#[test]
fn aarch64_follows_its_link_register() {
    let process = Process::new(JIT, b"/tmp/perf-1.map", 0);
    let mut general = [0; 32];
    (general[29], general[30], general[31]) = (START, 0x2001, START);
    let registers = Registers::Aarch64 { pc: 0x1000, general };
    let stack = [START + 32, 0x00f3_0000_0000_2001, 0, 0, 0, 0x3001];
    let (end, _, addresses) = process.unwind(&registers, &stack, &[]);
    assert_eq!((end, addresses), (UnwindEnd::Whole, vec![0x1000, 0x2000, 0x3000]));
}
