//! `tare-simulate [SEED]`, `--runs N [--from SEED]`, `--seconds N`: see simulate/README.md.

use std::io::Write;
use std::panic;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
#[cfg(not(shuttle))]
use tare_simulate::run;
#[cfg(shuttle)]
use tare_simulate::run_in_orders as run;

/// A run that takes longer is stuck.
const WAITS: Duration = Duration::from_secs(60);

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse::<u64>().with_context(|| format!("'{word}' is no number"));
    match words[..] {
        [] => many(|_, started| started.elapsed() < Duration::from_secs(60), fastrand::u64(..)),
        ["--runs", runs] => {
            let runs = number(runs)?;
            many(|done, _| done < runs, fastrand::u64(..))
        }
        ["--runs", runs, "--from", seed] => {
            let runs = number(runs)?;
            many(|done, _| done < runs, number(seed)?)
        }
        ["--seconds", seconds] => {
            let time = Duration::from_secs(number(seconds)?);
            many(|_, started| started.elapsed() < time, fastrand::u64(..))
        }
        [seed] => one(number(seed)?).map(drop),
        _ => bail!("give a seed, --runs N [--from SEED] or --seconds N"),
    }
}

/// Runs seeds one after the other until `goes_on` returns false or a run fails.
fn many(goes_on: impl Fn(u64, Instant) -> bool, first: u64) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut done = 0;
    while goes_on(done, started) {
        one(first.wrapping_add(done))?;
        done += 1;
    }
    let seconds = started.elapsed().as_secs_f64();
    writeln!(
        std::io::stdout(),
        "{done} runs from seed {first} on, all checks hold, {seconds:.1} s"
    )?;
    Ok(())
}

/// Runs a seed in its own thread; an error names the seed.
fn one(seed: u64) -> anyhow::Result<()> {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let ran = panic::catch_unwind(|| run(seed));
        // The receiver is gone if the run took too long.
        let _ = done.send(());
        ran
    });
    if ended.recv_timeout(WAITS).is_err() {
        bail!("seed {seed}: it waits for something, after {} s", WAITS.as_secs());
    }
    match thread.join() {
        Ok(Ok(ran)) => ran.with_context(|| format!("seed {seed} fails: ./x simulate {seed}")),
        _ => bail!("seed {seed} panics: ./x simulate {seed}"),
    }
}
