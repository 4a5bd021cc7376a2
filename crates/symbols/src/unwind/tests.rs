use super::*;
use crate::address_space::{AddressSpace, Mapping};
use crate::dso::{Dso, DsoAddress, DsoId, DsoKind, DsoTable};
use crate::search::SymbolOptions;

const JIT: DsoKind = DsoKind::PerfMap { pid: 1 };
const START: u64 = 0x7fff_0000;

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// One mapping of code, and one of the stack.
struct TestProcess {
    dsos: DsoTable,
    space: AddressSpace,
}

impl TestProcess {
    fn new(kind: DsoKind, name: &[u8], pgoff: u64) -> Self {
        let mut dsos = DsoTable::default();
        let mut intern = |kind, name: &[u8]| -> DsoId {
            dsos.intern(Dso { kind, name: name.to_vec(), build_id: None }).unwrap()
        };
        let dso = intern(kind, name);
        let stack = intern(DsoKind::Anonymous, b"[stack]");
        let mut space = AddressSpace::default();
        space.add(Mapping { start: 0x1000, end: 0x9000, pgoff, dso, is_code: true });
        space.add(Mapping {
            start: START,
            end: START + 0x10000,
            pgoff: 0,
            dso: stack,
            is_code: false,
        });
        Self { dsos, space }
    }

