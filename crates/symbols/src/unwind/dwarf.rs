//! Unwinding by the tables of call frames (DWARF 5, section 6.4) that ELF files have; where a
//! function has none, by frame pointers.
//!
//! ```text
//! address --Space--> file, place in it --Places--> the file's own address --framehop--> the caller's address
//! ```
//! Each file's tables are read once, and asked in the file's own addresses: where processes have it
//! mapped doesn't matter.

use std::collections::HashMap;
use std::fmt;

use framehop::aarch64::{PtrAuthMask, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{Reg, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{FrameAddress, Module};
use object::elf;
use object::read::ReadCache;

use super::{End, Registers, bounded};
use crate::disk;
use crate::elf::{Frames, Places};
use crate::files::{FileId, Files, Kind};
use crate::limits;
use crate::space::Space;
use crate::symbolizer::Options;

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

/// Unwinds stacks, and keeps the tables of the files that it met.
pub struct Unwinder {
    options: Options,
    x86_64: Machine<UnwinderX86_64<Vec<u8>>>,
    aarch64: Machine<UnwinderAarch64<Vec<u8>>>,
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
    pub fn new(options: Options) -> Self {
        Self { options, x86_64: Machine::default(), aarch64: Machine::default(), bytes: 0 }
    }

    /// Adds the addresses of a stack, the innermost first, at most `most`: where the CPU was, then
    /// of each caller the last byte of its call. `stack` is the memory from the stack pointer on.
    pub fn unwind(
        &mut self,
        (files, space): (&Files, &Space),
        registers: &Registers,
        stack: &[u8],
        most: usize,
        addresses: &mut Vec<u64>,
    ) -> End {
        let start = registers.stack_pointer();
        let mut read = |address: u64| {
            let at = address.checked_sub(start).and_then(|at| usize::try_from(at).ok()).ok_or(())?;
            let bytes = stack.get(at..).and_then(<[u8]>::first_chunk).ok_or(())?;
            Ok(u64::from_le_bytes(*bytes))
        };
        let Self { options, x86_64, aarch64, bytes } = self;
        let mut tables = |machine: elf::Machine, file: FileId| {
            let frames = load(options, files, file, limits::UNWIND_BYTES - *bytes)
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
                    &mut |file| tables(elf::EM_X86_64, file),
                    (ip, registers),
                    &mut read,
                    (most, addresses),
                )
            }
            Registers::Aarch64 { pc, lr, sp, fp } => {
                // Signed return addresses have their signature above the bits that addresses have.
                let highest = space.maps().last().map_or(u64::MAX, |map| map.end);
                let registers = UnwindRegsAarch64::new_with_ptr_auth_mask(
                    PtrAuthMask::from_max_known_address(highest),
                    lr,
                    sp,
                    fp,
                );
                aarch64.unwind(
                    space,
                    &mut |file| tables(elf::EM_AARCH64, file),
                    (pc, registers),
                    &mut read,
                    (most, addresses),
                )
            }
        }
    }
}

/// The files of one kind of machine.
struct Machine<U: framehop::Unwinder> {
    known: HashMap<FileId, (U, Places)>,
    /// For code without tables.
    bare: U,
    rules: U::Cache,
}

impl<U: framehop::Unwinder + Default> Default for Machine<U>
where
    U::Cache: Default,
{
    fn default() -> Self {
        Self { known: HashMap::new(), bare: U::default(), rules: U::Cache::default() }
    }
}

