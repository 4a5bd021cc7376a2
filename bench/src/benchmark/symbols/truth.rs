//! Functions, inlined functions, files and lines against LLVM's symbolizer.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::addresses::{SymbolTable, drawn};
use super::answer::{self, Frames, LLVM};
use super::programs::{self, DebugProgram};
use crate::report::{Bound, Estimate, Finding, Report};
use crate::scratch::Scratch;
use crate::setting::Setting;

/// Addresses of each program.
const COUNT: u64 = 10_000;

/// Lower bound of the share of addresses with the same answer.
const SAME: f64 = 0.999;

/// The folder that lists all differences.
const LISTED: &str = "target/truth";

/// Why two answers differ. The first three are conventions, where neither answer is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// LLVM gives a function with several symbols another of their names.
    Alias,
    /// LLVM doesn't read the symbol table of a separate debug file, so it gives a clone that GCC
    /// made of a function (`f.constprop.0`) the function's own name.
    Clone,
    /// For the same reason LLVM doesn't know the file (`STT_FILE`) of a symbol without a line.
    SymbolFile,
    Name,
    Inlined,
    File,
    Line,
}

impl Cause {
    fn is_convention(self) -> bool {
        matches!(self, Self::Alias | Self::Clone | Self::SymbolFile)
    }

    fn about(self) -> &'static str {
        match self {
            Self::Alias => "another symbol of the same address",
            Self::Clone => "a function's clone, which LLVM calls as its source",
            Self::SymbolFile => "no line, and the file of the table of symbols",
            Self::Name => "another function",
            Self::Inlined => "other inlined functions",
            Self::File => "another file",
            Self::Line => "another line",
        }
    }
}

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let seed = setting.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let mut report = Report { table: Vec::new(), findings: Vec::new(), raw: json!(null) };
    report.table.push(format!(
        "seed {seed}; {}; {}; {}; {}",
        programs::version(&[LLVM, "--version"]),
        programs::version(&["c++", "--version"]),
        programs::version(&["rustc", "--version"]),
        programs::version(&["go", "version"])
    ));
    std::fs::create_dir_all(LISTED)?;
    let mut raw = Vec::new();
    for program in programs::all(scratch.folder())? {
        raw.push(compare(&program, &program.file, seed, &mut report)?);
        let debug = with_symbols(&program.file);
        if debug != program.file {
            let name = format!("{}, of which LLVM reads the debug file", program.name);
            let program = DebugProgram { name, file: program.file };
            raw.push(compare(&program, &debug, seed, &mut report)?);
        }
    }
    report.table.push(format!("all differences: {LISTED}/"));
    report.raw = json!({ "seed": seed, "programs": raw });
    Ok(report)
}

/// Differences by their cause, as text.
type Differences = BTreeMap<Cause, Vec<String>>;

/// Compares the answers of tare and of blazesym for a program with LLVM's for the program or its
/// debug file.
fn compare(
    program: &DebugProgram,
    llvm_reads: &Path,
    seed: u64,
    report: &mut Report,
) -> anyhow::Result<serde_json::Value> {
    let addresses = drawn(&program.file, COUNT, seed)?;
    let ours = answer::of_tare(&program.file, &addresses)?;
    let mut blazesym = Command::new(programs::blazesym()?);
    blazesym.arg(&program.file);
    let peers = answer::of_program(blazesym, &addresses)?;
    let theirs = answer::of_llvm(llvm_reads, &addresses)?;
    let table = SymbolTable::read(&with_symbols(&program.file))?;
    let of = |ours: &[Frames]| -> Differences {
        let mut all = Differences::new();
        for ((address, ours), theirs) in addresses.iter().zip(ours).zip(&theirs) {
            if let Some(cause) = cause(&table, ours, theirs) {
                all.entry(cause).or_default().push(listed(*address, ours, theirs));
            }
        }
        all
    };
    let differ = of(&ours);
    let peers_differ = of(&peers);
    let list = Path::new(LISTED).join(format!("{}.txt", program.name.replace([' ', ','], "-")));
    list_all(&list, &differ)?;
    let inlined = ours.iter().filter(|frames| frames.len() > 1).count();
    let with_line = ours.iter().filter(|frames| frames.iter().any(|at| at.line > 0)).count();
    report.table.push(format!(
        "{}: {COUNT} addresses, {with_line} with lines, {inlined} in inlined functions",
        program.name
    ));
    report.table.extend(counted(&differ));
    report.table.push("  the library blazesym on the same addresses:".to_owned());
    report.table.extend(counted(&peers_differ));
    let [all, wrong] = [true, false].map(|with_conventions| {
        let wanted = |cause: &&Cause| with_conventions || !cause.is_convention();
        let causes = differ.keys().filter(wanted);
        causes.map(|cause| differ[cause].len()).sum::<usize>()
    });
    for (what, differ) in [("equal", all), ("equal but for conventions", wrong)] {
        report.findings.push(Finding {
            what: format!("{}: share of answers that are {what}", program.name),
            measured: Estimate::exact((COUNT as f64 - differ as f64) / COUNT as f64),
            bound: Bound::AtLeast(SAME),
        });
    }
    let counts = |differences: &Differences| -> BTreeMap<_, _> {
        differences.iter().map(|(cause, all)| (cause.about(), all.len())).collect()
    };
    Ok(json!({
        "program": program.name, "addresses": COUNT, "with_lines": with_line,
        "inlined": inlined, "differ": counts(&differ), "blazesym_differs": counts(&peers_differ),
    }))
}

