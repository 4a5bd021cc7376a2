//! Help and manual list the same options and values.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Arg, Command, CommandFactory};
use tare::cli::raw::Tare;

/// Pages of commands that don't have one of their own name, or have more than one.
const PAGES: [(&str, &[&str]); 10] = [
    ("archive", &["symbols"]),
    ("buildid-list", &["inspect"]),
    ("completions", &["install"]),
    ("doctor", &["inspect"]),
    ("evlist", &["inspect"]),
    ("inject", &["inspect"]),
    ("kallsyms", &["inspect"]),
    ("list", &["inspect"]),
    ("record", &["record", "off-cpu", "flame"]),
    ("version", &["inspect"]),
];

/// Options of other programs that the manual names without the program.
const OF_OTHERS: [&str; 10] = [
    "--cap-add",
    "--cpu-visual",
    "--custom",
    "--export-json",
    "--idle-hist",
    "--interpreted-frames-native-stack",
    "--security-opt",
    "--smi-cost",
    "--target",
    "--topdown",
];

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn page(name: &str) -> String {
    let path = docs().join(format!("{name}.md"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn commands() -> Vec<Command> {
    let mut tare = Tare::command();
    tare.build();
    tare.get_subcommands().filter(|command| command.get_name() != "help").cloned().collect()
}

/// The options of a command that its help lists, except `--help`.
fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    command
        .get_arguments()
        .filter(|arg| !arg.is_positional() && !arg.is_hide_set() && arg.get_id().as_str() != "help")
}

/// Whether the text holds the word, with no letter, digit, `-` or `_` beside it.
fn has_word(text: &str, word: &str) -> bool {
    let is_apart = |letter: Option<char>| {
        letter.is_none_or(|letter| !letter.is_alphanumeric() && !"-_".contains(letter))
    };
    text.match_indices(word).any(|(at, _)| {
        is_apart(text[..at].chars().next_back()) && is_apart(text[at + word.len()..].chars().next())
    })
}

/// Whether the text names the option or its letter.
fn names_option(text: &str, option: &Arg) -> bool {
    let long = option.get_long().map(|long| format!("--{long}"));
    let letter = option.get_short().map(|letter| format!("-{letter}"));
    [long, letter].into_iter().flatten().any(|name| has_word(text, &name))
}

/// The text that must name a command's options: its pages, and its section of perf's options.
fn manual_of(command: &str) -> String {
    let pages = PAGES.iter().find(|(name, _)| *name == command);
    let pages = pages.map_or_else(|| vec![command], |(_, pages)| pages.to_vec());
    let perf = page("perf-options");
    let start = perf.split(&format!("\n## perf {command}\n")).nth(1).unwrap_or_default();
    let section = start.split("\n## ").next().unwrap_or_default().to_owned();
    pages.into_iter().map(page).chain([section]).collect()
}

#[test]
fn the_manual_names_every_option() {
    let symbols = page("symbols");
    let mut missing = Vec::new();
    for command in commands() {
        let manual = manual_of(command.get_name());
        for option in options(&command) {
            // The page `symbols` describes the options that commands share.
            let is_shared = option.get_help_heading() == Some("Symbols")
                || ["inline", "no_inline"].contains(&option.get_id().as_str());
            let is_named =
                names_option(&manual, option) || is_shared && names_option(&symbols, option);
            if !is_named {
                missing.push(format!("tare {} {option}", command.get_name()));
            }
        }
    }
    assert!(missing.is_empty(), "docs/ doesn't name: {missing:#?}");
}

#[test]
fn the_manual_names_every_value_that_help_lists() {
    let mut missing = Vec::new();
    for command in commands() {
        let manual = manual_of(command.get_name());
        for option in options(&command) {
            if !option.get_action().takes_values() || option.is_hide_possible_values_set() {
                continue;
            }
            for value in option.get_possible_values() {
                let value = value.get_name();
                if !has_word(&manual, value) {
                    missing.push(format!("tare {} {option}: {value}", command.get_name()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "docs/ doesn't name: {missing:#?}");
}

/// The names of all options with `--`, hidden ones and aliases too.
fn names(command: &Command) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for option in command.get_arguments() {
        let aliases = option.get_all_aliases().unwrap_or_default();
        let longs = option.get_long().into_iter().chain(aliases);
        names.extend(longs.map(|long| format!("--{long}")));
    }
    names
}

/// The `--options` in a piece of code, up to a `--` or to another command.
fn typed(code: &str) -> impl Iterator<Item = &str> {
    let words = code.split([' ', '\n']).take_while(|word| !["--", "|", "&&", ";"].contains(word));
    words.filter_map(|word| {
        let name = word.strip_prefix("--")?;
        let end =
            name.find(|letter: char| !letter.is_ascii_alphanumeric() && !"-_".contains(letter));
        let end = end.unwrap_or(name.len());
        (end > 0).then(|| &word[..end + 2])
    })
}

/// Pieces of code between backquotes, outside of blocks.
fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    let outside = text.split("```").step_by(2);
    outside.flat_map(|text| text.split('`').skip(1).step_by(2))
}

#[test]
fn options_that_the_manual_names_exist() {
    let commands = commands();
    let all: BTreeSet<_> = commands.iter().flat_map(names).collect();
    let mut seen = 0;
    let mut unknown = Vec::new();
    for file in docs().read_dir().unwrap().map(|entry| entry.unwrap().path()) {
        // The tables of the options of perf and of cargo tare have their own tests.
        let is_page = file.extension().is_some_and(|kind| kind == "md");
        if !is_page
            || file.file_stem().is_some_and(|stem| stem == "perf-options" || stem == "cargo")
        {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        for code in code_spans(&text) {
            let mut words = code.split_whitespace();
            let first = words.next().unwrap_or_default();
            let known = match first {
                "tare" => {
                    let name = words.next().unwrap_or_default();
                    let command = commands.iter().find(|command| command.get_name() == name);
                    command.map_or_else(BTreeSet::new, names)
                }
                _ if first.starts_with("--") => all.clone(),
                _ => continue,
            };
            for option in typed(code) {
                seen += 1;
                if !known.contains(option) && !OF_OTHERS.contains(&option) {
                    unknown.push(format!("{}: `{code}`: {option}", file.display()));
                }
            }
        }
    }
    assert!(unknown.is_empty(), "no command has: {unknown:#?}");
    assert!(seen > 200, "{seen}");
}
