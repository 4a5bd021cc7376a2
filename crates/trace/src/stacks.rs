//! Call chains of system calls, function calls and futex waits, unwound from copies of the user
//! stack.

use std::collections::HashMap;

use tare_format::abi::bindings::{PERF_CONTEXT_MAX, PERF_SAMPLE_REGS_ABI_64};
use tare_format::record::{Mmap, Sample};
use tare_format::{printable, record::FileId};
use tare_kernel::bpf::FutexStack;
use tare_kernel::functions::{CopiedStack, Register};
use tare_kernel::host::Host;
use tare_kernel::procfs;
use tare_symbols::{
    AddressSpaces, BuildId, Dso, DsoAddress, DsoId, DsoKind, DsoMapping, DsoTable, FileIdentity,
    Mapping, Registers, Stack, SymbolOptions, Symbolizer, UnwindCache, Unwinder, UnwoundFrame,
};

/// Bytes of the stack that are copied, as with `perf record --call-graph dwarf`.
pub(crate) const COPIED: u32 = 8192;

/// The registers that the unwinder needs, one bit each (`arch/*/include/uapi/asm/perf_regs.h`): AX
/// to IP and R8 to R15 on x86, X0 to PC on Arm.
pub(crate) const REGISTERS: u64 =
    if cfg!(target_arch = "aarch64") { 0x1_ffff_ffff } else { 0xff_01ff };

const PROT_EXEC: u32 = 4;

/// Address spaces, symbols and the unwinder.
#[derive(Debug)]
pub(crate) struct Stacks {
    dsos: DsoTable,
    spaces: AddressSpaces,
    symbolizer: Symbolizer,
    unwinder: Unwinder,
    cache: UnwindCache,
    /// Formatted lines, by address space version, address, and distance to the address that is
    /// printed.
    lines: HashMap<(u64, u64, u64), String>,
}

/// A frame of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UserFrame {
    /// The function, if known. Untrusted.
    pub(crate) symbol: Option<String>,
    /// The file; empty if nothing is mapped there. Untrusted.
    pub(crate) file: String,
    pub(crate) address: u64,
}

