//! Options of `tare bench`.

mod parameters;
mod words;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tare_measure::compare::Condition;
use tare_measure::compare::Metric;
use tare_measure::compare::pairs::ComparisonPlan;
use tare_measure::series::CommandInfo;
use tare_measure::series::schedule::SeriesPlan;
use tare_measure::series::series_metrics;

use self::parameters::fill_in;
pub use self::words::ShellChoice;
use super::{rounds, versus};
use crate::cli::raw;
use crate::exit::Refusal;

/// A single command runs at least this long.
const MIN_TIME: Duration = Duration::from_secs(3);

/// Options of `tare bench`.
#[derive(Debug)]
pub struct Bench {
    /// The commands; the first is the reference.
    pub commands: Vec<BenchCommand>,
    /// Compared metrics.
    pub metrics: Vec<Metric>,
    /// Number and order of runs.
    pub plan: SeriesPlan,
    /// Smallest relevant difference, as a share.
    pub min_effect: f64,
    /// Conditions that make tare exit with status 3.
    pub conditions: Vec<Condition>,
    /// The shell.
    pub shell: ShellChoice,
    /// Failures that are no reason to stop.
    pub ignored: IgnoredFailures,
    /// Standard input of every run.
    pub input: BenchInput,
}

/// A command with what surrounds its runs.
#[derive(Clone, Debug)]
pub struct BenchCommand {
    /// Its name, line and parameters.
    pub info: CommandInfo,
    /// The words that run it.
    pub words: Vec<OsString>,
    /// Shell command before each block.
    pub setup: Option<String>,
    /// Shell command before each run.
    pub prepare: Option<String>,
    /// Shell command after each run.
    pub conclude: Option<String>,
    /// Shell command after each block.
    pub cleanup: Option<String>,
    /// Destination of its output.
    pub output: BenchOutput,
}

/// Destination of a command's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BenchOutput {
    /// Discarded.
    Null,
    /// Through a pipe that is read and discarded.
    Pipe,
    /// tare's own.
    Inherit,
    /// stdout to a file, stderr discarded.
    File(PathBuf),
}

/// Standard input of every run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BenchInput {
    /// `/dev/null`.
    Null,
    /// tare's standard input, read once.
    Own,
    /// A file.
    File(PathBuf),
}

/// Failed runs that are used like others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IgnoredFailures {
    /// None.
    None,
    /// All.
    All,
    /// Those with these exit statuses.
    Statuses(Vec<u8>),
}

impl IgnoredFailures {
    fn resolve(text: Option<&str>) -> Result<Self, Refusal> {
        match text {
            None => Ok(Self::None),
            Some("all-non-zero") => Ok(Self::All),
            Some(list) => list
                .split(',')
                .map(|status| status.trim().parse())
                .collect::<Result<_, _>>()
                .map(Self::Statuses)
                .map_err(|_| {
                    Refusal::usage(format!(
                        "--ignore-failure: '{list}' is no list of exit statuses such as 1,2"
                    ))
                }),
        }
    }

    /// Whether a run that exited with this status is used.
    #[must_use]
    pub fn allow(&self, status: u8) -> bool {
        match self {
            _ if status == 0 => true,
            Self::None => false,
            Self::All => true,
            Self::Statuses(statuses) => statuses.contains(&status),
        }
    }
}

