//! Files of the recorded kernel: its image with symbols (vmlinux), and its modules. Both are looked
//! up by recorded addresses: the boot loader may have moved the image, and the module loader chose
//! the addresses of modules.

use std::path::Path;

use object::read::ReadCache;

use crate::debug_info::DebugInfo;
use crate::dso::{BuildId, RecordedDso};
use crate::elf::{self, DebugLink, Image, LoadedModule, ModuleImage, Segments};
use crate::kernel::RecordedKernel;
use crate::search::find::{self, FoundFile};
use crate::search::{SymbolOptions, used};
use crate::table::{SymbolTable, SymbolTableBuilder};
use crate::unresolved::Unresolved;

/// A file of the recorded kernel.
#[derive(Debug)]
pub(crate) struct KernelFile {
    found: FoundFile,
    debug_link: Option<DebugLink>,
    /// From the file's own addresses to recorded ones.
    pub(crate) addresses: Segments,
    /// From the file's own addresses to the offsets of their bytes.
    code: Segments,
    /// Where the module was loaded; `None` for the image.
    module: Option<LoadedModule>,
    release: Option<Vec<u8>>,
}

/// Checks that a file can be [`SymbolOptions::vmlinux`]: an ELF file with a build id, and with the
/// recorded kernel's if that is known.
///
/// # Errors
/// [`Unresolved::NoFile`] or [`Unresolved::NotReadable`] if it can't be opened,
/// [`Unresolved::Malformed`] if it isn't an ELF file, [`Unresolved::NoBuildId`] if it has no build
/// id, [`Unresolved::OtherVmlinux`] if it has another one than the recorded kernel.
pub fn check_vmlinux(path: &Path, recorded: &RecordedKernel) -> Result<(), Unresolved> {
    let id = find::named(path)?.build_id.ok_or(Unresolved::NoBuildId)?;
    let is_other = recorded.build_id.is_some_and(|recorded| recorded != id);
    if is_other { Err(Unresolved::OtherVmlinux) } else { Ok(()) }
}

impl KernelFile {
    /// Opens the recorded kernel's image: the file that the user named, if the build id matches, or
    /// if the user named none, one found by build id.
    pub(crate) fn vmlinux(
        options: &SymbolOptions,
        kernel: &RecordedKernel,
    ) -> Result<Self, Unresolved> {
        let id = kernel.known_build_id(options);
        let found = match &options.vmlinux {
            Some(path) => {
                let found = find::named(path)?;
                let own = found.build_id.ok_or(Unresolved::NoBuildId)?;
                match id {
                    Some(id) if id == own => found,
                    Some(_) => return Err(Unresolved::OtherVmlinux),
                    None => return Err(Unresolved::UnknownKernel),
                }
            }
            None => {
                let id = id.ok_or(Unresolved::UnknownKernel)?;
                let found = find::first_with(id, options.images(id, kernel.release.as_deref()));
                found.or_else(|| find::served(options, id)).ok_or(Unresolved::NoFile)?
            }
        };
        let cache = ReadCache::new(&found.file);
        let read = Image::read_outline(&cache).and_then(|image| Ok((image, elf::code(&cache)?)));
        let (Image { debug_link, .. }, code) = read.map_err(|_| Unresolved::Malformed)?;
        let release = kernel.release.clone();
        let addresses = Segments::default();
        let mut file = Self { found, debug_link, addresses, code, module: None, release };
        file.note(options);
        file.addresses = Segments::moved(match &kernel.reference {
            Some((symbol, then)) => {
                let address = |found: &FoundFile| {
                    elf::address_of(&ReadCache::new(&found.file), symbol).ok().flatten()
                };
                let address = address(&file.found)
                    .or_else(|| file.debug_files(options, None).find_map(|debug| address(&debug)));
                then.wrapping_sub(address.ok_or(Unresolved::Stripped)?)
            }
            None => 0,
        });
        Ok(file)
    }

