//! Suggests a remedy for the largest share of samples without a function name: for example a
//! package, a server, an option or a setting of this machine. Reads files, and runs nothing.

use std::cmp::Reverse;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tare_format::printable;
use tare_profile::{BinaryFile, Losses, MissingSymbols as Missing};
use tare_symbols::{SymbolOptions, UsedContent, UsedFiles};

/// Limit of package file lists that are read. A machine has some thousand, of at most 2 MB each.
const LISTS: usize = 1 << 15;
/// Limit of the bytes that are read of one list.
const LIST_BYTES: u64 = 1 << 24;

/// The debug package of libc, in the default archives of Debian and Ubuntu.
const LIBC_DEBUG: &str = "libc6-dbg";

/// Debuginfod servers by the names of their distributions
/// (<https://sourceware.org/elfutils/Debuginfod.html>).
const SERVERS: [(&str, &str); 5] = [
    ("debian", "https://debuginfod.debian.net"),
    ("ubuntu", "https://debuginfod.ubuntu.com"),
    ("fedora", "https://debuginfod.fedoraproject.org"),
    ("arch", "https://debuginfod.archlinux.org"),
    ("opensuse-tumbleweed", "https://debuginfod.opensuse.org"),
];

/// Fills in the remedy for the largest share of samples without a name, if one is known.
pub fn suggest_symbol_remedy(losses: &mut Losses, symbols: &SymbolOptions) {
    let has_servers = symbols.has_debuginfod_urls;
    // `--symfs` may hold another machine's files, and its package lists.
    let machine = SymbolSources { root: symbols.symfs.clone(), has_servers };
    if let Some(unnamed) = &mut losses.unnamed {
        unnamed.remedy = machine.remedy(&unnamed.lack);
    }
}

/// Adds the files by which [`suggest_symbol_remedy`] names a remedy to an archive, so that its
/// reader gets one that works without this machine's package archives.
pub fn add_remedy_files(lack: &Missing, symbols: &SymbolOptions, used: &UsedFiles) {
    let (Missing::DebugFile(file) | Missing::Binary(file)) = lack else { return };
    let machine = SymbolSources { root: symbols.symfs.clone(), has_servers: false };
    let add = |path: &Path, content: Vec<u8>| {
        if let Ok(path) = path.strip_prefix(&machine.root) {
            used.add(Path::new("root").join(path), UsedContent::Bytes(content));
        }
    };
    if let Some((_, list)) = machine.package(Path::new(&file.path)) {
        // One line suffices; the whole list could name files that the recording doesn't.
        add(&list, format!("{}\n", file.path).into_bytes());
    }
    let release = machine.root.join("etc/os-release");
    for path in machine.files("etc/debuginfod", ".urls").into_iter().chain([release]) {
        if let Some(urls) = read(&path) {
            add(&path, urls);
        }
    }
}

/// Where packages and settings are found.
#[derive(Debug)]
struct SymbolSources {
    root: PathBuf,
    /// Whether debuginfod servers are configured.
    has_servers: bool,
}

impl SymbolSources {
    fn remedy(&self, lack: &Missing) -> Option<String> {
        match lack {
            Missing::DebugFile(file) => {
                let package = self.package(Path::new(&file.path)).map(|(package, _)| package);
                let package = package.map(|package| debug_package(&package));
                if let Some(package) = package.as_ref().filter(|name| self.has_package(name)) {
                    return Some(format!("apt install {package}"));
                }
                Some(self.servers(file).unwrap_or_else(|| match (package, &file.build_id) {
                    (Some(package), _) => format!("--debug-dir with the files of {package}"),
                    (None, Some(id)) => {
                        format!("--debug-dir with the debug file of build id {id}")
                    }
                    (None, None) => "build it without -s, and don't strip it".to_owned(),
                }))
            }
            Missing::Binary(file) => {
                let is_packaged = file.path.starts_with("/usr/") || file.path.starts_with("/lib");
                let servers = self.servers(file).filter(|_| is_packaged);
                Some(servers.unwrap_or_else(|| "tare record --keep-binaries".to_owned()))
            }
            Missing::UnidentifiedBinary(_) => {
                Some("link it with --build-id, then tare record --keep-binaries".to_owned())
            }
            Missing::Permission(_) if rustix::process::geteuid().is_root() => None,
            Missing::Permission(_) => Some("read the recording as root".to_owned()),
            Missing::PerfMap(remedy) => Some((*remedy).to_owned()),
            Missing::KernelAddresses => Some("as root: sysctl kernel.kptr_restrict=0".to_owned()),
            Missing::KernelSymbols(Some(id)) => {
                Some(format!("--vmlinux with the kernel of build id {id}"))
            }
            Missing::KernelSymbols(None) => {
                Some("--kallsyms with a copy of its /proc/kallsyms".to_owned())
            }
        }
    }

