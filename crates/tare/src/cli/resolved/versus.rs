//! Options of `tare stat --vs`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use tare_measure::compare::pairs::ComparisonPlan;
use tare_measure::compare::{Condition, Metric, Side};

use crate::cli::raw;
use crate::cli::resolved::rounds::Rounds;
use crate::exit::Refusal;

/// Options of `tare stat --vs`.
#[derive(Debug)]
pub struct Versus {
    /// Words of command A.
    pub a: Vec<OsString>,
    /// Words of command B.
    pub b: Vec<OsString>,
    /// Compared metrics.
    pub metrics: Vec<Metric>,
    /// When the comparison ends, and the seed of the order of runs.
    pub plan: ComparisonPlan,
    /// Smallest relevant difference, as a share.
    pub min_effect: f64,
    /// Conditions that make tare exit with status 3.
    pub fail_if: Vec<Condition>,
    /// Whether failed runs count.
    pub ignore_failure: bool,
    /// Destination of the commands' output.
    pub command_output: CommandOutput,
}

/// Destination of the compared commands' stdout and stderr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandOutput {
    /// Discarded.
    Null,
    /// Same as tare's.
    Inherit,
    /// stdout to a file, stderr discarded.
    File(PathBuf),
}

impl Versus {
    /// Resolves the typed options; `None` without `--vs`.
    ///
    /// # Errors
    /// Fails with a [`Refusal`] that names the remedy.
    pub fn resolve(
        raw: &raw::VersusArgs,
        command: &[OsString],
        metrics: Vec<Metric>,
    ) -> Result<Option<Self>, Refusal> {
        let Some(vs) = &raw.vs else { return Ok(None) };
        let (a, b) = if raw.shell {
            (shell(&command.join(OsStr::new(" "))), shell(vs))
        } else {
            (command.to_vec(), words("--vs", vs)?)
        };
        let fail_if: Vec<Condition> =
            raw.fail_if.iter().map(|text| condition(text, &metrics)).collect::<Result<_, _>>()?;
        let command_output = match raw.command_output.as_deref().map(OsStr::as_bytes) {
            None | Some(b"null") => CommandOutput::Null,
            Some(b"inherit") => CommandOutput::Inherit,
            Some(path) => CommandOutput::File(PathBuf::from(OsStr::from_bytes(path))),
        };
        let rounds = Rounds::resolve(&raw.rounds, metrics.len())?;
        let plan = ComparisonPlan {
            warmup: rounds.warmup,
            min_pairs: rounds.min,
            max_pairs: rounds.max,
            max_time: rounds.max_time,
            time_limits: time_limits(&fail_if),
            precision: ComparisonPlan::precision_for(rounds.min_effect),
            seed: rounds.seed,
        };
        Ok(Some(Self {
            a,
            b,
            metrics,
            plan,
            min_effect: rounds.min_effect,
            fail_if,
            ignore_failure: raw.rounds.ignore_failure,
            command_output,
        }))
    }

    /// Returns the words of one command.
    #[must_use]
    pub fn words(&self, side: Side) -> &[OsString] {
        match side {
            Side::A => &self.a,
            Side::B => &self.b,
        }
    }
}

/// Returns the limits of all conditions as logarithms of the time ratio; `None` if one is on
/// another metric.
pub(super) fn time_limits(conditions: &[Condition]) -> Option<Vec<f64>> {
    let limit = |condition: &Condition| {
        (condition.metric == Metric::Time.name()).then(|| condition.limit.ln_1p())
    };
    conditions.iter().map(limit).collect()
}

fn shell(command: &OsStr) -> Vec<OsString> {
    vec!["/bin/sh".into(), "-c".into(), command.to_owned()]
}

/// Splits a command as a shell splits words, with its quotes and backslashes. Refuses a command in
/// which [`find_shell_operator`] finds a character.
pub(super) fn words(option: &str, text: &OsStr) -> Result<Vec<OsString>, Refusal> {
    let refuse = |why: &str| Refusal::usage(format!("{option}: {why}"));
    if let Some(operator) = find_shell_operator(text.as_bytes()) {
        return Err(refuse(&format!(
            "'{operator}' is for a shell, and none runs: quote it, or write sh -c '…'{}",
            if option == "--vs" { " or add --shell" } else { "" }
        )));
    }
    let split = shlex::bytes::split(text.as_bytes())
        .ok_or_else(|| refuse("a quote is not closed, or a backslash ends it"))?;
    if split.is_empty() {
        return Err(refuse("there is no command in it"));
    }
    Ok(split.into_iter().map(OsString::from_vec).collect())
}

/// Returns the first character that a shell would interpret: one of ``$`|&;<>()*?`` outside quotes,
/// or a dollar sign or backquote in double quotes.
pub(super) fn find_shell_operator(text: &[u8]) -> Option<char> {
    let mut quote = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (None | Some(b'"'), b'\\') => _ = bytes.next(),
            (None, b'\'' | b'"') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            (None | Some(b'"'), b'$' | b'`') => return Some(char::from(byte)),
            (None, b'|' | b'&' | b';' | b'<' | b'>' | b'(' | b')' | b'*' | b'?') => {
                return Some(char::from(byte));
            }
            _ => {}
        }
    }
    None
}

