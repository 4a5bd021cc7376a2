//! Call chains of system calls, by copies of the user's stack: unwound, and with names.

use std::collections::HashMap;

use tare_format::record::{Mmap, Registers as Recorded, Sample};
use tare_format::{printable, record::FileId};
use tare_kernel::host::Host;
use tare_kernel::procfs;
use tare_symbols::{
    AddressSpaces, BuildId, Dso, DsoKind, DsoTable, Mapped, Mapping, Registers, Stack,
    SymbolOptions, Symbolizer, UnwindCache, Unwinder,
};

/// How much of a stack is copied, in bytes: as much as `perf record --call-graph dwarf`.
pub(crate) const COPIED: u32 = 8192;

/// The registers that unwinding takes, a bit each (`arch/*/include/uapi/asm/perf_regs.h`): on x86 AX
/// to IP and R8 to R15, on Arm X0 to PC.
pub(crate) const REGISTERS: u64 =
    if cfg!(target_arch = "aarch64") { 0x1_ffff_ffff } else { 0xff_01ff };

/// `PERF_SAMPLE_REGS_ABI_64`.
const ABI_64: u64 = 2;
/// What separates the parts of a recorded call chain (`PERF_CONTEXT_MAX`).
const CONTEXT: u64 = u64::MAX - 4095;
const PROT_EXEC: u32 = 4;

/// What is mapped where, and the names of it.
#[derive(Debug)]
pub(crate) struct Stacks {
    dsos: DsoTable,
    spaces: AddressSpaces,
    symbolizer: Symbolizer,
    unwinder: Unwinder,
    cache: UnwindCache,
    /// Lines that were worked out, by version of the address space, address, and how far behind that
    /// the one lies which is shown.
    lines: HashMap<(u64, u64, u64), String>,
}

/// More lines than this are forgotten.
const MOST_LINES: usize = 100_000;

impl Stacks {
    pub(crate) fn new(options: &SymbolOptions) -> Self {
        Self {
            dsos: DsoTable::default(),
            spaces: AddressSpaces::default(),
            symbolizer: Symbolizer::new(options.clone()),
            unwinder: Unwinder::new(options.clone()),
            cache: UnwindCache::default(),
            lines: HashMap::new(),
        }
    }

    /// Takes in what a running process has mapped. One that has ended has nothing.
    pub(crate) fn add_process(&mut self, host: &Host, pid: i32) {
        let mut text = Vec::new();
        if procfs::read_mappings(host, pid, &mut text).is_err() {
            return;
        }
        for mapping in procfs::mappings(&text) {
            self.map(&Mmap {
                pid,
                tid: pid,
                start: mapping.start,
                len: mapping.end - mapping.start,
                pgoff: mapping.offset,
                file: FileId::None,
                prot: mapping.prot,
                flags: mapping.flags,
                path: &mapping.path,
                is_data: mapping.prot & PROT_EXEC == 0,
            });
        }
    }

    pub(crate) fn map(&mut self, mmap: &Mmap<'_>) {
        let (start, end) = (mmap.start, mmap.start.saturating_add(mmap.len));
        let (kind, pgoff) = match mmap.path {
            b"[vdso]" => (DsoKind::Vdso, 0),
            path if path.starts_with(b"/") && !path.starts_with(b"//") => {
                (DsoKind::Elf, mmap.pgoff)
            }
            _ => (DsoKind::Anonymous, start),
        };
        let build_id = match mmap.file {
            FileId::BuildId(id) => BuildId::new(id),
            _ => None,
        };
        let name = mmap.path.to_vec();
        let Some(dso) = self.dsos.intern(Dso { kind, name, build_id }) else { return };
        if kind == DsoKind::Elf {
            self.dsos.note_mapped(dso, Mapped { pid: mmap.pid, start, end });
        }
        self.spaces.add(mmap.pid, Mapping { start, end, pgoff, dso });
    }

    pub(crate) fn fork(&mut self, parent: i32, child: i32) {
        self.spaces.fork(parent, child);
    }

    /// A process has a new program, or has ended: what was mapped is gone.
    pub(crate) fn forget(&mut self, pid: i32) {
        self.spaces.remove(pid);
    }

    /// The lines of a sample's call chain, the innermost first, as `strace -k` has them:
    /// `/usr/lib/libc.so.6(__read+0xd) [0xf5f3d]`. Names are printable.
    pub(crate) fn lines(&mut self, sample: &Sample<'_>) -> Vec<String> {
        let pid = sample.head.pid.unwrap_or(0);
        let frame_pointers: Vec<u64> = sample
            .callchain
            .iter()
            .flat_map(|chain| (0..).map_while(|at| chain.get(at)))
            .filter(|address| *address < CONTEXT)
            .collect();
        let registers = sample.regs_user.and_then(|recorded| registers(&recorded));
        let mut addresses = Vec::new();
        if let (Some(registers), Some(stack), Some(space)) =
            (registers, sample.stack_user, self.spaces.of(pid))
        {
            let stack =
                Stack { registers: &registers, copy: stack.bytes, frame_pointers: &frame_pointers };
            self.unwinder.unwind(&mut self.cache, (&self.dsos, space), &stack, &mut addresses);
        }
        if addresses.is_empty() {
            addresses = frame_pointers;
        }
        if self.lines.len() > MOST_LINES {
            self.lines.clear();
        }
        let version = self.spaces.user_version(pid);
        // Of callers the unwinder has the last byte of the call; shown is where it returns to.
        let behind = std::iter::once(0).chain(std::iter::repeat(1));
        let line = |(address, behind): (&u64, u64)| {
            let key = (version, *address, behind);
            let known = self.lines.get(&key).cloned();
            known.unwrap_or_else(|| {
                let line = self.line(pid, *address, behind);
                self.lines.insert(key, line.clone());
                line
            })
        };
        addresses.iter().zip(behind).map(line).collect()
    }

    /// The line of an address; the one that is shown is so many bytes `behind` it.
    fn line(&self, pid: i32, address: u64, behind: u64) -> String {
        let Some(mapping) = self.spaces.find_user(pid, address) else {
            return format!("[{:#x}]", address + behind);
        };
        let at = mapping.to_dso(address);
        let name = self.dsos.get(mapping.dso).map_or(&b"?"[..], |dso| &dso.name);
        let name = String::from_utf8_lossy(name);
        let symbol = match self.symbolizer.find(&self.dsos, mapping.dso, at) {
            Ok(symbol) => {
                let offset = at.saturating_sub(symbol.start) + behind;
                format!("{}+{offset:#x}", self.symbolizer.name(symbol))
            }
            Err(_) => String::new(),
        };
        printable(&format!("{name}({symbol}) [{:#x}]", at + behind)).into_owned()
    }
}

/// The registers that unwinding takes, out of those of a sample.
fn registers(recorded: &Recorded<'_>) -> Option<Registers> {
    if recorded.abi != ABI_64 {
        return None;
    }
    let get = |number| recorded.get(number).unwrap_or(0);
    if cfg!(target_arch = "aarch64") {
        let general = std::array::from_fn(|number| get(u32::try_from(number).unwrap_or(0)));
        return Some(Registers::Aarch64 { pc: recorded.get(32)?, general });
    }
    // AX, DX, CX, BX, SI, DI, BP, SP, R8 to R15 in perf's numbers
    let general = [0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23].map(get);
    Some(Registers::X86_64 { ip: recorded.get(8)?, general })
}
