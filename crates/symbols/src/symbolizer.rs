//! From an address in a file to a symbol.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use object::read::ReadCache;

use crate::demangle::demangle;
use crate::disk;
use crate::elf::Image;
use crate::files::{BuildId, File, FileId, Files, Kind};
use crate::kallsyms::Kallsyms;
use crate::limits;
use crate::perf_map;
use crate::table::{Builder, Rank, Table};

/// Where symbols are looked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder that recorded paths begin in.
    pub root: PathBuf,
    /// The folder of `.build-id/xx/yyyy/elf`: files that `perf` kept when they were recorded.
    pub cache: Option<PathBuf>,
    /// The kernel's symbols, where they are not this machine's.
    pub kallsyms: Option<PathBuf>,
    /// Names as in source code rather than as in the file.
    pub demangle: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { root: PathBuf::from("/"), cache: None, kallsyms: None, demangle: true }
    }
}

/// Why an address has no symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum Unresolved {
    /// Nothing was mapped there, as far as the recording says.
    #[error("nothing was mapped at the address")]
    NoMap,
    /// The file is not there any more.
    #[error("the file is gone")]
    NoFile,
    /// This user may not read it.
    #[error("the file is not readable for this user")]
    NotReadable,
    /// Another version of the file is there now.
    #[error("the file has changed since (another build id)")]
    OtherBuild,
    /// The kernel has other addresses since it was started again.
    #[error("the machine was started again since, and its modules lie elsewhere")]
    OtherBoot,
    /// The kernel hides its addresses.
    #[error(
        "the kernel hides its addresses from this user (as root: sysctl kernel.kptr_restrict=0)"
    )]
    Hidden,
    /// It is no ELF file, or a damaged one.
    #[error("the file is not a whole ELF file")]
    Malformed,
    /// It has no table of symbols.
    #[error("the file has no symbols")]
    Stripped,
    /// It has one, and nothing in it lies at this address.
    #[error("no symbol of the file lies at the address")]
    NoSymbol,
    /// More symbols than a reader's limit.
    #[error("more symbols than a reader's limit")]
    OverLimit,
}

/// A symbol. Number and file together stay the same as long as the [`Symbolizer`] lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// The file.
    pub file: FileId,
    /// Its number in the file.
    pub number: u32,
    /// Its first address, as the file calls it.
    pub start: u64,
    /// The first address behind it, as the file calls it.
    pub end: u64,
}

/// Finds symbols, and reads each file when it is first asked for.
#[derive(Debug)]
pub struct Symbolizer {
    options: Options,
    tables: Vec<Option<Result<Loaded, Unresolved>>>,
    kallsyms: Option<Result<Kallsyms, Unresolved>>,
    kernel_build_id: Option<Option<BuildId>>,
    /// What is added to a recorded address to have today's.
    kernel_shift: u64,
    reference: Option<(Vec<u8>, u64)>,
    ksymbols: HashMap<FileId, u64>,
    symbols: usize,
}

#[derive(Debug)]
struct Loaded {
    table: Source,
    /// By symbol; empty until it is asked for.
    names: Vec<Box<str>>,
}

#[derive(Debug)]
enum Source {
    Own(Table),
    Kernel,
    Module(Vec<u8>),
}