impl Bench {
    /// Resolves the typed options. `events`: names of the counted events.
    ///
    /// # Errors
    /// Fails with a [`Refusal`] that names the remedy.
    pub fn resolve(raw: &raw::BenchArgs, events: &[&str]) -> Result<Self, Refusal> {
        let shell = ShellChoice::resolve(raw.launch.shell.as_deref(), raw.launch.no_shell)?;
        let metrics = series_metrics(events);
        let conditions: Vec<Condition> = raw
            .judged
            .fail_if
            .iter()
            .map(|text| versus::condition(text, &metrics))
            .collect::<Result<_, _>>()?;
        let commands = commands(raw, &shell)?;
        if raw.judged.compare.is_some() && raw.commands.len() != 1 {
            return Err(Refusal::usage("--compare runs one command in two revisions: give one"));
        }
        if commands.len() < 2 && !conditions.is_empty() && raw.judged.baseline.is_none() {
            return Err(Refusal::usage(
                "--fail-if compares commands: give two, or --reference, --baseline or --compare",
            ));
        }
        let plan = plan(raw, &commands, &metrics, &conditions)?;
        Ok(Self {
            min_effect: rounds::min_effect(&raw.judged.relevant)?,
            ignored: IgnoredFailures::resolve(raw.launch.ignore_failure.as_deref())?,
            input: match raw.launch.input.to_str() {
                Some("null") => BenchInput::Null,
                Some("-") => BenchInput::Own,
                _ => BenchInput::File(raw.launch.input.clone()),
            },
            commands,
            metrics,
            plan,
            conditions,
            shell,
        })
    }
}

fn plan(
    raw: &raw::BenchArgs,
    commands: &[BenchCommand],
    metrics: &[Metric],
    conditions: &[Condition],
) -> Result<SeriesPlan, Refusal> {
    let runs = &raw.runs;
    let seconds = |option: &str, seconds: f64| {
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| Refusal::usage(format!("{option}: {seconds} is not a number of seconds")))
    };
    let compared = commands.len() - 1;
    let needed = match compared {
        0 => raw::MIN_ROUNDS,
        _ => ComparisonPlan::fewest_pairs(metrics.len() * compared).max(raw::MIN_ROUNDS),
    };
    let max_runs = runs.runs.or(runs.max_runs).unwrap_or(1_000_000);
    let min_runs = runs.runs.or(runs.min_runs).unwrap_or(needed.min(max_runs));
    if max_runs == 0 {
        return Err(Refusal::usage("0 runs measure nothing"));
    }
    if min_runs > max_runs {
        return Err(Refusal::usage(format!(
            "--min-runs {min_runs} is more than --max-runs {max_runs}"
        )));
    }
    Ok(SeriesPlan {
        commands: commands.len(),
        events: metrics.len() - series_metrics(&[]).len(),
        warmup: runs.warmup,
        min_runs,
        max_runs,
        min_time: MIN_TIME,
        max_time: seconds("--max-time", runs.max_time)?,
        precision: ComparisonPlan::precision_for(rounds::min_effect(&raw.judged.relevant)?),
        time_limits: versus::time_limits(conditions),
        has_blocks: raw.hooks.setup.is_some() || raw.hooks.cleanup.is_some(),
        seed: runs.order_seed.unwrap_or_else(|| fastrand::u64(..)),
    })
}

/// Every command with every set of parameters, after the reference.
fn commands(raw: &raw::BenchArgs, shell: &ShellChoice) -> Result<Vec<BenchCommand>, Refusal> {
    let sets = if raw.runs.parameter_scan.is_empty() {
        parameters::from_lists(&raw.runs.parameter_list)?
    } else {
        parameters::from_scan(&raw.runs.parameter_scan, raw.runs.parameter_step_size.as_deref())?
    };
    // The command varies fastest, as in hyperfine.
    let lines: Vec<(&String, &parameters::Parameters)> = sets
        .iter()
        .flat_map(|set| raw.commands.iter().map(move |command| (command, set)))
        .collect();
    let names = &raw.launch.command_name;
    check_names(names.len(), lines.len(), sets.len())?;
    let with_reference = usize::from(raw.judged.reference.is_some());
    let all = lines.len() + with_reference;
    let hooks = |option: &str, typed: &[String]| {
        each(option, typed, all, with_reference == 1 && typed.len() == lines.len())
    };
    let prepare = hooks("--prepare", &raw.hooks.prepare)?;
    let conclude = hooks("--conclude", &raw.hooks.conclude)?;
    let outputs = outputs(raw, all)?;
    let mut commands = Vec::with_capacity(all);
    let nothing = Vec::new();
    let reference = raw.judged.reference.iter().map(|line| (line, &nothing));
    for (index, (line, set)) in reference.chain(lines).enumerate() {
        let filled = fill_in(line, set);
        let name = match index.checked_sub(with_reference) {
            None => raw.judged.reference_name.as_ref(),
            // A single name with parameters is that of all of them.
            Some(at) => names.get(at).or(names.first().filter(|_| sets.len() > 1)),
        };
        let name = name.map_or_else(|| filled.clone(), |name| fill_in(name, set));
        let hook = |hooks: &[Option<String>]| hooks[index].as_ref().map(|hook| fill_in(hook, set));
        let (words, in_shell) = shell.words(&filled)?;
        commands.push(BenchCommand {
            info: CommandInfo {
                name: with_unused(name, line, set),
                line: filled,
                parameters: set.clone(),
                in_shell,
            },
            words,
            setup: raw.hooks.setup.as_ref().map(|hook| fill_in(hook, set)),
            prepare: hook(&prepare),
            conclude: hook(&conclude),
            cleanup: raw.hooks.cleanup.as_ref().map(|hook| fill_in(hook, set)),
            output: outputs[index].clone(),
        });
    }
    if raw.judged.compare.is_some() {
        // The same command in the other revision.
        commands.extend(commands.clone());
    }
    Ok(commands)
}

