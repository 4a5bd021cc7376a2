//! The recorded kernel, and the check that symbols belong to it.

use std::collections::HashMap;
use std::path::Path;

use crate::dso::{BuildId, RecordedDso};
use crate::kallsyms::{Kallsyms, LOCK_SECTIONS};
use crate::kallsyms_copy;
use crate::search::{self, SymbolOptions, UsedContent};
use crate::table::SymbolTable;
use crate::unresolved::Unresolved;

/// A recording's description of its kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedKernel {
    /// Release, as in `uname -r`: `HEADER_OSRELEASE` of `perf.data`.
    pub release: Option<Vec<u8>>,
    /// Architecture, as in `uname -m`: `HEADER_ARCH` of `perf.data`.
    pub arch: Option<Vec<u8>>,
    /// Build id of the kernel's image.
    pub build_id: Option<BuildId>,
    /// A symbol (`_text` or `_stext`) and its recorded address: each boot may place the kernel at
    /// another address.
    pub reference: Option<(Vec<u8>, u64)>,
}

impl RecordedKernel {
    /// Returns its build id, if it was recorded or the kernel is the running one.
    pub(crate) fn known_build_id(&self, options: &SymbolOptions) -> Option<BuildId> {
        let running = || {
            self.is_running(options).ok()?;
            build_id_in(options, b"/sys/kernel/notes")
        };
        self.build_id.or_else(running)
    }

    /// Checks that it is the running kernel: by build id, else by architecture, if known, and
    /// release.
    pub(crate) fn is_running(&self, options: &SymbolOptions) -> Result<(), Unresolved> {
        let same = |is_same| if is_same { Ok(()) } else { Err(Unresolved::OtherKernel) };
        let running = build_id_in(options, b"/sys/kernel/notes");
        if let Some((recorded, running)) = self.build_id.zip(running) {
            return same(recorded == running);
        }
        let arch = line(options, b"/proc/sys/kernel/arch").or_else(|| built_for(options));
        if let Some((recorded, running)) = self.arch.as_ref().zip(arch) {
            same(*recorded == running)?;
        }
        match (&self.release, line(options, b"/proc/sys/kernel/osrelease")) {
            (Some(recorded), Some(running)) => same(*recorded == running),
            _ => Err(Unresolved::UnknownKernel),
        }
    }
}

/// Returns this program's architecture, if `uname -m` has the same name for it and recorded paths
/// are this machine's.
fn built_for(options: &SymbolOptions) -> Option<Vec<u8>> {
    const SAME: [&str; 4] = ["x86_64", "aarch64", "riscv64", "s390x"];
    let here = Some(std::env::consts::ARCH).filter(|arch| SAME.contains(arch))?;
    (options.symfs == Path::new("/")).then(|| here.into())
}

/// Reads a file with one line.
fn line(options: &SymbolOptions, path: &[u8]) -> Option<Vec<u8>> {
    let text = search::read_text(&options.path(path)).ok()?;
    Some(text.trim_ascii().to_vec()).filter(|line| !line.is_empty())
}

/// Adds the kernel's symbols to the used files: by build id as in perf's cache, else as
/// `/proc/kallsyms`, with files of the recorded release and architecture.
fn note(options: &SymbolOptions, recorded: &RecordedKernel, text: &[u8]) {
    // The first line of a copy is not part of the list.
    let is_copy = text.starts_with(b"#");
    let skipped = if is_copy { text.iter().position(|byte| *byte == b'\n') } else { None };
    let text = &text[skipped.map_or(0, |end| end + 1)..];
    let bytes = |bytes: &[u8]| Some(UsedContent::Bytes(bytes.to_vec()));
    let content = || bytes(text);
    let path = Path::new("/proc/kallsyms");
    match recorded.build_id {
        Some(id) => options.note_by_id(id, "kallsyms", path, content),
        None => {
            options.note_recorded(b"/proc/kallsyms", path, content);
            let release = recorded.release.as_deref().unwrap_or_default();
            let arch = recorded.arch.as_deref().unwrap_or_default();
            for (name, content) in
                [(&b"/proc/sys/kernel/osrelease"[..], release), (b"/proc/sys/kernel/arch", arch)]
            {
                options.note_recorded(name, Path::new(""), || bytes(content));
            }
        }
    }
}

