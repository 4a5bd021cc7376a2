//! perf's options and commands that tare lacks, and what it has for them. docs/perf-options.md is
//! the table, and is looked at only where something was typed that tare doesn't know.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::exit::Refusal;

const TABLE: &str = include_str!("../../../../docs/perf-options.md");

/// The commands whose options the table has.
pub const COMMANDS: [&str; 5] = ["report", "script", "record", "stat", "top"];

/// The commands that are several in perf, as `perf sched latency`, and are one here.
pub const FAMILIES: [&str; 2] = ["sched", "lock"];

/// What stands before the reason where an option is taken and has no effect.
const SILENTLY: &str = "accepted: ";
const WITH_A_WORD: &str = "accepted with a word: ";

/// Whether an option of perf's is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It does what perf's does.
    Same,
    /// Under another name.
    OtherName,
    /// It is refused until it is built.
    NotYet,
    /// It makes no sense here.
    Never,
}

/// Whether an option of perf's has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// It has none.
    None,
    /// It may follow behind a `=`.
    Optional,
    /// It has one.
    Required,
}

/// A line of the table.
#[derive(Clone, Copy, Debug)]
pub struct PerfOption {
    /// Its letter.
    pub short: Option<char>,
    /// Its name without dashes, or that of a command.
    pub long: Option<&'static str>,
    /// Whether it has a value.
    pub value: ValueKind,
    /// Whether it is there.
    pub state: Support,
    /// The other name, the reason, or what to use meanwhile; may be empty.
    pub text: &'static str,
}

impl PerfOption {
    fn parse(line: &'static str) -> Option<Self> {
        let mut cells = line.strip_prefix("| ")?.strip_suffix('|')?.split(" |").map(str::trim);
        let names = cells.next()?;
        let state = cells.next()?;
        let text = cells.next()?;
        let state = match state {
            "same" => Support::Same,
            "other name" => Support::OtherName,
            "not yet" => Support::NotYet,
            "never" => Support::Never,
            _ => return None,
        };
        let mut option = Self { short: None, long: None, value: ValueKind::None, state, text };
        for name in names.split(", `").map(|name| name.trim_matches('`')) {
            let end = name.find([' ', '[']).unwrap_or(name.len());
            option.value = match name.as_bytes().get(end) {
                Some(b'[') => ValueKind::Optional,
                Some(_) => ValueKind::Required,
                None => ValueKind::None,
            };
            match name[..end].strip_prefix("--") {
                Some(long) => option.long = Some(long),
                None if name.starts_with('-') => option.short = name.chars().nth(1),
                None => option.long = Some(&name[..end]),
            }
        }
        Some(option)
    }

    /// How it is typed.
    #[must_use]
    pub fn typed(&self) -> String {
        match (self.long, self.short) {
            (Some(long), _) => format!("--{long}"),
            (None, short) => format!("-{}", short.unwrap_or_default()),
        }
    }

    /// Whether it is taken and has no effect.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.text.starts_with(SILENTLY) || self.word().is_some()
    }

    /// Why it has no effect, where the user is told.
    #[must_use]
    pub fn word(&self) -> Option<&'static str> {
        self.text.strip_prefix(WITH_A_WORD)
    }

    /// The option for clap, which hides it. Its id is its name.
    fn described(&self) -> Arg {
        let action = match self.value {
            ValueKind::None => ArgAction::Count,
            _ => ArgAction::Append,
        };
        let arg =
            Arg::new(self.long.unwrap_or_default()).long(self.long).short(self.short).hide(true);
        match self.value {
            ValueKind::Optional => arg.action(action).num_args(0..=1).require_equals(true),
            _ => arg.action(action),
        }
    }
}

/// perf's options of a command.
pub fn options(command: &str) -> impl Iterator<Item = PerfOption> + use<> {
    section(&format!("perf {command}"))
}

/// perf's commands.
pub fn commands() -> impl Iterator<Item = PerfOption> {
    section("perf's commands")
}

/// perf's commands of a family.
pub fn subcommands(family: &str) -> impl Iterator<Item = PerfOption> + use<> {
    section(&format!("perf {family}"))
}

/// Refuses one of perf's commands that was typed where a command to look at is expected; behind
/// `--` it is that.
pub(super) fn refuse_subcommand(
    family: &str,
    command: &[OsString],
    after_dashes: bool,
) -> Result<(), Refusal> {
    let typed = command.first().and_then(|word| word.to_str()).filter(|_| !after_dashes);
    let is_typed = |option: &PerfOption| option.long.is_some() && option.long == typed;
    let Some(found) = subcommands(family).find(is_typed) else { return Ok(()) };
    let typed = typed.unwrap_or_default();
    let says = answer(&format!("{family} {typed}"), &found).unwrap_or_default();
    Err(Refusal::usage(format!("{says} (a program of that name: tare {family} -- {typed})")))
}

