//! `tare-fuzz --guided PROGRAM [--minimize] [SECONDS] [TARGET…]`: fuzzes targets with libFuzzer,
//! guided by coverage and starting with seeds and corpus. New inputs go to `target/fuzz/corpus`;
//! `--minimize` packs the smallest set with the same coverage into `fuzz/corpus`.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tare_fuzz::{Target, corpus, keep};
use tare_kernel::exit::{ChildExit, wait_for};

/// The folder of inputs found so far.
const INPUTS: &str = "target/fuzz/corpus";

/// libFuzzer's own limits, in addition to those of `try_input`: time per input and memory.
const LIMITS: [&str; 2] = ["-timeout=30", "-rss_limit_mb=1100"];

/// libFuzzer's figures for a run.
#[derive(Debug, Default, PartialEq)]
struct Figures {
    executions: u64,
    /// Covered edges.
    edges: u64,
    inputs: u64,
}

impl Figures {
    /// Parses the last lines of the output: `#8192 pulse cov: 1104 ft: 1820 corp: 93/8kb …` and
    /// `stat::…`.
    fn parse(said: &str) -> Self {
        let behind = |line: &str, word: &str| {
            let mut words = line.split([' ', '/']).skip_while(|is| *is != word).skip(1);
            words.find(|word| !word.is_empty())?.parse::<u64>().ok()
        };
        let last = |word: &str| said.lines().rev().find_map(|line| behind(line, word));
        Self {
            executions: last("stat::number_of_executed_units:").unwrap_or(0),
            edges: last("cov:").unwrap_or(0),
            inputs: last("corp:").unwrap_or(0),
        }
    }
}

/// Fuzzes each target for an equal share of the time.
///
/// # Errors
/// A target failed (its input is kept below `target/fuzz`), or libFuzzer can't run.
pub(crate) fn feed(program: &Path, targets: &[&Target], time: Duration) -> anyhow::Result<()> {
    let seconds = (time / u32::try_from(targets.len())?).as_secs().max(1);
    let mut failed = Vec::new();
    for target in targets {
        let folder = filled(target)?;
        let words = [
            format!("-max_total_time={seconds}"),
            format!("-artifact_prefix=target/fuzz/{}-", target.name),
            "-print_final_stats=1".to_owned(),
            "-detect_leaks=0".to_owned(),
            folder.display().to_string(),
        ];
        let (ended, said) = run(program, target, &words)?;
        let Figures { executions, edges, inputs } = Figures::parse(&said);
        writeln!(
            std::io::stdout(),
            "{:13} {executions} executions, {edges} edges, {inputs} inputs, {:.1} s of CPU",
            target.name,
            (ended.user + ended.system).as_secs_f64(),
        )?;
        if ended.status != 0 {
            let is_told = |line: &&str| line.contains("panicked at") || line.contains("ERROR:");
            let told: Vec<_> = said.lines().skip_while(|line| !is_told(line)).take(4).collect();
            let kept = said.lines().rev().find(|line| line.contains("Test unit written to"));
            writeln!(std::io::stdout(), "{}\n{}", told.join("\n"), kept.unwrap_or(&said))?;
            failed.push(target.name);
        }
    }
    ensure!(failed.is_empty(), "these targets failed: {}", failed.join(", "));
    Ok(())
}

/// Packs the smallest set of inputs with the same coverage.
///
/// # Errors
/// libFuzzer can't run, or a file can't be written.
pub(crate) fn minimize(program: &Path, targets: &[&Target]) -> anyhow::Result<()> {
    for target in targets {
        let folder = filled(target)?;
        let least = tempfile::tempdir()?;
        let words = [
            "-merge=1".to_owned(),
            least.path().display().to_string(),
            folder.display().to_string(),
        ];
        let (ended, said) = run(program, target, &words)?;
        ensure!(ended.status == 0, "{}: {said:.2000}", target.name);
        let (inputs, bytes) = keep(target.name, least.path())?;
        let all = fs::read_dir(least.path())?.count();
        writeln!(
            std::io::stdout(),
            "{:13} {inputs} of {all} inputs kept, {bytes} bytes",
            target.name
        )?;
    }
    Ok(())
}

/// The folder of a target's inputs, filled with its seeds and its corpus.
fn filled(target: &Target) -> anyhow::Result<PathBuf> {
    let folder = Path::new(INPUTS).join(target.name);
    fs::create_dir_all(&folder)?;
    let all = (target.seeds)().into_iter().chain(corpus(target.name)?);
    for (number, input) in all.enumerate() {
        fs::write(folder.join(format!("seed-{number}")), input)?;
    }
    Ok(folder)
}

/// Runs the program on a target, with a temporary folder in memory if possible.
fn run(program: &Path, target: &Target, words: &[String]) -> anyhow::Result<(ChildExit, String)> {
    let memory = Path::new("/dev/shm");
    let scratch = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }?;
    let said = scratch.path().join("said");
    let mut command = Command::new(program);
    command.args(words).args(LIMITS);
    command.env("TARE_FUZZ_TARGET", target.name).env("TMPDIR", scratch.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&said)?);
    let child = command.spawn().with_context(|| format!("{}", program.display()))?;
    let ended = wait_for(i32::try_from(child.id())?, Instant::now())?;
    Ok((ended, String::from_utf8_lossy(&fs::read(&said)?).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_end() {
        let said = "#2\tINITED cov: 5 ft: 6 corp: 1/1b exec/s: 0 rss: 40Mb\n\
            #99\tDONE   cov: 1104 ft: 1820 corp: 93/8192b lim: 4096 exec/s: 33 rss: 41Mb\n\
            Done 99 runs in 3 second(s)\nstat::number_of_executed_units: 99\n";
        let expected = Figures { executions: 99, edges: 1104, inputs: 93 };
        assert_eq!(Figures::parse(said), expected);
        assert_eq!(Figures::parse("nothing"), Figures::default());
    }
}
