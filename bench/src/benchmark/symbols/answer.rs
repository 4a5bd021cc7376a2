//! Answers of tare, and of programs that print as LLVM's symbolizer does; how two answers differ.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use tare_symbols::{Dso, DsoAddress, DsoKind, DsoTable, SymbolOptions, Symbolizer};

/// LLVM's symbolizer, as Debian names it.
pub(super) const LLVM: &str = "llvm-symbolizer-19";

/// A function that contains an address, and the place in its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) line: u32,
}

/// The functions of an address, the innermost first.
pub(crate) type Frames = Vec<Frame>;

/// Name of an unknown function or file.
pub(crate) const UNKNOWN: &str = "??";

/// tare's answers, with mangled names.
pub(super) fn of_tare(file: &Path, addresses: &[u64]) -> anyhow::Result<Vec<Frames>> {
    let options = SymbolOptions { demangle: false, ..SymbolOptions::default() };
    let mut dsos = DsoTable::default();
    let symbolizer = Symbolizer::new(options);
    let name = std::fs::canonicalize(file)?.as_os_str().as_bytes().to_vec();
    let dso = dsos.intern(Dso { kind: DsoKind::Elf, name, build_id: None });
    let dso = dso.context("one file is not too many")?;
    let offset = |address| symbolizer.file_offset(&dsos, dso, address).unwrap_or(u64::MAX);
    let asked: Vec<_> =
        addresses.iter().map(|at| DsoAddress { dso, address: offset(*at) }).collect();
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let found = symbolizer.frames(&dsos, &asked, threads);
    let frame = |frame: tare_symbols::Frame<'_>| Frame {
        name: frame.name.unwrap_or(UNKNOWN).to_owned(),
        file: frame.location.map_or(UNKNOWN, |at| at.file).to_owned(),
        line: frame.location.map_or(0, |at| at.line),
    };
    Ok((0..found.len()).map(|place| found.get(place).map(frame).collect()).collect())
}

/// LLVM's answers, with mangled names.
pub(super) fn of_llvm(file: &Path, addresses: &[u64]) -> anyhow::Result<Vec<Frames>> {
    let mut command = Command::new(LLVM);
    command.args(["--no-demangle", "--functions=linkage", "--obj"]).arg(file);
    of_program(command, addresses)
}

/// The answers of a program that reads addresses and prints as LLVM's symbolizer does.
pub(super) fn of_program(mut command: Command, addresses: &[u64]) -> anyhow::Result<Vec<Frames>> {
    let mut input = tempfile::NamedTempFile::new()?;
    input.write_all(text(addresses).as_bytes())?;
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::from(File::open(input.path())?)).output();
    let output = output.with_context(|| format!("running {name}"))?;
    ensure!(output.status.success(), "{name} failed: {}", String::from_utf8_lossy(&output.stderr));
    let answers = parse(&String::from_utf8_lossy(&output.stdout))?;
    ensure!(answers.len() == addresses.len(), "{name} answered {} times", answers.len());
    Ok(answers)
}

/// Addresses as text, one per line.
pub(super) fn text(addresses: &[u64]) -> String {
    let mut text = String::new();
    for address in addresses {
        let _ = writeln!(text, "{address:#x}");
    }
    text
}

/// Parses the output of `llvm-symbolizer` and similar programs: two lines per frame, and an empty
/// line after the frames of an address.
fn parse(text: &str) -> anyhow::Result<Vec<Frames>> {
    text.split_terminator("\n\n").map(frames).collect()
}

/// Parses the frames of an address.
pub(super) fn frames(text: &str) -> anyhow::Result<Frames> {
    let lines: Vec<&str> = text.lines().collect();
    lines.chunks(2).map(frame).collect()
}

fn frame(lines: &[&str]) -> anyhow::Result<Frame> {
    let place = lines.get(1).context("a name without a place")?;
    let mut parts = place.rsplitn(3, ':');
    let _column = parts.next();
    let line = parts.next();
    let file = parts.next();
    Ok(Frame {
        name: lines[0].to_owned(),
        file: file.context("a place without a file")?.to_owned(),
        line: line.context("a place without a line")?.parse()?,
    })
}

/// Returns how two answers for an address differ; `None` if they are equal.
pub(crate) fn difference(ours: &Frames, theirs: &Frames) -> Option<&'static str> {
    let has_same_place = |our: &Frame, their: &Frame| {
        let is_symbols = our.line == 0 && their.line == 0;
        (our.file == their.file && our.line == their.line) || is_symbols
    };
    let outer_name = |frames: &Frames| frames.last().map(|frame| frame.name.clone());
    let mut pairs = ours.iter().zip(theirs);
    if ours == theirs {
        None
    } else if ours.len() != theirs.len() {
        Some("another number of frames")
    } else if !pairs.clone().all(|(our, their)| has_same_place(our, their)) {
        Some("another file or line")
    } else if outer_name(ours) != outer_name(theirs) {
        // tare takes the symbol's name, addr2line that of the debug info.
        Some("another name of the outer function")
    } else if pairs.any(|(our, their)| our.name != their.name) {
        Some("another name of an inlined function")
    } else {
        // tare takes the file from the symbol table.
        Some("no line, and another file or none")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_lines_are_a_frame_and_an_empty_one_ends_an_address() {
        let found = parse("inner\n/a:b.c:7:3\nouter\n??:0:0\n\n??\n??:0:0\n\n").unwrap();
        let frame = |name: &str, file: &str, line| Frame {
            name: name.to_owned(),
            file: file.to_owned(),
            line,
        };
        let first = vec![frame("inner", "/a:b.c", 7), frame("outer", "??", 0)];
        assert_eq!(found, [first, vec![frame("??", "??", 0)]]);
        assert!(parse("a name alone\n\n").is_err());
    }
}