    /// Opens a module's file, found by build id. `known` has recorded addresses of its functions.
    pub(crate) fn module(
        options: &SymbolOptions,
        kernel: &RecordedKernel,
        recorded: &RecordedDso<'_>,
        known: std::collections::HashMap<Vec<u8>, u64>,
    ) -> Result<Self, Unresolved> {
        let base = recorded.mapped.first().ok_or(Unresolved::NoMapping)?.start;
        let id = recorded.dso.build_id.ok_or(Unresolved::NotLoaded)?;
        let release = kernel.release.clone();
        let found = find::first_with(id, options.modules(recorded, id, release.as_deref()));
        let found = found.or_else(|| find::served(options, id)).ok_or(Unresolved::NoFile)?;
        let loaded = LoadedModule { base, known };
        let read = ModuleImage::read(&ReadCache::new(&found.file), &loaded);
        let ModuleImage { code, debug_link, .. } = read.map_err(|_| Unresolved::Malformed)?;
        let module = Some(loaded);
        let addresses = Segments::moved(0);
        let file = Self { found, debug_link, addresses, code, module, release };
        file.note(options);
        Ok(file)
    }

    fn note(&self, options: &SymbolOptions) {
        if let Some(id) = self.found.build_id {
            options.note_by_id(id, "elf", &self.found.place.path(), used::file(&self.found.file));
        }
    }

    /// Reads the symbols, by recorded addresses: the file's own, else those of a debug file.
    pub(crate) fn table(
        &self,
        options: &SymbolOptions,
        recorded: &RecordedDso<'_>,
    ) -> Result<SymbolTable, Unresolved> {
        let own = self.symbols(&self.found)?;
        if !own.is_empty() {
            return Ok(own.build(options.demangle));
        }
        let debug = self.debug_files(options, Some(recorded));
        let symbols = debug.filter_map(|debug| self.symbols(&debug).ok());
        let found = symbols.into_iter().find(|symbols| !symbols.is_empty());
        Ok(found.ok_or(Unresolved::Stripped)?.build(options.demangle))
    }

    /// Reads the symbol table of a file.
    fn symbols(&self, found: &FoundFile) -> Result<SymbolTableBuilder, Unresolved> {
        let cache = ReadCache::new(&found.file);
        let symbols = match &self.module {
            Some(loaded) => ModuleImage::read(&cache, loaded).map(|module| module.symbols),
            None => Image::read(&cache, Some(&self.addresses)).map(|image| image.symbols),
        };
        symbols.map_err(|_| Unresolved::Malformed)
    }

    /// Opens the debug info: the file's own, else that of a debug file.
    pub(crate) fn debug_info(
        &self,
        options: &SymbolOptions,
        recorded: &RecordedDso<'_>,
    ) -> Option<DebugInfo> {
        let open = |found: &FoundFile| {
            let path = found.place.path();
            match &self.module {
                Some(loaded) => DebugInfo::open_module(options, &found.file, &path, loaded).ok(),
                None => DebugInfo::open(options, &found.file, &path).ok(),
            }
        };
        open(&self.found)
            .or_else(|| self.debug_files(options, Some(recorded)).find_map(|debug| open(&debug)))
    }

    /// Iterates over other files with the same build id, which may have symbols and debug info.
    /// With `recorded`, also searches where distributions install the debug files of modules.
    fn debug_files<'a>(
        &'a self,
        options: &'a SymbolOptions,
        recorded: Option<&'a RecordedDso<'a>>,
    ) -> impl Iterator<Item = FoundFile> + 'a {
        let id: Option<BuildId> = self.found.build_id;
        let release = self.release.as_deref();
        let places = id.map_or_else(Vec::new, |id| match recorded {
            Some(recorded) if self.module.is_some() => options.debug_modules(recorded, id, release),
            _ => options.images(id, release),
        });
        let own = self.found.place.path();
        find::debug_files_among(options, &self.found, places, self.debug_link.as_ref())
            .filter(move |found| found.place.path() != own)
    }

    /// Converts a recorded address to the file's own address, and to the offset in the file.
    pub(crate) fn code_at(&self, address: u64) -> Option<(u64, u64)> {
        let own = self.addresses.to_address(address)?;
        Some((own, self.code.to_offset(own)?))
    }

    pub(crate) fn found(&self) -> &FoundFile {
        &self.found
    }
}
