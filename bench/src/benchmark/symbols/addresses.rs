//! Addresses in a program's text, and names in its symbol tables.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::Path;

use anyhow::Context;
use object::read::ReadCache;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol};

/// Draws addresses from the sections whose names begin with `.text`: one from each of `count` equal
/// parts. The same seed draws the same addresses. The stubs of `.plt` are left out, because LLVM's
/// symbolizer gives them the name of the function before.
///
/// # Errors
/// The file isn't a 64-bit ELF file, or has fewer bytes of code than `count`.
pub(super) fn drawn(file: &Path, count: u64, seed: u64) -> anyhow::Result<Vec<u64>> {
    let open = File::open(file).with_context(|| format!("opening {}", file.display()))?;
    let cache = ReadCache::new(open);
    let parsed = ElfFile64::<Endianness, _>::parse(&cache)?;
    let is_text = |name: &[u8]| name.starts_with(b".text");
    let sections: Vec<(u64, u64)> = parsed
        .sections()
        .filter(|section| section.name_bytes().is_ok_and(is_text))
        .map(|section| (section.address(), section.size()))
        .collect();
    let whole: u64 = sections.iter().map(|(_, size)| size).sum();
    anyhow::ensure!(whole >= count, "{} has {whole} bytes of code", file.display());
    let mut random = fastrand::Rng::with_seed(seed);
    let place = |at: u64| {
        // A program's text times a million is far below the largest number.
        let part = |at: u64| whole.saturating_mul(at) / count;
        let mut place = random.u64(part(at)..part(at + 1));
        for (address, size) in &sections {
            if place < *size {
                return address + place;
            }
            place -= size;
        }
        0
    };
    Ok((0..count).map(place).collect())
}

/// Names of symbols with their addresses, and names of files, in a program's symbol tables.
#[derive(Debug)]
pub(super) struct SymbolTable {
    addresses: HashMap<String, HashSet<u64>>,
    files: HashSet<String>,
}

impl SymbolTable {
    /// # Errors
    /// The file isn't a 64-bit ELF file.
    pub(super) fn read(file: &Path) -> anyhow::Result<Self> {
        let bytes = std::fs::read(file)?;
        let parsed = ElfFile64::<Endianness>::parse(&*bytes)?;
        let mut table = Self { addresses: HashMap::new(), files: HashSet::new() };
        for symbol in parsed.symbols().chain(parsed.dynamic_symbols()) {
            let name = String::from_utf8_lossy(symbol.name_bytes()?).into_owned();
            if symbol.kind() == object::SymbolKind::File {
                table.files.insert(name);
            } else {
                table.addresses.entry(name).or_default().insert(symbol.address());
            }
        }
        Ok(table)
    }

    /// Whether two names share an address.
    pub(super) fn are_aliases(&self, one: &str, other: &str) -> bool {
        let one = self.addresses.get(one);
        let other = self.addresses.get(other);
        one.zip(other).is_some_and(|(one, other)| !one.is_disjoint(other))
    }

    /// Whether a file symbol (`STT_FILE`) has this name: a source file, or a compiler's code
    /// generation unit.
    pub(super) fn is_file(&self, name: &str) -> bool {
        self.files.contains(name)
    }
}
