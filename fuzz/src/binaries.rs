//! Targets for symbols and unwinding: ELF files with symbols, debug info and unwind tables, and
//! kallsyms. The seeds of ELF files are a small library, compiled with different options.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Command;

use tare_symbols::{
    AddressSpace, Dso, DsoAddress, DsoId, DsoKind, DsoTable, Mapping, Registers, Stack,
    SymbolOptions, Symbolizer, UnwindCache, Unwinder,
};

use crate::input_file::with_file;

/// Inlined functions, a loop, a jump table, a frame with a base register, a call of an external
/// function and a noreturn call.
const SOURCE: &str = r#"
extern int other(int);
extern void ends(void) __attribute__((noreturn));
struct pair { int first, second; };
static inline int inner(struct pair *p, int n) { return p->first * n + other(p->second); }
static inline int outer(struct pair *p, int n) { int s = 0; while (n--) s += inner(p, n); return s; }
int entry(struct pair *p, int n) {
    switch (n) {
    case 1: return other(n);
    case 2: return outer(p, 7);
    case 3: return p->first;
    case 4: ends();
    case 5: return inner(p, n) * 3;
    default: return outer(p, n) + outer(p + 1, n);
    }
}
int grows(int n) { char room[n]; room[n / 2] = n; return other(room[n / 3]); }
"#;

/// Addresses to look up, spread evenly over the file's first pages.
const ASKED: u64 = 96;
const STEP: u64 = 0x5b;

fn only(kind: DsoKind, name: &Path) -> (DsoTable, DsoId) {
    let mut dsos = DsoTable::default();
    let name = name.as_os_str().as_encoded_bytes().to_vec();
    let id = dsos.intern(Dso { kind, name, build_id: None });
    (dsos, id.unwrap_or_else(|| panic!("a table takes a first one")))
}

fn addresses() -> impl Iterator<Item = u64> {
    (0..ASKED).map(|at| at * STEP).chain([u64::MAX, 1 << 40])
}

/// Reads the symbol tables.
pub(crate) fn elf(input: &[u8]) {
    with_file(input, |path| {
        let (dsos, dso) = only(DsoKind::Elf, path);
        let symbolizer = Symbolizer::new(SymbolOptions::default());
        for address in addresses() {
            let found = symbolizer.find(&dsos, dso, address);
            black_box(found.map(|symbol| symbolizer.name(symbol).len()).is_ok());
            black_box(symbolizer.file_offset(&dsos, dso, address));
        }
    });
}

/// Looks up lines, functions and inlined functions.
pub(crate) fn dwarf(input: &[u8]) {
    with_file(input, |path| {
        let (dsos, dso) = only(DsoKind::Elf, path);
        let symbolizer = Symbolizer::new(SymbolOptions::default());
        let asked: Vec<_> = addresses().map(|address| DsoAddress { dso, address }).collect();
        let frames = symbolizer.frames(&dsos, &asked, NonZeroUsize::MIN);
        for at in 0..frames.len() {
            for frame in frames.get(at) {
                black_box((frame.name.is_ok(), frame.location.map(|at| at.file.len())));
            }
        }
    });
}

/// Where the stacks to unwind begin.
const STACK: u64 = 0x7fff_0000;

/// Registers and memory of a stack to unwind.
struct HostileStack {
    general: [u64; 16],
    copy: Vec<u8>,
}

impl HostileStack {
    /// A stack filled with addresses in the file.
    fn of_addresses() -> Self {
        let words = (0..256).flat_map(|at: u64| (1 + at % ASKED * STEP).to_le_bytes());
        Self { general: [STACK + 64; 16], copy: words.collect() }
    }

    /// The input's last bytes as a stack, and as registers: addresses in it, and any values.
    fn of_input(input: &[u8]) -> Self {
        let copy = input[input.len().saturating_sub(2048)..].to_vec();
        let word = |at: usize| copy.chunks_exact(8).nth(at).and_then(|word| word.first_chunk());
        let general = std::array::from_fn(|at| {
            let word = word(at).map_or(0, |word| u64::from_le_bytes(*word));
            if word % 4 == 0 { word } else { STACK + word / 8 % 4096 }
        });
        Self { general, copy }
    }
}

/// Unwinds stacks of code in the file.
pub(crate) fn unwind(input: &[u8]) {
    with_file(input, |path| {
        let (dsos, dso) = only(DsoKind::Elf, path);
        let mut space = AddressSpace::default();
        space.add(Mapping { start: 0, end: 1 << 16, pgoff: 0, dso, is_code: true });
        let unwinder = Unwinder::new(SymbolOptions::default());
        let mut cache = UnwindCache::default();
        let mut found = Vec::new();
        for hostile in [HostileStack::of_addresses(), HostileStack::of_input(input)] {
            let HostileStack { mut general, copy } = hostile;
            let mut narrow: [u64; 8] = std::array::from_fn(|at| general[at]);
            general[7] = STACK;
            narrow[4] = STACK;
            for ip in addresses() {
                for registers in
                    [Registers::X86_64 { ip, general }, Registers::X86 { ip, general: narrow }]
                {
                    let stack = Stack {
                        registers: &registers,
                        copy: &copy,
                        frame_pointers: &[ip, ip.wrapping_add(1)],
                    };
                    found.clear();
                    black_box(unwinder.unwind(&mut cache, &dsos, &space, &stack, &mut found));
                }
            }
        }
        for address in addresses() {
            let at = DsoAddress { dso, address };
            black_box(unwinder.keeps_frame_pointer(&mut cache, &dsos, at));
        }
    });
}