    fn unwind(
        &self,
        registers: &Registers,
        stack: &[u64],
        frame_pointers: &[u64],
    ) -> (UnwindOutcome, usize, Vec<u64>) {
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
fn unwound(stack: &[u64], frame_pointer: u64) -> (UnwindOutcome, Vec<u64>) {
    let process = TestProcess::new(JIT, b"/tmp/perf-1.map", 0);
    let (end, _, addresses) = process.unwind(&at(0x1000, frame_pointer), stack, &[]);
    (end, addresses)
}

#[test]
fn unwinds_code_without_tables_by_frame_pointers() {
    let stack = [0, 0, START + 32, 0x2001, 0, 0x3001];
    let whole = (UnwindOutcome::Whole, vec![0x1000, 0x2000, 0x3000]);
    assert_eq!(unwound(&stack, START + 16), whole);
    assert_eq!(unwound(&stack[..4], START + 16), (UnwindOutcome::CopyEnded, whole.1[..2].to_vec()));
}

/// A page of the stack that was swapped out.
#[test]
fn stops_at_memory_that_could_not_be_read() {
    let unread = u64::from_ne_bytes([crate::UNREAD_BYTE; 8]);
    let stack = [0, 0, START + 32, 0x2001, unread, unread, 0, 0x3001];
    let truncated = (UnwindOutcome::CopyEnded, vec![0x1000, 0x2000]);
    assert_eq!(unwound(&stack, START + 16), truncated);
    // Elsewhere, it is never read.
    let stack = [unread, unread, START + 48, 0x2001, unread, unread, 0, 0x3001];
    let whole = (UnwindOutcome::Whole, vec![0x1000, 0x2000, 0x3000]);
    assert_eq!(unwound(&stack, START + 16), whole);
}

#[test]
fn stops_at_damaged_stacks() {
    // Frame pointers that point to themselves, backwards or out of the copy; callers in no mapping.
    for (stack, frame_pointer, expected) in [
        (vec![START, 0x2001], START, UnwindOutcome::NoTable),
        (vec![START + 16, 0x2001, START, 0x3001], START, UnwindOutcome::NoTable),
        (vec![START + 16, 0x2001, START - 16, 0x3001], START, UnwindOutcome::NoTable),
        (vec![u64::MAX, 0x2001], START, UnwindOutcome::NoTable),
        (vec![START + 16, 0xffff_ffff_ffff_fffe], START, UnwindOutcome::NoMapping),
        (vec![], u64::MAX - 7, UnwindOutcome::Damaged),
    ] {
        let (end, addresses) = unwound(&stack, frame_pointer);
        assert!(end == expected && addresses.len() <= 4, "{stack:x?}: {end:?} {addresses:x?}");
    }
}

/// The copy has two frames, and the chain two more callers.
#[test]
fn continues_with_the_frame_pointer_chain_after_the_copy() {
    let process = TestProcess::new(JIT, b"/tmp/perf-1.map", 0);
    let copy = [START + 32, 0x2001, 0, 0, START + 64, 0x3001, 0, 0];
    let chain = [0x1000, 0x2001, 0x3001, 0x4001, 0x5001];
    let (end, spliced, addresses) = process.unwind(&at(0x1000, START), &copy, &chain);
    assert_eq!((end, spliced), (UnwindOutcome::CopyEnded, 2));
    assert_eq!(addresses, [0x1000, 0x2000, 0x3000, 0x4000, 0x5000]);
    // The chain of another stack doesn't continue this one.
    let other = [0x1000, 0x6001, 0x7001];
    let (_, spliced, addresses) = process.unwind(&at(0x1000, START), &copy, &other);
    assert_eq!((spliced, addresses), (0, vec![0x1000, 0x2000, 0x3000]));
    // With an empty copy, all callers come from the chain.
    let (end, spliced, addresses) = process.unwind(&at(0x1000, START), &[], &chain);
    assert_eq!((end, spliced), (UnwindOutcome::CopyEnded, 4), "{addresses:x?}");
}

/// A trampoline has a word below its return address. It leaves its caller's frame pointer in the
/// register or saves it there.
#[test]
fn steps_out_of_python_trampolines() {
    let mut process = TestProcess::new(JIT, b"/tmp/perf-1.map", 0);
    // The interpreter has no tables here, and keeps a frame pointer.
    let kind = DsoKind::PerfMap { pid: 2 };
    let name = b"/usr/lib/libpython3.13.so.1.0".to_vec();
    let interpreter = process.dsos.intern(Dso { kind, name, build_id: None }).unwrap();
    process.space.add(Mapping {
        start: 0x10000,
        end: 0x11000,
        pgoff: 0,
        dso: interpreter,
        is_code: true,
    });
    let caller = [0, 0, 0, 0x3001];
    for (front, ip, frame_pointer) in [
        ([0x77, 0x10011], 0x1004, START + 32),
        ([START + 32, 0x10011], 0x1004, START),
        // At its first instruction, or at its last.
        ([0x10011, 0x77], 0x1000, START + 32),
    ] {
        let stack = [&front[..], &caller].concat();
        let (end, _, addresses) = process.unwind(&at(ip, frame_pointer), &stack, &[]);
        assert_eq!(
            (end, addresses),
            (UnwindOutcome::Whole, vec![ip, 0x10010, 0x3000]),
            "{stack:x?}"
        );
    }
    // Other code needs a frame pointer.
    let stack = [START + 16, 0x2001, 0, 0x3001];
    let (end, _, addresses) = process.unwind(&at(0x1000, START), &stack, &[]);
    assert_eq!((end, addresses), (UnwindOutcome::Whole, vec![0x1000, 0x2000, 0x3000]));
    assert_eq!(process.unwind(&at(0x1000, 3), &stack, &[]).0, UnwindOutcome::NoTable);
}

/// Assembles a shared object for x86-64; `None` if that isn't possible here.
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

/// A process that maps the code of a file; linkers put it at offset 0x1000.
fn process_of(path: &std::path::Path) -> TestProcess {
    TestProcess::new(DsoKind::Elf, path.as_os_str().as_encoded_bytes(), 0x1000)
}

/// `DW_CFA_def_cfa_expression`, with a `DW_OP_skip` to itself and with one over nothing.
#[test]
fn bounds_endless_expressions() {
    for (skip, expected) in [
        ("0xfd, 0xff", (UnwindOutcome::Damaged, vec![0x1000])),
        ("0x00, 0x00, 0x77, 0x10", (UnwindOutcome::CopyEnded, vec![0x1000, 0x2000])),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let length = 1 + skip.split(',').count();
        let text = format!(
            ".text\nf: .cfi_startproc\n.cfi_escape 0x0f, {length}, 0x2f, {skip}\n.cfi_offset 16, -8\nnop\nret\n.fill 0x3000, 1, 0x90\n.cfi_endproc\n"
        );
        let Some(path) = assembled(folder.path(), &text) else { return };
        let (end, _, addresses) = process_of(&path).unwind(&at(0x1000, 0), &[0, 0x2001], &[]);
        assert_eq!((end, addresses), expected);
    }
}

/// A register saved below the stack pointer was popped, and keeps its value.
#[test]
fn restores_saved_registers() {
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
    let process = process_of(&path);
    // f has saved rbx and returns to g, whose frame is at rbx.
    let stack = [START + 24, 0x1101, 0, 0, 0, 0x1301];
    let all = vec![0x1000, 0x1100, 0x1300];
    assert_eq!(process.unwind(&at(0x1000, 0), &stack, &[]), (UnwindOutcome::Whole, 0, all));
    let mut popped = at(0x1200, 0);
    if let Registers::X86_64 { general, .. } = &mut popped {
        general[3] = START + 8;
    }
    let all = vec![0x1200, 0x1100, 0x1300];
    assert_eq!(
        process.unwind(&popped, &[0x1101, 0, 0, 0x1301], &[]),
        (UnwindOutcome::Whole, 0, all)
    );
    // Unwinding ends at code without an entry.
    let (end, _, addresses) = process.unwind(&at(0x1400, START), &stack, &[]);
    assert_eq!((end, addresses), (UnwindOutcome::Assembly, vec![0x1400]));
}

/// The handler returns to a function that didn't call it, and the signal interrupted a function at
/// its first instruction.
#[test]
fn steps_out_of_signal_frames() {
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
    let (end, _, addresses) = process_of(&path).unwind(&at(0x1000, 0), &stack, &[]);
    assert_eq!((end, addresses), (UnwindOutcome::Whole, vec![0x1000, 0x1100, 0x1000, 0x1200]));
}

/// The first caller switched stacks: a word of data follows its frame in the copy, and the chain
/// has its callers.
#[test]
fn continues_at_the_frame_pointer_where_the_caller_is_not_code() {
    let process = TestProcess::new(JIT, b"/tmp/perf-1.map", 0);
    let copy = [START + 32, 0x2001, 0, 0, START + 0x8000, START + 0x100];
    let chain = [0x1000, 0x2001, 0x3001, 0x4001, START];
    let (end, spliced, addresses) = process.unwind(&at(0x1000, START), &copy, &chain);
    assert_eq!(addresses, [0x1000, 0x2000, 0x3000, 0x4000], "the stack isn't code");
    assert_eq!((end, spliced), (UnwindOutcome::NoMapping, 2));
}

#[test]
fn removes_signatures_of_return_addresses_on_aarch64() {
    let process = TestProcess::new(JIT, b"/tmp/perf-1.map", 0);
    let mut general = [0; 32];
    (general[29], general[30], general[31]) = (START, 0x2001, START);
    let registers = Registers::Aarch64 { pc: 0x1000, general };
    let stack = [START + 32, 0x00f3_0000_0000_2001, 0, 0, 0, 0x3001];
    let (end, _, addresses) = process.unwind(&registers, &stack, &[]);
    assert_eq!((end, addresses), (UnwindOutcome::Whole, vec![0x1000, 0x2000, 0x3000]));
}

#[test]
fn the_least_recently_used_tables_are_dropped_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut dsos = DsoTable::default();
    let [first, second] = ["first", "second"].map(|name| {
        let path = folder.path().join(name);
        std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &path).unwrap();
        let name = path.into_os_string().into_encoded_bytes();
        dsos.intern(Dso { kind: DsoKind::Elf, name, build_id: None }).unwrap()
    });
    let mut unwinder = Unwinder::new(SymbolOptions::default());
    // Looking up any address loads the tables.
    let load = |unwinder: &Unwinder, dso| {
        let at = DsoAddress { dso, address: 0 };
        unwinder.keeps_frame_pointer(&mut UnwindCache::default(), &dsos, at);
        unwinder.bytes()
    };
    let one = load(&unwinder, first);
    assert!(one > 0);
    assert_eq!([load(&unwinder, second), load(&unwinder, first)], [2 * one; 2]);
    unwinder.drop_unused(2 * one);
    assert_eq!(unwinder.bytes(), 2 * one, "nothing is dropped below the limit");
    unwinder.drop_unused(2 * one - 1);
    assert_eq!(unwinder.bytes(), one);
    assert_eq!(load(&unwinder, first), one, "the second one was dropped");
    assert_eq!(load(&unwinder, second), 2 * one);
    let renumbering = dsos.clone().retain(|dso| dso == second);
    unwinder.renumber(&renumbering);
    assert_eq!(unwinder.bytes(), one);
    let mut left = dsos.clone();
    let now = left.retain(|dso| dso == second).get(second).unwrap();
    let at = DsoAddress { dso: now, address: 0 };
    unwinder.keeps_frame_pointer(&mut UnwindCache::default(), &left, at);
    assert_eq!(unwinder.bytes(), one, "the tables have the new number");
}