/// Refuses a number of names that fits neither the commands nor all of them together.
fn check_names(names: usize, commands: usize, sets: usize) -> Result<(), Refusal> {
    if names <= 1 || names <= commands && sets == 1 || names == commands {
        return Ok(());
    }
    Err(Refusal::usage(format!("--command-name: {names} names for {commands} commands")))
}

/// Adds the values of parameters that the line doesn't contain to the name, so that names differ.
fn with_unused(name: String, line: &str, set: &parameters::Parameters) -> String {
    let unused: Vec<String> = set
        .iter()
        .filter(|(parameter, _)| !line.contains(&format!("{{{parameter}}}")))
        .map(|(parameter, value)| format!("{parameter} = {value}"))
        .collect();
    if unused.is_empty() { name } else { format!("{name} ({})", unused.join(", ")) }
}

/// One of the typed values for each of `all` commands: none, one for all, or one each. `shifted`:
/// the reference, the first of all, has none.
fn each(
    option: &str,
    typed: &[String],
    all: usize,
    shifted: bool,
) -> Result<Vec<Option<String>>, Refusal> {
    match typed {
        [] => Ok(vec![None; all]),
        [one] => Ok(vec![Some(one.clone()); all]),
        many if many.len() == all => Ok(many.iter().cloned().map(Some).collect()),
        many if shifted => {
            Ok(std::iter::once(None).chain(many.iter().cloned().map(Some)).collect())
        }
        many => Err(Refusal::usage(format!(
            "{option} is given {} times for {all} commands: give it once, or once for each",
            many.len()
        ))),
    }
}

