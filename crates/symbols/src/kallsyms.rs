//! The kernel's list of its symbols, `/proc/kallsyms`: one `ADDRESS TYPE NAME [MODULE]` per line
//! (proc_kallsyms(5)).

use std::collections::HashMap;

use crate::name_source::NameSource;
use crate::table::{Binding, NewSymbol, SymbolKind, SymbolTable, SymbolTableBuilder};

/// The symbols of a kernel and its modules, at their addresses in memory.
#[derive(Debug)]
pub(crate) struct Kallsyms {
    /// Symbols of the kernel itself.
    pub(crate) kernel: SymbolTable,
    modules: HashMap<Vec<u8>, SymbolTable>,
    references: Vec<(&'static [u8], u64)>,
}

/// Symbols whose addresses show how far a kernel was moved at boot.
const REFERENCES: [&[u8]; 2] = [b"_text", b"_stext"];

/// Start and end symbols of the sections with lock and scheduler functions
/// (`include/asm-generic/vmlinux.lds.h`). The kernel's `in_lock_functions()` and
/// `in_sched_functions()` check the same ranges.
pub const LOCK_SECTIONS: [(&[u8], &[u8]); 2] =
    [(b"__sched_text_start", b"__sched_text_end"), (b"__lock_text_start", b"__lock_text_end")];

impl Kallsyms {
    /// Parses `/proc/kallsyms`. Keeps symbols of the types T, W, D and B in either case, but no
    /// names that begin with `$`. Skips malformed lines.
    pub(crate) fn parse(text: &[u8]) -> Self {
        let new = || SymbolTableBuilder::new(NameSource::Kallsyms);
        let mut kernel = new();
        // A line has about 45 bytes, 25 of them the name. Reserved memory costs nothing until
        // written.
        kernel.reserve(text.len() / 45, text.len() / 2);
        let mut modules: HashMap<&[u8], SymbolTableBuilder> = HashMap::new();
        let mut references = Vec::new();
        let mut from = 0;
        for end in memchr::memchr_iter(b'\n', text).chain([text.len()]) {
            let line = &text[from..end];
            from = (end + 1).min(text.len());
            let Some(KallsymsLine { address, kind, name, module }) = KallsymsLine::parse(line)
            else {
                continue;
            };
            if name.first() == Some(&b'_') {
                let bounds = LOCK_SECTIONS.iter().flat_map(|(start, end)| [start, end]);
                let mut known = REFERENCES.iter().chain(bounds);
                references.extend(known.find(|known| **known == name).map(|name| (*name, address)));
            }
            if !matches!(kind.to_ascii_uppercase(), b'T' | b'W' | b'D' | b'B')
                || name.first() == Some(&b'$')
            {
                continue;
            }
            let binding = match kind {
                b'W' => Binding::Weak,
                _ if kind.is_ascii_uppercase() => Binding::Global,
                _ => Binding::Local,
            };
            let symbols = match module {
                Some(module) => modules.entry(module).or_insert_with(new),
                None => &mut kernel,
            };
            symbols.add(
                NewSymbol { start: address, size: 0, binding, kind: SymbolKind::Object },
                name,
            );
        }
        let modules = modules
            .into_iter()
            .map(|(name, symbols)| (name.to_vec(), symbols.build(false)))
            .collect();
        Self { kernel: kernel.build(false), modules, references }
    }

    /// Returns the symbols of a module by its name without brackets.
    pub(crate) fn module(&self, name: &[u8]) -> Option<&SymbolTable> {
        self.modules.get(name)
    }

    /// Returns the address of `_text`, `_stext` or a bound of [`LOCK_SECTIONS`]; `None` for any
    /// other name. It is 0 if the kernel hides its addresses.
    pub(crate) fn reference(&self, name: &[u8]) -> Option<u64> {
        self.references
            .iter()
            .find(|(reference, _)| *reference == name)
            .map(|(_, address)| *address)
    }

    /// Whether the list has no addresses: it is empty, or the kernel hid them from this user, and
    /// all are 0.
    pub(crate) fn is_hidden(&self) -> bool {
        self.kernel.is_empty() || self.kernel.len() == 1 && self.kernel.find(0).is_some()
    }
}

/// A line of `/proc/kallsyms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KallsymsLine<'a> {
    /// The symbol's address; 0 if the kernel hides it.
    pub address: u64,
    /// The type's letter, as in nm(1).
    pub kind: u8,
    /// The symbol's name.
    pub name: &'a [u8],
    /// The module's name, without brackets.
    pub module: Option<&'a [u8]>,
}

impl<'a> KallsymsLine<'a> {
    /// Parses `ADDRESS TYPE NAME`, and the module after a tab or a space; `None` for a malformed
    /// line.
    #[must_use]
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let mut address = 0_u64;
        let mut digits = 0;
        while let Some(digit) = line.get(digits).and_then(|byte| hex_digit(*byte)) {
            address = address << 4 | digit;
            digits += 1;
        }
        let [b' ', kind, b' ', rest @ ..] = line.get(digits..)? else { return None };
        if !(1..=16).contains(&digits) {
            return None;
        }
        let (name, behind) =
            rest.split_at(memchr::memchr2(b'\t', b' ', rest).unwrap_or(rest.len()));
        let module =
            behind.trim_ascii().strip_prefix(b"[").and_then(|word| word.strip_suffix(b"]"));
        (!name.is_empty()).then_some(Self { address, kind: *kind, name, module })
    }
}

fn hex_digit(byte: u8) -> Option<u64> {
    match byte {
        b'0'..=b'9' => Some(u64::from(byte - b'0')),
        b'a'..=b'f' => Some(u64::from(byte - b'a' + 10)),
        b'A'..=b'F' => Some(u64::from(byte - b'A' + 10)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"ffffffff81000000 T _text\nffffffff81000000 T _stext\nffffffff81000100 t helper\nffffffff81000200 A absolute\n\
        ffffffff81000300 W weak\nno line\nffffffffc0000000 t inside\t[mod]\nffffffffc0000100 T after\t[mod]\n";

    #[test]
    fn kernel_and_modules_are_kept_apart() {
        let kallsyms = Kallsyms::parse(TEXT);
        let name = |table: &SymbolTable, address| {
            let (name, _) = table.name(table.find(address)?.number)?;
            Some(String::from_utf8_lossy(name).into_owned())
        };
        assert_eq!(name(&kallsyms.kernel, 0xffff_ffff_8100_0180).as_deref(), Some("helper"));
        assert_eq!(
            name(&kallsyms.kernel, 0xffff_ffff_8100_0280).as_deref(),
            Some("helper"),
            "absolute symbols are no code"
        );
        assert_eq!(
            name(&kallsyms.kernel, 0xffff_ffff_8100_0000).as_deref(),
            Some("_stext"),
            "the last of those without a size"
        );
        let module = kallsyms.module(b"mod").expect("it is there");
        assert_eq!(name(module, 0xffff_ffff_c000_0010).as_deref(), Some("inside"));
        assert_eq!(kallsyms.reference(b"_text"), Some(0xffff_ffff_8100_0000));
        assert!(!kallsyms.is_hidden() && kallsyms.module(b"other").is_none());
    }

    #[test]
    fn hidden_addresses_are_noticed() {
        assert!(
            Kallsyms::parse(b"0000000000000000 T _text\n0000000000000000 t helper\n").is_hidden()
        );
        assert!(Kallsyms::parse(b"").is_hidden());
    }
}
