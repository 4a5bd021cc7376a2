//! The files of the project and what the rules of STYLE.md ask of them; the tests beside this hold
//! each rule against all files.

pub mod circles;
mod source;
pub mod syntax;

use std::path::{Path, PathBuf};
use std::process::Command;

/// A text file of the project.
#[derive(Debug)]
pub struct File {
    /// Its path, from the root of the workspace.
    pub path: String,
    /// What is in it.
    pub text: String,
}

/// The root of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// What a program prints, run in the root of the workspace.
///
/// # Errors
/// That it can't be run, or that it failed.
pub fn output(program: &str, args: &[&str]) -> std::io::Result<String> {
    let done = Command::new(program).args(args).current_dir(root()).output()?;
    if !done.status.success() {
        let error = String::from_utf8_lossy(&done.stderr).into_owned();
        return Err(std::io::Error::other(format!("{program} {}: {error}", args.join(" "))));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// The text files that git knows or would add, by path.
///
/// # Errors
/// That git can't be run here. A file that isn't text, or is gone, is left out.
pub fn files() -> std::io::Result<Vec<File>> {
    let list = output("git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
    let read = |path: &str| {
        Some(File { path: path.to_owned(), text: std::fs::read_to_string(root().join(path)).ok()? })
    };
    Ok(list.split_terminator('\0').filter_map(read).collect())
}

/// The name of each function in a file that rustfmt wrote, its first line (from 1) and its number
/// of lines.
///
/// rustfmt puts the closing brace of an item below the item's first letter: the first such brace
/// ends the function. A function without a body ends with the semicolon of its signature.
#[must_use]
pub fn functions(text: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let Some(name) = function_name(code) else { continue };
        let indent = &line[..line.len() - code.len()];
        let end = format!("{indent}}}");
        let end_of_signature = format!("{indent})");

        let is_end = |line: &&str| {
            *line == end || line.starts_with(&end_of_signature) && line.ends_with(';')
        };
        let length = lines[at..].iter().position(is_end).map_or(1, |last| last + 1);
        let one_line = line.ends_with('}') || line.ends_with(';');
        found.push((name.to_owned(), at + 1, if one_line { 1 } else { length }));
    }
    found
}

fn function_name(code: &str) -> Option<&str> {
    let words =
        ["pub ", "pub(crate) ", "pub(super) ", "const ", "async ", "unsafe ", "extern \"C\" "];
    let mut rest = code;
    while let Some(shorter) = words.iter().find_map(|word| rest.strip_prefix(word)) {
        rest = shorter;
    }
    let name = rest.strip_prefix("fn ")?;
    name.split(['(', '<']).next()
}

/// The targets of the links in a Markdown text: what stands in the round brackets of
/// `[text](target)`, outside of code.
#[must_use]
pub fn links(markdown: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // Every second piece between back quotes is code.
        for text in line.split('`').step_by(2) {
            found.extend(text.split("](").skip(1).filter_map(|rest| rest.split(')').next()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_with_their_length() {
        let text = "impl X {\n    pub(crate) const fn one<T>(t: T) {}\n\n    fn two(\n        a: u8,\n    ) {\n        if a {\n        }\n    }\n}\nfn three();\ntrait Y {\n    fn four(\n        a: u8,\n    ) -> u8;\n\n    fn five(&self) {\n    }\n}\n";
        assert_eq!(
            functions(text),
            [
                ("one".into(), 2, 1),
                ("two".into(), 4, 6),
                ("three".into(), 11, 1),
                ("four".into(), 13, 3),
                ("five".into(), 17, 2)
            ]
        );
    }

    #[test]
    fn links_in_code_are_none() {
        assert_eq!(
            links("[a](b.md) and `[c](d)` and [e](f#g)\n```\n[h](i)\n```\n[j](k)"),
            ["b.md", "f#g", "k"]
        );
    }
}
