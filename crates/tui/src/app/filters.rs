//! Filter conditions, as typed and as displayed.

use tare_format::printable;
use tare_profile::{FunctionKey, Profile, Space, Term};
use tare_replay::TimeRanges;

/// The names of conditions.
const NAMES: &str = "comm, pid, tid, cpu, cgroup, dso, symbol, function, event or time";

/// Parses a condition: `comm=sh`, `cpu=0,2`, `time=12.5,13`; without `=`, a part of a function
/// name.
pub(super) fn parse(text: &str) -> Result<Term, String> {
    let Some((name, value)) = text.split_once('=') else {
        return Ok(Term::Symbol(text.as_bytes().to_vec()));
    };
    let name = name.trim();
    if !matches!(name, "comm" | "pid" | "tid" | "cpu" | "cgroup" | "dso" | "function") {
        return parse_one(name, value);
    }
    // As in perf's options, commas separate alternatives.
    let mut terms: Vec<_> =
        value.split(',').map(|value| parse_one(name, value)).collect::<Result<_, _>>()?;
    Ok(if terms.len() == 1 { terms.swap_remove(0) } else { Term::AnyOf(terms) })
}

fn parse_one(name: &str, value: &str) -> Result<Term, String> {
    let bytes = value.as_bytes().to_vec();
    let number = || value.parse().map_err(|_| format!("{name}={value}: '{value}' is not a number"));
    Ok(match name {
        "comm" => Term::Comm(bytes),
        "pid" => Term::Pid(number()?),
        "tid" => Term::Tid(number()?),
        "cpu" => Term::Cpu(
            u32::try_from(number()?).map_err(|_| format!("cpu={value}: there is no such CPU"))?,
        ),
        "cgroup" => Term::Cgroup(bytes),
        "dso" => Term::Dso(bytes),
        "symbol" | "sym" => Term::Symbol(bytes),
        "function" => Term::Function(bytes),
        "time" => {
            let range = match TimeRanges::parse(value) {
                Some(TimeRanges::Nanoseconds(ranges)) if ranges.len() == 1 => ranges[0],
                _ => {
                    return Err(format!(
                        "time={value}: give a range such as 12.5,13, in seconds as tare script prints them"
                    ));
                }
            };
            Term::Time(range.0, range.1)
        }
        other => return Err(format!("there is no condition '{other}': use {NAMES}")),
    })
}

/// Returns a condition as it is displayed.
pub(super) fn wording(profile: &Profile, term: &Term) -> String {
    let named = |name: &str, value: &[u8]| format!("{name}={}", printable(value));
    match term {
        Term::Comm(comm) => named("comm", comm),
        Term::Pid(pid) => format!("pid={pid}"),
        Term::Tid(tid) => format!("tid={tid}"),
        Term::Cpu(cpu) => format!("cpu={cpu}"),
        Term::Cgroup(path) => named("cgroup", path),
        Term::Dso(name) => named("dso", name),
        Term::Symbol(part) => named("symbol", part),
        Term::Function(name) => named("function", name),
        Term::Named => "named".to_owned(),
        Term::AnyOf(terms) => {
            let words: Vec<_> = terms.iter().map(|term| wording(profile, term)).collect();
            let name =
                words.first().and_then(|word| word.split_once('=')).map_or("", |(name, _)| name);
            let values =
                words.iter().map(|word| word.split_once('=').map_or("", |(_, value)| value));
            format!("{name}={}", values.collect::<Vec<_>>().join(","))
        }
        Term::Stack(stack) => {
            let name = |function: &FunctionKey| match function {
                FunctionKey::Named(symbol) => profile.symbol(*symbol).map_or_else(
                    || "?".to_owned(),
                    |symbol| printable(profile.string(symbol.name)).into_owned(),
                ),
                FunctionKey::Address(_, address) => format!("{address:#x}"),
                FunctionKey::Unknown => "?".to_owned(),
            };
            let last = stack.last().map(name).unwrap_or_default();
            format!("stack=…;{last} ({} deep)", stack.len())
        }
        Term::NotIn(Space::Kernel) => "without the kernel".to_owned(),
        Term::NotIn(Space::User) => "without user code".to_owned(),
        Term::NotIn(space) => format!("without [{}]", space.letter()),
        Term::Time(from_ns, to_ns) => {
            let seconds = |ns: u64| ns as f64 / 1e9;
            match (*from_ns, *to_ns) {
                (from, u64::MAX) => format!("time={:.6},", seconds(from)),
                (from, to) => format!("time={:.6},{:.6}", seconds(from), seconds(to)),
            }
        }
    }
}

/// Whether two conditions are of the same kind, so that one replaces the other.
pub(super) fn is_same_kind(one: &Term, other: &Term) -> bool {
    let is_not_in = matches!(one, Term::NotIn(_));
    let kind = |term: &Term| term.alternatives().first().map(std::mem::discriminant);
    kind(one) == kind(other) && (!is_not_in || one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_conditions_as_displayed() {
        let profile = Profile::default();
        for text in [
            "comm=sh",
            "pid=1",
            "pid=1,2",
            "comm=a,b",
            "function=main",
            "tid=-1",
            "cpu=3",
            "cgroup=/a b",
            "dso=x",
            "symbol=a=b",
            "time=1.500000,2.000000",
        ] {
            assert_eq!(wording(&profile, &parse(text).unwrap()), text);
        }
        assert_eq!(parse("work").unwrap(), Term::Symbol(b"work".to_vec()));
        assert_eq!(wording(&profile, &parse("comm=\x1b[2J").unwrap()), "comm=\\u{1b}[2J");
        for wrong in ["x=1", "pid=a", "cpu=-1", "time=a"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
