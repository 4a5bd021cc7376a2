//! The functions of an ELF file by name, for probes: those of its symbol tables, of its separate
//! debug file, and of Go's runtime tables.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use object::elf::{R_AARCH64_IRELATIVE, R_X86_64_IRELATIVE, STT_GNU_IFUNC};
use object::read::{ReadCache, ReadRef};
use object::{
    Architecture, Object, ObjectSegment, ObjectSymbol, RelocationFlags, SymbolFlags, SymbolKind,
};

use crate::debug_info::count_inlined;
use crate::demangle::{demangle, signature};
use crate::elf;
use crate::limits;
use crate::search;

/// Folder of separate debug files, named by build id.
const DEBUG_FOLDER: &str = "/usr/lib/debug/.build-id";

/// A function of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFunction {
    /// Offset of its first instruction in the file, in bytes.
    pub offset: u64,
    /// Its name in the symbol table, mangled.
    pub symbol: String,
    /// Whether it only selects the implementation when the program starts (`STT_GNU_IFUNC`).
    pub is_selector: bool,
}

/// A word of a loaded file, in which the dynamic linker stores a selected implementation's address
/// (`R_*_IRELATIVE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectionSlot {
    /// The offset in the file of the function that selects, in bytes.
    pub selector: u64,
    /// The word's distance from the beginning of the loaded file, in bytes.
    pub slot: u64,
}

impl FileFunction {
    /// Returns the demangled name without parameters, as in reports.
    #[must_use]
    pub fn name(&self) -> String {
        demangle(self.symbol.as_bytes())
    }

    /// Returns the demangled name with parameters, if they are part of the symbol.
    #[must_use]
    pub fn signature(&self) -> String {
        signature(&self.symbol).unwrap_or_else(|| self.name())
    }

    /// Returns the symbol without the suffix of a compiler that copied the whole function
    /// (`.constprop.0`, `.isra.0`, `.lto_priv.0`, `.llvm.123`).
    #[must_use]
    pub fn base_symbol(&self) -> &str {
        const COPIES: [&str; 5] = ["constprop", "isra", "lto_priv", "llvm", "localalias"];
        let mut base = self.symbol.as_str();
        while let Some((front, last)) = base.rsplit_once('.') {
            let is_number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
            let (front, kind) = match front.rsplit_once('.') {
                Some((front, kind)) if is_number => (front, kind),
                _ => (front, last),
            };
            if front.is_empty() || !COPIES.contains(&kind) {
                break;
            }
            base = front;
        }
        base
    }
}

/// The functions that a file defines, those that it imports, and its libraries.
#[derive(Clone, Debug, Default)]
pub struct FileFunctions {
    /// The functions, by offset.
    pub functions: Vec<FileFunction>,
    /// Names of functions that the file calls but other files define.
    pub imports: Vec<String>,
    /// Names of the libraries that the file is linked with.
    pub libraries: Vec<String>,
    /// Where the dynamic linker stores selected implementations.
    pub selection_slots: Vec<SelectionSlot>,
}

/// Counts the places at which the compiler inlined each function of a file, by its symbol: no probe
/// sees calls there. Empty if the file has no debug info, or more than 64 MiB.
#[must_use]
pub fn count_inlined_calls(path: &Path) -> BTreeMap<String, usize> {
    open(path).map(|file| count_inlined(&file, path)).unwrap_or_default()
}

/// Reads the functions of a file.
struct FunctionReader {
    segments: Vec<Segment>,
    all: FileFunctions,
}

/// A loaded part of a file.
#[derive(Clone, Copy, Debug)]
struct Segment {
    address: u64,
    offset: u64,
    bytes: u64,
}

impl FileFunctions {
    /// Reads the functions of an ELF file.
    ///
    /// # Errors
    /// Fails if the file can't be read, isn't a regular file, or isn't an ELF file (`InvalidData`).
    pub fn read(path: &Path) -> io::Result<Self> {
        let file = open(path)?;
        let cache = ReadCache::new(&file);
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let object = object::File::parse(&cache).map_err(invalid)?;
        let mut reader = FunctionReader { segments: segments(&object), all: Self::default() };
        reader.add_symbols(&object);
        reader.add_imports(&object);
        reader.add_selection_slots(&object);
        if let Ok(Some(go)) = elf::go_functions(&cache) {
            let name = |at: u32| {
                let rest = go.names().get(at as usize..).unwrap_or_default();
                let rest = &rest[..rest.len().min(limits::NAME_BYTES)];
                let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
                String::from_utf8_lossy(&rest[..end])
            };
            for function in go.iter() {
                reader.add(function.start, name(function.name), false);
            }
        }
        if object.symbols().next().is_none()
            && let Ok(Some(id)) = object.build_id()
        {
            reader.add_debug_file(id);
        }
        let mut all = reader.all;
        all.functions.sort_by(|a, b| (a.offset, &a.symbol).cmp(&(b.offset, &b.symbol)));
        all.functions.dedup();
        Ok(all)
    }
}

impl FunctionReader {
    /// Converts an address of the linked file to an offset in the file; `None` if it isn't there.
    fn to_offset(&self, address: u64) -> Option<u64> {
        let within = |segment: &Segment| {
            let within = address.checked_sub(segment.address)?;
            (within < segment.bytes).then(|| segment.offset.checked_add(within)).flatten()
        };
        self.segments.iter().find_map(within)
    }