impl<U: framehop::Unwinder<Module = Module<Vec<u8>>> + Default> Machine<U> {
    fn unwind(
        &mut self,
        space: &Space,
        tables: &mut dyn FnMut(FileId) -> Option<Frames>,
        (first, mut registers): (u64, U::UnwindRegs),
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
        (most, addresses): (usize, &mut Vec<u64>),
    ) -> End {
        let mut frame = FrameAddress::from_instruction_pointer(first);
        for _ in 0..most.min(limits::FRAMES) {
            let address = frame.address_for_lookup();
            let Some(map) = space.find(address) else { return End::Incomplete };
            addresses.push(address);
            let (file, places) = self
                .known
                .entry(map.file)
                .or_insert_with(|| tables(map.file).map(Self::learn).unwrap_or_default());
            let (code, own) = match places.to_address(map.to_file(address)) {
                Some(own) => (&*file, own),
                None => (&self.bare, address),
            };
            let own = if frame.is_return_address() {
                own.checked_add(1).and_then(FrameAddress::from_return_address)
            } else {
                None
            }
            .unwrap_or(FrameAddress::from_instruction_pointer(own));
            match code.unwind_frame(own, &mut registers, &mut self.rules, read) {
                Ok(None) => return End::Whole,
                Ok(Some(caller)) => match FrameAddress::from_return_address(caller) {
                    Some(caller) => frame = caller,
                    None => return End::Incomplete,
                },
                Err(_) => return End::Incomplete,
            }
        }
        End::Whole
    }

    fn learn(frames: Frames) -> (U, Places) {
        let mut unwinder = U::default();
        unwinder.add_module(Module::new(String::new(), 0..u64::MAX, 0, frames.sections));
        (unwinder, frames.places)
    }
}

/// The tables of a recorded file: those of the file at its path, else in the cache.
fn load(options: &Options, files: &Files, id: FileId, most: u64) -> Option<Frames> {
    let file = files.get(id)?;
    let is_right = |frames: &Frames| {
        file.build_id.is_none() || frames.build_id.is_none() || frames.build_id == file.build_id
    };
    let is_right = |frames: &Frames| is_right(frames) && bounded::is_bounded(&frames.sections);
    match file.kind {
        Kind::Elf => disk::candidates(options, file).find_map(|path| {
            let cache = ReadCache::new(disk::open(&path).ok()?);
            Frames::read(&cache, most).ok().filter(is_right)
        }),
        Kind::Vdso => Frames::read(disk::vdso().ok()?.as_slice(), most).ok().filter(is_right),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::File;
    use crate::space::Map;

    const START: u64 = 0x7fff_0000;

    /// Unwinds a stack by frame pointers alone: the code is in no file.
    fn unwound(stack: &[u64], frame_pointer: u64, most: usize) -> (End, Vec<u64>) {
        let mut files = Files::default();
        let file = files
            .intern(File { kind: Kind::Anonymous, name: b"[jit]".to_vec(), build_id: None })
            .unwrap();
        let mut space = Space::default();
        space.add(Map { start: 0x1000, end: 0x9000, pgoff: 0, file });
        let bytes: Vec<u8> = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut general = [0; 16];
        (general[6], general[7]) = (frame_pointer, START);
        let mut addresses = Vec::new();
        let registers = Registers::X86_64 { ip: 0x1000, general };
        let end = Unwinder::new(Options::default()).unwind(
            (&files, &space),
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
        assert_eq!(unwound(&stack, START + 16, 100), (End::Whole, vec![0x1000, 0x2000, 0x3000]));
        assert_eq!(unwound(&stack, START + 16, 2), (End::Whole, vec![0x1000, 0x2000]));
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
            let mut files = Files::default();
            let file = files
                .intern(File {
                    kind: Kind::Elf,
                    name: path.into_os_string().into_encoded_bytes(),
                    build_id: None,
                })
                .unwrap();
            let mut space = Space::default();
            // The code lies at 0x1000 in the file, as it does in what linkers make.
            space.add(Map { start: 0x1000, end: 0x5000, pgoff: 0x1000, file });
            let stack: Vec<u8> =
                [0, 0x2001_u64].iter().flat_map(|word| word.to_le_bytes()).collect();
            let mut general = [0; 16];
            general[7] = START;
            let mut addresses = Vec::new();
            let registers = Registers::X86_64 { ip: 0x1000, general };
            Unwinder::new(Options::default()).unwind(
                (&files, &space),
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
                end == End::Incomplete && addresses.len() <= 4,
                "{stack:x?}: {end:?} {addresses:x?}"
            );
        }
    }
}
