//! Checks the rules of STYLE.md that a program can check. The tests beside this library check every
//! file of the project; the program lists what is left.

pub mod circles;
mod finding;
pub mod markdown;
pub mod prose;
pub mod rules;
mod source;
pub mod syntax;

pub use finding::Finding;

use std::path::{Path, PathBuf};
use std::process::Command;

/// A text file of the project.
#[derive(Debug)]
pub struct File {
    /// Its path, from the root of the workspace.
    pub path: String,
    /// Its contents.
    pub text: String,
}

/// The root of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Runs a program in the root of the workspace and returns its output.
///
/// # Errors
/// Fails if the program can't be run, or exits with an error.
pub fn output(program: &str, args: &[&str]) -> std::io::Result<String> {
    let done = Command::new(program).args(args).current_dir(root()).output()?;
    if !done.status.success() {
        let error = String::from_utf8_lossy(&done.stderr).into_owned();
        return Err(std::io::Error::other(format!("{program} {}: {error}", args.join(" "))));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Reads the text files that git tracks or would add. Skips files that can't be read as UTF-8 text,
/// such as deleted ones.
///
/// # Errors
/// Fails if git can't list the files.
pub fn files() -> std::io::Result<Vec<File>> {
    let list = output("git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
    let read = |path: &str| {
        Some(File { path: path.to_owned(), text: std::fs::read_to_string(root().join(path)).ok()? })
    };
    Ok(list.split_terminator('\0').filter_map(read).collect())
}

/// A function of a formatted file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its first line, from 1.
    pub line: usize,
    /// Its number of lines.
    pub lines: usize,
}

/// Finds the functions of a file that rustfmt wrote.
///
/// rustfmt indents the closing brace of an item as the item itself: the first such brace ends the
/// function. A function without a body ends with the semicolon of its signature.
#[must_use]
pub fn functions(text: &str) -> Vec<Function> {
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
        let lines = if one_line { 1 } else { length };
        found.push(Function { name: name.to_owned(), line: at + 1, lines });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_with_their_length() {
        let text = "impl X {\n    pub(crate) const fn one<T>(t: T) {}\n\n    fn two(\n        a: u8,\n    ) {\n        if a {\n        }\n    }\n}\nfn three();\ntrait Y {\n    fn four(\n        a: u8,\n    ) -> u8;\n\n    fn five(&self) {\n    }\n}\n";
        let found = functions(text);
        let found = found.iter().map(|f| (&f.name[..], f.line, f.lines));
        assert_eq!(
            found.collect::<Vec<_>>(),
            [("one", 2, 1), ("two", 4, 6), ("three", 11, 1), ("four", 13, 3), ("five", 17, 2)]
        );
    }
}
