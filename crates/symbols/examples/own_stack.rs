//! Unwinds this thread's own stack: takes its registers and a copy of its stack, and prints the
//! function of each frame, innermost first, and how unwinding ended.

use std::arch::asm;
use std::error::Error;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write;
use std::os::unix::fs::FileExt;

use tare_symbols::{
    AddressSpace, Dso, DsoKind, DsoTable, Mapping, Registers, Stack, SymbolOptions, Symbolizer,
    UnwindCache, Unwinder,
};

/// Bytes of stack to copy at most.
const COPY_BYTES: u64 = 64 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    outer(3)
}

#[inline(never)]
fn outer(depth: u32) -> Result<(), Box<dyn Error>> {
    // Reading the result keeps this a call with a frame.
    black_box(match depth {
        0 => print_chain(),
        _ => outer(depth - 1),
    })
}

#[inline(never)]
fn print_chain() -> Result<(), Box<dyn Error>> {
    let mut dsos = DsoTable::default();
    let space = own_mappings(&mut dsos)?;
    let snapshot = Snapshot::take(&space)?;
    let unwinder = Unwinder::new(SymbolOptions::default());
    let mut cache = UnwindCache::default();
    let stack = Stack { registers: &snapshot.registers, copy: &snapshot.copy, frame_pointers: &[] };
    let chain = unwinder.call_chain(&mut cache, &dsos, &space, &stack);
    let symbolizer = Symbolizer::new(SymbolOptions::default());
    let mut out = std::io::stdout().lock();
    for frame in &chain.frames {
        let address = frame.code_address();
        let mapping = space.find(address).ok_or("the unwinder found it")?;
        let name = match symbolizer.find(&dsos, mapping.dso, mapping.to_dso(address)) {
            Ok(symbol) => symbolizer.name(symbol).to_owned(),
            Err(why) => format!("({why})"),
        };
        writeln!(out, "{address:#x} {name}")?;
    }
    writeln!(out, "{}", chain.outcome.reason())?;
    Ok(())
}

/// Reads what is mapped where in this process. Memory that holds no code is added too: it tells the
/// unwinder where the stack ends.
fn own_mappings(dsos: &mut DsoTable) -> Result<AddressSpace, Box<dyn Error>> {
    let mut space = AddressSpace::default();
    for line in fs::read_to_string("/proc/self/maps")?.lines() {
        let mut words = line.split_ascii_whitespace();
        let mut word = || words.next().unwrap_or_default();
        let [range, prot, pgoff, _device, _inode, path] = std::array::from_fn(|_| word());
        let number = |digits| u64::from_str_radix(digits, 16);
        let (start, end) = range.split_once('-').ok_or("a range has two addresses")?;
        let kind = match path {
            "[vdso]" => DsoKind::Vdso,
            path if path.starts_with('/') => DsoKind::Elf,
            _ => DsoKind::Anonymous,
        };
        let dso = dsos.intern(Dso { kind, name: path.into(), build_id: None }).ok_or("too many")?;
        space.add(Mapping {
            start: number(start)?,
            end: number(end)?,
            pgoff: number(pgoff)?,
            dso,
            is_code: prot.contains('x'),
        });
    }
    Ok(space)
}

/// A thread's registers, and the memory from its stack pointer upwards, of the same moment.
struct Snapshot {
    registers: Registers,
    copy: Vec<u8>,
}

impl Snapshot {
    /// Takes a snapshot of this thread inside this function.
    #[inline(never)]
    fn take(space: &AddressSpace) -> Result<Self, Box<dyn Error>> {
        let registers = own_registers();
        let start = registers.stack_pointer();
        let stack = space.find(start).ok_or("the stack is mapped")?;
        let bytes = (stack.end - start).min(COPY_BYTES);
        let mut copy = vec![0; usize::try_from(bytes)?];
        File::open("/proc/self/mem")?.read_exact_at(&mut copy, start)?;
        Ok(Self { registers, copy })
    }
}

/// Reads the registers of the function that it is inlined into.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[allow(unsafe_code, reason = "only assembly reads registers")]
fn own_registers() -> Registers {
    let mut words = [0_u64; 17];
    // SAFETY: it stores 17 words in `words`, and changes no register but the stated one.
    unsafe {
        asm!(
            "mov [rdi], rax",
            "mov [rdi + 8], rdx",
            "mov [rdi + 16], rcx",
            "mov [rdi + 24], rbx",
            "mov [rdi + 32], rsi",
            "mov [rdi + 40], rdi",
            "mov [rdi + 48], rbp",
            "mov [rdi + 56], rsp",
            "mov [rdi + 64], r8",
            "mov [rdi + 72], r9",
            "mov [rdi + 80], r10",
            "mov [rdi + 88], r11",
            "mov [rdi + 96], r12",
            "mov [rdi + 104], r13",
            "mov [rdi + 112], r14",
            "mov [rdi + 120], r15",
            "lea rax, [rip]",
            "mov [rdi + 128], rax",
            in("rdi") words.as_mut_ptr(),
            out("rax") _,
            options(nostack),
        );
    }
    Registers::X86_64 { ip: words[16], general: std::array::from_fn(|number| words[number]) }
}

/// Reads the registers of the function that it is inlined into.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
#[allow(unsafe_code, reason = "only assembly reads registers")]
fn own_registers() -> Registers {
    let mut words = [0_u64; 33];
    // SAFETY: it stores 33 words in `words`, and changes no register but the stated one.
    unsafe {
        asm!(
            "stp x0, x1, [x0]",
            "stp x2, x3, [x0, #16]",
            "stp x4, x5, [x0, #32]",
            "stp x6, x7, [x0, #48]",
            "stp x8, x9, [x0, #64]",
            "stp x10, x11, [x0, #80]",
            "stp x12, x13, [x0, #96]",
            "stp x14, x15, [x0, #112]",
            "stp x16, x17, [x0, #128]",
            "stp x18, x19, [x0, #144]",
            "stp x20, x21, [x0, #160]",
            "stp x22, x23, [x0, #176]",
            "stp x24, x25, [x0, #192]",
            "stp x26, x27, [x0, #208]",
            "stp x28, x29, [x0, #224]",
            "mov x1, sp",
            "stp x30, x1, [x0, #240]",
            "adr x1, .",
            "str x1, [x0, #256]",
            in("x0") words.as_mut_ptr(),
            out("x1") _,
            options(nostack),
        );
    }
    Registers::Aarch64 { pc: words[32], general: std::array::from_fn(|number| words[number]) }
}
