#![doc = include_str!("../README.md")]
//!
//! The scripts complete tare's command line in a shell. clap's generators write
//! commands, options and the values that clap knows. For bash, zsh and fish this adds the values of
//! options that take names: events, sort keys, fields, system calls, processes, threads, cgroups,
//! users and probes. Names that never change are in the scripts. The others are asked for when a
//! word is completed.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::string::FromUtf8Error;

use clap::{Arg, Command};
pub use clap_complete::Shell;
use clap_complete::generate;
use tare_render::COLUMNS;
use tare_render::script::field_names;
use tare_trace::{CallNames, CallSelection};

/// Values that an option takes: a single one for probes and users, otherwise a list with commas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    /// Events of this machine.
    Events,
    /// Events of the recording perf.data.
    RecordedEvents,
    /// Columns and sort keys of a report.
    Columns,
    /// Sort keys of a comparison.
    ComparedKeys,
    /// Fields of `tare script`.
    Fields,
    /// System calls and their classes.
    Calls,
    Processes,
    Threads,
    Cgroups,
    Users,
    /// A file, and after a colon a function in it.
    Functions,
    /// A file, and after a colon a static probe in it.
    StaticProbes,
    KernelFunctions,
}

impl Values {
    const ALL: [Self; 13] = [
        Self::Events,
        Self::RecordedEvents,
        Self::Columns,
        Self::ComparedKeys,
        Self::Fields,
        Self::Calls,
        Self::Processes,
        Self::Threads,
        Self::Cgroups,
        Self::Users,
        Self::Functions,
        Self::StaticProbes,
        Self::KernelFunctions,
    ];

    /// Returns the values of an option, if it takes any of these.
    fn find(command: &str, option: &Arg) -> Option<Self> {
        let is_live = ["stat", "record", "top", "overhead"].contains(&command);
        Some(match (command, option.get_long()?) {
            ("trace", "calls") => Self::Calls,
            (_, "event") if is_live => Self::Events,
            ("overhead" | "trace", "event") => Self::Events,
            (_, "event" | "switch-on" | "switch-off") => Self::RecordedEvents,
            ("diff", "sort") => Self::ComparedKeys,
            ("report" | "top", "sort" | "fields") => Self::Columns,
            ("script", "fields") => Self::Fields,
            (_, "pid") => Self::Processes,
            (_, "tid") => Self::Threads,
            (_, "cgroup" | "for-each-cgroup") => Self::Cgroups,
            (_, "uid") => Self::Users,
            ("trace", "probe") => Self::Functions,
            ("trace", "usdt") => Self::StaticProbes,
            ("trace", "kprobe") => Self::KernelFunctions,
            _ => return None,
        })
    }

    /// The name of these values in the scripts.
    fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::RecordedEvents => "recorded_events",
            Self::Columns => "columns",
            Self::ComparedKeys => "compared_keys",
            Self::Fields => "fields",
            Self::Calls => "calls",
            Self::Processes => "processes",
            Self::Threads => "threads",
            Self::Cgroups => "cgroups",
            Self::Users => "users",
            Self::Functions => "functions",
            Self::StaticProbes => "static_probes",
            Self::KernelFunctions => "kernel_functions",
        }
    }

    /// Returns a command for any of these shells that prints the places in code that `word` may
    /// become, one per line; `None` for values that don't depend on the word.
    fn command_for(self, word: &str) -> Option<String> {
        let list = |start: &str| format!("tare list --raw-dump \"{start}{word}*\" 2>/dev/null");
        match self {
            Self::Functions => Some(format!("{} | grep -v ':.*:'", list(""))),
            Self::StaticProbes => Some(format!("{} | grep ':.*:'", list(""))),
            Self::KernelFunctions => Some(list("kprobe:")),
            _ => None,
        }
    }

    /// Returns a command for any of these shells that prints the values, separated by white space.
    fn command(self) -> String {
        let words = match self {
            Self::Functions | Self::StaticProbes | Self::KernelFunctions => return String::new(),
            Self::Cgroups => return CGROUPS.to_owned(),
            Self::Users => return "getent passwd | cut -d: -f1".to_owned(),
            Self::Events => return "tare list --raw-dump 2>/dev/null".to_owned(),
            Self::RecordedEvents => return "tare evlist 2>/dev/null".to_owned(),
            Self::Processes => return list_of_tasks("/proc/"),
            Self::Threads => return list_of_tasks("/proc/*/task/"),
            Self::Columns => {
                let names: BTreeSet<_> = COLUMNS.iter().flat_map(|column| column.names).collect();
                names.into_iter().copied().collect::<Vec<_>>().join(" ")
            }
            Self::ComparedKeys => "comm dso symbol".to_owned(),
            Self::Fields => field_names().collect::<Vec<_>>().join(" "),
            Self::Calls => {
                let names = CallNames::default();
                let calls: BTreeSet<_> = names.calls().map(|(_, name)| name).collect();
                let classes = CallSelection::class_names();
                let classes = classes.iter().map(String::as_str);
                calls.iter().copied().chain(classes).collect::<Vec<_>>().join(" ")
            }
        };
        format!("echo '{words}'")
    }
}

