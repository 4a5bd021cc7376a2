//! Memory of names in a program with 1 GB of debug info.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use object::read::ReadCache;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection};
use serde_json::json;

use super::addresses::drawn;
use super::programs::{CLASS, MAIN};
use super::{answer, programs};
use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::{Round, Variant, rounds};
use crate::run::{run_for_output, succeed};
use crate::scratch::Scratch;
use crate::setting::Setting;

/// Lower bound of the debug info, in bytes.
const DEBUG_BYTES: u64 = 1_000_000_000;

/// Bound of the peak memory, in bytes.
const PEAK_BYTES: f64 = 600e6;

/// Addresses to look up.
const COUNT: u64 = 5000;

/// Instantiations in one object file.
const INSTANTIATIONS: usize = 32;

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let (file, debug_bytes) = program(scratch.folder())?;
    let addresses = drawn(&file, COUNT, setting.seed.unwrap_or(1))?;
    let list = scratch.path("addresses");
    std::fs::write(&list, answer::text(&addresses))?;
    let ours = programs::symbolize()?;
    let [tool, path, list] = [&ours, &file, &list].map(|path| path.display().to_string());
    let variant = |threads: &str| {
        let line = format!("exec {tool} --threads {threads} {path} <{list}");
        Variant::new(format!("{threads} threads"), ["sh", "-c", &line])
    };
    let variants = [variant("1"), variant("2")];
    let all = rounds(&variants, setting.rounds.unwrap_or(3))?;
    let with_line = answer::of_tare(&file, &addresses)?;
    let with_line = with_line.iter().filter(|frames| frames[0].line > 0).count();
    let mut report = Report::of_rounds(&variants, &all, findings(&all, debug_bytes));
    report.table.push(format!(
        "{debug_bytes} bytes of debug info; {with_line} of {COUNT} addresses have lines"
    ));
    report.raw = json!({ "runs": report.raw, "debug_bytes": debug_bytes, "with_line": with_line });
    Ok(report)
}

fn findings(rounds: &[Round], debug_bytes: u64) -> Vec<Finding> {
    let peak = |at: usize| {
        let most = rounds.iter().map(|round| round.usage[at].peak_bytes).max().unwrap_or(0);
        Finding {
            what: format!("peak memory in MB, {} threads", at + 1),
            measured: Estimate::exact(most as f64 / 1e6),
            bound: Bound::AtMost(PEAK_BYTES / 1e6),
        }
    };
    let size = Finding {
        what: "debug info in MB".to_owned(),
        measured: Estimate::exact(debug_bytes as f64 / 1e6),
        bound: Bound::AtLeast(DEBUG_BYTES as f64 / 1e6),
    };
    vec![size, peak(0), peak(1)]
}

/// Builds a program of many instantiations, and returns it with the size of its debug info. One
/// object file is compiled. In each copy of it the class has another name of the same length, in
/// symbols, in section groups and in debug info, so that to the linker each has instantiations of
/// its own.
fn program(folder: &Path) -> anyhow::Result<(PathBuf, u64)> {
    let source = folder.join("large.cc");
    let run = format!("int run{CLASS}(int count, char **words)");
    let text = programs::templates(INSTANTIATIONS).replace(MAIN, &run);
    std::fs::write(&source, text)?;
    let object = folder.join("large.o");
    compile(&source, &object)?;
    let bytes = std::fs::read(&object)?;
    let each = debug_bytes(&object)?;
    // 5% more copies, because the linker keeps strings that all copies have once.
    let copies = (DEBUG_BYTES / each + 1) * 21 / 20;
    ensure!(copies < 1000, "{copies} copies of {each} bytes");
    let mut calls = String::new();
    let mut declared = String::new();
    let mut objects = Vec::new();
    for number in 0..copies {
        let name = format!("Key{number:03}");
        let copy = folder.join(format!("{name}.o"));
        std::fs::write(&copy, replaced(&bytes, CLASS.as_bytes(), name.as_bytes()))?;
        declared += &format!("int run{name}(int, char **);\n");
        calls += &format!("sum += run{name}(count, words); ");
        objects.push(copy);
    }
    let start = folder.join("start.cc");
    let file = folder.join("large");
    std::fs::write(
        &start,
        format!("{declared}{MAIN} {{ int sum = 0; {calls} return sum & 1; }}\n"),
    )?;
    let mut words: Vec<String> = ["c++", "-g", "-o"].map(str::to_owned).to_vec();
    words
        .extend([&file, &start].into_iter().chain(&objects).map(|path| path.display().to_string()));
    succeed(&words)?;
    for object in objects {
        std::fs::remove_file(object)?;
    }
    let bytes = debug_bytes(&file)?;
    Ok((file, bytes))
}

fn compile(source: &Path, object: &Path) -> anyhow::Result<()> {
    let mut words: Vec<String> =
        ["c++", "-O1", "-g", "-std=c++17", "-gz=none", "-c", "-o"].map(str::to_owned).to_vec();
    words.extend([object, source].map(|path| path.display().to_string()));
    let done = run_for_output(&words)?;
    ensure!(done.ended.status == 0, "{}", done.stderr);
    Ok(())
}

/// Bytes of all sections of debug info.
fn debug_bytes(file: &Path) -> anyhow::Result<u64> {
    // The file isn't read as a whole: the peak memory of child processes starts at this process's.
    let cache = ReadCache::new(File::open(file)?);
    let parsed = ElfFile64::<Endianness, _>::parse(&cache)?;
    let is_debug = |name: &[u8]| name.starts_with(b".debug_");
    let sections = parsed.sections().filter(|at| at.name_bytes().is_ok_and(is_debug));
    Ok(sections.map(|section| section.size()).sum())
}

/// Replaces each occurrence of a text by another of the same length.
fn replaced(bytes: &[u8], text: &[u8], other: &[u8]) -> Vec<u8> {
    let mut replaced = bytes.to_vec();
    let mut at = 0;
    while at + text.len() <= replaced.len() {
        if replaced[at..].starts_with(text) {
            replaced[at..at + text.len()].copy_from_slice(other);
            at += text.len();
        } else {
            at += 1;
        }
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_text_are_replaced() {
        assert_eq!(replaced(b"aKey000Key00Key000", b"Key000", b"Key017"), b"aKey017Key00Key017");
    }
}