/// Symbols of the recorded kernel and of its modules.
#[derive(Debug)]
pub(crate) struct KernelSymbols {
    kallsyms: Kallsyms,
    /// Added to a recorded address to get the address in [`Self::kallsyms`].
    pub(crate) shift: u64,
    is_running: bool,
}

impl KernelSymbols {
    /// Reads the symbols from [`SymbolOptions::kallsyms`]; else from the running kernel if it is
    /// the recorded one; else from perf's cache.
    pub(crate) fn load(
        options: &SymbolOptions,
        recorded: &RecordedKernel,
    ) -> Result<Self, Unresolved> {
        let read = |path: &Path| {
            let text = search::read_text(path)?;
            note(options, recorded, &text);
            Ok(Kallsyms::parse(&text))
        };
        let (kallsyms, is_running) = if let Some(path) = &options.kallsyms {
            (read(path)?, false)
        } else if let Err(why) = recorded.is_running(options) {
            let kept = options.cached(recorded.build_id, "kallsyms").ok_or(why)?;
            (read(&kept).map_err(|_: Unresolved| why)?, false)
        } else {
            let running = kallsyms_copy::read(options)?;
            let kallsyms = Kallsyms::parse(&running.text);
            note(options, recorded, &running.text);
            if !kallsyms.is_hidden() {
                running.keep_copy();
            }
            (kallsyms, true)
        };
        if kallsyms.is_hidden() {
            return Err(Unresolved::Hidden);
        }
        let shift = recorded
            .reference
            .as_ref()
            .and_then(|(symbol, then)| Some(kallsyms.reference(symbol)?.wrapping_sub(*then)));
        Ok(Self { kallsyms, shift: shift.unwrap_or(0), is_running })
    }

    /// Returns the kernel's own symbols. Their addresses are [`Self::shift`] above the recorded
    /// ones.
    pub(crate) fn kernel(&self) -> &SymbolTable {
        &self.kallsyms.kernel
    }

    /// Whether a recorded address is in a lock or scheduler function.
    pub(crate) fn is_lock_function(&self, recorded: u64) -> bool {
        let address = recorded.wrapping_add(self.shift);
        LOCK_SECTIONS.iter().any(|(start, end)| {
            let bounds = self.kallsyms.reference(start).zip(self.kallsyms.reference(end));
            bounds.is_some_and(|(start, end)| (start..end).contains(&address))
        })
    }

    /// Returns the recorded addresses of a module's symbols by name, without names that occur
    /// twice. `shift` comes from [`Self::check_module`].
    pub(crate) fn function_addresses(&self, name: &[u8], shift: u64) -> HashMap<Vec<u8>, u64> {
        let mut known: HashMap<Vec<u8>, Option<u64>> = HashMap::new();
        for number in 0.. {
            let Some(table) = self.module(name) else { break };
            let Some(((name, _), (start, _))) = table.name(number).zip(table.range(number)) else {
                break;
            };
            let at = start.wrapping_sub(shift);
            known.entry(name.to_vec()).and_modify(|at| *at = None).or_insert(Some(at));
        }
        known.into_iter().filter_map(|(name, at)| Some((name, at?))).collect()
    }

    /// Returns the symbols of a module by its name without brackets.
    pub(crate) fn module(&self, name: &[u8]) -> Option<&SymbolTable> {
        self.kallsyms.module(name)
    }