/// Lists the paths of cgroups below the hierarchies on which the kernel accepts events.
const CGROUPS: &str = r#"awk '$3 == "cgroup2" || $4 ~ /perf_event/ { print $2 }' /proc/mounts | xargs -I@ find @ -mindepth 1 -type d -printf '%P\n' 2>/dev/null | sort -u"#;

/// Lists the numbers of tasks, without the patterns of one shell.
fn list_of_tasks(folder: &str) -> String {
    let depth = folder.matches('*').count() * 2 + 1;
    format!(
        "find /proc -mindepth {depth} -maxdepth {depth} -regex '{}[0-9]+' 2>/dev/null | sed 's|.*/||'",
        folder.replace('*', "[0-9]+")
    )
}

/// Returns the script of a shell for a command line, which must be built.
///
/// # Errors
/// Fails if clap's script isn't UTF-8.
pub fn script(shell: Shell, command: &mut Command) -> Result<String, FromUtf8Error> {
    let mut options = Vec::new();
    for subcommand in command.get_subcommands() {
        for option in subcommand.get_arguments() {
            if let Some(values) = Values::find(subcommand.get_name(), option) {
                options.push(ListOption::new(subcommand, option, values));
            }
        }
    }
    let mut script = Vec::new();
    generate(shell, command, "tare", &mut script);
    let script = String::from_utf8(script)?;
    Ok(match shell {
        Shell::Bash => for_bash(&script, &options),
        Shell::Zsh => for_zsh(&script, &options),
        Shell::Fish => for_fish(&script, &options),
        _ => script,
    })
}

/// An option that takes a list.
struct ListOption {
    command: String,
    long: String,
    short: Option<char>,
    values: Values,
}

impl ListOption {
    fn new(command: &Command, option: &Arg, values: Values) -> Self {
        Self {
            command: command.get_name().to_owned(),
            long: option.get_long().unwrap_or_default().to_owned(),
            short: option.get_short(),
            values,
        }
    }

    /// Whether a line of a script begins with one of the option's names, between these texts.
    fn is_at(&self, line: &str, before_short: &str, before_long: &str, after: &[&str]) -> bool {
        let short = self.short.map(|short| format!("{before_short}-{short}"));
        let names = short.into_iter().chain([format!("{before_long}--{}", self.long)]);
        names.into_iter().any(|name| after.iter().any(|end| line.contains(&format!("{name}{end}"))))
    }
}

/// What bash needs beside clap's script. bash splits words at `:` and `=`, and completes what
/// follows the last of them.
const BASH: &str = r#"
# Joins the word that bash split at ':' and '=', and separates an option from its value.
_tare_join() {
    local line="${COMP_LINE:0:COMP_POINT}"
    local last="${line##*[[:space:]]}"
    [[ $last == *[:=]* ]] || return 0
    local before="${line%"$last"}"
    before="${before%"${before##*[![:space:]]}"}"
    prev="${before##*[[:space:]]}"
    cur="$last"
    if [[ $cur == --*=* ]]; then
        prev="${cur%%=*}"
        cur="${cur#*=}"
    fi
}

# Offers the words of $1 that begin as the last item of the list does.
_tare_list() {
    local word words start="" last="${cur##*,}"
    [[ $cur == *,* ]] && start="${cur%,*},"
    # A sign changes the default.
    [[ $last == [-+!]* ]] && start+="${last:0:1}" && last="${last:1}"
    read -r -d '' -a words <<<"$1"
    for word in "${words[@]}"; do
        [[ $word == "$last"* ]] && COMPREPLY+=("$start$word")
    done
    if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${cur%"${cur##*:}"}"}")
    fi
    return 0
}
"#;

/// What bash needs for places in code. `$1` lists them.
const BASH_PLACES: &str = r#"
# Offers files, and after the ':' of a file the places in it that $1 lists. With a second argument,
# offers places only.
_tare_places() {
    local IFS=$'\n'
    if [[ $cur != *:* && -z $2 ]]; then
        COMPREPLY=($(compgen -f -- "$cur"))
        return 0
    fi
    COMPREPLY=($("$1"))
    if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${cur%"${cur##*:}"}"}")
    fi
    return 0
}
"#;

