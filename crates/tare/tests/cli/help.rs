//! tare accepts each command line shown as an example in the help, in docs/*.md and in README.md.

use clap::{CommandFactory, Parser};
use tare::cli::raw::Tare;

/// Panics if tare rejects the example. `line` may end with a pipe, a redirection or a comment.
fn must_parse(place: &str, line: &str) {
    // Ends within quotes belong to an argument.
    let start_before = |rest: &'_ str, end: &str| {
        let ends = rest.match_indices(end).map(|(at, _)| at);
        ends.into_iter().find(|at| shlex::split(&rest[..*at]).is_some())
    };
    let typed = [" | ", " >", "  "]
        .iter()
        .fold(line, |rest, end| start_before(rest, end).map_or(rest, |at| &rest[..at]));
    let words =
        shlex::split(typed).unwrap_or_else(|| panic!("{place}: a quote is open in '{typed}'"));
    if let Err(error) = Tare::try_parse_from(words) {
        panic!("{place}: '{typed}': {error}");
    }
}

#[test]
fn every_command_has_examples_that_parse() {
    let mut tare = Tare::command();
    tare.build();
    let described = tare.get_subcommands().filter(|command| command.get_name() != "help");
    for command in described {
        let name = command.get_name();
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let (_, examples) = text
            .split_once("Examples:")
            .unwrap_or_else(|| panic!("`tare {name} --help` has no 'Examples:'"));
        let lines: Vec<_> =
            examples.lines().map(str::trim).filter(|line| line.starts_with("tare ")).collect();
        assert!(
            lines.iter().any(|line| line.starts_with(&format!("tare {name}"))),
            "`tare {name} --help` has no example of itself"
        );
        for line in lines {
            must_parse(&format!("tare {name} --help"), line);
        }
    }
}

#[test]
fn examples_of_the_documents_parse() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = root.join("docs").read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut seen = 0;
    for file in docs
        .chain([root.join("README.md")])
        .filter(|file| file.extension().is_some_and(|kind| kind == "md"))
    {
        let text = std::fs::read_to_string(&file).unwrap();
        let blocks = text.split("```").skip(1).step_by(2);
        for line in blocks
            .flat_map(str::lines)
            .map(|line| line.strip_prefix("$ ").unwrap_or(line))
            .filter(|line| line.starts_with("tare "))
        {
            must_parse(&file.display().to_string(), line);
            seen += 1;
        }
    }
    assert!(seen > 0, "no document has an example");
}

/// The lines of examples and lists are indented, however narrow the terminal is.
#[test]
fn examples_keep_their_indent_on_narrow_terminals() {
    let mut tare = Tare::command();
    tare.build();
    for command in tare.get_subcommands().filter(|command| command.get_name() != "help") {
        let name = command.get_name();
        let defined = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let outermost: Vec<_> =
            defined.lines().filter(|line| !line.is_empty() && !line.starts_with(' ')).collect();
        for (columns, words) in
            [("80", [name, "--help"]), ("60", ["help", name]), ("80", [name, "-h"])]
        {
            let mut help = crate::support::tare();
            let output = help.args(words).env("COLUMNS", columns).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let (_, end) =
                text.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{name}: {text}"));
            for line in end.lines().filter(|line| !line.is_empty() && !line.starts_with("  ")) {
                // A sentence below the examples may be wrapped.
                let is_sentence = outermost.iter().any(|defined| defined.contains(line.trim()));
                assert!(is_sentence, "tare {words:?} with {columns} columns: '{line}'");
            }
            for line in end.lines() {
                let is_word = !line.trim().contains(' ');
                let width = columns.parse().unwrap();
                assert!(is_word || line.chars().count() <= width, "tare {words:?}: '{line}'");
            }
        }
    }
}
