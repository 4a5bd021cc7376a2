//! perf's subcommands, such as `perf sched latency`, as tare's words. The words are replaced before
//! they are parsed.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// What becomes of an option.
#[derive(Clone, Copy)]
enum Here {
    /// It is passed on.
    Same,
    /// It has this name.
    Name(&'static str),
    /// It is left out.
    Nothing,
}

/// An option of perf: its letter, its name, whether it takes a value, and what becomes of it.
type Rule = (Option<char>, &'static str, bool, Here);

const INPUT: Rule = (Some('i'), "input", true, Here::Same);
const FORCE: Rule = (Some('f'), "force", false, Here::Nothing);
const VERBOSE: Rule = (Some('v'), "verbose", false, Here::Nothing);

const LATENCY: &[Rule] = &[
    INPUT,
    FORCE,
    VERBOSE,
    (Some('s'), "sort", true, Here::Name("--sort")),
    (Some('p'), "pids", false, Here::Nothing),
    (Some('H'), "histogram", false, Here::Name("--hist")),
    (Some('C'), "CPU", true, Here::Name("--cpu")),
    (None, "hist-mode", true, Here::Nothing),
    (None, "time", true, Here::Same),
];

const TIMEHIST: &[Rule] = &[
    INPUT,
    FORCE,
    VERBOSE,
    (Some('C'), "cpu", true, Here::Same),
    (Some('g'), "call-graph", false, Here::Nothing),
    (Some('k'), "vmlinux", true, Here::Nothing),
    (None, "kallsyms", true, Here::Nothing),
    (None, "symfs", true, Here::Nothing),
    (None, "max-stack", true, Here::Nothing),
    (Some('M'), "migrations", false, Here::Same),
    (Some('n'), "next", false, Here::Same),
    (Some('p'), "pid", true, Here::Same),
    (Some('P'), "pre-migrations", false, Here::Nothing),
    (Some('t'), "tid", true, Here::Same),
    (Some('V'), "cpu-visual", false, Here::Nothing),
    (Some('w'), "wakeups", false, Here::Same),
    (None, "show-prio", false, Here::Nothing),
    (None, "state", false, Here::Same),
    (None, "time", true, Here::Same),
];

const MAP: &[Rule] = &[
    INPUT,
    FORCE,
    VERBOSE,
    (None, "compact", false, Here::Nothing),
    (None, "cpus", true, Here::Name("--cpu")),
    (None, "color-cpus", true, Here::Nothing),
    (None, "color-pids", true, Here::Nothing),
];

const CONVERT: &[Rule] = &[
    INPUT,
    FORCE,
    VERBOSE,
    (None, "all", false, Here::Nothing),
    (None, "time", true, Here::Same),
    (None, "to-json", true, Here::Name("--perf-json")),
];

const CONTENTION: &[Rule] = &[
    INPUT,
    FORCE,
    (Some('v'), "verbose", false, Here::Name("--stacks")),
    (Some('a'), "all-cpus", false, Here::Same),
    (Some('b'), "use-bpf", false, Here::Nothing),
    (Some('E'), "entries", true, Here::Same),
    (Some('F'), "field", true, Here::Nothing),
    (Some('k'), "key", true, Here::Same),
    (Some('M'), "map-nr-entries", true, Here::Nothing),
    (Some('p'), "pid", true, Here::Same),
    (Some('q'), "quiet", false, Here::Nothing),
    (None, "kallsyms", true, Here::Nothing),
    (None, "max-stack", true, Here::Nothing),
    (None, "stack-skip", true, Here::Nothing),
    (None, "output", true, Here::Same),
    (None, "vmlinux", true, Here::Nothing),
];

const LOCK_REPORT: &[Rule] = &[
    INPUT,
    FORCE,
    VERBOSE,
    (Some('c'), "combine-locks", false, Here::Nothing),
    (Some('E'), "entries", true, Here::Same),
    (Some('F'), "field", true, Here::Nothing),
    (Some('k'), "key", true, Here::Same),
    (Some('q'), "quiet", false, Here::Nothing),
    (None, "output", true, Here::Same),
];

/// Events of the subcommands that are `tare record` here.
const SCHED_EVENTS: &str = "sched:sched_switch,sched:sched_waking,sched:sched_wakeup_new,sched:sched_migrate_task,sched:sched_process_fork";
const LOCK_EVENTS: &str = "lock:contention_begin,lock:contention_end";
const CALL_EVENTS: &str = "raw_syscalls:sys_enter,raw_syscalls:sys_exit";

/// Replaces a subcommand of perf in the command line.
pub(super) fn translate(args: &mut Vec<OsString>) {
    let word = |at: usize| args.get(at).and_then(|word| word.to_str()).unwrap_or_default();
    let rest = |from: usize| args.get(from..).unwrap_or_default();
    let words = match (word(1), word(2)) {
        ("sched", "record") => recorded(&["-a", "-c", "1", "-e", SCHED_EVENTS], rest(3)),
        ("lock", "record") => recorded(&["-g", "-c", "1", "-e", LOCK_EVENTS], rest(3)),
        ("trace", "record") => recorded(&["-c", "1", "-e", CALL_EVENTS], rest(3)),
        ("sched" | "lock", "script") => [&["script".into()], rest(3)].concat(),
        ("mem", "report") => [&["report".into(), "--mem-mode".into()], rest(3)].concat(),
        ("sched", "latency" | "lat") => {
            let sorted = ["sched", "--sort", "avg"].map(OsString::from);
            read(&sorted, &first_sort_key(rest(3)), LATENCY)
        }
        ("sched", "timehist") => timehist(rest(3)),
        ("sched", "map") => read(&["sched".into(), "--map".into()], rest(3), MAP),
        ("data", "convert") if converts_to_json(rest(3)) => {
            read(&["script".into()], rest(3), CONVERT)
        }
        ("lock", "report") => read(&["lock".into(), "--kernel".into()], rest(3), LOCK_REPORT),
        ("lock", "contention" | "con") => contention(rest(3)),
        _ => return,
    };
    args.splice(1.., words);
}

fn recorded(first: &[&str], rest: &[OsString]) -> Vec<OsString> {
    let first = ["record"].iter().chain(first).map(OsString::from);
    first.chain(rest.iter().cloned()).collect()
}

/// Returns the words of a command that reads a recording, perf.data unless another is named.
fn read(first: &[OsString], rest: &[OsString], rules: &[Rule]) -> Vec<OsString> {
    let rest = replaced(rest, rules);
    let names_file =
        rest.iter().any(|word| word.as_bytes().starts_with(b"-i") || *word == "--input");
    let input = ["-i", "perf.data"].map(OsString::from);
    [first, if names_file { &[] } else { &input }, &rest].concat()
}

/// Returns the words of `perf sched timehist`. With a summary it is the table of tasks.
fn timehist(rest: &[OsString]) -> Vec<OsString> {
    let summary = |word: &&OsString| *word == "-s" || *word == "--summary";
    let is_summary = rest.iter().any(|word| summary(&word));
    let others: Vec<OsString> = rest.iter().filter(|word| !summary(word)).cloned().collect();
    let first: Vec<OsString> =
        if is_summary { vec!["sched".into()] } else { vec!["sched".into(), "--timehist".into()] };
    read(&first, &others, TIMEHIST)
}

/// Returns the words of `perf lock contention`, which reads a recording unless `-a`, `-b` or `-p` is
/// given.
fn contention(rest: &[OsString]) -> Vec<OsString> {
    let is_live = |word: &OsString| {
        let text = word.to_str().unwrap_or_default();
        let letters = text.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
        ["--use-bpf", "--all-cpus", "--pid", "--"].contains(&text)
            || letters.is_some_and(|letters| letters.starts_with(['a', 'b', 'p']))
    };
    let first = ["lock", "--kernel"].map(OsString::from);
    if rest.iter().any(is_live) {
        return [&first[..], &replaced(rest, CONTENTION)].concat();
    }
    read(&first, rest, CONTENTION)
}

/// Whether `perf data convert` writes JSON. Its other format isn't supported.
fn converts_to_json(rest: &[OsString]) -> bool {
    rest.iter().any(|word| word.as_bytes().starts_with(b"--to-json"))
}

/// Keeps the first key of `-s KEY,KEY`: tare sorts tasks by one.
fn first_sort_key(rest: &[OsString]) -> Vec<OsString> {
    let is_sort = |word: &OsString| *word == "-s" || *word == "--sort";
    let mut words = rest.to_vec();
    for at in 1..words.len() {
        if is_sort(&words[at - 1]) {
            let key = words[at].as_bytes().split(|byte| *byte == b',').next().unwrap_or_default();
            words[at] = OsStr::from_bytes(key).to_owned();
        }
    }
    words
}

/// Replaces options up to the command or `--`. Words that no rule knows stay as they are.
fn replaced(words: &[OsString], rules: &[Rule]) -> Vec<OsString> {
    let mut result = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = word.as_bytes();
        if text == b"--" || !text.starts_with(b"-") || text == b"-" {
            result.push(word.clone());
            result.extend(words.cloned());
            break;
        }
        let next = || words.next().cloned();
        if let Some(long) = text.strip_prefix(b"--") {
            let mut parts = long.splitn(2, |byte| *byte == b'=');
            let name = parts.next().unwrap_or_default();
            let joined = parts.next().map(|value| OsStr::from_bytes(value).to_owned());
            match rules.iter().find(|rule| rule.1.as_bytes() == name) {
                Some(rule) => {
                    let value = if rule.2 { joined.or_else(next) } else { None };
                    put(&mut result, rule, value);
                }
                None => result.push(word.clone()),
            }
        } else {
            put_letters(&mut result, &text[1..], rules, next);
        }
    }
    result
}

/// Replaces joined letters such as `-MVw`. `next` yields the word after them, for a value.
fn put_letters(
    result: &mut Vec<OsString>,
    letters: &[u8],
    rules: &[Rule],
    mut next: impl FnMut() -> Option<OsString>,
) {
    for (at, letter) in letters.iter().enumerate() {
        let after = &letters[at + 1..];
        let Some(rule) = rules.iter().find(|rule| rule.0 == Some(char::from(*letter))) else {
            // Its value, if it takes one, can't be told from further letters.
            result.push(OsString::from_vec([b"-", &letters[at..]].concat()));
            return;
        };
        if rule.2 {
            let joined = (!after.is_empty()).then(|| OsStr::from_bytes(after).to_owned());
            put(result, rule, joined.or_else(&mut next));
            return;
        }
        put(result, rule, None);
    }
}

fn put(result: &mut Vec<OsString>, rule: &Rule, value: Option<OsString>) {
    let name = match rule.3 {
        Here::Nothing => return,
        Here::Same => format!("--{}", rule.1),
        Here::Name(name) => name.to_owned(),
    };
    result.push(name.into());
    result.extend(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> String {
        let mut args = line.split(' ').map(OsString::from).collect();
        translate(&mut args);
        args.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn subcommands_of_perf_become_tares_words() {
        for (perf, tare) in [
            ("sched latency", "sched --sort avg -i perf.data"),
            ("sched lat -i x.data -s max,avg -p", "sched --sort avg --input x.data --sort max"),
            ("sched timehist -MVw", "sched --timehist -i perf.data --migrations --wakeups"),
            ("sched timehist --summary -ix.data", "sched --input x.data"),
            ("sched timehist --time 1,2", "sched --timehist -i perf.data --time 1,2"),
            ("sched map --compact --cpus 0,1", "sched --map -i perf.data --cpu 0,1"),
            ("sched script -i x.data", "script -i x.data"),
            ("data convert --to-json o -i -", "script --perf-json o --input -"),
            ("data convert --all -f --to-json=o", "script -i perf.data --perf-json o"),
            ("lock contention", "lock --kernel -i perf.data"),
            ("lock con -ab -- sleep 1", "lock --kernel --all-cpus -- sleep 1"),
            ("lock contention -a -b -E 5 sleep 1", "lock --kernel --all-cpus --entries 5 sleep 1"),
            ("lock report -F acquired -k avg_wait", "lock --kernel -i perf.data --key avg_wait"),
            ("mem report -s mem", "report --mem-mode -s mem"),
        ] {
            assert_eq!(translated(&format!("tare {perf}")), format!("tare {tare}"));
        }
        let recorded = translated("tare sched record -o x -- sleep 1");
        assert!(recorded.starts_with("tare record -a -c 1 -e sched:sched_switch,"), "{recorded}");
        assert!(recorded.ends_with(" -o x -- sleep 1"), "{recorded}");
    }

    #[test]
    fn other_command_lines_stay_as_they_are() {
        for line in [
            "tare sched -- latency",
            "tare sched -a",
            "tare data convert --to-ctf o",
            "tare lock -- report",
            "tare trace -e open -p 1",
            "tare trace -i x.data",
            "tare stat true",
            "tare",
        ] {
            assert_eq!(translated(line), line);
        }
    }
}