fn for_bash(script: &str, options: &[ListOption]) -> String {
    let mut out = BASH.trim_start().to_owned();
    out.push_str(BASH_PLACES);
    for values in Values::ALL {
        let command = values.command_for("$cur").unwrap_or_else(|| values.command());
        let _ = writeln!(out, "_tare_{}() {{\n    {command}\n}}", values.name());
    }
    let sections: Vec<(String, &ListOption)> = options
        .iter()
        .map(|option| {
            let name = option.command.replace('-', "__subcmd__");
            (format!("        tare__subcmd__{name})"), option)
        })
        .collect();
    let mut section = "";
    let mut found: Option<Values> = None;
    for line in script.lines() {
        if line.starts_with("        tare__subcmd__") {
            section = line;
        }
        if line.trim() == "prev=\"$3\"" {
            let _ = writeln!(out, "{line}\n    _tare_join");
            continue;
        }
        if let Some(values) = found.take() {
            let name = values.name();
            let _ = match values {
                Values::KernelFunctions => {
                    writeln!(out, "                    _tare_places _tare_{name} only")
                }
                Values::Functions | Values::StaticProbes => {
                    writeln!(out, "                    _tare_places _tare_{name}")
                }
                _ => writeln!(out, "                    _tare_list \"$(_tare_{name})\""),
            };
            continue;
        }
        let margin = "                ";
        let option = sections
            .iter()
            .find(|(name, option)| name == section && option.is_at(line, margin, margin, &[")"]));
        found = option.map(|(_, option)| option.values);
        out.push_str(line);
        out.push('\n');
    }
    out
}

fn for_zsh(script: &str, options: &[ListOption]) -> String {
    let mut out = String::new();
    let mut section = "";
    for line in script.lines() {
        if line.trim().starts_with('(') && line.trim().ends_with(')') {
            section = line.trim().trim_matches(['(', ')']);
        }
        let option = options.iter().find(|option| {
            option.command == section
                && line.ends_with(":_default' \\")
                && option.is_at(line.split('[').next().unwrap_or_default(), "", "", &["+", "="])
        });
        match option {
            Some(option) => {
                let start = line.trim_end_matches("_default' \\");
                let _ = writeln!(out, "{start}_tare_{}' \\", option.values.name());
            }
            None => {
                out.push_str(line);
                out.push('\n');
            }
        }
        if line == "autoload -U is-at-least" {
            for values in Values::ALL {
                let name = values.name();
                let _ = match values.command_for("${(Q)PREFIX}") {
                    Some(command) => {
                        let files = match values {
                            Values::KernelFunctions => "",
                            _ => "    [[ $PREFIX == *:* ]] || { _files; return }\n",
                        };
                        writeln!(
                            out,
                            "\n_tare_{name}() {{\n{files}    local -a values=(${{(f)\"$({command})\"}})\n    compadd -- $values\n}}"
                        )
                    }
                    None => writeln!(
                        out,
                        "\n_tare_{name}() {{\n    local -a values=(${{=\"$({})\"}})\n    _sequence compadd - $values\n}}",
                        values.command()
                    ),
                };
            }
        }
    }
    out
}

fn for_fish(script: &str, options: &[ListOption]) -> String {
    let mut out = String::new();
    for values in Values::ALL {
        let name = values.name();
        let _ = match values.command_for("$word") {
            Some(command) => {
                let files = match values {
                    Values::KernelFunctions => "",
                    _ => {
                        "    string match -q '*:*' -- $word; or begin; __fish_complete_path $word; return; end\n"
                    }
                };
                writeln!(
                    out,
                    "function __tare_{name}\n    set -l word (commandline -ct | string replace -r '^--[a-z]+=' '')\n{files}    {command}\nend\n"
                )
            }
            None => writeln!(
                out,
                "function __tare_{name}\n    {} | string split -n ' '\nend\n",
                values.command()
            ),
        };
    }
    for line in script.lines() {
        out.push_str(line);
        let option = options.iter().find(|option| {
            let command = format!("__fish_tare_using_subcommand {}\"", option.command);
            line.contains(&command) && line.contains(&format!(" -l {} ", option.long))
        });
        if let Some(option) = option {
            let name = option.values.name();
            let _ = match option.values.command_for("") {
                Some(_) => write!(out, " -f -a '(__tare_{name})'"),
                None => write!(out, " -f -a '(__fish_complete_list , __tare_{name})'"),
            };
        }
        out.push('\n');
    }
    out
}
