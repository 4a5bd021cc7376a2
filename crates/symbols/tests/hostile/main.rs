//! Hostile files for the readers of symbols, debug info and unwind tables. Child processes read
//! them. The tests limit the children's peak memory and time: generously, because machines have
//! neighbours, but far below what such a file takes without limits.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is tests")]

mod dwarf;
mod elf;
mod files;
mod frames;
mod go;
mod packed;
mod symbols;

use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tare_symbols::{
    Dso, DsoAddress, DsoId, DsoKind, DsoTable, SymbolOptions, Symbolizer, Unresolved,
};

/// Limit on the CPU time of a child process in seconds; most take some tenths. Busy neighbours
/// don't change it.
const SECONDS: u64 = if cfg!(debug_assertions) { 60 } else { 5 };

/// Environment variable with the name of the test whose child this process is.
const CHILD: &str = "TARE_HOSTILE_CHILD";

/// Limit on the time of a child process that waits forever.
const WAIT_SECONDS: u64 = 600;

/// Runs a test's reading in a child process. Panics if it takes more CPU time than [`SECONDS`], or
/// more memory than this many MiB at its peak.
fn bounded(test: &str, most_mib: u64, read: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some_and(|child| child == test) {
        read();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        return println!("\n{peak}");
    }
    let mut child = Command::new("sh");
    child.args(["-c", &format!("ulimit -t {SECONDS}; exec \"$@\""), "sh"]);
    child.arg(std::env::current_exe().unwrap());
    child.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, test);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(WAIT_SECONDS);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("{test}: no end after {WAIT_SECONDS} s");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test}: {}: {text}{said}", output.status);
    let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the child's peak");
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    println!("{test}: {} MiB", kib >> 10);
    assert!(kib >> 10 <= most_mib, "{test}: {} MiB, {most_mib} expected", kib >> 10);
}

/// A DSO, and a symbolizer to look up its addresses.
struct HostileFile {
    dsos: DsoTable,
    dso: DsoId,
    symbolizer: Symbolizer,
}

impl HostileFile {
    fn new(kind: DsoKind, path: &Path, options: SymbolOptions) -> Self {
        let mut dsos = DsoTable::default();
        let name = path.as_os_str().as_encoded_bytes().to_vec();
        let dso = dsos.intern(Dso { kind, name, build_id: None }).unwrap();
        Self { dsos, dso, symbolizer: Symbolizer::new(options) }
    }

    /// Writes an ELF file with these bytes.
    fn elf(folder: &Path, bytes: &[u8]) -> Self {
        let path = folder.join("hostile");
        std::fs::write(&path, bytes).unwrap();
        Self::new(DsoKind::Elf, &path, SymbolOptions::default())
    }

    fn name(&self, address: u64) -> Result<String, Unresolved> {
        let symbol = self.symbolizer.find(&self.dsos, self.dso, address)?;
        Ok(self.symbolizer.name(symbol).to_owned())
    }

    /// Returns the frames of each address, innermost first, as `name` or `name file:line`. The name
    /// may be the reason why it is unknown.
    fn frames(&self, addresses: impl Iterator<Item = u64>) -> Vec<Vec<String>> {
        let asked: Vec<_> =
            addresses.map(|address| DsoAddress { dso: self.dso, address }).collect();
        let two = NonZeroUsize::new(2).unwrap();
        let frames = self.symbolizer.frames(&self.dsos, &asked, two);
        let said = |at: usize| -> Vec<String> {
            let said = frames.get(at).map(|frame| {
                let name = frame.name.map_or_else(|why| format!("{why:?}"), str::to_owned);
                match frame.location {
                    Some(location) => format!("{name} {}:{}", location.file, location.line),
                    None => name,
                }
            });
            said.collect()
        };
        (0..frames.len()).map(said).collect()
    }
}
