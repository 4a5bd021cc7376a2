//! perf's options and commands that tare lacks, and tare's replacements. The table is
//! docs/perf-options.md, embedded here through the link beside this file, so that a published crate
//! contains it. It is read after an unknown option or command, and before `sched` and `lock` trace.

use std::ffi::{OsStr, OsString};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::exit::Refusal;

const TABLE: &str = include_str!("perf-options.txt");

/// Commands with a section of options in the table.
pub const COMMANDS: [&str; 8] =
    ["report", "script", "record", "stat", "top", "annotate", "list", "trace"];

/// Commands with `--buildid-dir`, which perf has before the command.
pub const WITH_BUILDID_DIR: [&str; 10] =
    ["annotate", "archive", "diff", "export", "flame", "report", "script", "serve", "store", "top"];

/// Commands whose subcommands in perf, such as `perf sched latency`, have a section in the table.
pub const FAMILIES: [&str; 2] = ["sched", "lock"];

/// The subcommand of perf that has a section of options.
const CONTENTION: &str = "lock contention";

/// Prefix of the reason why an option is accepted without effect and without a message.
const SILENTLY: &str = "accepted: ";
/// Prefix of the message about an option that is accepted without effect.
const WITH_A_MESSAGE: &str = "accepted with a message: ";

/// How tare supports an option of perf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// With perf's meaning, or accepted without effect and without a message.
    Same,
    /// Under another name.
    OtherName,
    /// Refused: not implemented.
    NotYet,
    /// Refused or ignored for the reason given.
    Never,
}

/// Whether an option of perf takes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// No value.
    None,
    /// A value may follow `=`.
    Optional,
    /// A value.
    Required,
}

/// A line of the table.
#[derive(Clone, Copy, Debug)]
pub struct PerfOption {
    /// Letter of the short option.
    pub short: Option<char>,
    /// Name without dashes, or the name of a command.
    pub long: Option<&'static str>,
    /// Whether it takes a value.
    pub value: ValueKind,
    /// How tare supports it.
    pub state: Support,
    /// The other name, the reason, or the replacement; may be empty.
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

    /// Returns the long option, or otherwise the short one, with its dashes.
    #[must_use]
    pub fn typed(&self) -> String {
        match (self.long, self.short) {
            (Some(long), _) => format!("--{long}"),
            (None, short) => format!("-{}", short.unwrap_or_default()),
        }
    }

    /// Whether tare accepts it without effect.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.text.starts_with(SILENTLY) || self.message().is_some()
    }

    /// Returns the message about its lack of effect, if tare prints one.
    #[must_use]
    pub fn message(&self) -> Option<&'static str> {
        self.text.strip_prefix(WITH_A_MESSAGE)
    }

    /// Describes the option to clap, hidden from help. Its id is its long name.
    fn as_arg(self) -> Arg {
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

/// Returns perf's options of a command.
pub fn options(command: &str) -> impl Iterator<Item = PerfOption> + use<> {
    section(&format!("perf {command}"))
}

/// Returns perf's commands.
pub fn commands() -> impl Iterator<Item = PerfOption> {
    section("perf's commands")
}

/// Returns perf's subcommands of a command of [`FAMILIES`].
pub fn subcommands(family: &str) -> impl Iterator<Item = PerfOption> + use<> {
    section(&format!("perf {family}"))
}

/// Refuses a perf subcommand in place of the command to trace; after `--` it is a command.
pub(super) fn refuse_subcommand(
    family: &str,
    command: &[OsString],
    after_dashes: bool,
) -> Result<(), Refusal> {
    let typed = command.first().and_then(|word| word.to_str()).filter(|_| !after_dashes);
    let is_typed = |option: &PerfOption| option.long.is_some() && option.long == typed;
    let Some(subcommand) = subcommands(family).find(is_typed) else { return Ok(()) };
    let typed = typed.unwrap_or_default();
    let says = answer(&format!("{family} {typed}"), &subcommand).unwrap_or_default();
    Err(Refusal::usage(format!("{says} (a program of that name: tare {family} -- {typed})")))
}

/// Takes perf's options before the command. `-v` becomes `--version`; `--buildid-dir` and `-p` (as
/// `--pager`) move behind a command that has them; the others have no effect here.
pub(super) fn take_global_options(args: &mut Vec<OsString>) {
    let mut moved: Vec<(OsString, &[&str])> = Vec::new();
    while let Some(option) = args.get(1).and_then(|word| word.to_str()).map(str::to_owned) {
        let (name, joined) =
            option.split_once('=').map_or((&*option, false), |(name, _)| (name, true));
        let takes_value = ["--debug", "--debugfs-dir", "--buildid-dir"].contains(&name);
        let words = 1 + usize::from(takes_value && !joined);
        if name == "--buildid-dir" {
            let value = if joined { option.into() } else { joined_value(args) };
            moved.push((value, &WITH_BUILDID_DIR));
        } else if ["-p", "--paginate"].contains(&name) {
            moved.push(("--pager".into(), &["report"]));
        } else if name == "-v" {
            args[1] = "--version".into();
            break;
        } else if name != "--no-pager" && !takes_value {
            break;
        }
        args.drain(1..args.len().min(1 + words));
    }
    let Some(command) = args.get(1).and_then(|word| word.to_str()).map(str::to_owned) else {
        return;
    };
    for (option, _) in moved.into_iter().filter(|(_, commands)| commands.contains(&&*command)) {
        args.insert(2, option);
    }
}

/// Returns the first option and its value, joined by `=`.
fn joined_value(args: &[OsString]) -> OsString {
    args[1..args.len().min(3)].join(OsStr::new("="))
}

fn section(title: &str) -> impl Iterator<Item = PerfOption> + use<> {
    let title = format!("\n## {title}\n");
    let start = TABLE.find(&title).map_or(TABLE.len(), |at| at + title.len());
    let lines = TABLE[start..].lines().take_while(|line| !line.starts_with("## "));
    lines.filter_map(PerfOption::parse)
}

/// Returns perf's option typed as `--name`, `--no-name`, an unambiguous prefix of these, or `-x`.
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

/// Returns the answer to an option that tare lacks. `None` if perf lacks it too, or if the table
/// calls it the same or accepted.
pub(super) fn answer_option(command: &str, typed: &str) -> Option<String> {
    // `tare lock` takes the place of this subcommand.
    let command = if command == "lock" { CONTENTION } else { command };
    let option = find(command, typed)?;
    answer(&format!("{command} {typed}"), &option)
}

/// Returns the answer to an unknown command of perf. `None` if perf lacks it too.
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
        Support::NotYet if text.is_empty() => format!("perf's {typed} is not supported yet"),
        Support::NotYet => format!("perf's {typed} is not supported yet: {text}"),
        Support::Never => format!("perf's {typed} is not supported: {text}"),
    })
}