/// Maximum number of cached lines; beyond it the cache is cleared.
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

    /// Adds the mappings of a running process. Does nothing if they can't be read, as after its
    /// exit.
    pub(crate) fn add_process(&mut self, host: &Host, pid: i32) {
        let mut text = Vec::new();
        if procfs::read_mappings(host, pid, &mut text).is_err() {
            return;
        }
        for mapping in procfs::mappings(&text) {
            let procfs::Mapping { device: (major, minor), inode, .. } = mapping;
            self.add_mapping(&Mmap {
                pid,
                tid: pid,
                start: mapping.start,
                len: mapping.end - mapping.start,
                pgoff: mapping.offset,
                file: FileId::Inode { major, minor, inode, generation: 0 },
                prot: mapping.prot,
                flags: mapping.flags,
                path: &mapping.path,
                is_data: mapping.prot & PROT_EXEC == 0,
            });
        }
    }

    pub(crate) fn add_mapping(&mut self, mmap: &Mmap<'_>) {
        let start = mmap.start;
        let end = start.saturating_add(mmap.len);
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
        let identity = match mmap.file {
            FileId::Inode { major, minor, inode, generation } if kind == DsoKind::Elf => {
                Some(FileIdentity { device: (major, minor), inode, generation })
            }
            _ => None,
        };
        let name = mmap.path.to_vec();
        let Some(dso) = self.dsos.intern_file(Dso { kind, name, build_id }, identity) else {
            return;
        };
        let is_code = !mmap.is_data;
        if kind == DsoKind::Elf {
            self.dsos.note_mapping(dso, DsoMapping { pid: mmap.pid, start, end, mapped_ns: None });
            if is_code {
                self.read_now(dso, pgoff);
            }
        }
        let mapping = Mapping { start, end, pgoff, dso, is_code };
        self.spaces.add_with_text(mmap.pid, mapping, &self.dsos);
    }

    /// Reads symbols and unwind tables of a file from a mapping's offset on. The file may be
    /// deleted by the time they are needed; it is found as long as the process runs.
    fn read_now(&mut self, dso: DsoId, address: u64) {
        let at = DsoAddress { dso, address };
        // An address without a symbol has the whole table read too.
        _ = self.symbolizer.find(&self.dsos, dso, address);
        self.unwinder.keeps_frame_pointer(&mut self.cache, &self.dsos, at);
    }

    /// Copies a process's mappings to its new child.
    pub(crate) fn fork(&mut self, parent: i32, child: i32) {
        self.spaces.fork(parent, child);
    }

    /// Drops a process's mappings: it executed another program, or exited.
    pub(crate) fn forget(&mut self, pid: i32) {
        self.spaces.remove(pid);
    }

    /// Returns the lines of a sample's call chain, innermost first, as in `strace -k`:
    /// `/usr/lib/libc.so.6(__read+0xd) [0xf5f3d]`. Names are escaped.
    pub(crate) fn lines(&mut self, sample: &Sample<'_>) -> Vec<String> {
        let frame_pointers: Vec<u64> = sample
            .callchain
            .iter()
            .flat_map(|chain| (0..).map_while(|at| chain.get(at)))
            .filter(|address| *address < PERF_CONTEXT_MAX)
            .collect();
        let registers = sample
            .regs_user
            .filter(|recorded| recorded.abi == u64::from(PERF_SAMPLE_REGS_ABI_64))
            .and_then(|recorded| Registers::by_perf_number(|number| recorded.get(number)));
        let copy = sample.stack_user.map(|stack| stack.bytes);
        let pid = sample.head.pid.unwrap_or(0);
        self.chain_lines(pid, registers.as_ref().zip(copy), frame_pointers)
    }

    /// Returns the lines of the callers of a function that has just returned; the kernel's callers
    /// come first.
    pub(crate) fn callers(&mut self, pid: i32, copied: &CopiedStack<'_>) -> Vec<String> {
        let mut lines: Vec<_> = copied.kernel().map(|address| self.kernel_line(address)).collect();
        let by_number = |number| Some(copied.register(Register::by_perf_number(number)?));
        let Some(registers) = Registers::by_perf_number(by_number) else { return lines };
        let mut copy = copied.bytes.to_vec();
        let start = registers.stack_pointer();
        for (at, original) in copied.replaced() {
            let place = at.checked_sub(start).and_then(|at| usize::try_from(at).ok());
            if let Some(word) = place.and_then(|at| copy.get_mut(at..at.checked_add(8)?)) {
                word.copy_from_slice(&original.to_ne_bytes());
            }
        }
        lines.extend(self.chain_lines(pid, Some((&registers, &copy)), Vec::new()));
        lines
    }

    /// Returns the lines of a call chain, unwound from a copied stack or, failing that, by frame
    /// pointers.
    fn chain_lines(
        &mut self,
        pid: i32,
        copied: Option<(&Registers, &[u8])>,
        frame_pointers: Vec<u64>,
    ) -> Vec<String> {
        let mut frames = Vec::new();
        if let (Some((registers, copy)), Some(space)) = (copied, self.spaces.space(pid)) {
            let stack = Stack { registers, copy, frame_pointers: &frame_pointers };
            self.unwinder.unwind_frames(&mut self.cache, &self.dsos, space, &stack, &mut frames);
        }
        if frames.is_empty() {
            let recorded = frame_pointers.into_iter().enumerate();
            frames.extend(recorded.map(|(depth, pc)| UnwoundFrame { pc, is_return: depth > 0 }));
        }
        if self.lines.len() > MOST_LINES {
            self.lines.clear();
        }
        let version = self.spaces.user_version(pid);
        // A caller is looked up at the last byte of its call; the return address is printed.
        let line = |frame: &UnwoundFrame| {
            let address = frame.code_address();
            let behind = u64::from(frame.is_return);
            let key = (version, address, behind);
            let known = self.lines.get(&key).cloned();
            known.unwrap_or_else(|| {
                let line = self.line(pid, address, behind);
                self.lines.insert(key, line.clone());
                line
            })
        };
        frames.iter().map(line).collect()
    }

    /// Returns the call chain of a copied stack, innermost first.
    pub(crate) fn unwind_copy(&mut self, copy: &FutexStack<'_>) -> Vec<UserFrame> {
        let pid = copy.process.cast_signed();
        let [first, rest @ ..] = copy.registers;
        let registers = if cfg!(target_arch = "aarch64") {
            Registers::Aarch64 { pc: first, general: rest }
        } else {
            Registers::X86_64 { ip: first, general: std::array::from_fn(|at| rest[at]) }
        };
        let mut addresses = Vec::new();
        if let Some(space) = self.spaces.space(pid) {
            let stack = Stack { registers: &registers, copy: copy.stack, frame_pointers: &[] };
            self.unwinder.unwind(&mut self.cache, &self.dsos, space, &stack, &mut addresses);
        }
        if addresses.is_empty() {
            addresses.push(first);
        }
        addresses.iter().map(|address| self.frame(pid, *address)).collect()
    }

    fn frame(&self, pid: i32, address: u64) -> UserFrame {
        let Some(mapping) = self.spaces.find_user(pid, address) else {
            return UserFrame { address, ..UserFrame::default() };
        };
        let name = self.dsos.get(mapping.dso).map_or(&b"?"[..], |dso| &dso.name);
        let symbol = self.symbolizer.find(&self.dsos, mapping.dso, mapping.to_dso(address)).ok();
        let symbol = symbol.map(|symbol| self.symbolizer.name(symbol).to_owned());
        UserFrame { symbol, file: String::from_utf8_lossy(name).into_owned(), address }
    }

    /// Formats an address of the kernel.
    fn kernel_line(&mut self, address: u64) -> String {
        let kernel = Dso { kind: DsoKind::Kernel, name: b"[kernel]".to_vec(), build_id: None };
        let found = self.dsos.intern(kernel).and_then(|dso| {
            let symbol = self.symbolizer.find(&self.dsos, dso, address).ok()?;
            let offset = address.saturating_sub(symbol.start);
            Some(format!("{}+{offset:#x}", self.symbolizer.name(symbol)))
        });
        printable(&format!("[kernel]({}) [{address:#x}]", found.unwrap_or_default())).into_owned()
    }

    /// Formats an address; the printed one is `behind` bytes after it.
    fn line(&self, pid: i32, address: u64, behind: u64) -> String {
        let Some(mapping) = self.spaces.find_user(pid, address) else {
            return format!("[{:#x}]", address + behind);
        };
        let at = mapping.to_dso(address);
        let name = self.dsos.get(mapping.dso).map_or(&b"?"[..], |dso| &dso.name);
        let name = String::from_utf8_lossy(name);
        let symbol = self.symbolizer.find(&self.dsos, mapping.dso, at).ok();
        let symbol = symbol.map_or_else(String::new, |symbol| {
            let offset = at.saturating_sub(symbol.start) + behind;
            format!("{}+{offset:#x}", self.symbolizer.name(symbol))
        });
        printable(&format!("{name}({symbol}) [{:#x}]", at + behind)).into_owned()
    }
}
