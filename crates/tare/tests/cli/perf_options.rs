//! docs/perf-options.md lists all of perf's options and commands, and tare's refusals use its
//! wording.

use std::process::Command;

use tare::cli::perf::{self, COMMANDS, PerfOption, Support, ValueKind};

use crate::support::{status, stderr, tare};

/// The options that the installed perf lists: letter and name.
fn listed(command: &str) -> Option<Vec<(Option<char>, Option<String>)>> {
    let Ok(output) = Command::new("perf").args([command, "-h"]).output() else {
        println!("skipped: perf is not installed");
        return None;
    };
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let name = |word: &str| word.split(['[', '=']).next().unwrap_or_default().to_owned();
    let option = |line: &str| {
        let line = line.strip_prefix("    ")?;
        let indent = line.len() - line.trim_start().len();
        let mut words = line.trim_start().split([' ', ',']).filter(|word| !word.is_empty());
        let first = words.next().filter(|word| indent <= 4 && word.starts_with('-'))?;
        if let Some(long) = first.strip_prefix("--") {
            return Some((None, Some(name(long))));
        }
        let long = words.next().and_then(|word| word.strip_prefix("--")).map(name);
        Some((first.chars().nth(1), long))
    };
    Some(text.lines().filter_map(option).collect())
}

#[test]
fn the_table_has_each_option_of_the_installed_perf() {
    for command in COMMANDS {
        let Some(listed) = listed(command) else { return };
        assert!(listed.len() > 5, "perf {command} -h: {listed:?}");
        for (short, long) in listed {
            let is_it = |option: &PerfOption| match &long {
                Some(long) => {
                    option.long == Some(long) && (short.is_none() || option.short == short)
                }
                None => option.short == short,
            };
            let lines = perf::options(command).filter(is_it).count();
            assert_eq!(lines, 1, "docs/perf-options.md: {command} {short:?} {long:?}");
        }
    }
}

#[test]
fn the_table_has_each_command_of_the_installed_perf() {
    let Ok(output) = Command::new("perf").arg("help").output() else {
        println!("skipped: perf is not installed");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = text.lines().filter_map(|line| line.strip_prefix("   ")?.split(' ').next());
    let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        assert!(perf::commands().any(|command| command.long == Some(name)), "{name}");
    }
}

/// The command-line words for an option.
fn typed(option: &PerfOption) -> Vec<String> {
    let value = (option.value == ValueKind::Required).then(|| "1".to_owned());
    [Some(option.typed()), value].into_iter().flatten().collect()
}

/// Whether a letter has strace's meaning, not perf's.
fn is_of_strace(command: &str, letter: char) -> bool {
    command == "trace" && ['C', 't'].contains(&letter)
}

#[test]
fn refuses_unsupported_options_with_the_tables_reason() {
    let mut refused = 0;
    for command in COMMANDS {
        for option in perf::options(command) {
            if option.state == Support::Same || option.is_accepted() {
                continue;
            }
            let letter = option.short.filter(|short| !is_of_strace(command, *short));
            let letter = letter.map(|short| vec![format!("-{short}")]);
            for words in [Some(typed(&option)), letter].into_iter().flatten() {
                let output = tare().arg(command).args(&words).output().unwrap();
                let said = stderr(&output);
                let option_name = &words[0];
                assert_eq!(status(&output), 2, "{command} {words:?}: {said}");
                assert!(
                    said.starts_with(&format!("tare: perf's {command} {option_name} is ")),
                    "{said}"
                );
                assert!(said.contains(option.text) && said.lines().count() == 1, "{said}");
                refused += 1;
            }
        }
    }
    assert!(refused > 50, "{refused}");
}

#[test]
fn refuses_unsupported_commands_with_the_tables_reason() {
    let output = tare().arg("--help").output().unwrap();
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_there =
        |name: &str| help.lines().any(|line| line.trim().starts_with(&format!("{name} ")));
    for command in perf::commands() {
        let name = command.long.unwrap();
        if command.state == Support::Same {
            assert!(is_there(name), "{name}");
        } else if !is_there(name) {
            let output = tare().arg(name).output().unwrap();
            let said = stderr(&output);
            assert_eq!(status(&output), 2, "{said}");
            assert!(said.starts_with(&format!("tare: perf's {name} is ")), "{said}");
            assert!(said.contains(command.text), "{said}");
        }
    }
}

/// Examples in perf's manual pages for report, script, record and stat, except those with options
/// that tare lacks.
const EXAMPLES: [&str; 35] = [
    "report -F +period,sample",
    "report --time 10%/2",
    "report --time 0%-10%",
    "report --time 10%/1,10%/2",
    "report --time 0%-10%,30%-40%",
    "report -s dso,sym",
    "script -F comm,tid,trace",
    "script -F comm,tid,time,ip,sym,dso",
    "script -F trace:time,event,trace -F sw:comm,tid,ip,sym",
    "script -F +misc",
    "script -v -F sw:comm,tid,trace",
    "script --symbols=noploop,0x4007a0",
    "script -S 0x4007a0 --addr-range 10",
    "record -e some_event/@cfg1,@cfg2=config/ -- ls",
    "stat -A -a -e cpu/event,percore=1/,otherevent -- ls",
    "script --time 10%/2",
    "script --time 0%-10%",
    "script --time 10%/1,10%/2",
    "script --time 0%-10%,30%-40%",
    "record -g -- ls",
    "record -e cycles --filter 'mem_op == load' ls",
    "record -d -W ls",
    "record --call-graph lbr ls",
    "record -b ls",
    "record --branch-filter any,u ls",
    "record -D -1 -e cpu-cycles -a --control fd:3,4 -- sleep 30",
    "stat -- make",
    "stat -e cycles -G name -a -e cycles",
    "stat --null -r 5 --table perf bench sched pipe",
    "stat --repeat 10 --null --sync --pre 'make -s clean' -- make -s -j64 bzImage",
    "stat --log-fd 3 --append -- true",
    "stat -D -1 -e cpu-cycles -a -I 1000 --control fd:3,4 -- sleep 30",
    "stat -I 1000 -e cycles -a sleep 5",
    "stat -I 1000 --interval-count 2 -e cycles -a",
    "stat --time 2000 -e cycles -a",
];

#[test]
fn examples_of_perfs_manual_pages_parse() {
    for example in EXAMPLES {
        let words = shlex::split(&format!("tare {example}")).unwrap();
        let parsed = tare::cli::raw::Tare::parse_typed(words.into_iter().map(Into::into));
        if let Err(error) = parsed {
            panic!("{example}: {error}");
        }
    }
}
