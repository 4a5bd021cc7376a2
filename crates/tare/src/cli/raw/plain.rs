//! A parser for command lines of `stat` and `record` that hold plain options only. It reads them by
//! the definitions that clap has too, without building clap's description: describing and parsing
//! by clap takes four fifths of the instructions of `tare stat --null true`. Other command lines
//! are left to clap: those with abbreviations, joined words (`-F99`, `--freq=99`), conflicts,
//! errors or other kinds of options.

use std::ffi::OsString;

use super::definition::PlainReader;
use super::{Deferred, RecordArgs, StatArgs, Tare, TareCommand};

/// Parses a command line; `None` if clap must.
pub(super) fn read(args: &[OsString]) -> Option<Tare> {
    let [_, name, words @ ..] = args else { return None };
    let mut reader = PlainReader::new(words);
    let command = match name.to_str()? {
        "stat" => {
            let mut stat = StatArgs::default();
            stat.command = reader.read(&mut stat)?;
            stat.after_dashes = reader.is_after_dashes();
            TareCommand::Stat(Deferred(Box::new(stat)))
        }
        "record" => {
            let mut record = RecordArgs::default();
            record.command = reader.read(&mut record)?;
            TareCommand::Record(Deferred(Box::new(record)))
        }
        _ => return None,
    };
    Some(Tare { command })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn args(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn assert_clap_agrees(line: &str) {
        let plain = read(&args(line)).unwrap_or_else(|| panic!("{line} is not plain"));
        let by_clap = Tare::parse_described(args(line)).unwrap();
        assert_eq!(format!("{plain:?}"), format!("{by_clap:?}"), "{line}");
    }

    #[test]
    fn plain_lines_are_read_as_clap_reads_them() {
        for line in [
            "tare stat true",
            "tare stat -- true",
            "tare stat --null true -n --null",
            "tare stat -n -o file -o other -- -true",
            "tare stat -e a,b -e {c,d}:u --event e --output file sh -c true -- -e",
            "tare stat true -- x",
            "tare stat  x",
            "tare record true",
            "tare record -g -F 99 -o perf.data -q -- true",
            "tare record --freq max -F 100 --call-graph dwarf --call-graph fp -e a --event b true -g",
            "tare record -a --all-cpus --quiet --output file -- sleep 1",
        ] {
            assert_clap_agrees(line);
        }
    }

    /// Each option alone, by its name and by its letter, as far as it is plain.
    #[test]
    fn each_option_is_read_as_clap_reads_it() {
        let mut tare = Tare::command();
        tare.build();
        let mut plain = 0;
        for name in ["stat", "record"] {
            for option in tare.find_subcommand(name).unwrap().get_arguments() {
                let letter = option.get_short().map(|letter| format!("-{letter}"));
                let long = option.get_long().map(|long| format!("--{long}"));
                let value = if option.get_action().takes_values() { " 1" } else { "" };
                for typed in [letter, long].into_iter().flatten() {
                    let line = format!("tare {name} {typed}{value} -- true");
                    if read(&args(&line)).is_some() {
                        assert_clap_agrees(&line);
                        plain += 1;
                    }
                }
            }
        }
        assert!(plain > 80, "only {plain} are plain");
    }

    /// Conflicts that a command adds to a shared option are known to clap alone, so one of the two
    /// must not be plain.
    #[test]
    fn conflicting_options_are_left_to_clap() {
        let mut tare = Tare::command();
        tare.build();
        let mut pairs = 0;
        for name in ["stat", "record"] {
            let command = tare.find_subcommand(name).unwrap();
            let typed = |option: &clap::Arg| {
                let long = option.get_long()?;
                let value = if option.get_action().takes_values() { " 1" } else { "" };
                Some(format!("--{long}{value}"))
            };
            for option in command.get_arguments().filter(|option| !option.is_positional()) {
                let Some(first) = typed(option) else { continue };
                for other in command.get_arg_conflicts_with(option).into_iter().filter_map(typed) {
                    let line = format!("tare {name} {first} {other} true");
                    assert!(read(&args(&line)).is_none(), "{line}");
                    pairs += 1;
                }
            }
        }
        assert!(pairs > 50, "{pairs}");
    }

    #[test]
    fn doubtful_lines_are_left_to_clap() {
        for line in [
            "tare",
            "tare stat",
            "tare stat --",
            "tare stat -n",
            "tare stat -n -e a true",
            "tare stat -e",
            "tare stat -e -n true",
            "tare stat -o  true",
            "tare stat --nul true",
            "tare stat --null=1 true",
            "tare stat -ea true",
            "tare stat - true",
            "tare stat -h",
            "tare stat --help true",
            "tare stat --all-user --all-kernel true",
            "tare record -a",
            "tare record -F 99 -c 1 true",
            "tare record -F 99 -n true",
            "tare record -gq true",
            "tare top true",
            "tare --help stat true",
        ] {
            assert!(read(&args(line)).is_none(), "{line}");
        }
    }
}