fn section(title: &str) -> impl Iterator<Item = PerfOption> + use<> {
    let title = format!("\n## {title}\n");
    let start = TABLE.find(&title).map_or(TABLE.len(), |at| at + title.len());
    let lines = TABLE[start..].lines().take_while(|line| !line.starts_with("## "));
    lines.filter_map(PerfOption::parse)
}

/// The option of perf's that was typed as `--name`, `--no-name`, a beginning of it, or `-x`.
fn find(command: &str, typed: &str) -> Option<PerfOption> {
    let Some(long) = typed.strip_prefix("--") else {
        let letter = typed.chars().nth(1);
        return options(command).find(|option| option.short == letter);
    };
    let names = [Some(long), long.strip_prefix("no-")];
    let exact = |name: &str| options(command).find(|option| option.long == Some(name));
    let begins = |name: &str| {
        let is_meant = |option: &PerfOption| option.long.is_some_and(|long| long.starts_with(name));
        let mut meant = options(command).filter(is_meant);
        meant.next().filter(|_| meant.next().is_none())
    };
    let names = || names.iter().flatten().copied();
    names().find_map(exact).or_else(|| names().find_map(begins))
}

/// What tare has for an option that it doesn't know.
pub(super) fn answer_option(command: &str, typed: &str) -> Option<String> {
    let option = find(command, typed)?;
    answer(&format!("{command} {typed}"), &option)
}

/// What tare has for a command that it doesn't know.
pub(super) fn answer_command(typed: &str) -> Option<String> {
    answer(typed, &commands().find(|command| command.long == Some(typed))?)
}

fn answer(typed: &str, option: &PerfOption) -> Option<String> {
    let text = option.text;
    if option.is_accepted() {
        return None;
    }
    Some(match option.state {
        Support::Same => return None,
        Support::OtherName => format!("perf's {typed} is {text} here"),
        Support::NotYet if text.is_empty() => format!("perf's {typed} is not there yet"),
        Support::NotYet => format!("perf's {typed} is not there yet: {text}"),
        Support::Never => format!("perf's {typed} is not there: {text}"),
    })
}

/// tare with perf's options that have no effect here, where one of them was typed and is all that
/// is wrong so far.
pub(super) fn with_accepted(
    args: &[OsString],
    error: &clap::Error,
    tare: Command,
) -> Option<Command> {
    let name = args.get(1)?.to_str().filter(|name| COMMANDS.contains(name))?;
    let typed = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(typed))) => typed,
        _ => return None,
    };
    find(name, typed).filter(PerfOption::is_accepted)?;
    let accepted = options(name).filter(PerfOption::is_accepted).map(|option| option.described());
    Some(tare.mut_subcommand(name, |command| command.args(accepted)))
}

/// What the user is told of options that have no effect.
pub(super) fn words(matches: &ArgMatches) -> Vec<String> {
    let Some((name, matches)) = matches.subcommand() else { return Vec::new() };
    let is_typed = |name: &str| {
        let source = matches.try_contains_id(name).ok().and_then(|_| matches.value_source(name));
        source == Some(ValueSource::CommandLine)
    };
    let word = |option: PerfOption| {
        let (name, word) = option.long.zip(option.word())?;
        is_typed(name).then(|| format!("--{name} has no effect: {word}"))
    };
    options(name).filter_map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_by_letter_name_beginning_and_negation() {
        let long = |typed| find("stat", typed).and_then(|option| option.long);
        assert_eq!(long("-M"), Some("metrics"));
        assert_eq!(long("--topd"), Some("topdown"));
        assert_eq!(long("--no-scale"), Some("scale"));
        assert_eq!(long("--no-merge"), Some("no-merge"));
        assert_eq!(long("--metric"), None, "several begin so");
        assert_eq!(long("--no-such"), None);
    }

    #[test]
    fn each_line_of_the_table_is_read() {
        let lines = TABLE.lines().filter(|line| line.starts_with("| `")).count();
        let read = COMMANDS.iter().flat_map(|command| options(command)).count();
        let of_families: usize = FAMILIES.iter().map(|family| subcommands(family).count()).sum();
        assert_eq!(read + of_families + commands().count(), lines);
        for option in COMMANDS.iter().flat_map(|command| options(command)) {
            let says = !option.text.is_empty();
            let may_be_silent = matches!(option.state, Support::Same | Support::NotYet);
            assert!(says || may_be_silent, "{option:?}");
            // What is accepted in silence is the same, as nobody sees a difference.
            let usual = if option.word().is_some() { Support::Never } else { Support::Same };
            assert!(!option.is_accepted() || option.state == usual, "{option:?}");
        }
    }
}
