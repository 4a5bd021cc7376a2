//! Where the symbols of a DSO come from.

use std::fs::File;

use crate::cache::KeptTable;
use crate::jitdump::JitDump;
use crate::kernel::KernelSymbols;
use crate::name_source::NameSource;
use crate::perf_map::PerfMap;
use crate::table::{SymbolMatch, SymbolTable};

/// Symbols of a DSO.
///
/// Invariant: a symbol's number stays the same as long as the source exists. `Kernel` and `Module`
/// exist only after the kernel's symbols were loaded; methods get these from their `kernel`
/// parameter.
#[derive(Debug)]
pub(super) enum SymbolSource {
    Table(SymbolTable),
    /// Symbols in the cache of earlier runs.
    Kept(Box<KeptTable>),
    PerfMap(PerfMap),
    JitDump(JitDump<File>),
    /// The kernel's own symbols in its list.
    Kernel,
    /// A module's symbols in the kernel's list.
    Module {
        /// Name without brackets.
        name: Vec<u8>,
        /// Added to a recorded address to get the address in the list.
        shift: u64,
    },
    /// A single symbol, which the recording describes itself.
    Ksymbol {
        bytes: u64,
        name: Vec<u8>,
    },
}

impl SymbolSource {
    /// Finds the symbol at an address of the DSO.
    pub(super) fn find<'k>(
        &self,
        kernel: impl FnOnce() -> Option<&'k KernelSymbols>,
        address: u64,
    ) -> Option<SymbolMatch> {
        match self {
            Self::Table(table) => table.find(address),
            Self::Kept(table) => table.find(address),
            Self::PerfMap(map) => map.find(address),
            Self::JitDump(dump) => dump.find(address),
            Self::Kernel => {
                let kernel = kernel()?;
                let range = kernel.kernel().find(address.wrapping_add(kernel.shift))?;
                Some(range.moved_down(kernel.shift))
            }
            Self::Module { name, shift } => {
                let range = kernel()?.module(name)?.find(address.wrapping_add(*shift))?;
                Some(range.moved_down(*shift))
            }
            Self::Ksymbol { bytes, .. } => {
                (address < *bytes).then_some(SymbolMatch { number: 0, start: 0, end: *bytes })
            }
        }
    }

    /// Returns a symbol's name as it is in the file (of a stub, the name of its target), and where
    /// it comes from.
    pub(super) fn raw_name<'a>(
        &'a self,
        kernel: impl FnOnce() -> Option<&'a KernelSymbols>,
        number: u32,
    ) -> Option<(&'a [u8], NameSource)> {
        match self {
            Self::Table(table) => table.name(number),
            Self::Kept(table) => table.name(number),
            Self::PerfMap(map) => Some((map.name(number)?, NameSource::PerfMap)),
            Self::JitDump(dump) => Some((dump.name(number)?, NameSource::Jitdump)),
            Self::Kernel => kernel()?.kernel().name(number),
            Self::Module { name, .. } => kernel()?.module(name)?.name(number),
            Self::Ksymbol { name, .. } => (number == 0).then_some((name, NameSource::Ksymbol)),
        }
    }

    /// Bytes of the table that names come from.
    pub(super) fn name_table_bytes<'k>(
        &self,
        kernel: impl FnOnce() -> Option<&'k KernelSymbols>,
    ) -> usize {
        match self {
            Self::Kernel => kernel().map_or(0, |kernel| kernel.kernel().bytes()),
            Self::Module { name, .. } => {
                kernel().and_then(|kernel| kernel.module(name)).map_or(0, SymbolTable::bytes)
            }
            Self::Ksymbol { name, .. } => name.len(),
            _ => self.own_bytes(),
        }
    }

    /// Bytes of the DSO's own table, without the kernel's symbols.
    pub(super) fn own_bytes(&self) -> usize {
        match self {
            Self::Table(table) => table.bytes(),
            Self::Kept(table) => table.bytes(),
            Self::PerfMap(map) => map.bytes(),
            Self::JitDump(dump) => dump.bytes(),
            Self::Kernel | Self::Module { .. } | Self::Ksymbol { .. } => 0,
        }
    }

    /// Whether the DSO has a table without symbols.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Table(table) => table.is_empty(),
            Self::PerfMap(map) => map.is_empty(),
            Self::JitDump(dump) => dump.is_empty(),
            Self::Kept(_) | Self::Kernel | Self::Module { .. } | Self::Ksymbol { .. } => false,
        }
    }

    /// Whether the file may have more symbols by now.
    pub(super) fn may_grow(&self) -> bool {
        matches!(self, Self::PerfMap(_) | Self::JitDump(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Binding, NewSymbol, SymbolKind, SymbolTableBuilder};

    #[test]
    fn a_ksymbol_has_a_single_symbol() {
        let source = SymbolSource::Ksymbol { bytes: 16, name: b"prog".to_vec() };
        let range = SymbolMatch { number: 0, start: 0, end: 16 };
        assert_eq!((source.find(|| None, 15), source.find(|| None, 16)), (Some(range), None));
        assert_eq!(source.raw_name(|| None, 0), Some((&b"prog"[..], NameSource::Ksymbol)));
        assert_eq!(source.raw_name(|| None, 1), None);
        assert_eq!((source.own_bytes(), source.is_empty()), (0, false));
    }

    #[test]
    fn a_symbol_keeps_its_number() {
        let mut builder = SymbolTableBuilder::new(NameSource::Symtab);
        for (start, name) in [(0x20, b"g"), (0x10, b"f")] {
            let kind = SymbolKind::Object;
            builder.add(NewSymbol { start, size: 0x10, binding: Binding::Global, kind }, name);
        }
        let source = SymbolSource::Table(builder.build(false));
        for address in [0x10, 0x1f, 0x20] {
            let found = source.find(|| None, address).unwrap();
            let name = if address < 0x20 { b"f" } else { b"g" };
            let named = source.raw_name(|| None, found.number);
            assert_eq!(named, Some((&name[..], NameSource::Symtab)));
            assert_eq!(source.find(|| None, found.start).unwrap().number, found.number);
        }
    }

    #[test]
    fn kernel_symbols_need_a_loaded_kernel() {
        let module = SymbolSource::Module { name: b"ext4".to_vec(), shift: 0 };
        for source in [SymbolSource::Kernel, module] {
            assert_eq!(source.find(|| None, 0x1000), None);
            assert_eq!(source.name_table_bytes(|| None), 0);
        }
    }
}
