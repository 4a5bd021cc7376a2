//! Sources of symbols, for the commands that show them.

use std::ffi::OsString;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tare_symbols::{Debuginfod, Servers, SharedDebuginfod, SymbolCache, SymbolOptions};

use crate::cli::raw::SymbolSearch;
use crate::download;

/// Resolves the sources of symbols: files and folders as typed, otherwise the defaults of this
/// machine and user; servers from the environment. perf keeps files by build id in `~/.debug`.
pub(crate) fn resolve(typed: SymbolSearch) -> SymbolOptions {
    let home = folder_of("HOME");
    let defaults = SymbolOptions::default();
    let debuginfod_cache = debuginfod_cache(home.as_deref());
    let folder = if typed.no_cache { None } else { own_folder(home.as_deref()) };
    let is_here = typed.symfs.is_none() && typed.kallsyms.is_none();
    SymbolOptions {
        kallsyms_copy: folder.as_ref().filter(|_| is_here).map(|folder| folder.join("kallsyms")),
        cache: folder.as_deref().and_then(symbol_cache),
        symfs: typed.symfs.unwrap_or(defaults.symfs),
        debuginfod: servers().zip(debuginfod_cache.clone()).map(|(servers, cache)| {
            let uid = rustix::process::geteuid().as_raw();
            SharedDebuginfod(Arc::new(Debuginfod::new(servers, cache, uid, download::shown())))
        }),
        has_debuginfod_urls: variable("DEBUGINFOD_URLS").is_some(),
        debuginfod_cache,
        build_id_cache: typed.buildid_dir.or_else(|| Some(home?.join(".debug"))),
        debug_dirs: typed.debug_dir,
        kallsyms: typed.kallsyms,
        vmlinux: typed.vmlinux,
        reader_uid: rustix::process::geteuid().as_raw(),
        demangle: !typed.no_demangle,
        ..defaults
    }
}

/// Returns the value of an environment variable that is set and not empty.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|text| !text.is_empty())
}

/// Returns the folder named by an environment variable.
fn folder_of(name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from)
}

/// Returns the debuginfod servers of the environment, with their limits and proxy
/// (debuginfod-client-config(7)).
fn servers() -> Option<Servers> {
    let text = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let number = |name: &str| text(name)?.trim().parse::<i64>().ok();
    // 0 and less mean no limit.
    let seconds = |name: &str, default: Option<Duration>| match number(name) {
        Some(seconds) => u64::try_from(seconds).ok().filter(|s| *s > 0).map(Duration::from_secs),
        None => default,
    };
    // Other words, such as `ima:enforcing`, are settings.
    let is_server = |word: &&str| ["http://", "https://"].iter().any(|kind| word.starts_with(kind));
    let urls = text("DEBUGINFOD_URLS")?;
    let urls: Vec<_> = urls.split_whitespace().filter(is_server).map(str::to_owned).collect();
    let is_https = urls.iter().any(|url| url.starts_with("https://"));
    let proxies: &[_] = if is_https { &["https_proxy", "all_proxy"] } else { &["http_proxy"] };
    let max_bytes = number("DEBUGINFOD_MAXSIZE").and_then(|bytes| u64::try_from(bytes).ok());
    (!urls.is_empty()).then(|| Servers {
        urls,
        timeout: seconds("DEBUGINFOD_TIMEOUT", Some(Servers::TIMEOUT)),
        max_time: seconds("DEBUGINFOD_MAXTIME", None),
        max_bytes: max_bytes.filter(|bytes| *bytes > 0).unwrap_or(Servers::MAX_BYTES),
        proxy: proxies.iter().find_map(|name| text(name)),
    })
}

/// Returns the download cache of debuginfod clients (debuginfod-client-config(7)):
/// `$DEBUGINFOD_CACHE_PATH`, else the folder of older clients if it exists, else
/// `debuginfod_client` in the user's cache folder.
fn debuginfod_cache(home: Option<&Path>) -> Option<PathBuf> {
    let named = folder_of("DEBUGINFOD_CACHE_PATH");
    let old = || Some(home?.join(".debuginfod_client_cache")).filter(|folder| folder.exists());
    let cache = || folder_of("XDG_CACHE_HOME").or_else(|| Some(home?.join(".cache")));
    named.or_else(old).or_else(|| Some(cache()?.join("debuginfod_client")))
}

/// Creates the symbol cache, a folder in tare's own. `None` if other users have rights to it.
fn symbol_cache(own_folder: &Path) -> Option<SymbolCache> {
    let folder = own_folder.join("symbols");
    // It may exist already.
    let _ = std::fs::DirBuilder::new().mode(0o700).create(&folder);
    is_own(&folder, 0o077)?;
    let uid = rustix::process::geteuid().as_raw();
    Some(SymbolCache { folder, max_bytes: SymbolCache::DEFAULT_MAX_BYTES, uid })
}

/// Returns `Some` if this user owns the folder and its mode has none of the bits `no_rights`.
fn is_own(folder: &Path, no_rights: u32) -> Option<()> {
    let meta = std::fs::symlink_metadata(folder).ok()?;
    let euid = rustix::process::geteuid().as_raw();
    (meta.is_dir() && meta.uid() == euid && meta.mode() & no_rights == 0).then_some(())
}

/// Creates tare's cache folder, as [`own_folder`].
pub(crate) fn cache_folder() -> Option<PathBuf> {
    own_folder(folder_of("HOME").as_deref())
}

/// Creates tare's cache folder: `$XDG_CACHE_HOME/tare`, otherwise `~/.cache/tare`. `None` if it or
/// its parent belongs to another user, as with `sudo`, or is writable by others, or if it can't be
/// created.
fn own_folder(home: Option<&Path>) -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = named.filter(|path| path.is_absolute());
    let cache = cache.or_else(|| home.map(|home| home.join(".cache")))?;
    // Don't write into another user's home.
    is_own(if cache.exists() { &cache } else { home? }, 0o022)?;
    let folder = cache.join("tare");
    if !folder.exists() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
    }
    is_own(&folder, 0o022)?;
    Some(folder)
}
