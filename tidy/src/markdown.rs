//! Rules about Markdown documents: links and paths lead somewhere, functions exist, prose is
//! wrapped.

use std::path::Path;

use crate::File;
use crate::finding::Finding;

/// Columns of a line of prose.
const MAX_COLUMNS: usize = 100;

/// Top-level folders. A code span in a document that begins with one is checked as a path.
const FOLDERS: [&str; 15] = [
    ".ci/",
    ".config/",
    ".github/",
    "bench/",
    "crates/",
    "docs/",
    "fuzz/",
    "linux/",
    "peers/",
    "scripts/",
    "simulate/",
    "soak/",
    "tidy/",
    "vm/",
    "workloads/",
];

/// Lines of a Markdown text outside of fenced code, with their numbers from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (!fenced && !is_fence).then_some((index + 1, line))
    })
}

/// The code spans of a line.
fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The targets of the links in a Markdown text: what stands in the round brackets of
/// `[text](target)`, outside of code.
#[must_use]
pub fn links(text: &str) -> Vec<&str> {
    let outside_of_code = lines(text).flat_map(|(_, line)| line.split('`').step_by(2));
    outside_of_code
        .flat_map(|text| text.split("](").skip(1))
        .filter_map(|rest| rest.split(')').next())
        .collect()
}

/// Paths of the workspace and commands of `x` that a document names in code, and that don't exist
/// below `root`.
#[must_use]
pub fn missing_paths(document: &File, root: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in document.text.lines().enumerate() {
        let commands = line.split("./x ").skip(1).filter_map(|rest| {
            let end = rest.find(|letter: char| !letter.is_ascii_lowercase() && letter != '-');
            Some(&rest[..end.unwrap_or(rest.len())]).filter(|name| !name.is_empty())
        });
        let commands = commands
            .filter(|name| *name != "help" && !root.join("scripts").join(name).exists())
            .map(|name| format!("./x {name}"));
        let paths = code_spans(line)
            .filter_map(workspace_path)
            .filter(|path| !root.join(path).exists())
            .map(str::to_owned);
        findings.extend(commands.chain(paths).map(|name| Finding {
            path: document.path.clone(),
            line: index + 1,
            message: format!("{name} doesn't exist"),
        }));
    }
    findings
}

/// The path that a code span is, without a line number; `None` for code, patterns and
/// placeholders.
fn workspace_path(span: &str) -> Option<&str> {
    let is_placeholder = |letter: char| " *…<>{}$[]()=,".contains(letter) || letter.is_uppercase();
    let is_path = FOLDERS.iter().any(|folder| span.starts_with(folder));
    // Only a file's name may have upper-case letters.
    let folder = span.rsplit_once('/').map_or("", |(folder, _)| folder);
    let has_placeholder = folder.contains(is_placeholder)
        || span.contains(|letter: char| is_placeholder(letter) && !letter.is_uppercase());
    (is_path && !has_placeholder).then(|| span.split(':').next().unwrap_or(span))
}

/// Functions that a document names behind their file (`` `file.rs`: `Type::function` ``) and that
/// the file doesn't have.
#[must_use]
pub fn missing_functions(document: &File, sources: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in lines(&document.text) {
        let parts: Vec<&str> = text.split('`').collect();
        for window in parts[1.min(parts.len())..].windows(3).step_by(2) {
            let [path, between, item] = window else { continue };
            let Some((owner, function)) = item.split_once("::") else { continue };
            let source = sources.iter().find(|source| source.path == *path);
            let Some(source) = source.filter(|_| between.trim() == ":") else { continue };
            let has = |word: &str| source.text.contains(word);
            let is_there =
                has(owner) && (has(&format!("fn {function}(")) || has(&format!("fn {function}<")));
            if !is_there {
                findings.push(Finding {
                    path: document.path.clone(),
                    line,
                    message: format!("{path} has no {item}"),
                });
            }
        }
    }
    findings
}

/// Lines of prose that are longer than `MAX_COLUMNS` and could be wrapped. Tables, fenced code,
/// code spans and links stay whole.
#[must_use]
pub fn long_lines(document: &File) -> Vec<Finding> {
    let prose = lines(&document.text).filter(|(_, line)| !line.trim_start().starts_with('|'));
    prose
        .filter(|(_, line)| line.chars().count() > MAX_COLUMNS && can_be_wrapped(line))
        .map(|(number, line)| Finding {
            path: document.path.clone(),
            line: number,
            message: format!("{} columns", line.chars().count()),
        })
        .collect()
}

/// Whether a line has a space to break at behind its indentation or list marker, and outside of
/// code spans and links.
fn can_be_wrapped(line: &str) -> bool {
    let text =
        line.trim_start_matches(|letter: char| " -*>#.".contains(letter) || letter.is_numeric());
    let mut in_code = false;
    let mut in_link = false;
    text.chars().any(|letter| {
        in_code ^= letter == '`';
        in_link = letter == '[' || in_link && letter != ')';
        letter == ' ' && !in_code && !in_link
    })
}

/// The lines `crate -> crate, crate` of a document: a crate, and the crates that it may use.
#[must_use]
pub fn edges(text: &str) -> Vec<(&str, Vec<&str>)> {
    let is_edge = |line: &&str| line.starts_with("tare-") || line.starts_with("cargo-tare ");
    let edges = text.lines().filter(is_edge);
    edges
        .filter_map(|line| line.split_once(" ->"))
        .map(|(user, used)| {
            (user, used.split(',').map(str::trim).filter(|name| !name.is_empty()).collect())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> File {
        File { path: "a.md".into(), text: text.into() }
    }

    fn messages(findings: Vec<Finding>) -> Vec<String> {
        findings.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn links_in_code_are_left_out() {
        assert_eq!(
            links("[a](b.md) and `[c](d)` and [e](f#g)\n```\n[h](i)\n```\n[j](k)"),
            ["b.md", "f#g", "k"]
        );
    }

    #[test]
    fn paths_and_commands_must_exist() {
        let text = "`crates/none.rs:7`, `tidy/Cargo.toml`, `crates/…`, `docs/NAME.md x`\n\
                    run ./x test and ./x nothing\n";
        assert_eq!(
            messages(missing_paths(&document(text), &crate::root())),
            ["crates/none.rs doesn't exist", "./x nothing doesn't exist"]
        );
    }

    #[test]
    fn functions_are_searched_in_their_file() {
        let source = File { path: "c/a.rs".into(), text: "impl A { fn b<T>() {} }".into() };
        let text = "1. `c/a.rs`: `A::b` calls `c/a.rs`: `A::c`.";
        assert_eq!(messages(missing_functions(&document(text), &[source])), ["c/a.rs has no A::c"]);
    }

    #[test]
    fn prose_is_wrapped_and_tables_are_not() {
        let long = "word ".repeat(30);
        let code = "x ".repeat(60);
        let text = format!("{long}\n| {long} |\n```\n{long}\n```\n- `{code}`\n- [{code}](a)\n");
        assert_eq!(long_lines(&document(&text)).len(), 1);
    }

    #[test]
    fn edges_have_a_line_each() {
        assert_eq!(
            edges("tare-a ->\ntext tare-b -> c\ntare-b -> tare-a, tare-c\n"),
            [("tare-a", vec![]), ("tare-b", vec!["tare-a", "tare-c"])]
        );
    }
}
