//! The sources of the C library zstd, which is a dependency.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use crate::run::succeed;

/// The package that contains the library.
const PACKAGE: &str = "zstd-sys";

/// C files of the library in cargo's registry, without the folders of deprecated and old formats.
pub(super) fn sources() -> anyhow::Result<Vec<PathBuf>> {
    let words = ["cargo", "metadata", "--format-version", "1", "--offline"].map(str::to_owned);
    let metadata: Value = serde_json::from_str(&succeed(&words)?.stdout)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let manifest = packages
        .filter(|package| package["name"] == PACKAGE)
        .find_map(|package| package["manifest_path"].as_str());
    let manifest =
        Path::new(manifest.with_context(|| format!("no dependency is called {PACKAGE}"))?);
    let library = manifest.with_file_name("zstd").join("lib");
    let mut files = Vec::new();
    for part in ["common", "compress", "decompress", "dictBuilder"] {
        let paths = std::fs::read_dir(library.join(part))?
            .map(|entry| Ok(entry?.path()))
            .collect::<std::io::Result<Vec<_>>>()?;
        let is_c = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "c");
        files.extend(paths.into_iter().filter(is_c));
    }
    files.sort();
    Ok(files)
}
