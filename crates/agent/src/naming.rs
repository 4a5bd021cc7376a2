//! Names for frames that had none when they were recorded, by the build ids of their files.

use std::collections::{BTreeMap, HashMap};

use tare_store::{FrameName, Store, StoreError, Symbolization, UnnamedFrame};
use tare_symbols::{
    BuildId, Dso, DsoId, DsoKind, DsoMapping, DsoTable, NameSource, SymbolOptions, Symbolizer,
    Unresolved,
};

/// Files without names that are listed. Further ones are only counted as frames.
const MAX_FILES: usize = 1 << 12;

/// The module that the kernel's own frames have.
const KERNEL: &str = "[kernel.kallsyms]";

/// A file some of whose frames still have no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamelessFile {
    /// Its build id, in hexadecimal.
    pub build_id: Option<String>,
    /// Its path.
    pub module: Option<String>,
    /// Addresses in it without a name.
    pub addresses: u64,
    /// Why the last of them has none; `None` without a build id.
    pub reason: Option<Unresolved>,
}

/// Names the frames of a store that have none. Returns what was named, and the files of the other
/// frames, most addresses first. Only files with the recorded build id name frames.
///
/// # Errors
/// As [`Store::symbolize`].
pub fn name_frames(
    store: &Store,
    options: &SymbolOptions,
) -> Result<(Symbolization, Vec<NamelessFile>), StoreError> {
    let mut namer = FrameNamer::new(options.clone());
    let symbolization = store.symbolize(|frame| namer.name(frame))?;
    let mut nameless: Vec<NamelessFile> = namer.nameless.into_values().collect();
    nameless.sort_by_key(|file| std::cmp::Reverse(file.addresses));
    Ok((symbolization, nameless))
}

/// Symbols of one kernel, or of files and kernel modules.
struct BuildSymbols {
    dsos: DsoTable,
    symbolizer: Symbolizer,
}

impl BuildSymbols {
    fn new(options: SymbolOptions) -> Self {
        Self { dsos: DsoTable::default(), symbolizer: Symbolizer::new(options) }
    }

    fn find(&mut self, dso: Dso, address: u64) -> Result<FrameName, Unresolved> {
        let is_module = dso.kind == DsoKind::Module;
        let dso = self.dsos.intern(dso).ok_or(Unresolved::OverLimit)?;
        if is_module {
            // Addresses in a module count from its start.
            let mapping = DsoMapping { pid: -1, start: 0, end: u64::MAX, mapped_ns: None };
            self.dsos.note_mapping(dso, mapping);
        }
        self.name(dso, address)
    }

    fn name(&self, dso: DsoId, address: u64) -> Result<FrameName, Unresolved> {
        let symbol = self.symbolizer.find(&self.dsos, dso, address)?;
        if self.symbolizer.name_source(symbol) == Some(NameSource::UnwindTable) {
            return Err(Unresolved::NoSymbol);
        }
        let function = self.symbolizer.name(symbol).to_owned();
        Ok(FrameName { function, ..FrameName::default() })
    }
}

struct FrameNamer {
    options: SymbolOptions,
    files: BuildSymbols,
    kernels: HashMap<BuildId, BuildSymbols>,
    nameless: BTreeMap<(Option<String>, Option<String>), NamelessFile>,
}

impl FrameNamer {
    fn new(options: SymbolOptions) -> Self {
        let files = BuildSymbols::new(options.clone());
        Self { options, files, kernels: HashMap::new(), nameless: BTreeMap::new() }
    }

    fn name(&mut self, frame: &UnnamedFrame<'_>) -> Option<FrameName> {
        let reason = match frame.build_id.and_then(parse) {
            Some(build_id) => match self.find(build_id, frame) {
                Ok(name) => return Some(name),
                Err(reason) => Some(reason),
            },
            None => None,
        };
        let key = (frame.build_id.map(str::to_owned), frame.module.map(str::to_owned));
        if self.nameless.len() < MAX_FILES || self.nameless.contains_key(&key) {
            let (build_id, module) = key.clone();
            let empty = NamelessFile { build_id, module, addresses: 0, reason };
            let file = self.nameless.entry(key).or_insert(empty);
            file.addresses += 1;
            file.reason = reason;
        }
        None
    }

    fn find(&mut self, id: BuildId, frame: &UnnamedFrame<'_>) -> Result<FrameName, Unresolved> {
        let module = frame.module.unwrap_or_default();
        let kind = match module {
            KERNEL => DsoKind::Kernel,
            "[vdso]" => DsoKind::Vdso,
            _ if module.starts_with('[') => DsoKind::Module,
            _ => DsoKind::Elf,
        };
        let dso = Dso { kind, name: module.as_bytes().to_vec(), build_id: Some(id) };
        if kind != DsoKind::Kernel {
            return self.files.find(dso, frame.address);
        }
        let options = &self.options;
        let kernel = self.kernels.entry(id).or_insert_with(|| {
            let mut symbols = BuildSymbols::new(options.clone());
            let recorded = symbols.symbolizer.recorded_kernel();
            recorded.build_id = Some(id);
            // Addresses in the kernel count from the start of its text.
            recorded.reference = Some((b"_text".to_vec(), 0));
            symbols
        });
        kernel.find(dso, frame.address)
    }
}

/// Reads a build id in hexadecimal.
fn parse(text: &str) -> Option<BuildId> {
    let digits = text.as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let is_hex = digits.len().is_multiple_of(2) && digits.iter().all(u8::is_ascii_hexdigit);
    let bytes: Vec<u8> = digits.chunks_exact(2).filter(|_| is_hex).filter_map(byte).collect();
    BuildId::new(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_bytes_are_a_build_id() {
        assert_eq!(parse("8F3a").map(|id| id.to_string()), Some("8f3a".to_owned()));
        for wrong in ["", "8f3", "8f3g", "+1", "../../etc", "0000"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn frames_without_a_file_are_counted_by_file() {
        let folder = tempfile::tempdir().unwrap();
        let options = SymbolOptions { symfs: folder.path().to_owned(), ..SymbolOptions::default() };
        let mut namer = FrameNamer::new(options);
        let frame = |build_id, address| UnnamedFrame { build_id, module: Some("/a"), address };
        for frame in [frame(Some("8f3a"), 1), frame(Some("8f3a"), 2), frame(None, 3)] {
            assert_eq!(namer.name(&frame), None);
        }
        let counts = namer.nameless.into_values().map(|file| (file.addresses, file.reason));
        let counts: Vec<_> = counts.collect();
        assert_eq!(counts, [(1, None), (2, Some(Unresolved::NoFile))]);
    }
}
