//! Programs with debug info, of several languages and compilers, and programs that look up names.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::benchmark::zstd;
use crate::run::{run_for_output, succeed};

/// The version of the crate `addr2line` that is measured.
const ADDR2LINE: &str = "0.27.1";

/// Name of the class in [`templates`].
pub(super) const CLASS: &str = "Key000";

/// Declaration of the main function in [`templates`].
pub(super) const MAIN: &str = "int main(int count, char **words)";

/// A program whose names are compared.
#[derive(Debug)]
pub(super) struct DebugProgram {
    pub(super) name: String,
    pub(super) file: PathBuf,
}

/// A C library, a program each of C++, Rust and Go, a library whose debug info lies in a file of
/// its own, and tare itself.
///
/// # Errors
/// Fails if a build tool is missing or fails, or a file can't be written.
pub(super) fn all(folder: &Path) -> anyhow::Result<Vec<DebugProgram>> {
    let program = |name: &str, file| DebugProgram { name: name.to_owned(), file };
    Ok(vec![
        program("C", c(folder, "c.so", &["-O2", "-g"])?),
        program("C++ with templates", cpp(folder)?),
        program("Rust with LTO", rust()?),
        program("Go", go(folder)?),
        program("stripped with a debug link", stripped(folder)?),
        program("Rust with LTO and a static C library", tare()?),
    ])
}

/// Runs a command whose words are separated by spaces, with further words.
fn call(line: &str, words: &[&Path]) -> anyhow::Result<()> {
    let mut all: Vec<String> = line.split(' ').map(str::to_owned).collect();
    all.extend(words.iter().map(|word| word.display().to_string()));
    succeed(&all).map(|_| ())
}

/// Builds the library zstd.
fn c(folder: &Path, name: &str, options: &[&str]) -> anyhow::Result<PathBuf> {
    zstd(&folder.join(name), &[options, &["-shared", "-fPIC"]].concat(), &zstd::sources()?)
}

/// Builds a program `NAME FILE TIMES`, which TIMES times compresses the first MiB of a file with
/// zstd at eight levels.
pub(super) fn compressor(folder: &Path, name: &str, options: &[&str]) -> anyhow::Result<PathBuf> {
    let main = folder.join("compress.c");
    std::fs::write(&main, COMPRESS)?;
    let mut sources = zstd::sources()?;
    let header = sources[0].ancestors().nth(2).context("a library has a folder")?;
    let include = format!("-I{}", header.display());
    sources.push(main);
    zstd(&folder.join(name), &[options, &[include.as_str()]].concat(), &sources)
}

fn zstd(file: &Path, options: &[&str], sources: &[PathBuf]) -> anyhow::Result<PathBuf> {
    let line = format!("cc {} -DZSTD_DISABLE_ASM -o", options.join(" "));
    let mut words = vec![file];
    words.extend(sources.iter().map(PathBuf::as_path));
    call(&line, &words)?;
    Ok(file.to_owned())
}

/// The main function of [`compressor`].
const COMPRESS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <zstd.h>
int main(int count, char **words) {
    if (count < 3) return 2;
    size_t size = 1 << 20, sum = 0;
    char *in = malloc(size), *out = malloc(ZSTD_compressBound(size));
    FILE *file = fopen(words[1], "rb");
    if (!file) return 1;
    size = fread(in, 1, size, file);
    for (int n = atoi(words[2]); n > 0; n--)
        for (int level = 1; level < 16; level += 2) sum += ZSTD_compress(out, ZSTD_compressBound(size), in, size, level);
    printf("%zu\n", sum);
    return 0;
}
"#;

/// A program of many instantiations of templates.
pub(crate) fn cpp(folder: &Path) -> anyhow::Result<PathBuf> {
    let source = folder.join("templates.cc");
    let file = folder.join("templates");
    std::fs::write(&source, templates(16))?;
    call("c++ -O2 -g -std=c++17 -o", &[&file, &source])?;
    Ok(file)
}

/// tare's distributed build with all debug info. Building it takes minutes.
pub(super) fn tare() -> anyhow::Result<PathBuf> {
    let done = succeed(&["./x", "profiling"].map(str::to_owned))?;
    let path = done.stdout.lines().last().context("./x profiling names no file")?;
    Ok(PathBuf::from(path))
}

/// The library's example that reads addresses and prints their names.
pub(super) fn symbolize() -> anyhow::Result<PathBuf> {
    let build = "cargo build --quiet --profile dist --target-dir target/distributed";
    call(&format!("{build} -p tare-symbols --example symbolize"), &[])?;
    Ok(PathBuf::from("target/distributed/dist/examples/symbolize"))
}