    fn add(&mut self, address: u64, name: Cow<'_, str>, is_selector: bool) {
        if self.all.functions.len() >= limits::SYMBOLS || name.is_empty() {
            return;
        }
        if let Some(offset) = self.to_offset(address) {
            let symbol = name.into_owned();
            self.all.functions.push(FileFunction { offset, symbol, is_selector });
        }
    }

    fn add_symbols<'d, R: ReadRef<'d>>(&mut self, object: &object::File<'d, R>) {
        for symbol in object.symbols().chain(object.dynamic_symbols()) {
            let is_selector = matches!(
                symbol.flags(),
                SymbolFlags::Elf { st_info, .. } if st_info.st_type() == STT_GNU_IFUNC
            );
            let is_function = symbol.is_definition() && symbol.kind() == SymbolKind::Text;
            let is_defined_selector = is_selector && !symbol.is_undefined();
            if (is_function || is_defined_selector)
                && let Ok(name) = symbol.name()
            {
                let name = name.split('@').next().unwrap_or_default();
                self.add(symbol.address(), name.into(), is_selector);
            }
        }
    }

    /// Adds where the dynamic linker stores selected implementations for calls within the file.
    fn add_selection_slots<'d, R: ReadRef<'d>>(&mut self, object: &object::File<'d, R>) {
        let wanted = match object.architecture() {
            Architecture::X86_64 => R_X86_64_IRELATIVE,
            Architecture::Aarch64 => R_AARCH64_IRELATIVE,
            _ => return,
        };
        let start = object.segments().next().filter(|first| first.file_range().0 == 0);
        let Some(start) = start.map(|first| first.address()) else { return };
        let Some(relocations) = object.dynamic_relocations() else { return };
        for (address, relocation) in relocations.take(limits::SYMBOLS) {
            if relocation.flags() == (RelocationFlags::Elf { r_type: wanted })
                && let Some(selector) = self.to_offset(relocation.addend().cast_unsigned())
                && let Some(slot) = address.checked_sub(start)
            {
                self.all.selection_slots.push(SelectionSlot { selector, slot });
            }
        }
    }

    fn add_imports<'d, R: ReadRef<'d>>(&mut self, object: &object::File<'d, R>) {
        let undefined = object.dynamic_symbols().filter(ObjectSymbol::is_undefined);
        let functions = undefined
            .filter(|symbol| matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown));
        self.all
            .imports
            .extend(functions.filter_map(|symbol| Some(symbol.name().ok()?.to_owned())));
        let libraries = object.import_libraries().into_iter().flatten().flatten();
        let name = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.all.libraries.extend(libraries.map(|library| name(library.name())));
    }

    /// Adds the functions of the installed debug file with a build id.
    fn add_debug_file(&mut self, id: &[u8]) {
        let Some(path) = debug_file(id) else { return };
        let Ok(file) = open(&path) else { return };
        let cache = ReadCache::new(&file);
        if let Ok(object) = object::File::parse(&cache)
            && object.build_id().ok().flatten() == Some(id)
        {
            self.add_symbols(&object);
        }
    }
}

fn segments<'d, R: ReadRef<'d>>(object: &object::File<'d, R>) -> Vec<Segment> {
    let segment = |segment: object::Segment<'d, '_, R>| {
        let (offset, bytes) = segment.file_range();
        Segment { address: segment.address(), offset, bytes }
    };
    object.segments().take(limits::SEGMENTS).map(segment).collect()
}

/// Opens a regular file.
fn open(path: &Path) -> io::Result<File> {
    let is_file = std::fs::metadata(path)?.is_file();
    if !is_file {
        return Err(io::Error::other("not a program"));
    }
    search::open(path).map_err(|_| io::ErrorKind::PermissionDenied.into())
}

/// Returns the path of the installed debug file with a build id.
fn debug_file(id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(Path::new(DEBUG_FOLDER).join(format!("{first:02x}")).join(format!("{rest}.debug")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(symbol: &str) -> FileFunction {
        FileFunction { offset: 0, symbol: symbol.to_owned(), is_selector: false }
    }

    #[test]
    fn names_have_a_form_with_parameters_and_one_without() {
        let function = function("_ZN2ns3Foo3barEi");
        assert_eq!(function.name(), "ns::Foo::bar");
        assert_eq!(function.signature(), "ns::Foo::bar(int)");
    }

    #[test]
    fn copies_of_a_function_have_its_name() {
        for (symbol, base) in [
            ("work.constprop.0", "work"),
            ("work.isra.0.constprop.1", "work"),
            ("work.lto_priv.7", "work"),
            ("work.part.0", "work.part.0"),
            ("work.cold", "work.cold"),
            ("main.work", "main.work"),
            (".constprop.0", ".constprop.0"),
        ] {
            assert_eq!(function(symbol).base_symbol(), base);
        }
    }

    #[test]
    fn finds_the_functions_of_this_program() {
        let all = FileFunctions::read(&std::env::current_exe().unwrap()).unwrap();
        let own = all
            .functions
            .iter()
            .filter(|function| function.name().ends_with("finds_the_functions_of_this_program"));
        assert!(own.count() > 0);
        assert!(all.imports.iter().any(|name| name.starts_with("mem")), "{:?}", all.imports);
        assert!(all.libraries.iter().any(|name| name.starts_with("libc.")));
    }
}