    /// Whether apt can install a debug package: those of Debian and Ubuntu are in archives of their
    /// own, which are not configured by default, except libc's.
    fn has_package(&self, package: &str) -> bool {
        let mut sources = self.files("etc/apt/sources.list.d", "");
        sources.push(self.root.join("etc/apt/sources.list"));
        let names_archive = |line: &[u8]| {
            let has = |name: &[u8]| line.windows(name.len()).any(|part| part == name);
            !line.trim_ascii_start().starts_with(b"#")
                && (has(b"debian-debug") || has(b"ddebs.") || has(b"-debug "))
        };
        let is_archive = |path: &PathBuf| {
            read(path).is_some_and(|text| text.split(|byte| *byte == b'\n').any(names_archive))
        };
        package == LIBC_DEBUG || sources.iter().any(is_archive)
    }

    /// Returns the debuginfod server of the distribution, by its name in `os-release(5)`.
    fn distribution_server(&self) -> Option<&'static str> {
        let text = read(&self.root.join("etc/os-release"))
            .or_else(|| read(&self.root.join("usr/lib/os-release")))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let id = text.lines().find_map(|line| line.strip_prefix("ID="))?.trim_matches('"');
        SERVERS.iter().find(|(name, _)| *name == id).map(|(_, server)| *server)
    }

    /// Suggests debuginfod servers for a file with a build id, if none are configured: the
    /// distribution's, if it names some or is known.
    fn servers(&self, file: &BinaryFile) -> Option<String> {
        let id = file.build_id.as_ref().filter(|_| !self.has_servers)?;
        let named = self.files("etc/debuginfod", ".urls").into_iter().find_map(|path| {
            let text = String::from_utf8(read(&path)?).ok()?;
            let urls: Vec<_> = text.split_whitespace().collect();
            (!urls.is_empty()).then(|| printable(urls.join(" ").as_bytes()).into_owned())
        });
        let named = named.or_else(|| self.distribution_server().map(str::to_owned));
        Some(match named {
            Some(urls) => format!("DEBUGINFOD_URLS='{urls}', for build id {id}"),
            None => format!("DEBUGINFOD_URLS=… with a server that has build id {id}"),
        })
    }

    /// Finds the Debian package that contains a file, by the packages' file lists. Returns its name
    /// and its list.
    fn package(&self, file: &Path) -> Option<(String, PathBuf)> {
        // Packages may list a file by its path from before /lib became a link into /usr.
        let real = self.root.join(file.strip_prefix("/").ok()?).canonicalize().ok();
        let real =
            real.and_then(|real| Some(Path::new("/").join(real.strip_prefix(&self.root).ok()?)));
        let mut names = vec![file.to_owned()];
        names.extend(real);
        for at in 0..names.len() {
            match names[at].strip_prefix("/usr") {
                Ok(before) => names.push(Path::new("/").join(before)),
                Err(_) => names.push(Path::new("/usr").join(names[at].strip_prefix("/").ok()?)),
            }
        }
        let is_it = |line: &[u8]| names.iter().any(|name| name.as_os_str().as_bytes() == line);
        // Packages mostly have names like their files', so these lists are read first.
        let mut lists = self.files("var/lib/dpkg/info", ".list");
        let called = file.file_name()?.as_bytes();
        lists.sort_by_key(|list| Reverse(common_start(list, called)));
        lists.into_iter().find_map(|path| {
            let has_it = read(&path)?.split(|byte| *byte == b'\n').any(is_it);
            let name = path.file_stem()?.to_str()?.split(':').next()?;
            let name = printable(name.as_bytes()).into_owned();
            has_it.then_some((name, path))
        })
    }

    /// Returns the files of a folder whose names have this ending, sorted; at most [`LISTS`].
    fn files(&self, folder: &str, end: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        let is_it = |path: &PathBuf| path.as_os_str().as_bytes().ends_with(end.as_bytes());
        let mut found: Vec<_> = paths.filter(is_it).take(LISTS).collect();
        found.sort();
        found
    }
}

