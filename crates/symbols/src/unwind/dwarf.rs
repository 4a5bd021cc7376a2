//! Unwinding by the tables of call frames (DWARF 5, section 6.4) that ELF files have; where a
//! function has none, by frame pointers.
//!
//! ```text
//! address --AddressSpace--> DSO, offset in it --Segments--> its own address --framehop--> the caller's address
//! ```
//! Each DSO's tables are read once, and asked in its own addresses: where processes have it mapped
//! doesn't matter.

use std::collections::HashMap;
use std::fmt;

use framehop::aarch64::{PtrAuthMask, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{Reg, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{FrameAddress, Module};
use object::elf;
use object::read::ReadCache;

use super::{Registers, Unwound, bounded};
use crate::address_space::AddressSpace;
use crate::dso::{DsoId, DsoKind, DsoTable};
use crate::elf::{Frames, Segments};
use crate::limits;
use crate::search::{self, SymbolOptions, find};

/// DWARF's numbers of the registers, in the order of [`Registers::X86_64`].
const X86_64: [Reg; 16] = [
    Reg::RAX,
    Reg::RDX,
    Reg::RCX,
    Reg::RBX,
    Reg::RSI,
    Reg::RDI,
    Reg::RBP,
    Reg::RSP,
    Reg::R8,
    Reg::R9,
    Reg::R10,
    Reg::R11,
    Reg::R12,
    Reg::R13,
    Reg::R14,
    Reg::R15,
];

/// Unwinds stacks, and keeps the tables of the DSOs that it met. It serves one [`DsoTable`].
pub struct Unwinder {
    options: SymbolOptions,
    x86_64: ArchUnwinder<UnwinderX86_64<Vec<u8>>>,
    aarch64: ArchUnwinder<UnwinderAarch64<Vec<u8>>>,
    /// Bytes of all tables.
    bytes: u64,
}

impl fmt::Debug for Unwinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unwinder")
            .field("options", &self.options)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Unwinder {
    /// Nothing is read yet.
    #[must_use]
    pub fn new(options: SymbolOptions) -> Self {
        Self {
            options,
            x86_64: ArchUnwinder::default(),
            aarch64: ArchUnwinder::default(),
            bytes: 0,
        }
    }

    /// Adds the addresses of a stack, the innermost first, at most `most`: where the CPU was, then
    /// of each caller the last byte of its call. `stack` is the memory from the stack pointer on.
    pub fn unwind(
        &mut self,
        (dsos, space): (&DsoTable, &AddressSpace),
        registers: &Registers,
        stack: &[u8],
        most: usize,
        addresses: &mut Vec<u64>,
    ) -> Unwound {
        let start = registers.stack_pointer();
        let mut read = |address: u64| {
            let at = address.checked_sub(start).and_then(|at| usize::try_from(at).ok()).ok_or(())?;
            let bytes = stack.get(at..).and_then(<[u8]>::first_chunk).ok_or(())?;
            Ok(u64::from_le_bytes(*bytes))
        };
        let Self { options, x86_64, aarch64, bytes } = self;
        let mut tables = |machine: elf::Machine, dso: DsoId| {
            let frames = load(options, dsos, dso, limits::UNWIND_BYTES - *bytes)
                .filter(|frames| frames.machine == machine)?;
            *bytes += frames.bytes;
            Some(frames)
        };
        match *registers {
            Registers::X86_64 { ip, general } => {
                let mut registers = UnwindRegsX86_64::new(ip, general[7], general[6]);
                X86_64
                    .into_iter()
                    .zip(general)
                    .for_each(|(register, value)| registers.set(register, value));
                x86_64.unwind(
                    space,
                    &mut |dso| tables(elf::EM_X86_64, dso),
                    (ip, registers),
                    &mut read,
                    (most, addresses),
                )
            }
            Registers::Aarch64 { pc, lr, sp, fp } => {
                // Signed return addresses have their signature above the bits that addresses have.
                let highest = space.mappings().last().map_or(u64::MAX, |map| map.end);
                let registers = UnwindRegsAarch64::new_with_ptr_auth_mask(
                    PtrAuthMask::from_max_known_address(highest),
                    lr,
                    sp,
                    fp,
                );
                aarch64.unwind(
                    space,
                    &mut |dso| tables(elf::EM_AARCH64, dso),
                    (pc, registers),
                    &mut read,
                    (most, addresses),
                )
            }
        }
    }
}

/// Unwinds stacks of one architecture.
struct ArchUnwinder<U: framehop::Unwinder> {
    by_dso: HashMap<DsoId, (U, Segments)>,
    /// For code without tables.
    bare: U,
    rules: U::Cache,
}

impl<U: framehop::Unwinder + Default> Default for ArchUnwinder<U>
where
    U::Cache: Default,
{
    fn default() -> Self {
        Self { by_dso: HashMap::new(), bare: U::default(), rules: U::Cache::default() }
    }
}

impl<U: framehop::Unwinder<Module = Module<Vec<u8>>> + Default> ArchUnwinder<U> {
    fn unwind(
        &mut self,
        space: &AddressSpace,
        tables: &mut dyn FnMut(DsoId) -> Option<Frames>,
        (first, mut registers): (u64, U::UnwindRegs),
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
        (most, addresses): (usize, &mut Vec<u64>),
    ) -> Unwound {
        let mut frame = FrameAddress::from_instruction_pointer(first);
        for _ in 0..most.min(limits::FRAMES) {
            let address = frame.address_for_lookup();
            let Some(mapping) = space.find(address) else { return Unwound::Incomplete };
            addresses.push(address);
            let (unwinder, segments) = self
                .by_dso
                .entry(mapping.dso)
                .or_insert_with(|| tables(mapping.dso).map(Self::prepare).unwrap_or_default());
            let (unwinder, own) = match segments.to_address(mapping.to_dso(address)) {
                Some(own) => (&*unwinder, own),
                None => (&self.bare, address),
            };
            let own = if frame.is_return_address() {
                own.checked_add(1).and_then(FrameAddress::from_return_address)
            } else {
                None
            }
            .unwrap_or(FrameAddress::from_instruction_pointer(own));
            match unwinder.unwind_frame(own, &mut registers, &mut self.rules, read) {
                Ok(None) => return Unwound::Complete,
                Ok(Some(caller)) => match FrameAddress::from_return_address(caller) {
                    Some(caller) => frame = caller,
                    None => return Unwound::Incomplete,
                },
                Err(_) => return Unwound::Incomplete,
            }
        }
        Unwound::Complete
    }

    fn prepare(frames: Frames) -> (U, Segments) {
        let mut unwinder = U::default();
        unwinder.add_module(Module::new(String::new(), 0..u64::MAX, 0, frames.sections));
        (unwinder, frames.segments)
    }
}

/// The tables of a DSO: those of the file at its path, else in perf's cache.
fn load(options: &SymbolOptions, dsos: &DsoTable, id: DsoId, most: u64) -> Option<Frames> {
    let recorded = dsos.recorded(id)?;
    let dso = recorded.dso;
    let is_usable = |frames: &Frames| {
        let is_same =
            dso.build_id.zip(frames.build_id).is_none_or(|(recorded, found)| recorded == found);
        is_same && bounded::is_bounded(&frames.sections)
    };
    match dso.kind {
        DsoKind::Elf => {
            let cache = ReadCache::new(find::binary(options, &recorded).ok()?.file);
            Frames::read(&cache, most).ok().filter(is_usable)
        }
        DsoKind::Vdso => {
            Frames::read(search::own_vdso().ok()?.as_slice(), most).ok().filter(is_usable)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_space::Mapping;
    use crate::dso::Dso;

    const START: u64 = 0x7fff_0000;

    /// Unwinds a stack by frame pointers alone: the code is in no file.
    fn unwound(stack: &[u64], frame_pointer: u64, most: usize) -> (Unwound, Vec<u64>) {
        let mut dsos = DsoTable::default();
        let dso = dsos
            .intern(Dso { kind: DsoKind::Anonymous, name: b"[jit]".to_vec(), build_id: None })
            .unwrap();
        let mut space = AddressSpace::default();
        space.add(Mapping { start: 0x1000, end: 0x9000, pgoff: 0, dso });
        let bytes: Vec<u8> = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut general = [0; 16];
        (general[6], general[7]) = (frame_pointer, START);
        let mut addresses = Vec::new();
        let registers = Registers::X86_64 { ip: 0x1000, general };
        let end = Unwinder::new(SymbolOptions::default()).unwind(
            (&dsos, &space),
            &registers,
            &bytes,
            most,
            &mut addresses,
        );
        (end, addresses)
    }

    #[test]
    fn code_without_tables_is_unwound_by_its_frame_pointers() {
        let stack = [0, 0, START + 32, 0x2001, 0, 0x3001];
        assert_eq!(
            unwound(&stack, START + 16, 100),
            (Unwound::Complete, vec![0x1000, 0x2000, 0x3000])
        );
        assert_eq!(unwound(&stack, START + 16, 2), (Unwound::Complete, vec![0x1000, 0x2000]));
    }

    /// `DW_CFA_def_cfa_expression`, with a `DW_OP_skip` to itself and with one over nothing.
    #[test]
    fn an_expression_without_end_is_not_evaluated() {
        for (skip, expected) in
            [("0xfd, 0xff", vec![0x1000]), ("0x00, 0x00, 0x77, 0x10", vec![0x1000, 0x2000])]
        {
            let folder = tempfile::tempdir().unwrap();
            let (source, path) = (folder.path().join("loop.s"), folder.path().join("loop.so"));
            let length = 1 + skip.split(',').count();
            let text = format!(
                ".text\nf: .cfi_startproc\n.cfi_escape 0x0f, {length}, 0x2f, {skip}\n.cfi_offset 16, -8\nnop\nret\n.cfi_endproc\n.fill 0x3000, 1, 0x90\n"
            );
            std::fs::write(&source, text).unwrap();
            let built = std::process::Command::new("cc")
                .args(["-shared", "-nostdlib", "-o"])
                .arg(&path)
                .arg(&source)
                .status();
            if !cfg!(target_arch = "x86_64") || !built.is_ok_and(|status| status.success()) {
                return println!("skipped: no C compiler for x86_64");
            }
            let bytes = std::fs::read(&path).unwrap();
            let frames = Frames::read(bytes.as_slice(), u64::MAX).unwrap();
            assert_eq!(bounded::is_bounded(&frames.sections), expected.len() == 2);
            let mut dsos = DsoTable::default();
            let dso = dsos
                .intern(Dso {
                    kind: DsoKind::Elf,
                    name: path.into_os_string().into_encoded_bytes(),
                    build_id: None,
                })
                .unwrap();
            let mut space = AddressSpace::default();
            // The code lies at 0x1000 in the file, as it does in what linkers make.
            space.add(Mapping { start: 0x1000, end: 0x5000, pgoff: 0x1000, dso });
            let stack: Vec<u8> =
                [0, 0x2001_u64].iter().flat_map(|word| word.to_le_bytes()).collect();
            let mut general = [0; 16];
            general[7] = START;
            let mut addresses = Vec::new();
            let registers = Registers::X86_64 { ip: 0x1000, general };
            Unwinder::new(SymbolOptions::default()).unwind(
                (&dsos, &space),
                &registers,
                &stack,
                2,
                &mut addresses,
            );
            assert_eq!(addresses, expected);
        }
    }

    #[test]
    fn damaged_stacks_end() {
        // A frame pointer that points to itself, backwards, out of the copy; callers that lie
        // nowhere.
        for (stack, frame_pointer) in [
            (vec![START, 0x2001], START),
            (vec![START + 16, 0x2001, START, 0x3001], START),
            (vec![START + 16, 0x2001, START - 16, 0x3001], START),
            (vec![u64::MAX, 0x2001], START),
            (vec![START + 16, 0xffff_ffff_ffff_ffff], START),
            (vec![], u64::MAX),
        ] {
            let (end, addresses) = unwound(&stack, frame_pointer, usize::MAX);
            assert!(
                end == Unwound::Incomplete && addresses.len() <= 4,
                "{stack:x?}: {end:?} {addresses:x?}"
            );
        }
    }
}
