//! The command line: `raw` defines the options, `resolved` turns them into typed options of the
//! libraries, `perf` handles perf's options and commands that tare lacks, accepts without effect,
//! or has under another name, `translated` turns perf's subcommands into tare's words, and `value`
//! words what is wrong with a number.

pub mod perf;
pub mod raw;
pub mod resolved;
mod translated;
mod value;

use std::ffi::OsStr;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::exit::{Exit, say};

/// How to get what a build with the default features lacks.
pub(crate) const FULL_BUILD: &str = "packages have it, as has a build with `--features full`";

/// Prints help, the version, or an error message in tare's form. `name` is the first argument.
pub(crate) fn refuse(mut error: clap::Error, name: Option<&OsStr>) -> Exit {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let help = match name.and_then(OsStr::to_str) {
        Some(name) if is_subcommand(name) => format!("tare {name} --help"),
        _ => "tare --help".to_owned(),
    };
    match (error.kind(), text(ContextKind::InvalidArg), text(ContextKind::InvalidSubcommand)) {
        (
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
            ..,
        ) => {
            let written = error.print().is_ok();
            if written && !error.use_stderr() {
                return Exit::Success;
            }
        }
        (ErrorKind::UnknownArgument, Some(option), _) => {
            let command = name.and_then(OsStr::to_str).unwrap_or_default();
            if let Some(answer) = perf::answer_option(command, &option) {
                say(&answer);
                return Exit::Usage;
            }
            if option == "--" {
                say(
                    "an option of one letter takes no letters after '-': write -g -p 1, not -g-p 1",
                );
                return Exit::Usage;
            }
            let near = near(&option, &error, ContextKind::SuggestedArg);
            say(&format!("there is no option '{option}' here{near}; `{help}` lists them all"));
        }
        (ErrorKind::InvalidSubcommand, _, Some(name)) => {
            if let Some(answer) = perf::answer_command(&name) {
                say(&answer);
                return Exit::Usage;
            }
            let near = near(&name, &error, ContextKind::SuggestedSubcommand);
            say(&format!("there is no command '{name}'{near}; `{help}` lists them all"));
        }
        _ => {
            let typed = text(ContextKind::InvalidValue).unwrap_or_default();
            let near = near(&typed, &error, ContextKind::SuggestedValue);
            error.remove(ContextKind::SuggestedValue);
            let text = error.render().to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            // The first paragraph is the message; usage and tips follow.
            let message = text.split("\n\n").next().unwrap_or_default();
            let words = message.split_whitespace().collect::<Vec<_>>().join(" ");
            let words = value::reword(&words);
            say(&format!("{words}{near}; see `{help}`"));
        }
    }
    Exit::Usage
}

fn is_subcommand(name: &str) -> bool {
    use clap::CommandFactory;
    raw::Tare::command().find_subcommand(name).is_some()
}

/// Returns the nearest of clap's suggestions as part of a sentence: at most two letters differ, and
/// at most a third of them. clap's own measure also suggests words of which only the beginning is
/// the same. For a part that this build leaves out: how to get it.
fn near(typed: &str, error: &clap::Error, kind: ContextKind) -> String {
    const FULL: [&str; 5] = ["agent", "fleet", "parquet", "serve", "store"];
    if cfg!(not(feature = "agent")) && FULL.contains(&typed) {
        return format!(" in this build ({FULL_BUILD})");
    }
    let suggested = match error.get(kind) {
        Some(ContextValue::String(word)) => vec![word.as_str()],
        Some(ContextValue::Strings(words)) => words.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    let letters = |word: &str| word.trim_start_matches('-').to_owned();
    let distance = |other: &str| strsim::damerau_levenshtein(&letters(typed), &letters(other));
    let is_near = |other: &&str| distance(other) <= 2.min(letters(typed).len() / 3);
    let nearest = suggested.into_iter().filter(is_near).min_by_key(|other| distance(other));
    nearest.map_or_else(String::new, |near| format!("; a similar one is '{near}'"))
}
