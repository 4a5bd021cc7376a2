//! Benchmarks of tare beside perf and other tools: `./x bench --help`.

mod background;
mod benchmark;
mod machine;
mod report;
mod rounds;
mod run;
mod scratch;
mod setting;
mod watched;

use std::io::Write;
use std::path::PathBuf;

use clap::Parser;

use crate::benchmark::{AGAINST, BENCHMARKS, Benchmark, STACKS, stack_parts};
use crate::setting::Setting;

/// Runs tare beside other tools: interleaved rounds in random order, ratios with 95% bootstrap
/// intervals. Raw results go to bench/runs/.
#[derive(Debug, Parser)]
#[command(name = "./x bench")]
struct Arguments {
    /// Benchmarks to run (default: all); or `against FILE [short] [flood] [steady] [read]`: the
    /// binary before a change, and the cases to compare; or `stacks [PART]…`.
    names: Vec<String>,
    /// Number of rounds (default: each benchmark's own).
    #[arg(long, value_name = "N")]
    pairs: Option<usize>,
    /// Seed of the addresses of symbols-truth (default: random), symbols-large and symbols-million
    /// (default: 1).
    #[arg(long)]
    seed: Option<u64>,
    /// Length of each run of agent, in seconds (default: 900).
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Another profiler, opentelemetry-ebpf-profiler, for agent to compare with.
    #[arg(long, value_name = "FILE")]
    peer: Option<PathBuf>,
    /// List the benchmarks.
    #[arg(long)]
    list: bool,
    /// The binary to measure.
    #[arg(long, value_name = "FILE")]
    tare: PathBuf,
    /// The folder of the built workloads.
    #[arg(long, value_name = "FOLDER")]
    workloads: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let mut out = std::io::stdout().lock();
    if arguments.list {
        for Benchmark { name, about, .. } in BENCHMARKS {
            writeln!(out, "{name:<12} {about}")?;
        }
        writeln!(out, "{} FILE [CASE…] {}", AGAINST.name, AGAINST.about)?;
        writeln!(out, "{} PART… {}", STACKS.name, stack_parts().collect::<Vec<_>>().join(" "))?;
        return Ok(());
    }
    let Arguments { names, tare, workloads, pairs: rounds, seed, seconds, peer, .. } = arguments;
    let (chosen, before, cases) = match names.as_slice() {
        [against, before, cases @ ..] if against == AGAINST.name => {
            (vec![&AGAINST], Some(before.into()), cases.to_vec())
        }
        [stacks, parts @ ..] if stacks == STACKS.name && has_parts(parts) => {
            (vec![&STACKS], None, parts.to_vec())
        }
        names => (choose(names)?, None, Vec::new()),
    };
    let setting = Setting { tare, workloads, before, cases, rounds, seed, seconds, peer };
    setting.calibrate();
    let machine = machine::HostInfo::here();
    writeln!(out, "{machine}")?;
    for benchmark in chosen {
        writeln!(out, "\n{}: {}", benchmark.name, benchmark.about)?;
        out.flush()?;
        let report = (benchmark.run)(&setting)?;
        write!(out, "{report}")?;
        let file = report.save(benchmark.name, &machine)?;
        writeln!(out, "raw results: {}", file.display())?;
    }
    Ok(())
}

/// Whether there are names, and each is one of a part of [`STACKS`].
fn has_parts(names: &[String]) -> bool {
    !names.is_empty() && names.iter().all(|name| stack_parts().any(|part| part == name))
}

fn choose(names: &[String]) -> anyhow::Result<Vec<&'static Benchmark>> {
    if names.is_empty() {
        return Ok(BENCHMARKS.iter().collect());
    }
    let find = |name: &String| BENCHMARKS.iter().find(|benchmark| benchmark.name == name);
    names
        .iter()
        .map(|name| {
            find(name)
                .ok_or_else(|| anyhow::anyhow!("there is no benchmark '{name}'; --list shows them"))
        })
        .collect()
}
