//! `cargo tare`: builds a target of a package with debug info, records it with tare, and draws a
//! flame graph or prints a table. It executes `cargo` and `tare`, and links no library of tare.

mod build;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use anyhow::Context;
use clap::Parser;

use crate::build::{Executable, TargetArgs};

/// Exit status if cargo or tare fails, as of `tare record`.
const FAILED: u8 = 125;

/// cargo runs `cargo-tare tare …`.
#[derive(Debug, clap::Parser)]
#[command(name = "cargo", bin_name = "cargo")]
enum Cargo {
    /// Build a target with debug info, record it with tare, and draw a flame graph
    #[command(version, max_term_width = 120, after_help = EXAMPLES)]
    Tare(TareArgs),
}

const EXAMPLES: &str = "\
Examples:
  cargo tare                                     the package's only program, or its default-run
  cargo tare --bin server -- --port 8080         flame.html, and the recording perf.data
  cargo tare --example demo -o demo.svg          a picture instead of a page
  cargo tare --test api -- one_test --exact      one test of tests/api.rs
  cargo tare --bench parse --report              a table on the terminal
  TARE=/opt/tare/bin/tare cargo tare             another tare than that of PATH";

#[derive(Debug, clap::Args)]
struct TareArgs {
    #[command(flatten)]
    target: TargetArgs,

    /// Write the flame graph to FILE: a page, or an SVG if it ends in .svg
    #[arg(short, long, value_name = "FILE", default_value = "flame.html")]
    output: PathBuf,

    /// Print a table of functions instead of drawing a flame graph
    #[arg(long, conflicts_with = "open")]
    report: bool,

    /// Open the flame graph with xdg-open
    #[arg(long)]
    open: bool,

    /// Sampling frequency in Hz, per event and CPU
    #[arg(short = 'F', long, value_name = "HZ")]
    freq: Option<String>,

    /// How call chains are recorded, as of `tare record --call-graph`
    #[arg(long, value_name = "MODE", default_value = "auto")]
    call_graph: String,

    /// Event to sample, as of `tare record -e`
    #[arg(short, long, value_name = "EVENT")]
    event: Option<String>,

    /// Arguments of the program
    #[arg(last = true)]
    args: Vec<OsString>,
}

fn main() -> ExitCode {
    let Cargo::Tare(args) = Cargo::parse();
    match run(&args) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            say(&format!("{error:#}"));
            ExitCode::from(FAILED)
        }
    }
}

/// Prints a message of this program.
fn say(message: &str) {
    // Without a standard error there is no place to report it to.
    let _ = writeln!(std::io::stderr(), "cargo tare: {message}");
}

/// Builds, records and shows. Returns the status of the recorded program.
fn run(args: &TareArgs) -> anyhow::Result<u8> {
    let tare = std::env::var_os("TARE").unwrap_or_else(|| "tare".into());
    // Before minutes of building.
    let version = Command::new(&tare).arg("version").stdout(Stdio::null()).status();
    version.with_context(|| {
        let name = tare.display();
        format!("cannot run {name}; install it: cargo install --locked tare-perf")
    })?;
    let executable = args.target.build()?;
    let here = std::env::current_dir().context("cannot find the current folder")?;
    let recording = here.join("perf.data");
    let began = std::time::SystemTime::now();
    let recorded = record(&tare, args, &executable, &recording)?;
    let status = code(recorded);
    let written = recording.metadata().and_then(|file| file.modified());
    if !written.is_ok_and(|written| written >= began) {
        return Ok(status);
    }
    if status != 0 {
        say(&format!("the program ended with {recorded}; its samples until then follow"));
    }
    let output = here.join(&args.output);
    let shown = show(&tare, args, &recording, &output)?;
    if !shown.success() {
        return Ok(if status == 0 { code(shown) } else { status });
    }
    if !args.report {
        say(&format!("wrote {}", output.display()));
    }
    if args.open {
        let opened = Command::new("xdg-open").arg(&output).status();
        opened.context("cannot run xdg-open (package xdg-utils)")?;
    }
    Ok(status)
}

/// Records the program, in the folder where cargo would run it.
fn record(
    tare: &OsStr,
    args: &TareArgs,
    executable: &Executable,
    recording: &Path,
) -> anyhow::Result<ExitStatus> {
    let mut record = Command::new(tare);
    record.args(["record", "--call-graph", &args.call_graph]).arg("-o").arg(recording);
    if let Some(freq) = &args.freq {
        record.args(["-F", freq]);
    }
    if let Some(event) = &args.event {
        record.args(["-e", event]);
    }
    record.arg("--").arg(&executable.path);
    if executable.is_bench {
        // As `cargo bench` does: harnesses then measure instead of testing.
        record.arg("--bench");
    }
    record.args(&args.args);
    if let Some(folder) = &executable.folder {
        record.current_dir(folder);
    }
    record.status().context("cannot run tare record")
}

/// Draws the flame graph, or prints the table.
fn show(
    tare: &OsStr,
    args: &TareArgs,
    recording: &Path,
    output: &Path,
) -> anyhow::Result<ExitStatus> {
    let mut show = Command::new(tare);
    if args.report {
        show.args(["report", "--stdio", "--no-children", "-g", "none", "-i"]).arg(recording);
    } else {
        show.args(["flame", "-i"]).arg(recording).arg("-o").arg(output);
    }
    show.status().context("cannot run tare")
}

/// The exit status that a shell would show.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED)
}
