//! A copy of `/proc/kallsyms`. The kernel takes about 40 ms to generate that list; a copy is read
//! in one or two.
//!
//! The copy's first line states what it is valid for: a boot, and the loaded modules. It belongs to
//! the reader and has mode 0600, because the list reveals the kernel's addresses.

use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::limits;
use crate::search::{self, SymbolOptions};
use crate::unresolved::Unresolved;

/// The symbols of the kernel that runs here.
pub(crate) struct RunningKernel {
    pub(crate) text: Vec<u8>,
    /// Path and first line of the copy to write; `None` if the text came from the copy, or there
    /// can be no copy.
    missing_copy: Option<(PathBuf, String)>,
}

/// Reads the symbols from a valid copy, else from the kernel.
pub(crate) fn read(options: &SymbolOptions) -> Result<RunningKernel, Unresolved> {
    let copy = options.kallsyms_copy.as_ref();
    let copy = copy.and_then(|path| Some((path.clone(), holds_for(options)?)));
    if let Some((path, holds_for)) = &copy
        && let Some(text) = read_copy(options, path, holds_for)
    {
        return Ok(RunningKernel { text, missing_copy: None });
    }
    let text = search::read_text(&options.path(b"/proc/kallsyms"))?;
    Ok(RunningKernel { text, missing_copy: copy })
}

impl RunningKernel {
    /// Writes the copy. Don't call this if the kernel hid its addresses: it may show them later.
    pub(crate) fn keep_copy(&self) {
        if let Some((path, holds_for)) = &self.missing_copy {
            // Without a copy, the next run reads the kernel's list again.
            let _ = write_copy(path, holds_for, &self.text);
        }
    }
}

/// Returns the first line of a valid copy: the boot's id, and a hash of the loaded modules' names,
/// sizes and addresses. `None` if the kernel gives no boot id.
fn holds_for(options: &SymbolOptions) -> Option<String> {
    let boot = search::read_text(&options.path(b"/proc/sys/kernel/random/boot_id")).ok()?;
    let boot = std::str::from_utf8(&boot).ok()?.trim();
    let modules = search::read_text(&options.path(b"/proc/modules")).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    for line in modules.split(|byte| *byte == b'\n') {
        // Name, size, number of users, dependents, state, address. The number of users changes
        // without moving a symbol.
        let words: Vec<_> = line.split(|byte| *byte == b' ').collect();
        [words.first(), words.get(1), words.get(5)].hash(&mut hasher);
    }
    Some(format!("# kallsyms of boot {boot} with modules {:016x}\n", hasher.finish()))
}

/// Returns the copy if it exists, is valid, belongs to the reader, and only the reader may access
/// it.
fn read_copy(options: &SymbolOptions, path: &Path, holds_for: &str) -> Option<Vec<u8>> {
    let mut open = OpenOptions::new();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    open.read(true).custom_flags(i32::try_from(flags.bits()).ok()?);
    let file = open.open(path).ok()?;
    let meta = file.metadata().ok()?;
    if !meta.is_file() || meta.uid() != options.reader_uid || meta.mode() & 0o077 != 0 {
        return None;
    }
    let size = usize::try_from(meta.len().min(limits::TEXT_BYTES)).ok()?;
    let mut text = Vec::with_capacity(size);
    file.take(limits::TEXT_BYTES).read_to_end(&mut text).ok()?;
    text.starts_with(holds_for.as_bytes()).then_some(text)
}

/// Writes a temporary file and renames it over the old copy, so that readers see either copy whole.
fn write_copy(path: &Path, holds_for: &str, text: &[u8]) -> io::Result<()> {
    let beside = path.with_extension(std::process::id().to_string());
    let mut open = OpenOptions::new();
    let mut file: File = open.write(true).create_new(true).mode(0o600).open(&beside)?;
    let written = file
        .write_all(holds_for.as_bytes())
        .and_then(|()| file.write_all(text))
        .and_then(|()| std::fs::rename(&beside, path));
    written.inspect_err(|_| drop(std::fs::remove_file(&beside)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn put(options: &SymbolOptions, path: &[u8], text: &str) {
        let path = options.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A folder with a machine's files, and options that put a copy there.
    fn machine() -> (tempfile::TempDir, SymbolOptions) {
        let folder = tempfile::tempdir().unwrap();
        let options = SymbolOptions {
            symfs: folder.path().into(),
            kallsyms_copy: Some(folder.path().join("copy")),
            reader_uid: folder.path().metadata().unwrap().uid(),
            ..SymbolOptions::default()
        };
        put(&options, b"/proc/sys/kernel/random/boot_id", "first\n");
        put(&options, b"/proc/modules", "mod 100 1 - Live 0xc000\n");
        put(&options, b"/proc/kallsyms", "1000 T before\n");
        (folder, options)
    }

    fn text(options: &SymbolOptions) -> String {
        let read = read(options).unwrap();
        read.keep_copy();
        String::from_utf8(read.text).unwrap().lines().last().unwrap().to_owned()
    }

    #[test]
    fn reads_the_kernels_list_once_per_boot_and_module_change() {
        let (_folder, options) = machine();
        assert_eq!(text(&options), "1000 T before");
        put(&options, b"/proc/kallsyms", "2000 T after\n");
        put(&options, b"/proc/modules", "mod 100 7 - Live 0xc000\n");
        assert_eq!(text(&options), "1000 T before", "a module has more users");
        put(&options, b"/proc/modules", "mod 100 7 - Live 0xc000\nnew 5 0 - Live 0xd000\n");
        assert_eq!(text(&options), "2000 T after");
        put(&options, b"/proc/kallsyms", "3000 T other\n");
        put(&options, b"/proc/sys/kernel/random/boot_id", "second\n");
        assert_eq!(text(&options), "3000 T other");
    }

    #[test]
    fn uses_only_the_readers_private_copy() {
        let (folder, mut options) = machine();
        let copy = folder.path().join("copy");
        text(&options);
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&copy), 0o600);
        put(&options, b"/proc/kallsyms", "2000 T after\n");
        std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o660)).unwrap();
        assert_eq!(text(&options), "2000 T after", "others could have written it");
        assert_eq!(mode(&copy), 0o600, "it is made again");
        put(&options, b"/proc/kallsyms", "3000 T other\n");
        options.reader_uid += 1;
        assert_eq!(text(&options), "3000 T other", "another user's copy");
        options.kallsyms_copy = None;
        put(&options, b"/proc/kallsyms", "4000 T last\n");
        assert_eq!(text(&options), "4000 T last");
    }
}