fn outputs(raw: &raw::BenchArgs, all: usize) -> Result<Vec<BenchOutput>, Refusal> {
    let one = |path: &Path| match path.to_str() {
        Some("null") => BenchOutput::Null,
        Some("pipe") => BenchOutput::Pipe,
        Some("inherit") => BenchOutput::Inherit,
        _ => BenchOutput::File(path.to_owned()),
    };
    match &raw.launch.output[..] {
        _ if raw.launch.show_output => Ok(vec![BenchOutput::Inherit; all]),
        [] => Ok(vec![BenchOutput::Null; all]),
        [path] => Ok(vec![one(path); all]),
        many if many.len() == all => Ok(many.iter().map(|path| one(path)).collect()),
        many => Err(Refusal::usage(format!(
            "--output is given {} times for {all} commands: give it once, or once for each",
            many.len()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::raw::{Tare, TareCommand};

    fn resolved(options: &[&str]) -> Result<Bench, Refusal> {
        let words = ["tare", "bench"].iter().chain(options).map(OsString::from);
        let TareCommand::Bench(bench) = Tare::parse_typed(words).unwrap().command else {
            unreachable!("bench was asked for")
        };
        Bench::resolve(&bench, &[])
    }

    fn lines(options: &[&str]) -> Vec<String> {
        resolved(options).unwrap().commands.into_iter().map(|one| one.info.line).collect()
    }

    fn message(options: &[&str]) -> String {
        resolved(options).unwrap_err().message
    }

    #[test]
    fn parameters_multiply_commands_and_the_command_varies_fastest() {
        assert_eq!(lines(&["-L", "x", "1,2", "a {x}", "b {x}"]), ["a 1", "b 1", "a 2", "b 2"]);
        assert_eq!(
            lines(&["-P", "n", "0.1", "0.3", "-D", "0.1", "a {n}"]),
            ["a 0.1", "a 0.2", "a 0.3"]
        );
        assert_eq!(lines(&["--reference", "r", "-L", "x", "1,2", "a {x}"]), ["r", "a 1", "a 2"]);
    }

    #[test]
    fn names_are_those_given_and_differ_by_unused_parameters() {
        let names = |options: &[&str]| -> Vec<String> {
            resolved(options).unwrap().commands.into_iter().map(|one| one.info.name).collect()
        };
        assert_eq!(names(&["-n", "one", "a", "b"]), ["one", "b"]);
        assert_eq!(names(&["-L", "x", "1,2", "-n", "with {x}", "a {x}"]), ["with 1", "with 2"]);
        assert_eq!(names(&["-L", "x", "1,2", "a"]), ["a (x = 1)", "a (x = 2)"]);
        assert_eq!(names(&["--reference", "r", "--reference-name", "old", "a"]), ["old", "a"]);
        assert_eq!(message(&["-n", "a", "-n", "b", "x"]), "--command-name: 2 names for 1 commands");
    }

    #[test]
    fn hooks_are_given_once_or_once_for_each_command() {
        let prepared = |options: &[&str]| -> Vec<Option<String>> {
            resolved(options).unwrap().commands.into_iter().map(|one| one.prepare).collect()
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(prepared(&["-p", "x", "a", "b"]), [some("x"), some("x")]);
        assert_eq!(prepared(&["-p", "x", "-p", "y", "a", "b"]), [some("x"), some("y")]);
        assert_eq!(
            prepared(&["--reference", "r", "-p", "x", "-p", "y", "a", "b"]),
            [None, some("x"), some("y")]
        );
        assert_eq!(prepared(&["-L", "v", "1,2", "-p", "p {v}", "a"]), [some("p 1"), some("p 2")]);
        assert!(
            message(&["-p", "x", "-p", "y", "a", "b", "c"])
                .starts_with("--prepare is given 2 times")
        );
    }

    #[test]
    fn runs_and_failures_follow_the_options() {
        let bench = resolved(&["-r", "7", "-w", "2", "-iN", "a"]).unwrap();
        assert_eq!((bench.plan.min_runs, bench.plan.max_runs, bench.plan.warmup), (7, 7, 2));
        assert_eq!((bench.ignored, bench.shell), (IgnoredFailures::All, ShellChoice::Never));
        let bench = resolved(&["-M", "4", "--ignore-failure=1,2", "a", "b"]).unwrap();
        assert_eq!((bench.plan.min_runs, bench.plan.max_runs), (4, 4));
        assert!(bench.ignored.allow(2) && !bench.ignored.allow(3));
        let bench = resolved(&["a"]).unwrap();
        assert_eq!((bench.plan.min_runs, bench.plan.max_runs), (10, 1_000_000));
        assert_eq!(message(&["-m", "5", "-M", "4", "a"]), "--min-runs 5 is more than --max-runs 4");
        assert_eq!(message(&["-r", "0", "a"]), "0 runs measure nothing");
        assert!(message(&["-i=x", "a"]).contains("'x' is no list"));
    }

    #[test]
    fn conditions_need_two_commands_and_a_known_metric() {
        assert!(resolved(&["--fail-if", "time>+2%", "a", "b"]).is_ok());
        assert!(message(&["--fail-if", "time>+2%", "a"]).contains("give two, or"));
        assert!(message(&["--fail-if", "colour>+2%", "a", "b"]).contains("is not compared"));
    }
}
