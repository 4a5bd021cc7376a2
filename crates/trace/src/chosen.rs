//! The selection of system calls that a list names: `openat,%file,!futex`.

use std::collections::BTreeSet;

use tare_kernel::bpf::Call;
use thiserror::Error;

use crate::flags::Flags;
use crate::names::CallNames;
use crate::structs;

/// The call classes. A line may continue a class that an earlier line began.
const CLASSES: &str = include_str!("tables/classes.txt");

/// Classes that strace also accepts without `%`, though some are names of calls.
const UNMARKED: [&str; 7] = ["desc", "file", "ipc", "memory", "network", "process", "signal"];

/// A word in a list that names neither a call nor a class.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnknownCall {
    /// No ABI of this machine has this call.
    #[error("there is no system call '{0}'")]
    Call(String),
    /// There is no such class.
    #[error("there is no class '%{0}'; the classes are {classes}", classes = class_names().join(", "))]
    Class(String),
}

/// A selection of system calls by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallSelection {
    /// The selected names; `None` selects all calls.
    only: Option<BTreeSet<&'static str>>,
    /// Names that are excluded nevertheless.
    not: BTreeSet<&'static str>,
}

impl CallSelection {
    /// Returns the names of the classes, with `%`.
    #[must_use]
    pub fn class_names() -> Vec<String> {
        class_names()
    }

    /// Parses a comma-separated list of names, patterns (`epoll_*`) and classes. `!` before a word excludes it; before
    /// the first word it negates the whole list, as in strace. A leading `trace=` or `t=` is
    /// ignored (`strace -e`); `all` and `none` are accepted. A name after `?` may be unknown.
    ///
    /// # Errors
    /// Fails if a word names neither a call nor a class.
    pub fn parse(text: &str) -> Result<Self, UnknownCall> {
        let text = ["trace=", "t="].iter().find_map(|p| text.strip_prefix(p)).unwrap_or(text);
        let names = CallNames::default();
        let mut selection = Self::default();
        let mut excludes_all = false;
        for (at, word) in text.split(',').map(str::trim).filter(|word| !word.is_empty()).enumerate()
        {
            let without = word.strip_prefix('!');
            excludes_all |= at == 0 && without.is_some();
            let word = without.unwrap_or(word);
            let found = match word {
                "all" => names.calls().map(|(_, name)| name).collect(),
                "none" => BTreeSet::new(),
                _ => find_calls(&names, word)?,
            };
            if excludes_all || without.is_some() {
                selection.not.extend(found);
            } else {
                selection.only.get_or_insert_default().extend(found);
            }
        }
        Ok(selection)
    }

    /// Like [`Self::parse`], but returns words with a colon as tracepoints, as system and name:
    /// `openat,sched:sched_switch`. A list of tracepoints alone selects no call.
    ///
    /// # Errors
    /// Fails if a word names neither a call nor a class.
    pub fn with_tracepoints(text: &str) -> Result<(Self, Vec<(String, String)>), UnknownCall> {
        let mut calls = Vec::new();
        let mut tracepoints = Vec::new();
        for word in text.split(',') {
            match word.trim().split_once(':') {
                Some((system, name)) => tracepoints.push((system.to_owned(), name.to_owned())),
                None => calls.push(word),
            }
        }
        let has_no_calls = calls.is_empty() && !tracepoints.is_empty();
        let calls = if has_no_calls { "none".to_owned() } else { calls.join(",") };
        Ok((Self::parse(&calls)?, tracepoints))
    }

    /// Whether a call of this name is selected. A call without a name is selected unless the list
    /// names calls to select; exclusions don't affect it.
    #[must_use]
    pub fn has(&self, name: Option<&str>) -> bool {
        match name {
            Some(name) => {
                self.only.as_ref().is_none_or(|only| only.contains(name))
                    && !self.not.contains(name)
            }
            None => self.only.is_none(),
        }
    }

    /// Whether this call is selected.
    #[must_use]
    pub fn has_call(&self, names: &CallNames, call: Call) -> bool {
        self.has(names.find(call))
    }
}

/// A selection of signals by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignalSelection {
    /// Bits of the excluded signals, from signal 1 on.
    excluded: u64,
}

impl SignalSelection {
    /// Parses a comma-separated list of names with or without `SIG`, or numbers. `!` before the
    /// list excludes its signals; `all` and `none` are accepted. `None` for an unknown signal.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let flags = Flags::default();
        let (text, is_negated) = text.strip_prefix('!').map_or((text, false), |rest| (rest, true));
        let mut selected = 0_u64;
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            selected |= match word {
                "all" => u64::MAX,
                "none" => 0,
                _ => 1 << (find_signal(&flags, word)? - 1),
            };
        }
        Some(Self { excluded: if is_negated { selected } else { !selected } })
    }

    /// Whether this signal is selected.
    #[must_use]
    pub fn has(&self, number: u32) -> bool {
        !(1..=64).contains(&number) || self.excluded >> (number - 1) & 1 == 0
    }
}