/// Adds perf's options without effect to `tare`, if one of them caused the error.
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
    let accepted = options(name).filter(PerfOption::is_accepted).map(PerfOption::as_arg);
    // clap keeps names for as long as the program runs.
    let negation = typed.starts_with("--no-").then(|| &*typed[2..].to_owned().leak());
    let negation = negation
        .filter(|name_typed| options(name).all(|option| option.long != Some(*name_typed)))
        .map(|name| Arg::new(name).long(name).action(ArgAction::Count).hide(true));
    Some(tare.mut_subcommand(name, |command| command.args(accepted).args(negation)))
}

/// Returns the messages about typed options that have no effect.
pub(super) fn messages(matches: &ArgMatches) -> Vec<String> {
    let Some((name, matches)) = matches.subcommand() else { return Vec::new() };
    let is_typed = |name: &str| {
        let source = matches.try_contains_id(name).ok().and_then(|_| matches.value_source(name));
        source == Some(ValueSource::CommandLine)
    };
    let message = |option: PerfOption| {
        let (name, message) = option.long.zip(option.message())?;
        is_typed(name).then(|| format!("--{name} has no effect: {message}"))
    };
    options(name).filter_map(message).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_options_by_letter_name_prefix_and_negation() {
        let long = |typed| find("stat", typed).and_then(|option| option.long);
        assert_eq!(long("-M"), Some("metrics"));
        assert_eq!(long("--topd"), Some("topdown"));
        assert_eq!(long("--no-scale"), Some("scale"));
        assert_eq!(long("--no-merge"), Some("no-merge"));
        assert_eq!(long("--metric"), None, "an ambiguous prefix");
        assert_eq!(long("--no-such"), None);
    }

    #[test]
    fn options_of_lock_contention_are_answered_with_a_line_to_type() {
        for typed in ["-t", "-l", "-Y", "-S", "--lock-owner", "--cgroup-filter"] {
            let answer = answer_option("lock", typed).unwrap();
            assert!(answer.starts_with("perf's lock contention -"), "{answer}");
            assert!(answer.contains("`tare "), "{answer}");
        }
        assert_eq!(answer_option("lock", "--no-such-option"), None);
    }

    #[test]
    fn options_before_the_command_are_taken() {
        let taken = |line: &str| {
            let mut args = line.split(' ').map(OsString::from).collect();
            take_global_options(&mut args);
            args.join(OsStr::new(" ")).into_string().unwrap()
        };
        let line = "tare --no-pager --debug verbose=1 --debugfs-dir=/x stat -v true";
        assert_eq!(taken(line), "tare stat -v true");
        assert_eq!(taken("tare -p --buildid-dir d report"), "tare report --buildid-dir=d --pager");
        assert_eq!(taken("tare --buildid-dir=d record true"), "tare record true");
        assert_eq!(taken("tare -v"), "tare --version");
        assert_eq!(taken("tare --debug"), "tare");
        assert_eq!(taken("tare --help"), "tare --help");
        assert_eq!(taken("tare report --no-pager"), "tare report --no-pager");
    }

    #[test]
    fn the_build_id_folder_moves_behind_the_commands_that_have_it() {
        use clap::CommandFactory;
        let mut tare = crate::cli::raw::Tare::command();
        tare.build();
        let has_option = |command: &&Command| {
            command.get_arguments().any(|arg| arg.get_long() == Some("buildid-dir"))
        };
        let mut names: Vec<_> =
            tare.get_subcommands().filter(has_option).map(Command::get_name).collect();
        names.sort_unstable();
        assert_eq!(names, WITH_BUILDID_DIR);
    }

    #[test]
    fn reads_each_line_of_the_table() {
        let lines = TABLE.lines().filter(|line| line.starts_with("| `")).count();
        let read = COMMANDS.iter().flat_map(|command| options(command)).count();
        let of_contention = options(CONTENTION).count();
        let family_commands: usize =
            FAMILIES.iter().map(|family| subcommands(family).count()).sum();
        assert_eq!(read + of_contention + family_commands + commands().count(), lines);
        for option in COMMANDS.iter().flat_map(|command| options(command)) {
            let says = !option.text.is_empty();
            let may_be_silent = matches!(option.state, Support::Same | Support::NotYet);
            assert!(says || may_be_silent, "{option:?}");
            // An option accepted silently counts as `Same`, one accepted with a message as `Never`.
            let expected = if option.message().is_some() { Support::Never } else { Support::Same };
            assert!(!option.is_accepted() || option.state == expected, "{option:?}");
        }
    }
}