/// Returns the length in bytes of the common prefix of a file's name and another name.
fn common_start(file: &Path, name: &[u8]) -> usize {
    let of = file.file_name().map_or(&b""[..], OsStrExt::as_bytes);
    of.iter().zip(name).take_while(|(a, b)| a == b).count()
}

/// Returns the name of a package's debug package in Debian and Ubuntu.
fn debug_package(package: &str) -> String {
    match package {
        "libc6" | "libc6-i386" => LIBC_DEBUG.to_owned(),
        package => format!("{package}-dbgsym"),
    }
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let is_file = std::fs::metadata(path).is_ok_and(|meta| meta.is_file());
    let file = File::open(path).ok().filter(|_| is_file)?;
    file.take(LIST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(has_servers: bool) -> (tempfile::TempDir, SymbolSources) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for (path, content) in [
            ("var/lib/dpkg/info/libfoo1:amd64.list", "/.\n/usr\n/usr/lib/libfoo.so.1\n"),
            ("var/lib/dpkg/info/libc6:amd64.list", "/lib/libc.so.6\n"),
            ("etc/debuginfod/distribution.urls", "https://files.example/\n"),
            (
                "etc/apt/sources.list",
                "deb https://packages.example/debian-debug/ stable-debug main\n",
            ),
            ("etc/os-release", "NAME=x\nID=debian\n"),
        ] {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        (folder, SymbolSources { root, has_servers })
    }

    fn file(path: &str, build_id: Option<&str>) -> BinaryFile {
        BinaryFile { path: path.to_owned(), build_id: build_id.map(str::to_owned) }
    }

    #[test]
    fn each_lack_has_its_remedy() {
        let (_folder, asks_none) = machine(false);
        let (_other, asks) = machine(true);
        let own = || file("/opt/server", Some("ab12"));
        for (machine, lack, wanted) in [
            (
                &asks_none,
                Missing::DebugFile(file("/usr/lib/libfoo.so.1", None)),
                "apt install libfoo1-dbgsym",
            ),
            (
                &asks_none,
                Missing::DebugFile(file("/lib/libfoo.so.1", None)),
                "apt install libfoo1-dbgsym",
            ),
            (
                &asks_none,
                Missing::DebugFile(file("/usr/lib/libc.so.6", None)),
                "apt install libc6-dbg",
            ),
            (
                &asks_none,
                Missing::DebugFile(own()),
                "DEBUGINFOD_URLS='https://files.example/', for build id ab12",
            ),
            (&asks, Missing::DebugFile(own()), "--debug-dir with the debug file of build id ab12"),
            (
                &asks,
                Missing::DebugFile(file("/opt/server", None)),
                "build it without -s, and don't strip it",
            ),
            (&asks_none, Missing::Binary(own()), "tare record --keep-binaries"),
            (
                &asks_none,
                Missing::UnidentifiedBinary(file("/opt/server", None)),
                "link it with --build-id, then tare record --keep-binaries",
            ),
            (&asks_none, Missing::PerfMap("node --perf-basic-prof"), "node --perf-basic-prof"),
            (&asks_none, Missing::KernelAddresses, "as root: sysctl kernel.kptr_restrict=0"),
        ] {
            assert_eq!(machine.remedy(&lack).as_deref(), Some(wanted));
        }
        // Without the archive of debug packages, apt has libc's alone.
        let packaged = || {
            let lack = Missing::DebugFile(file("/usr/lib/libfoo.so.1", Some("ab12")));
            asks_none.remedy(&lack).unwrap()
        };
        assert_eq!(packaged(), "apt install libfoo1-dbgsym");
        std::fs::remove_file(asks_none.root.join("etc/apt/sources.list")).unwrap();
        assert_eq!(packaged(), "DEBUGINFOD_URLS='https://files.example/', for build id ab12");
        std::fs::remove_dir_all(asks_none.root.join("etc/debuginfod")).unwrap();
        assert_eq!(
            packaged(),
            "DEBUGINFOD_URLS='https://debuginfod.debian.net', for build id ab12"
        );
        std::fs::remove_dir_all(asks_none.root.join("etc")).unwrap();
        let wanted = "DEBUGINFOD_URLS=… with a server that has build id ab12";
        assert_eq!(asks_none.remedy(&Missing::DebugFile(own())).as_deref(), Some(wanted));
    }
}