impl Symbolizer {
    /// Nothing is read yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            tables: Vec::new(),
            kallsyms: None,
            kernel_build_id: None,
            kernel_shift: 0,
            reference: None,
            ksymbols: HashMap::new(),
            symbols: 0,
        }
    }

    /// The recorded kernel had this symbol at this address: it may lie elsewhere today.
    pub fn set_kernel_reference(&mut self, symbol: &[u8], address: u64) {
        self.reference = Some((symbol.to_vec(), address));
    }

    /// A file of kind [`Kind::Ksymbol`] is one symbol of this size.
    pub fn set_ksymbol(&mut self, file: FileId, bytes: u64) {
        self.ksymbols.insert(file, bytes);
    }

    /// The symbol at an address, as [`crate::Map::to_file`] gives it.
    ///
    /// # Errors
    /// There is none: see [`Unresolved`].
    pub fn find(
        &mut self,
        files: &Files,
        file: FileId,
        address: u64,
    ) -> Result<Symbol, Unresolved> {
        let at = file.index();
        if self.tables.get(at).is_none_or(Option::is_none) {
            let loaded = self.load(files.get(file).ok_or(Unresolved::NoMap)?, file);
            if self.tables.len() <= at {
                self.tables.resize_with(at + 1, || None);
            }
            self.tables[at] = Some(loaded);
        }
        let loaded = match self.tables.get(at) {
            Some(Some(Ok(loaded))) => loaded,
            Some(Some(Err(why))) => return Err(*why),
            _ => return Err(Unresolved::NoMap),
        };
        let shift = if matches!(loaded.table, Source::Kernel) { self.kernel_shift } else { 0 };
        let table = Self::table(self.kallsyms.as_ref(), loaded).ok_or(Unresolved::NoSymbol)?;
        let (number, start, end) =
            table.find(address.wrapping_add(shift)).ok_or(Unresolved::NoSymbol)?;
        Ok(Symbol { file, number, start: start.wrapping_sub(shift), end: end.wrapping_sub(shift) })
    }

    /// The name of a symbol. Untrusted: it comes from the file.
    pub fn name(&mut self, symbol: Symbol) -> &str {
        let Some(Some(Ok(loaded))) = self.tables.get_mut(symbol.file.index()) else { return "" };
        let number = symbol.number as usize;
        if loaded.names.get(number).is_none_or(|name| name.is_empty()) {
            let raw = Self::table(self.kallsyms.as_ref(), loaded)
                .and_then(|table| table.name(symbol.number))
                .unwrap_or_default();
            let name = if self.options.demangle {
                demangle(raw)
            } else {
                String::from_utf8_lossy(raw).into_owned()
            };
            if loaded.names.len() <= number {
                loaded.names.resize(number + 1, Box::default());
            }
            loaded.names[number] = name.into();
        }
        &loaded.names[number]
    }

    fn table<'a>(
        kallsyms: Option<&'a Result<Kallsyms, Unresolved>>,
        loaded: &'a Loaded,
    ) -> Option<&'a Table> {
        match &loaded.table {
            Source::Own(table) => Some(table),
            Source::Kernel => Some(&kallsyms?.as_ref().ok()?.kernel),
            Source::Module(name) => kallsyms?.as_ref().ok()?.module(name),
        }
    }

    fn load(&mut self, file: &File, id: FileId) -> Result<Loaded, Unresolved> {
        let table = match file.kind {
            Kind::Kernel => {
                self.load_kernel(file.build_id)?;
                return Ok(Loaded { table: Source::Kernel, names: Vec::new() });
            }
            Kind::Module => return self.load_module(file),
            Kind::Ksymbol => {
                let mut symbols = Builder::default();
                let bytes = self.ksymbols.get(&id).copied().unwrap_or(u64::MAX);
                symbols.add(
                    0,
                    bytes,
                    &file.name,
                    Rank { is_global: true, is_weak: false, is_label: false },
                );
                symbols.build(false)
            }
            Kind::Elf => self.load_elf(file)?,
            Kind::Vdso => vdso(file.build_id)?,
            Kind::PerfMap => {
                perf_map::parse(&disk::read_text(&disk::below_root(&self.options, &file.name))?)
            }
            Kind::Anonymous => return Err(Unresolved::NoSymbol),
        };
        self.symbols += table.len();
        if self.symbols > limits::SYMBOLS {
            return Err(Unresolved::OverLimit);
        }
        if table.is_empty() {
            Err(Unresolved::Stripped)
        } else {
            Ok(Loaded { table: Source::Own(table), names: Vec::new() })
        }
    }

    /// Reads the list of the kernel's symbols, once.
    fn load_kernel(&mut self, build_id: Option<BuildId>) -> Result<(), Unresolved> {
        if self.kallsyms.is_none() {
            let path = self
                .options
                .kallsyms
                .clone()
                .unwrap_or_else(|| disk::below_root(&self.options, b"/proc/kallsyms"));
            self.kallsyms = Some(disk::read_text(&path).map(|text| Kallsyms::parse(&text)));
        }
        let own_kernel = self.options.kallsyms.is_none();
        let notes = disk::below_root(&self.options, b"/sys/kernel/notes");
        let running = *self.kernel_build_id.get_or_insert_with(|| {
            std::fs::read(notes).ok().and_then(|notes| note_build_id(&notes))
        });
        if own_kernel && build_id.is_some() && running.is_some() && build_id != running {
            return Err(Unresolved::OtherBuild);
        }
        let kallsyms = match &self.kallsyms {
            Some(Ok(kallsyms)) if kallsyms.is_hidden() => return Err(Unresolved::Hidden),
            Some(Ok(kallsyms)) => kallsyms,
            Some(Err(why)) => return Err(*why),
            None => return Err(Unresolved::NoFile),
        };
        if let Some((symbol, then)) = &self.reference {
            self.kernel_shift = kallsyms.reference(symbol).map_or(0, |now| now.wrapping_sub(*then));
        }
        Ok(())
    }

    fn load_module(&mut self, file: &File) -> Result<Loaded, Unresolved> {
        self.load_kernel(None)?;
        if self.kernel_shift != 0 {
            return Err(Unresolved::OtherBoot);
        }
        let name = file
            .name
            .strip_prefix(b"[")
            .and_then(|name| name.strip_suffix(b"]"))
            .unwrap_or(&file.name)
            .to_vec();
        let known =
            matches!(&self.kallsyms, Some(Ok(kallsyms)) if kallsyms.module(&name).is_some());
        if known {
            Ok(Loaded { table: Source::Module(name), names: Vec::new() })
        } else {
            Err(Unresolved::Stripped)
        }
    }

    /// The symbols of the recorded file: at its path, else in the cache; where it is stripped, of
    /// its debug file.
    fn load_elf(&self, file: &File) -> Result<Table, Unresolved> {
        let mut why = Unresolved::NoFile;
        for path in disk::candidates(&self.options, file) {
            let image = match read_image(&path, None) {
                Ok(image)
                    if file.build_id.is_none()
                        || image.build_id.is_none()
                        || image.build_id == file.build_id =>
                {
                    image
                }
                Ok(_) => {
                    why = Unresolved::OtherBuild;
                    continue;
                }
                Err(reason) => {
                    why = if why == Unresolved::NoFile { reason } else { why };
                    continue;
                }
            };
            let debug = image.build_id.filter(|_| !image.has_symtab).map(|id| {
                disk::build_id_path(
                    &disk::below_root(&self.options, b"/usr/lib/debug"),
                    id,
                    ".debug",
                )
            });
            let debug = debug
                .and_then(|path| read_image(&path, Some(&image)).ok())
                .filter(|debug| debug.build_id == image.build_id);
            let mut symbols = debug
                .map(|debug| debug.symbols)
                .filter(|symbols| !symbols.is_empty())
                .unwrap_or(image.symbols);
            // A debug file has no code, so its stubs are unknown.
            for (place, size, name) in &image.stubs {
                symbols.add(
                    *place,
                    *size,
                    name,
                    Rank { is_global: true, is_weak: false, is_label: false },
                );
            }
            return Ok(symbols.build(self.options.demangle));
        }
        Err(why)
    }
}

