//! `tare-fuzz [SECONDS] [TARGET…]`: damaged input for each target, SECONDS in total (default 60).
//! `tare-fuzz --guided PROGRAM [--minimize] [SECONDS] [TARGET…]`: the same guided by coverage.
//! `tare-fuzz --recordings TARE [NUMBER]`: damaged recordings for the whole program.

mod guided;
mod mutations;

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use fastrand::Rng;
use tare_fuzz::{TARGETS, Target, corpus, damage, try_input};

fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1).peekable();
    if words.next_if_eq("--recordings").is_some() {
        let tare = words.next().context("which tare?")?;
        let number = words.next().map_or(Ok(20_000), |word| word.parse())?;
        return mutations::run(Path::new(&tare), number);
    }
    let guide = words.next_if_eq("--guided").map(|_| words.next().context("which program?"));
    let guide = guide.transpose()?;
    let minimizes = words.next_if_eq("--minimize").is_some();
    let seconds =
        words.next_if(|word| word.parse::<u64>().is_ok()).map_or(Ok(60), |word| word.parse())?;
    let chosen = named(&words.collect::<Vec<_>>())?;
    let time = Duration::from_secs(seconds);
    match guide {
        Some(program) if minimizes => guided::minimize(Path::new(&program), &chosen),
        Some(program) => guided::feed(Path::new(&program), &chosen, time),
        None => {
            let share = time / u32::try_from(chosen.len())?;
            let mut failed = 0;
            for target in chosen {
                failed += usize::from(!run(target, share)?);
            }
            if failed > 0 { bail!("{failed} targets failed") } else { Ok(()) }
        }
    }
}

/// The targets with these names; all targets if there are no names.
fn named(names: &[String]) -> anyhow::Result<Vec<&'static Target>> {
    if let Some(unknown) =
        names.iter().find(|name| TARGETS.iter().all(|target| target.name != **name))
    {
        let known: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        bail!("there is no target '{unknown}': give some of {}", known.join(", "));
    }
    let is_chosen =
        |target: &&Target| names.is_empty() || names.iter().any(|name| name == target.name);
    Ok(TARGETS.iter().filter(is_chosen).collect())
}

/// Runs a target until its time is over or it fails. Returns whether it passed. Its output line
/// contains the random seed.
fn run(target: &Target, time: Duration) -> anyhow::Result<bool> {
    let seed = fastrand::u64(..);
    let mut rng = Rng::with_seed(seed);
    let seeds = [(target.seeds)(), corpus(target.name)?].concat();
    let started = Instant::now();
    let mut inputs = 0_u64;
    let mut bytes = 0_u64;
    while started.elapsed() < time {
        let mut input = seeds[rng.usize(..seeds.len())].clone();
        damage(&mut input, &mut rng);
        (inputs, bytes) = (inputs + 1, bytes + input.len() as u64);
        if let Err(failure) = try_input(target, &input) {
            let folder = Path::new("target/fuzz");
            let path = folder.join(format!("{}-{seed:x}-{inputs}", target.name));
            std::fs::create_dir_all(folder)
                .and_then(|()| std::fs::write(&path, &input))
                .context("the input can't be kept")?;
            writeln!(std::io::stdout(), "{}: {failure:?}: {}", target.name, path.display())?;
            return Ok(false);
        }
    }
    writeln!(
        std::io::stdout(),
        "{:13} {inputs} inputs, {bytes} bytes, seed {seed:x}",
        target.name
    )?;
    Ok(true)
}