/// The program of the crate `addr2line`, optimized as tare is.
pub(super) fn addr2line() -> anyhow::Result<PathBuf> {
    let folder = Path::new("target/addr2line");
    let file = folder.join("bin/addr2line");
    if !file.exists() {
        let profile = ["LTO=fat", "CODEGEN_UNITS=1", "PANIC=abort"];
        let profile = profile.map(|value| format!("CARGO_PROFILE_RELEASE_{value}")).join(" ");
        let install = format!(
            "cargo install --quiet --locked --features bin --version {ADDR2LINE} addr2line --root"
        );
        call(&format!("env {profile} {install}"), &[folder])?;
    }
    Ok(file)
}

/// [`symbolize`] with all debug info.
fn rust() -> anyhow::Result<PathBuf> {
    call("cargo build --quiet --profile profiling -p tare-symbols --example symbolize", &[])?;
    Ok(PathBuf::from("target/profiling/examples/symbolize"))
}

/// The program in bench/blazesym, around the library `blazesym`.
pub(super) fn blazesym() -> anyhow::Result<PathBuf> {
    let build = "cargo build --quiet --release --locked --target-dir target/blazesym";
    call(&format!("{build} --manifest-path bench/blazesym/Cargo.toml"), &[])?;
    Ok(PathBuf::from("target/blazesym/release/bench-blazesym"))
}

/// `gofmt`, from Go's own sources.
pub(super) fn go(folder: &Path) -> anyhow::Result<PathBuf> {
    let file = folder.join("gofmt");
    call("go build -o", &[&file, Path::new("cmd/gofmt")])?;
    Ok(file)
}

/// A stripped library, and beside it the debug file that its `.gnu_debuglink` names.
fn stripped(folder: &Path) -> anyhow::Result<PathBuf> {
    let file = folder.join("stripped.so");
    let debug = folder.join("stripped.debug");
    // A build id would be another way to the debug file.
    let options = ["-O3", "-g", "-gdwarf-4", "-ffunction-sections", "-Wl,--build-id=none"];
    let whole = c(folder, "whole.so", &options)?;
    call("objcopy --only-keep-debug", &[&whole, &debug])?;
    call("strip --strip-all -o", &[&file, &whole])?;
    call("objcopy", &[Path::new(&format!("--add-gnu-debuglink={}", debug.display())), &file])?;
    std::fs::remove_file(&whole)?;
    Ok(file)
}

/// Returns a C++ source with this number of instantiations of [`CLASS`], each with containers,
/// sorting and closures.
pub(super) fn templates(count: usize) -> String {
    let mut text = String::from(
        "#include <algorithm>\n#include <functional>\n#include <map>\n#include <memory>\n\
         #include <numeric>\n#include <string>\n#include <unordered_map>\n#include <vector>\n\
         template <int N> struct Key000 {\n  int values[N + 1];\n  std::string text;\n\
           bool operator<(const Key000 &other) const { return text < other.text; }\n};\n\
         template <int N> int work(std::vector<Key000<N>> keys) {\n\
           std::map<Key000<N>, std::vector<std::string>> byKey;\n\
           std::unordered_map<std::string, std::unique_ptr<Key000<N>>> byText;\n\
           std::sort(keys.begin(), keys.end());\n\
           for (auto &key : keys) {\n\
             byKey[key].push_back(key.text + std::to_string(N));\n\
             byText[key.text] = std::make_unique<Key000<N>>(key);\n  }\n\
           std::stable_sort(keys.begin(), keys.end(), [](const Key000<N> &a, const Key000<N> &b) {\n\
             return a.values[0] % 7 < b.values[0] % 7; });\n\
           std::function<int(int)> twice = [&](int x) { return x * 2 + int(byText.size()); };\n\
           int sum = std::accumulate(keys.begin(), keys.end(), 0,\n\
             [&](int all, const Key000<N> &key) { return all + twice(key.values[0]); });\n\
           for (auto &[key, texts] : byKey) sum += texts.size();\n  return sum;\n}\n\
         int main(int count, char **words) {\n  int sum = 0;\n\
           for (int n = count > 1 ? std::stoi(words[1]) : 1; n > 0; n--) {\n",
    );
    for n in 0..count {
        let _ = writeln!(
            text,
            "  sum += work<{n}>(std::vector<Key000<{n}>>(1000 * count, Key000<{n}>{{{{1}}, words[0]}}));"
        );
    }
    text.push_str("  }\n  return sum & 1;\n}\n");
    text
}

/// Returns the first line with a digit of a command's output, else the command's name.
pub(super) fn version(words: &[&str]) -> String {
    let owned: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let said = run_for_output(&owned).map(|done| done.stdout).unwrap_or_default();
    said.lines().find(|line| line.contains(char::is_numeric)).unwrap_or(words[0]).trim().to_owned()
}