/// Looks up addresses of the kernel and of a module in kallsyms.
pub(crate) fn kallsyms(input: &[u8]) {
    with_file(input, |path| {
        let options =
            || SymbolOptions { kallsyms: Some(path.to_owned()), ..SymbolOptions::default() };
        for (kind, name) in [(DsoKind::Kernel, "[kernel.kallsyms]"), (DsoKind::Module, "[ext4]")] {
            let (dsos, dso) = only(kind, Path::new(name));
            let symbolizer = Symbolizer::new(options());
            for at in 0..ASKED {
                for base in [0xffff_ffff_8100_0000, 0xffff_ffff_c000_0000] {
                    let found = symbolizer.find(&dsos, dso, base + at * 8);
                    black_box(found.map(|symbol| symbolizer.name(symbol).len()).is_ok());
                }
            }
        }
    });
}

/// Compiles the library with these options; `None` if that fails.
fn compiled(options: &[&str]) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().ok()?;
    let source = folder.path().join("seed.c");
    let path = folder.path().join("seed.so");
    std::fs::write(&source, SOURCE).ok()?;
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-shared", "-fPIC", "-nostdlib", "-Wl,-z,noseparate-code", "-o"]);
    let output = cc.arg(&path).args(options).arg(&source).output().ok()?;
    if output.status.success() { std::fs::read(&path).ok() } else { None }
}

fn all(options: &[&[&str]]) -> Vec<Vec<u8>> {
    let seeds: Vec<_> = options.iter().filter_map(|options| compiled(options)).collect();
    assert!(!seeds.is_empty(), "the seeds take a C compiler");
    seeds
}

pub(crate) fn elves() -> Vec<Vec<u8>> {
    all(&[&[], &["-s"], &["-Wl,-z,lazy", "-fcf-protection=none"], &["-Wl,-z,now", "-s"]])
}

/// The library with each form of debug info that the compiler supports.
pub(crate) fn debug_infos() -> Vec<Vec<u8>> {
    all(&[
        &["-g", "-gdwarf-5"],
        &["-g", "-gdwarf-4"],
        &["-g", "-gdwarf-5", "-gz=zlib"],
        &["-g", "-gdwarf-5", "-gz=zstd"],
        &["-g", "-gdwarf-4", "-ffunction-sections", "-fdebug-types-section"],
        &["-g", "-gdwarf-5", "-gsplit-dwarf"],
    ])
}

pub(crate) fn call_frames() -> Vec<Vec<u8>> {
    all(&[
        &["-s"],
        &["-s", "-Wl,--no-eh-frame-hdr"],
        &["-g", "-fno-asynchronous-unwind-tables"],
        &["-s", "-fno-omit-frame-pointer", "-Wl,-z,lazy"],
        // Without tables, callers are found by following the code.
        &["-s", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"],
    ])
}

pub(crate) fn symbol_lists() -> Vec<Vec<u8>> {
    let mut text = String::from("ffffffff81000000 T _text\nffffffff81000000 T _stext\n");
    for at in 0..40_u64 {
        let kernel = 0xffff_ffff_8100_0010 + at * 16;
        let module = 0xffff_ffff_c000_0000 + at * 16;
        text += &format!("{kernel:016x} t kernel_{at}\n{module:016x} W of_module_{at}\t[ext4]\n");
    }
    vec![text.into_bytes()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rejected seed would test only its first bytes.
    #[test]
    fn seeds_are_whole() {
        for seed in debug_infos() {
            with_file(&seed, |path| {
                let (dsos, dso) = only(DsoKind::Elf, path);
                let symbolizer = Symbolizer::new(SymbolOptions::default());
                let asked: Vec<_> =
                    addresses().map(|address| DsoAddress { dso, address }).collect();
                let frames = symbolizer.frames(&dsos, &asked, NonZeroUsize::MIN);
                let has_lines = |at: usize| frames.get(at).any(|frame| frame.location.is_some());
                assert!((0..frames.len()).any(has_lines), "lines");
            });
        }
        let is_named = |kind, seed: &[u8], options: fn(&Path) -> SymbolOptions, at| {
            let mut found = false;
            with_file(seed, |path| {
                let (dsos, dso) = only(kind, path);
                let symbolizer = Symbolizer::new(options(path));
                found = (0..0x1000_u64).any(|to| symbolizer.find(&dsos, dso, at + to).is_ok());
            });
            found
        };
        for seed in elves() {
            assert!(is_named(DsoKind::Elf, &seed, |_| SymbolOptions::default(), 0));
        }
        let of_list = |path: &Path| SymbolOptions {
            kallsyms: Some(path.to_owned()),
            ..SymbolOptions::default()
        };
        let first = 0xffff_ffff_8100_0000;
        assert!(is_named(DsoKind::Kernel, &symbol_lists()[0], of_list, first));
    }
}