/// Returns the number of a signal.
fn find_signal(flags: &Flags, word: &str) -> Option<u32> {
    if let Ok(number) = word.parse() {
        return (1..=64).contains(&number).then_some(number);
    }
    let word = word.to_ascii_uppercase();
    let word = word.strip_prefix("SIG").unwrap_or(&word);
    (1..=64).find(|number| structs::signal(flags, *number).strip_prefix("SIG") == Some(word))
}

/// Returns the calls that a name or class stands for; `%net` is `%network`.
fn find_calls(names: &CallNames, word: &str) -> Result<BTreeSet<&'static str>, UnknownCall> {
    if let Some(class) = word.strip_prefix('%') {
        let class = if class == "net" { "network" } else { class };
        let found = class_lines()
            .filter(|(name, _)| *name == class)
            .flat_map(|(_, calls)| calls.split(' '));
        let found: BTreeSet<_> = found.collect();
        return if found.is_empty() {
            Err(UnknownCall::Class(class.to_owned()))
        } else {
            Ok(found)
        };
    }
    if UNMARKED.contains(&word) {
        return find_calls(names, &format!("%{word}"));
    }
    let (word, is_optional) = word.strip_prefix('?').map_or((word, false), |word| (word, true));
    let all = names.calls().map(|(_, name)| name);
    let found: BTreeSet<_> = all.filter(|name| matches(word.as_bytes(), name.as_bytes())).collect();
    if found.is_empty() && !is_optional {
        Err(UnknownCall::Call(word.to_owned()))
    } else {
        Ok(found)
    }
}

/// Whether a name matches a pattern, in which `*` stands for any text and `?` for any character.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=name.len()).any(|from| matches(rest, &name[from..])),
        ([b'?', rest @ ..], [_, name @ ..]) => matches(rest, name),
        ([first, rest @ ..], [letter, name @ ..]) => first == letter && matches(rest, name),
        _ => false,
    }
}

fn class_lines() -> impl Iterator<Item = (&'static str, &'static str)> {
    CLASSES.lines().filter_map(|line| line.strip_prefix('%')?.split_once(' '))
}

fn class_names() -> Vec<String> {
    let names: BTreeSet<_> = class_lines().map(|(name, _)| format!("%{name}")).collect();
    names.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(text: &str, name: &str) -> bool {
        CallSelection::parse(text).unwrap().has(Some(name))
    }

    #[test]
    fn selects_and_excludes_names_and_classes() {
        assert!(has("", "read") && has("openat,%net", "bind") && has("trace=%file", "openat"));
        assert!(!has("openat,%network", "read") && !has("%file,!openat", "openat"));
        assert!(has("%file,!openat", "execve") && has("!futex", "read"));
        assert!(!has("!futex,read", "read") && !has("none", "read") && has("all", "read"));
        assert!(
            !CallSelection::parse("read").unwrap().has(None)
                && CallSelection::parse("!read").unwrap().has(None)
        );
    }

    #[test]
    fn patterns_select_calls() {
        assert!(has("epoll_*", "epoll_wait") && has("open*", "open") && has("open*", "openat"));
        assert!(!has("epoll_*", "poll") && has("!open*", "read") && !has("!open*", "openat"));
        assert!(has("pread?4", "pread64") && !has("pread?4", "pread"));
        assert_eq!(CallSelection::parse("nosuch*"), Err(UnknownCall::Call("nosuch*".to_owned())));
    }

    #[test]
    fn accepts_strace_s_older_class_names_and_optional_calls() {
        assert!(has("trace=file", "openat") && has("network", "bind") && has("signal", "kill"));
        assert!(!has("trace=file", "read") && has("?no_such_call,read", "read"));
    }

    #[test]
    fn selects_and_excludes_signals() {
        let has = |text: &str, number| SignalSelection::parse(text).unwrap().has(number);
        assert!(has("SIGTERM,chld", 15) && has("SIGTERM,chld", 17) && !has("SIGTERM", 9));
        assert!(has("!SIGTERM", 9) && !has("!SIGTERM", 15) && has("all", 64));
        assert!(!has("none", 15) && has("15", 15) && SignalSelection::default().has(15));
        assert_eq!(SignalSelection::parse("SIGNOPE"), None);
    }

    #[test]
    fn returns_words_with_a_colon_as_tracepoints() {
        let (calls, points) = CallSelection::with_tracepoints("sched:sched_*").unwrap();
        assert!(!calls.has(Some("read")) && !calls.has(None));
        assert_eq!(points, [("sched".to_owned(), "sched_*".to_owned())]);
        let (calls, points) = CallSelection::with_tracepoints("read,irq:softirq_entry").unwrap();
        assert!(calls.has(Some("read")) && !calls.has(Some("write")) && points.len() == 1);
        let (calls, points) = CallSelection::with_tracepoints("!read").unwrap();
        assert!(!calls.has(Some("read")) && calls.has(None) && points.is_empty());
    }

    #[test]
    fn refuses_unknown_calls_and_classes() {
        assert_eq!(CallSelection::parse("opneat"), Err(UnknownCall::Call("opneat".to_owned())));
        let error = CallSelection::parse("%flie").unwrap_err().to_string();
        assert!(error.contains("'%flie'") && error.contains("%file, %fstat"), "{error}");
    }
}