    /// Checks that a module's symbols belong to the recorded module. Returns the number to add to a
    /// recorded address to get the symbol's: each boot may place a module at another address,
    /// independently of the kernel.
    pub(crate) fn check_module(
        &self,
        options: &SymbolOptions,
        name: &[u8],
        recorded: &RecordedDso<'_>,
    ) -> Result<u64, Unresolved> {
        // An archive's list is from the machine with the recorded addresses.
        let has_machine = self.is_running || !options.is_here();
        let path = [b"/sys/module/", name, b"/notes/.note.gnu.build-id"].concat();
        if has_machine && !name.contains(&b'/') {
            let running = noted_text(options, &path).and_then(|notes| note_build_id(&notes));
            let both = recorded.dso.build_id.zip(running);
            if both.is_some_and(|(recorded, running)| recorded != running) {
                return Err(Unresolved::OtherBuild);
            }
        }
        let Some(symbols) = self.module(name) else { return Err(Unresolved::NotLoaded) };
        let modules = noted_text(options, b"/proc/modules").filter(|_| has_machine);
        let now = modules.and_then(|modules| base(&modules, name));
        let then = recorded.mapped.first();
        match now.zip(then) {
            Some((now, then)) => Ok(now.wrapping_sub(then.start)),
            None if self.shift != 0 => Err(Unresolved::OtherBoot),
            // Kept symbols may be from another boot. Then no symbol is at the module's address.
            None if then.is_some_and(|then| !symbols.has_any(then.start, then.end)) => {
                Err(Unresolved::OtherBoot)
            }
            None => Ok(0),
        }
    }
}

/// Returns a module's address from `/proc/modules`: `name size users dependents state address`.
/// `None` if it isn't loaded, or its address is hidden.
fn base(modules: &[u8], name: &[u8]) -> Option<u64> {
    let mut lines = modules.split(|byte| *byte == b'\n').map(|line| line.split(|b| *b == b' '));
    let address = lines.find_map(|mut words| {
        let is_it = words.next()? == name;
        if is_it { words.nth(4) } else { None }
    })?;
    let digits = std::str::from_utf8(address.strip_prefix(b"0x")?).ok()?;
    u64::from_str_radix(digits, 16).ok().filter(|base| *base != 0)
}

/// Reads a text of the machine, and adds it to the used files.
fn noted_text(options: &SymbolOptions, path: &[u8]) -> Option<Vec<u8>> {
    let text = search::read_text(&options.path(path)).ok()?;
    options.note_recorded(path, Path::new(""), || Some(UsedContent::Bytes(text.clone())));
    Some(text)
}

/// Reads the build id in a file of ELF notes below `/sys`.
fn build_id_in(options: &SymbolOptions, path: &[u8]) -> Option<BuildId> {
    note_build_id(&search::read_text(&options.path(path)).ok()?)
}