pub(super) fn condition(text: &str, metrics: &[Metric]) -> Result<Condition, Refusal> {
    let condition: Condition =
        text.parse().map_err(|error| Refusal::usage(format!("--fail-if: {error}")))?;
    if metrics.iter().all(|metric| metric.name() != condition.metric) {
        let names: Vec<&str> = metrics.iter().map(Metric::name).collect();
        return Err(Refusal::usage(format!(
            "--fail-if: '{}' is not compared; compared are {}",
            condition.metric,
            names.join(", ")
        )));
    }
    Ok(condition)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cli::raw::{Tare, TareCommand};

    fn resolved(options: &[&str]) -> Result<Versus, Refusal> {
        let words =
            ["tare", "stat"].iter().chain(options).chain(&["--", "a", "1 2"]).map(OsString::from);
        let TareCommand::Stat(stat) = Tare::parse_typed(words).unwrap().command else {
            unreachable!("stat was asked for")
        };
        let metrics = Metric::all([("page-faults".to_owned(), String::new(), 1.0)]);
        Versus::resolve(&stat.versus, &stat.command, metrics).map(Option::unwrap)
    }

    fn message(options: &[&str]) -> String {
        resolved(options).unwrap_err().message
    }

    #[test]
    fn b_is_split_like_words_of_a_shell() {
        let versus = resolved(&["--vs", r#"b 'c d' "e f" g\ h '|' i"#]).unwrap();
        assert_eq!(versus.b, ["b", "c d", "e f", "g h", "|", "i"]);
        assert_eq!(versus.a, ["a", "1 2"]);
        assert_eq!(
            message(&["--vs", "b 'c"]),
            "--vs: a quote is not closed, or a backslash ends it"
        );
        assert_eq!(message(&["--vs", " "]), "--vs: there is no command in it");
    }

    #[test]
    fn shell_takes_both_as_they_are() {
        let versus = resolved(&["--shell", "--vs", "b 'c d' | e"]).unwrap();
        assert_eq!(
            (versus.a, versus.b),
            (shell(OsStr::new("a 1 2")), shell(OsStr::new("b 'c d' | e")))
        );
    }

    #[test]
    fn characters_for_a_shell_are_refused_unless_quoted() {
        for text in
            ["b && c", "b < c", "b | c", "b > c", "b; c", "b $HOME", "b *.c", "b \"$X\"", "(b)"]
        {
            let message = resolved(&["--vs", text]).unwrap_err().message;
            assert!(message.contains("is for a shell") && message.contains("--shell"), "{message}");
        }
        for text in ["b '&& $HOME'", r"b \; \$HOME", "b \"<c> *\"", "b {} a=c"] {
            assert!(resolved(&["--vs", text]).is_ok(), "{text}");
        }
    }

    #[test]
    fn defaults_and_limits() {
        let plan = resolved(&["--vs", "b"]).unwrap().plan;
        assert_eq!(
            (plan.warmup, plan.min_pairs, plan.max_pairs, plan.max_time),
            (1, 14, 10_000, Duration::from_secs(60))
        );
        assert!((plan.precision - 0.005).abs() < 0.0001);
        let plan = resolved(&[
            "--vs",
            "b",
            "--max-runs",
            "4",
            "--warmup",
            "0",
            "--max-time",
            "0.5",
            "--seed",
            "7",
        ])
        .unwrap()
        .plan;
        assert_eq!(
            (plan.warmup, plan.min_pairs, plan.max_pairs, plan.max_time, plan.seed),
            (0, 4, 4, Duration::from_millis(500), 7)
        );
        assert_eq!(
            message(&["--vs", "b", "--min-runs", "9", "--max-runs", "4"]),
            "--min-runs 9 is more than --max-runs 4"
        );
        assert_eq!(
            message(&["--vs", "b", "--max-time", "nan"]),
            "--max-time: NaN is not a number of seconds"
        );
        assert_eq!(message(&["--vs", "b", "--max-runs", "0"]), "--max-runs 0 makes no run");
    }

    #[test]
    fn min_effect_is_a_percentage() {
        assert_eq!(resolved(&["--vs", "b", "--min-effect", "0.5%"]).unwrap().min_effect, 0.005);
        assert_eq!(resolved(&["--vs", "b", "--min-effect", "2"]).unwrap().min_effect, 0.02);
        assert_eq!(
            message(&["--vs", "b", "--min-effect", "0"]),
            "--min-effect: '0' is not a percentage from 0.001% to 100%"
        );
    }

    #[test]
    fn conditions_name_what_is_compared() {
        assert_eq!(
            resolved(&["--vs", "b", "--fail-if", "time>+2%", "--fail-if", "page-faults>0%"])
                .unwrap()
                .fail_if
                .len(),
            2
        );
        let wrong = message(&["--vs", "b", "--fail-if", "cycles>2%"]);
        assert_eq!(
            wrong,
            "--fail-if: 'cycles' is not compared; compared are time, cpu-time, peak-memory, page-faults"
        );
        assert!(
            message(&["--vs", "b", "--fail-if", "time>2"])
                .starts_with("--fail-if: 'time>2', position 7")
        );
    }

    #[test]
    fn output_goes_nowhere_unless_wanted() {
        assert_eq!(resolved(&["--vs", "b"]).unwrap().command_output, CommandOutput::Null);
        assert_eq!(
            resolved(&["--vs", "b", "--command-output", "inherit"]).unwrap().command_output,
            CommandOutput::Inherit
        );
        assert_eq!(
            resolved(&["--vs", "b", "--command-output", "x"]).unwrap().command_output,
            CommandOutput::File("x".into())
        );
    }
}