/// One line per cause.
fn counted(differences: &Differences) -> Vec<String> {
    let line =
        |(cause, all): (&Cause, &Vec<String>)| format!("{:>7}  {}", all.len(), cause.about());
    if differences.is_empty() {
        return vec!["        no difference".to_owned()];
    }
    differences.iter().map(line).collect()
}

/// The file with a program's symbol table: its debug file, if it has one.
fn with_symbols(file: &Path) -> PathBuf {
    let debug = file.with_extension("debug");
    if debug.exists() { debug } else { file.to_owned() }
}

/// Why two answers differ; `None` if they are the same. Columns are not compared.
fn cause(table: &SymbolTable, ours: &Frames, theirs: &Frames) -> Option<Cause> {
    if ours == theirs {
        return None;
    }
    let Some((our_last, our_inlined)) = ours.split_last() else { return Some(Cause::Inlined) };
    let Some((last, inlined)) = theirs.split_last() else { return Some(Cause::Inlined) };
    let names = |frames: &[answer::Frame]| -> Vec<String> {
        frames.iter().map(|frame| frame.name.clone()).collect()
    };
    if names(our_inlined) != names(inlined) {
        return Some(Cause::Inlined);
    }
    if our_last.name != last.name {
        let source = our_last.name.split('.').next();
        return Some(match table.are_aliases(&our_last.name, &last.name) {
            true => Cause::Alias,
            false if source == Some(&last.name) => Cause::Clone,
            false => Cause::Name,
        });
    }
    let mut pairs = ours.iter().zip(theirs);
    let (our, their) = pairs.find(|(our, their)| our != their)?;
    Some(match our.file == their.file {
        true => Cause::Line,
        false if our.line == 0 && their.line == 0 && table.is_file(&our.file) => Cause::SymbolFile,
        false => Cause::File,
    })
}

/// A difference, as text.
fn listed(address: u64, ours: &Frames, theirs: &Frames) -> String {
    let mut text = format!("{address:#x}\n");
    for (who, frames) in [("tare", ours), ("LLVM", theirs)] {
        for frame in frames {
            let _ = writeln!(text, "  {who}  {}  {}:{}", frame.name, frame.file, frame.line);
        }
    }
    text
}

fn list_all(file: &Path, differences: &Differences) -> anyhow::Result<()> {
    let mut text = String::new();
    for (cause, all) in differences {
        let _ = writeln!(text, "== {} x {}\n", all.len(), cause.about());
        all.iter().for_each(|difference| text.push_str(difference));
    }
    Ok(std::fs::write(file, text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_have_their_cause() {
        let frame = |name: &str, file: &str, line| answer::Frame {
            name: name.to_owned(),
            file: file.to_owned(),
            line,
        };
        let table =
            SymbolTable::read(&std::env::current_exe().expect("a test has a file")).unwrap();
        let a = [frame("a", "f.c", 1)];
        let b = [frame("b", "f.c", 2)];
        let both = [&a[..], &b[..]].concat();
        let cause = |ours: &[answer::Frame], theirs: &[answer::Frame]| {
            cause(&table, &ours.to_vec(), &theirs.to_vec())
        };
        assert_eq!(cause(&a, &a), None);
        assert_eq!(cause(&both, &b), Some(Cause::Inlined));
        assert_eq!(cause(&a, &b), Some(Cause::Name));
        assert_eq!(cause(&a, &[frame("a", "f.c", 2)]), Some(Cause::Line));
        assert_eq!(cause(&a, &[frame("a", "g.c", 1)]), Some(Cause::File));
        let unknown = frame("a", "??", 0);
        let nothing = frame("a", "nothing.c", 0);
        assert_eq!(cause(&[unknown], &[nothing]), Some(Cause::File));
        assert_eq!(cause(&[frame("b.part.0", "f.c", 2)], &b), Some(Cause::Clone));
    }
}
