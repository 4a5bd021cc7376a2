//! How long the first stack in a large file takes: its unwind table is read then.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use object::{Object, ObjectSection};
use serde_json::{Value, json};
use tare_symbols::{
    AddressSpace, Dso, DsoKind, DsoTable, Mapping, Registers, Stack, SymbolOptions, UnwindCache,
    Unwinder,
};

use super::{finding, words};
use crate::report::{Bound, Estimate, Report};
use crate::run::succeed;
use crate::scratch::Scratch;

/// How often each table is read. The first time warms the page cache, and doesn't count.
const ROUNDS: usize = 8;

/// Where the code is mapped.
const START: u64 = 1 << 32;

/// Large binaries, as shell commands that print their paths.
const LARGE: [&str; 4] = [
    "g++ -print-prog-name=cc1plus",
    "command -v node",
    "ls /usr/lib/postgresql/*/bin/postgres",
    "ls /usr/lib/x86_64-linux-gnu/libx264.so.*",
];

/// Reads the tables of those that are installed.
pub(super) fn measure(_: &Scratch<'_>, report: &mut Report) -> anyhow::Result<Value> {
    let mut raw = Vec::new();
    for command in LARGE {
        let Ok(printed) = succeed(&words(&["sh", "-c", command])) else { continue };
        let path = PathBuf::from(printed.stdout.lines().next_back().unwrap_or_default());
        let Ok(path) = path.canonicalize() else { continue };
        let mut ms =
            (0..ROUNDS).map(|_| first_stack_ms(&path)).collect::<anyhow::Result<Vec<_>>>()?;
        ms.remove(0);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let measured = Estimate::median(ms.clone());
        report.table.push(format!("{name}: the first stack takes {measured} ms"));
        let what = format!("{name}: unwind table is ready, ms");
        report.findings.push(finding(what, measured.value, Bound::AtMost(50.0)));
        raw.push(json!({ "name": name, "ms": ms }));
    }
    Ok(json!(raw))
}

/// Milliseconds from an unwinder that has read nothing to the caller of a function in the middle of
/// a file's code.
fn first_stack_ms(path: &Path) -> anyhow::Result<f64> {
    let bytes = std::fs::read(path)?;
    let file = object::File::parse(&*bytes)?;
    let text = file.section_by_name(".text").context("a file with code")?;
    let (offset, size) = text.file_range().context("code in the file")?;
    let mut dsos = DsoTable::default();
    let name = path.as_os_str().as_encoded_bytes().to_vec();
    let dso = dsos.intern(Dso { kind: DsoKind::Elf, name, build_id: None }).context("one file")?;
    let mut space = AddressSpace::default();
    space.add(Mapping { start: START, end: START + size, pgoff: offset, dso, is_code: true });
    let mut general = [0; 16];
    general[7] = 1 << 40;
    let registers = Registers::X86_64 { ip: START + size / 2, general };
    let began = Instant::now();
    let unwinder = Unwinder::new(SymbolOptions::default());
    let stack = Stack { registers: &registers, copy: &[0; 4096], frame_pointers: &[] };
    let chain = unwinder.call_chain(&mut UnwindCache::default(), &dsos, &space, &stack);
    let ms = began.elapsed().as_secs_f64() * 1e3;
    anyhow::ensure!(unwinder.bytes() > 0 && !chain.frames.is_empty(), "no table was read");
    Ok(ms)
}