fn read_image(path: &Path, belongs_to: Option<&Image>) -> Result<Image, Unresolved> {
    let cache = ReadCache::new(disk::open(path)?);
    Image::read(&cache, belongs_to.map(|image| &image.segments)).map_err(|_| Unresolved::Malformed)
}

/// The build id among ELF notes of this machine's byte order: name size, description size, type,
/// name, description.
fn note_build_id(mut notes: &[u8]) -> Option<BuildId> {
    loop {
        let word = |at: usize| {
            notes
                .get(at..at + 4)
                .map(|bytes| u32::from_ne_bytes(std::array::from_fn(|i| bytes[i])) as usize)
        };
        let (name_size, size, kind) = (word(0)?, word(4)?, word(8)?);
        let name = notes.get(12..)?.get(..name_size)?;
        let behind_name =
            notes.get(12_usize.checked_add(name_size.checked_next_multiple_of(4)?)?..)?;
        if (name, kind) == (&b"GNU\0"[..], object::elf::NT_GNU_BUILD_ID.0 as usize) {
            return BuildId::new(behind_name.get(..size)?);
        }
        notes = behind_name.get(size.checked_next_multiple_of(4)?..)?;
    }
}

/// The symbols of the image that the kernel maps into each process.
fn vdso(build_id: Option<BuildId>) -> Result<Table, Unresolved> {
    let image = disk::vdso()?;
    let image = Image::read(image.as_slice(), None).map_err(|_| Unresolved::Malformed)?;
    if build_id.is_some() && image.build_id.is_some() && build_id != image.build_id {
        return Err(Unresolved::OtherBuild);
    }
    Ok(image.symbols.build(false))
}
