//! All rules whose findings are counted, and the ratchet that holds how many of each are left.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error, Result};
use std::path::Path;

use crate::finding::Finding;
use crate::{File, functions, markdown, prose, root, syntax};

/// The file that holds the number of findings that each rule may have. A number may only fall.
pub const RATCHET: &str = "tidy/ratchet.txt";

/// Lines of a function.
const MAX_FUNCTION_LINES: usize = 60;

/// A rule and the places that break it.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its name, as the ratchet has it.
    pub name: &'static str,
    /// The places that break it.
    pub findings: Vec<Finding>,
}

/// Checks all rules against all files.
///
/// # Errors
/// Fails if a list of `tidy/` can't be read, or a Rust file can't be parsed.
pub fn check(files: &[File]) -> Result<Vec<Rule>> {
    let read = |name: &str| std::fs::read_to_string(root().join("tidy").join(name));
    let phrases = prose::phrases(&read("phrases.txt")?);
    let findings = syntax::check(files, &read("records.txt")?)
        .map_err(|error| Error::other(format!("a Rust file can't be parsed: {error}")))?;
    let mut rules: Vec<Rule> =
        findings.into_rules().map(|(name, findings)| Rule { name, findings }).into();
    let documents: Vec<&File> = files.iter().filter(|file| file.path.ends_with(".md")).collect();
    let in_documents = |check: &dyn Fn(&File) -> Vec<Finding>| {
        documents.iter().flat_map(|document| check(document)).collect::<Vec<_>>()
    };
    rules.extend([
        Rule { name: "long-functions", findings: long_functions(files) },
        Rule { name: "lone-files", findings: lone_files(files) },
        Rule {
            name: "phrases",
            findings: files.iter().flat_map(|file| prose::find_phrases(file, &phrases)).collect(),
        },
        Rule { name: "long-lines", findings: in_documents(&markdown::long_lines) },
        Rule {
            name: "missing-paths",
            findings: in_documents(&|document| markdown::missing_paths(document, &root())),
        },
        Rule {
            name: "missing-functions",
            findings: in_documents(&|document| markdown::missing_functions(document, files)),
        },
    ]);
    Ok(rules)
}

fn long_functions(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        let long = functions(&file.text).into_iter();
        let long = long.filter(|function| function.lines > MAX_FUNCTION_LINES);
        findings.extend(long.map(|function| Finding {
            path: file.path.clone(),
            line: function.line,
            message: format!("{} has {} lines", function.name, function.lines),
        }));
    }
    findings
}

/// Rust files that are alone in a folder. Folders that cargo prescribes, and those with folders
/// below them, don't count.
fn lone_files(files: &[File]) -> Vec<Finding> {
    let mut by_folder: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut parents = BTreeSet::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        by_folder.entry(folder).or_default().push(&file.path);
        parents.extend(Path::new(folder).ancestors().skip(1).filter_map(Path::to_str));
    }
    let cargo = ["src", "tests", "examples", "benches"];
    let lone = by_folder.iter().filter(|(folder, paths)| {
        let name = folder.rsplit('/').next().unwrap_or_default();
        paths.len() == 1 && !cargo.contains(&name) && !parents.contains(*folder)
    });
    lone.map(|(folder, paths)| Finding {
        path: paths[0].to_owned(),
        line: 1,
        message: format!("the only Rust file of {folder}"),
    })
    .collect()
}

/// Parses a list of numbers by name: a line `name number` each, `#` for comments.
///
/// # Errors
/// Fails if a line isn't a name and a number.
pub fn numbers(text: &str) -> Result<BTreeMap<String, usize>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, number) = line.split_once(' ')?;
            Some((name.to_owned(), number.trim().parse().ok()?))
        })
        .map(|entry| entry.ok_or_else(|| Error::other("a line isn't a name and a number")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_alone_in_a_folder_is_found() {
        let paths =
            ["a/src/lib.rs", "a/src/b/c.rs", "a/src/d/e.rs", "a/src/d/f.rs", "a/tests/g.rs"];
        let files = paths.map(|path| File { path: path.into(), text: String::new() });
        let lone: Vec<_> = lone_files(&files).into_iter().map(|finding| finding.path).collect();
        assert_eq!(lone, ["a/src/b/c.rs"]);
    }

    #[test]
    fn numbers_have_a_name_each() {
        let parsed = numbers("# comment\na 1\nb-c 20\n").unwrap();
        assert_eq!(parsed, BTreeMap::from([("a".into(), 1), ("b-c".into(), 20)]));
        assert!(numbers("a\n").is_err());
    }
}
