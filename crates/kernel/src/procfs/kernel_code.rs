//! Finds the code of the kernel and its modules in memory.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::Range;

use crate::host::Host;

/// The kernel's code in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelText {
    /// The address of `symbol`.
    pub start: u64,
    /// `_text`, where the image begins, or `_stext` if the kernel doesn't list `_text`. On Linux
    /// 6.1 for arm64 the two have different addresses.
    pub symbol: &'static str,
    /// Size in bytes; `None` if `/proc/iomem` hides it from this user or doesn't have it.
    pub len: Option<u64>,
}

/// A kernel module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelModule {
    /// Its name, as in `lsmod`.
    pub name: String,
    /// First address of its code.
    pub start: u64,
    /// Size in bytes, at most up to the next module: `/proc/modules` has the size of code and data
    /// together, which are apart since Linux 6.4.
    pub len: u64,
    /// Its file; `None` if the running kernel's list has no module of this name, or before
    /// [`find_module_files`].
    pub path: Option<String>,
}

/// Returns the place of the kernel's code; `None` if addresses are hidden from this user
/// (`kernel.kptr_restrict`).
///
/// The start is the address of one of the first symbols of `/proc/kallsyms`. The end is that of the
/// resource `Kernel code` of `/proc/iomem`, which saves reading all symbols up to `_etext`.
#[must_use]
pub fn kernel_text(host: &Host) -> Option<KernelText> {
    let mut text = None;
    let mut stext = None;
    for line in BufReader::new(File::open(host.path("/proc/kallsyms")).ok()?).split(b'\n') {
        let line = line.ok()?;
        let Some((address, name)) = symbol(&line) else { continue };
        match name {
            b"_text" => text = Some(address),
            b"_stext" => stext = Some(address),
            // The kernel's own symbols are listed by address.
            _ if stext.is_some_and(|stext| stext < address) => break,
            _ => continue,
        }
        if text.is_some() && stext.is_some() {
            break;
        }
    }
    let found = text.map(|text| (text, "_text")).or(stext.map(|stext| (stext, "_stext")));
    let (start, symbol) = found.filter(|(start, _)| *start != 0)?;
    // On arm64 the resource begins at `_stext`, after the image's head; on x86 both symbols have
    // the same address.
    let head = stext.map_or(0, |stext| stext.saturating_sub(start));
    Some(KernelText { start, symbol, len: code_bytes(host).map(|len| len + head) })
}

/// Parses `ffffffff81000000 T _text`.
fn symbol(line: &[u8]) -> Option<(u64, &[u8])> {
    let (address, rest) = line.split_at_checked(16)?;
    let name = rest.get(3..)?;
    let name = name.split(|byte| *byte == b'\t').next()?;
    Some((u64::from_str_radix(std::str::from_utf8(address).ok()?, 16).ok()?, name))
}

/// Returns the functions of the kernel and its modules for which `choose` returns a value, sorted
/// by address, each up to the next function; empty if addresses are hidden. Reads all symbols, some
/// 10 MB.
#[must_use]
pub fn kernel_functions<T>(
    host: &Host,
    choose: impl Fn(&[u8]) -> Option<T>,
) -> Vec<(Range<u64>, T)> {
    let Ok(file) = File::open(host.path("/proc/kallsyms")) else { return Vec::new() };
    let mut starts = Vec::new();
    let mut chosen = Vec::new();
    for line in BufReader::with_capacity(1 << 16, file).split(b'\n') {
        let Ok(line) = line else { break };
        let is_code = line.get(17).is_some_and(|kind| matches!(kind, b't' | b'T' | b'w' | b'W'));
        let Some((address, name)) = symbol(&line).filter(|(address, _)| is_code && *address != 0)
        else {
            continue;
        };
        starts.push(address);
        chosen.extend(choose(name).map(|value| (address, value)));
    }
    starts.sort_unstable();
    chosen.sort_by_key(|(address, _)| *address);
    let end = |start: u64| {
        let next = starts.get(starts.partition_point(|other| *other <= start));
        next.copied().unwrap_or(u64::MAX)
    };
    chosen.into_iter().map(|(start, value)| (start..end(start), value)).collect()
}

/// Parses ` 01000000-02209987 : Kernel code`; without CAP_SYS_ADMIN the kernel shows zeros.
fn code_bytes(host: &Host) -> Option<u64> {
    let iomem = host.read("/proc/iomem").ok()?;
    let line = iomem.lines().find_map(|line| line.trim().strip_suffix(": Kernel code"))?;
    let (first, last) = line.trim().split_once('-')?;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    let len = number(last)?.checked_sub(number(first)?)?;
    (len > 0).then_some(len + 1)
}

/// Returns the modules whose addresses this user may know, sorted by address, with their files.
/// Empty on a kernel without modules.
#[must_use]
pub fn modules(host: &Host) -> Vec<KernelModule> {
    let mut found = loaded_modules(host);
    find_module_files(host, &mut found);
    found
}

