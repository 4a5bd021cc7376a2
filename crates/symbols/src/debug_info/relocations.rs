//! Relocates debug info: a kernel module isn't linked, so addresses and offsets in its debug info
//! are still to be filled in.

use std::borrow::Cow;

use object::read::elf::{FileHeader, Rela, SectionHeader, Sym};
use object::{Endian, Endianness, elf};

use crate::elf::{Layout, LoadedModule, Sections};

/// How a relocation changes bytes, by the ABI supplements of the architectures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Effect {
    bytes: usize,
    is_relative: bool,
    /// Whether the value replaces the existing one, or is added to it or subtracted from it.
    sum: RelocationSum,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RelocationSum {
    Replace,
    Add,
    Subtract,
}

fn effect(machine: elf::Machine, kind: elf::RelocationType) -> Option<Effect> {
    let absolute = |bytes| Some(Effect { bytes, is_relative: false, sum: RelocationSum::Replace });
    let relative = |bytes| Some(Effect { bytes, is_relative: true, sum: RelocationSum::Replace });
    let summed = |bytes, sum| Some(Effect { bytes, is_relative: false, sum });
    match (machine, kind) {
        (elf::EM_X86_64, elf::R_X86_64_64)
        | (elf::EM_AARCH64, elf::R_AARCH64_ABS64)
        | (elf::EM_PPC64, elf::R_PPC64_ADDR64)
        | (elf::EM_S390, elf::R_390_64)
        | (elf::EM_RISCV, elf::R_RISCV_64) => absolute(8),
        (elf::EM_X86_64, elf::R_X86_64_32 | elf::R_X86_64_32S)
        | (elf::EM_AARCH64, elf::R_AARCH64_ABS32)
        | (elf::EM_PPC64, elf::R_PPC64_ADDR32)
        | (elf::EM_S390, elf::R_390_32)
        | (elf::EM_RISCV, elf::R_RISCV_32 | elf::R_RISCV_SET32) => absolute(4),
        (elf::EM_RISCV, elf::R_RISCV_SET16) => absolute(2),
        (elf::EM_RISCV, elf::R_RISCV_SET8) => absolute(1),
        (elf::EM_X86_64, elf::R_X86_64_PC64) | (elf::EM_AARCH64, elf::R_AARCH64_PREL64) => {
            relative(8)
        }
        (elf::EM_X86_64, elf::R_X86_64_PC32) | (elf::EM_AARCH64, elf::R_AARCH64_PREL32) => {
            relative(4)
        }
        (elf::EM_RISCV, elf::R_RISCV_ADD64) => summed(8, RelocationSum::Add),
        (elf::EM_RISCV, elf::R_RISCV_ADD32) => summed(4, RelocationSum::Add),
        (elf::EM_RISCV, elf::R_RISCV_ADD16) => summed(2, RelocationSum::Add),
        (elf::EM_RISCV, elf::R_RISCV_ADD8) => summed(1, RelocationSum::Add),
        (elf::EM_RISCV, elf::R_RISCV_SUB64) => summed(8, RelocationSum::Subtract),
        (elf::EM_RISCV, elf::R_RISCV_SUB32) => summed(4, RelocationSum::Subtract),
        (elf::EM_RISCV, elf::R_RISCV_SUB16) => summed(2, RelocationSum::Subtract),
        (elf::EM_RISCV, elf::R_RISCV_SUB8) => summed(1, RelocationSum::Subtract),
        _ => None,
    }
}

/// The relocations of a file, and the symbols and addresses that they need.
pub(super) struct Relocations<'d, H: FileHeader> {
    headers: &'d [H::SectionHeader],
    symbols: &'d [H::Sym],
    layout: Layout,
    endian: H::Endian,
    machine: elf::Machine,
    data: &'d [u8],
}

impl<'d, H: FileHeader<Endian = Endianness>> Relocations<'d, H> {
    pub(super) fn read(
        sections: &Sections<'d, H, &'d [u8]>,
        loaded: &LoadedModule,
    ) -> object::Result<Self> {
        Ok(Self {
            headers: sections.headers(),
            symbols: sections.symbols()?,
            layout: Layout::read(sections, loaded)?,
            endian: sections.endian,
            machine: sections.machine,
            data: sections.data,
        })
    }

    /// Applies the relocations of a section.
    pub(super) fn apply(&self, section: &H::SectionHeader, bytes: &mut Cow<'d, [u8]>) {
        let endian = self.endian;
        let Some(number) = self.headers.iter().position(|header| std::ptr::eq(header, section))
        else {
            return;
        };
        let is_its = |header: &&H::SectionHeader| {
            header.sh_type(endian) == elf::SHT_RELA && header.sh_info(endian) as usize == number
        };
        let Some(header) = self.headers.iter().find(is_its) else { return };
        let Ok(Some((entries, _))) = header.rela(endian, self.data) else { return };
        for entry in entries {
            self.apply_one(entry, bytes);
        }
    }

    fn apply_one(&self, entry: &H::Rela, bytes: &mut Cow<'d, [u8]>) -> Option<()> {
        let endian = self.endian;
        let effect = effect(self.machine, entry.r_type(endian, false))?;
        let symbol = self.symbols.get(entry.r_sym(endian, false) as usize);
        // Other sections than code count as being at address 0. References to debug sections are
        // offsets.
        let address = symbol.map_or(0, |symbol| {
            let base = self.layout.base(symbol.st_shndx(endian)).unwrap_or(0);
            base.wrapping_add(symbol.st_value(endian).into())
        });
        let offset: u64 = entry.r_offset(endian).into();
        let addend: i64 = entry.r_addend(endian).into();
        let at = usize::try_from(offset).ok()?;
        let place = at..at.checked_add(effect.bytes)?;
        let old = number(bytes.get(place.clone())?, endian);
        let value = address.wrapping_add_signed(addend);
        let value = if effect.is_relative { value.wrapping_sub(offset) } else { value };
        let value = match effect.sum {
            RelocationSum::Replace => value,
            RelocationSum::Add => old.wrapping_add(value),
            RelocationSum::Subtract => old.wrapping_sub(value),
        };
        write(bytes.to_mut().get_mut(place)?, value, endian);
        Some(())
    }
}

/// Reads a number of up to eight bytes.
fn number(bytes: &[u8], endian: Endianness) -> u64 {
    let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    if endian.is_little_endian() {
        bytes.iter().rev().fold(0, add)
    } else {
        bytes.iter().fold(0, add)
    }
}

/// Writes the lowest bytes of a number, as many as the slice has.
fn write(to: &mut [u8], value: u64, endian: Endianness) {
    let little = value.to_le_bytes();
    let big = value.to_be_bytes();
    let count = to.len();
    if endian.is_little_endian() {
        to.copy_from_slice(&little[..count]);
    } else {
        to.copy_from_slice(&big[8 - count..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_are_read() {
        for endian in [Endianness::Little, Endianness::Big] {
            let mut bytes = [0; 4];
            write(&mut bytes, 0x1234_5678_9abc_def0, endian);
            assert_eq!(number(&bytes, endian), 0x9abc_def0, "{endian:?}");
        }
    }
}
