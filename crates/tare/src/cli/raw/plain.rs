//! Command lines that say nothing but what is asked for most. They are read here, without a
//! description of all that could be said: describing and reading that by clap is four fifths of the
//! instructions of `tare stat --null true`. What isn't known here, or could be wrong, is clap's.

use std::ffi::OsString;

use super::{Deferred, RecordArgs, StatArgs, Tare, TareCommand};

/// What was typed, if it is as plain as that.
pub(super) fn read(args: &[OsString]) -> Option<Tare> {
    let [_, name, words @ ..] = args else { return None };
    let mut words = Words(words);
    let command = match name.to_str()? {
        "stat" => TareCommand::Stat(Deferred(Box::new(stat(&mut words)?))),
        "record" => TareCommand::Record(Deferred(Box::new(record(&mut words)?))),
        _ => return None,
    };
    Some(Tare { command })
}

fn stat(words: &mut Words<'_>) -> Option<StatArgs> {
    let mut stat = StatArgs::default();
    while let Some(option) = words.option() {
        match option {
            "-e" | "--event" => stat.events.push(words.value()?),
            "-n" | "--null" => stat.null = true,
            "-o" | "--output" => stat.output = Some(words.value()?.into()),
            "--" => {
                stat.after_dashes = true;
                break;
            }
            _ => return None,
        }
    }
    stat.command = words.command()?;
    (!stat.null || stat.events.is_empty()).then_some(stat)
}

fn record(words: &mut Words<'_>) -> Option<RecordArgs> {
    let mut record = RecordArgs::default();
    while let Some(option) = words.option() {
        match option {
            "-e" | "--event" => record.events.push(words.value()?),
            "-F" | "--freq" => record.sampling.frequency = Some(words.value()?),
            "-g" => record.sampling.with_call_graph = true,
            "--call-graph" => record.sampling.call_graph = Some(words.value()?),
            "-a" | "--all-cpus" => record.target.all_cpus = true,
            "-o" | "--output" => record.output.output = Some(words.value()?.into()),
            "-q" | "--quiet" => record.quiet = true,
            "--" => break,
            _ => return None,
        }
    }
    record.command = words.command()?;
    Some(record)
}

/// What is still to be read.
struct Words<'a>(&'a [OsString]);

impl<'a> Words<'a> {
    /// The next word, if it begins with a dash; an option that isn't UTF-8 is none that is known.
    fn option(&mut self) -> Option<&'a str> {
        let (first, rest) = self.0.split_first()?;
        if !first.as_encoded_bytes().starts_with(b"-") {
            return None;
        }
        self.0 = rest;
        Some(first.to_str().unwrap_or_default())
    }

    /// The next word as an option's value: neither empty nor what could be an option itself.
    fn value(&mut self) -> Option<String> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        let value = first.to_str()?;
        (!value.is_empty() && !value.starts_with('-')).then(|| value.to_owned())
    }

    /// All that is left, if it names a command.
    fn command(&self) -> Option<Vec<OsString>> {
        (!self.0.is_empty()).then(|| self.0.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn what_is_read_here_is_what_clap_reads() {
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
            let plain = read(&args(line)).unwrap_or_else(|| panic!("{line} is not plain"));
            let by_clap = Tare::parse_described(args(line)).unwrap();
            assert_eq!(format!("{plain:?}"), format!("{by_clap:?}"), "{line}");
        }
    }

    #[test]
    fn what_could_be_wrong_is_left_to_clap() {
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
            "tare record -a",
            "tare record -F 99 -c 1 true",
            "tare record -gq true",
            "tare top true",
            "tare --help stat true",
        ] {
            assert!(read(&args(line)).is_none(), "{line}");
        }
    }
}