/// Returns the modules whose addresses this user may know, sorted by address, without their files.
#[must_use]
pub fn loaded_modules(host: &Host) -> Vec<KernelModule> {
    let Ok(listed) = host.read("/proc/modules") else { return Vec::new() };
    let mut found: Vec<_> =
        listed.lines().filter_map(module).filter(|module| module.start != 0).collect();
    found.sort_unstable_by_key(|module| module.start);
    let starts: Vec<_> = found.iter().skip(1).map(|module| module.start).collect();
    for (module, next) in found.iter_mut().zip(starts) {
        module.len = module.len.min(next - module.start);
    }
    found
}

/// Finds the modules' files in `modules.dep` of the running kernel.
pub fn find_module_files(host: &Host, modules: &mut [KernelModule]) {
    if modules.is_empty() {
        return;
    }
    let paths = paths(host);
    for module in modules {
        module.path = paths.get(&module.name).cloned();
    }
}

/// Parses `ext4 1001472 1 - Live 0xffffffffc0600000`.
fn module(line: &str) -> Option<KernelModule> {
    let mut fields = line.split(' ');
    let name = fields.next()?;
    let len = fields.next()?.parse().ok()?;
    let start = u64::from_str_radix(fields.nth(3)?.strip_prefix("0x")?, 16).ok()?;
    Some(KernelModule { name: name.to_owned(), start, len, path: None })
}

/// Returns the files of the running kernel's modules by name, from the list of depmod(8).
fn paths(host: &Host) -> HashMap<String, String> {
    let release = host.read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let folder = format!("/lib/modules/{release}");
    let listed = host.read(format!("{folder}/modules.dep")).unwrap_or_default();
    let files = listed.lines().filter_map(|line| line.split(':').next());
    files
        .filter_map(|file| {
            let name = file.rsplit('/').next()?.split(".ko").next()?;
            let path =
                if file.starts_with('/') { file.to_owned() } else { format!("{folder}/{file}") };
            Some((name.replace('-', "_"), path))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fixture::machine;

    const SYMBOLS: &str = "0000000000000000 A fixed_percpu_data\nffff800080000000 T _text\nffff800080010000 T _stext\nffff800080020000 t f\t[mod]\n";

    #[test]
    fn the_kernel_is_where_its_symbols_say() {
        let files = [
            ("/proc/kallsyms", SYMBOLS),
            ("/proc/iomem", "00001000-0009fbff : System RAM\n  40210000-41a8ffff : Kernel code\n"),
        ];
        let wanted = KernelText {
            start: 0xffff_8000_8000_0000,
            symbol: "_text",
            len: Some(0x188_0000 + 0x10000),
        };
        assert_eq!(kernel_text(&machine(&files).host()), Some(wanted));
        // Readers relocate by the named symbol.
        let headless = SYMBOLS.replace("ffff800080000000 T _text\n", "");
        let files = [("/proc/kallsyms", headless.as_str()), files[1]];
        let start = 0xffff_8000_8001_0000;
        let len = Some(0x188_0000);
        let of_headless = KernelText { start, symbol: "_stext", len };
        assert_eq!(kernel_text(&machine(&files).host()), Some(of_headless));
        let hidden =
            [("/proc/kallsyms", SYMBOLS), ("/proc/iomem", "  00000000-00000000 : Kernel code\n")];
        assert_eq!(kernel_text(&machine(&hidden).host()), Some(KernelText { len: None, ..wanted }));
        let zeros = SYMBOLS.replace("ffff8000800", "00000000000");
        assert_eq!(
            kernel_text(
                &machine(&[("/proc/kallsyms", zeros.replace("10000 T", "00000 T"))]).host()
            ),
            None
        );
    }

    /// The kernel lists the module that was loaded last first, with sizes that include data.
    #[test]
    fn no_module_reaches_into_the_next() {
        let listed = "last 4096 0 - Live 0xffffffffc0003000\nfirst 40960 0 - Live 0xffffffffc0001000\nunknown 1 0 - Live 0x0\n";
        let machine = machine(&[("/proc/modules", listed)]);
        let found = modules(&machine.host());
        let found: Vec<_> = found.iter().map(|module| (module.name.as_str(), module.len)).collect();
        assert_eq!(found, [("first", 0x2000), ("last", 0x1000)]);
    }

    #[test]
    fn modules_have_the_paths_that_depmod_lists() {
        let machine = machine(&[
            (
                "/proc/modules",
                "snd_hda 4096 1 a,b, Live 0xffffffffc0600000 (OE)\nodd 8192 0 - Live 0xffffffffc0700000\n",
            ),
            ("/proc/sys/kernel/osrelease", "6.1-x\n"),
            (
                "/lib/modules/6.1-x/modules.dep",
                "kernel/sound/snd-hda.ko.xz: kernel/other.ko\nkernel/other.ko:\n",
            ),
        ]);
        let found = modules(&machine.host());
        let path = Some("/lib/modules/6.1-x/kernel/sound/snd-hda.ko.xz".to_owned());
        assert_eq!(
            found[0],
            KernelModule {
                name: "snd_hda".to_owned(),
                start: 0xffff_ffff_c060_0000,
                len: 4096,
                path
            }
        );
        assert_eq!((found[1].name.as_str(), found[1].path.as_deref()), ("odd", None));
    }
}
