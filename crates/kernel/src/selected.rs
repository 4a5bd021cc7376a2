//! Implementations that the dynamic linker selects for functions with several (`STT_GNU_IFUNC`), by
//! the CPU and by `GLIBC_TUNABLES`.
//!
//! A file doesn't tell which one is selected: code in it decides. A process that has loaded the same
//! file on the same machine knows, so this process asks its own linker, which runs no code of files
//! that this process hasn't loaded.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::host::Host;
use crate::procfs::{self, Mapping};

/// The variable that changes selections.
const TUNABLES: &[u8] = b"GLIBC_TUNABLES=";

/// Where a selected implementation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectedImplementation {
    /// In the file that has the function: bytes from its start.
    InFile(u64),
    /// In another one, such as the kernel's vDSO.
    Elsewhere,
}

/// Returns the implementation that is selected in this process for a function of a file. `None` if
/// this process hasn't loaded the file, or the file exports no such function.
#[must_use]
pub fn selected_implementation(
    host: &Host,
    path: &Path,
    function: &str,
) -> Option<SelectedImplementation> {
    let wanted = path.metadata().ok()?;
    let own = i32::try_from(std::process::id()).ok()?;
    let mut text = Vec::new();
    procfs::read_mappings(host, own, &mut text).ok()?;
    let is_of_file = |mapping: &Mapping<'_>| {
        let path = Path::new(OsStr::from_bytes(&mapping.path));
        mapping.inode == wanted.ino()
            && path.metadata().is_ok_and(|found| found.dev() == wanted.dev())
    };
    let mappings: Vec<_> = procfs::mappings(&text).filter(is_of_file).collect();
    let loaded = CString::new(mappings.first()?.path.as_ref()).ok()?;
    let address = loaded_function(&loaded, &CString::new(function).ok()?)?;
    let place = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address));
    Some(place.map_or(SelectedImplementation::Elsewhere, |mapping| {
        SelectedImplementation::InFile(address - mapping.start + mapping.offset)
    }))
}

/// Returns the address of a function in a file that this process has loaded.
#[cfg(not(target_feature = "crt-static"))]
fn loaded_function(path: &CString, function: &CString) -> Option<u64> {
    // SAFETY: both strings end with NUL. RTLD_NOLOAD loads nothing and runs no code of the file. The
    // linker runs the selecting function, as it does for each function that this process calls.
    #[allow(unsafe_code)]
    let address = unsafe {
        let loaded = libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if loaded.is_null() {
            return None;
        }
        let address = libc::dlsym(loaded, function.as_ptr());
        libc::dlclose(loaded);
        address
    };
    (!address.is_null()).then(|| address.addr() as u64)
}

/// A statically linked program has no dynamic linker.
#[cfg(target_feature = "crt-static")]
fn loaded_function(_: &CString, _: &CString) -> Option<u64> {
    None
}

/// Whether a process selects implementations like this one: both started with the same
/// `GLIBC_TUNABLES`. `None` if its environment can't be read.
#[must_use]
pub fn selects_alike(host: &Host, pid: i32) -> Option<bool> {
    let tunables = |process: &str| {
        let environment = std::fs::read(host.path(&format!("/proc/{process}/environ"))).ok()?;
        let variable = environment.split(|byte| *byte == 0).find(|one| one.starts_with(TUNABLES));
        Some(variable.map(<[u8]>::to_vec))
    };
    Some(tunables("self")? == tunables(&pid.to_string())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the path of this process's C library; `None` without one.
    fn c_library(text: &[u8]) -> Option<std::path::PathBuf> {
        let paths = procfs::mappings(text).map(|mapping| mapping.path.into_owned());
        let path = paths.filter(|path| path.ends_with(b"/libc.so.6")).last()?;
        Some(Path::new(OsStr::from_bytes(&path)).to_owned())
    }

    #[test]
    fn finds_functions_of_loaded_files_alone() {
        let host = Host::default();
        let own = i32::try_from(std::process::id()).unwrap();
        let mut text = Vec::new();
        procfs::read_mappings(&host, own, &mut text).unwrap();
        let Some(library) = c_library(&text) else { return println!("skipped: no libc.so.6") };
        let of = |function: &str| selected_implementation(&host, &library, function);
        assert!(
            matches!(of("memcpy"), Some(SelectedImplementation::InFile(1..))),
            "{:?}",
            of("memcpy")
        );
        assert_eq!(of("memcpy"), of("memcpy"));
        assert_eq!(of("no_such_function"), None);
        assert_eq!(selected_implementation(&host, Path::new("/etc/passwd"), "memcpy"), None);
        assert_eq!(selects_alike(&host, own), Some(true));
    }
}