/// Finds the build id among ELF notes in this machine's byte order. A note has name size,
/// description size, type, name, description.
fn note_build_id(mut notes: &[u8]) -> Option<BuildId> {
    loop {
        let word = |at: usize| Some(u32::from_ne_bytes(*notes.get(at..)?.first_chunk()?) as usize);
        let name_size = word(0)?;
        let size = word(4)?;
        let kind = word(8)?;
        let name = notes.get(12..)?.get(..name_size)?;
        let behind_name =
            notes.get(12_usize.checked_add(name_size.checked_next_multiple_of(4)?)?..)?;
        if (name, kind) == (&b"GNU\0"[..], object::elf::NT_GNU_BUILD_ID.0 as usize) {
            return BuildId::new(behind_name.get(..size)?);
        }
        notes = behind_name.get(size.checked_next_multiple_of(4)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dso::{Dso, DsoKind, DsoMapping};

    const RELEASE: &[u8] = b"6.1.0-9";

    /// A folder with the files of a machine with a kernel and the module `mod`.
    fn machine() -> (tempfile::TempDir, SymbolOptions) {
        let folder = tempfile::tempdir().unwrap();
        let options = SymbolOptions { symfs: folder.path().into(), ..SymbolOptions::default() };
        let note = |id: &[u8; 4]| {
            let words = [4_u32, 4, object::elf::NT_GNU_BUILD_ID.0].map(u32::to_ne_bytes).concat();
            [&words[..], b"GNU\0", id].concat()
        };
        let symbols = "1000 T _text\n1100 T f\nc000 t in_module\t[mod]\n";
        for (path, content) in [
            ("proc/kallsyms", symbols.into()),
            ("proc/sys/kernel/osrelease", [RELEASE, b"\n"].concat()),
            ("proc/sys/kernel/arch", b"x86_64\n".to_vec()),
            ("sys/kernel/notes", note(b"kern")),
            ("sys/module/mod/notes/.note.gnu.build-id", note(b"modu")),
        ] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        (folder, options)
    }

    fn recorded(build_id: Option<&[u8]>, release: Option<&[u8]>, arch: &[u8]) -> RecordedKernel {
        RecordedKernel {
            release: release.map(<[u8]>::to_vec),
            arch: Some(arch.to_vec()),
            build_id: build_id.and_then(BuildId::new),
            reference: None,
        }
    }

    #[test]
    fn only_the_recorded_kernel_names_its_addresses() {
        let (_folder, options) = machine();
        for (kernel, expected) in [
            (recorded(Some(b"kern"), Some(b"other"), b"sparc"), Ok(())),
            (recorded(Some(b"else"), Some(RELEASE), b"x86_64"), Err(Unresolved::OtherKernel)),
            (recorded(None, Some(RELEASE), b"x86_64"), Ok(())),
            (recorded(None, Some(b"6.1.0-8"), b"x86_64"), Err(Unresolved::OtherKernel)),
            (recorded(None, Some(RELEASE), b"aarch64"), Err(Unresolved::OtherKernel)),
            (recorded(None, None, b"x86_64"), Err(Unresolved::UnknownKernel)),
            (RecordedKernel::default(), Err(Unresolved::UnknownKernel)),
        ] {
            let loaded = KernelSymbols::load(&options, &kernel).map(|_| ());
            assert_eq!(loaded, expected, "{kernel:?}");
        }
    }

    #[test]
    fn uses_symbols_that_perf_kept_of_another_kernel() {
        let (folder, mut options) = machine();
        let kernel = recorded(Some(b"else"), Some(RELEASE), b"x86_64");
        options.build_id_cache = Some(folder.path().join("cache"));
        let kept = options.cached(kernel.build_id, "kallsyms").unwrap();
        std::fs::create_dir_all(kept.parent().unwrap()).unwrap();
        std::fs::write(kept, "2000 T _text\n2100 T g\n").unwrap();
        let symbols = KernelSymbols::load(&options, &kernel).unwrap();
        assert!(symbols.kernel().find(0x2100).is_some() && symbols.kernel().find(0x1100).is_none());
        // A file that the user named needs no proof.
        options.kallsyms = Some(folder.path().join("proc/kallsyms"));
        let symbols = KernelSymbols::load(&options, &kernel).unwrap();
        assert!(symbols.kernel().find(0x1100).is_some());
    }

    #[test]
    fn checks_a_module_by_build_and_address() {
        let (folder, options) = machine();
        let kernel = recorded(None, Some(RELEASE), b"x86_64");
        let symbols = KernelSymbols::load(&options, &kernel).unwrap();
        let check = |name: &[u8], build_id: Option<&[u8]>, start: u64| {
            let build_id = build_id.and_then(BuildId::new);
            let dso = Dso { kind: DsoKind::Module, name: name.to_vec(), build_id };
            let mapped = [DsoMapping { pid: -1, start, end: start + 0x100, mapped_ns: None }];
            let recorded = RecordedDso { dso: &dso, identity: None, mapped: &mapped, path: None };
            symbols.check_module(&options, name, &recorded)
        };
        for (name, build_id, start, expected) in [
            (&b"mod"[..], Some(&b"modu"[..]), 0xc000, Ok(0)),
            (b"mod", None, 0xc000, Ok(0)),
            (b"mod", Some(b"diff"), 0xc000, Err(Unresolved::OtherBuild)),
            (b"gone", Some(b"modu"), 0xc000, Err(Unresolved::NotLoaded)),
            (b"../module/mod", Some(b"modu"), 0xc000, Err(Unresolved::NotLoaded)),
            // The kernel has its recorded address, the module doesn't.
            (b"mod", Some(b"modu"), 0xd000, Err(Unresolved::OtherBoot)),
        ] {
            assert_eq!(check(name, build_id, start), expected, "{start:x}");
        }
        let modules = "other 10 1 - Live 0x1000\nmod 100 1 - Live 0xc000\n";
        std::fs::write(folder.path().join("proc/modules"), modules).unwrap();
        assert_eq!(check(b"mod", Some(b"modu"), 0xd000), Ok(0_u64.wrapping_sub(0x1000)));
    }
}
