//! `tare fleet`: answers a question about the profiles of many hosts.

use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::Signal;
use tare_fleet::{FleetError, Reply, RunControl};
use tare_kernel::signals::Signals;
use tare_tui::ProgressLine;

use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::fleet::{FleetOptions, FleetTask};
use crate::command::output::write_to;
use crate::exit::Exit;

pub(crate) fn run(raw: raw::FleetArgs) -> Outcome {
    let options = FleetOptions::resolve(raw)?;
    let (request, engine) = match &options.task {
        FleetTask::Ask(request, engine) => (request, &**engine),
        FleetTask::Print(text) => {
            write_to(&options.output, |out| out.write_all(text.as_bytes()))?;
            return Ok(Exit::Success);
        }
    };
    let signals = Signals::block()?;
    let ended_by = AtomicI32::new(0);
    let is_interrupted = || {
        match signals.next() {
            Ok(Some(signal)) if signal.number != Signal::CHILD.as_raw() => {
                ended_by.store(signal.number, Ordering::Relaxed);
            }
            _ => {}
        }
        ended_by.load(Ordering::Relaxed) != 0
    };
    let progress = ProgressLine::begin();
    progress.show_step(engine.name());
    let report = |text: &str| progress.show_step(text);
    let control = RunControl {
        timeout: options.timeout,
        begin: Some(options.begin),
        is_interrupted: Some(&is_interrupted),
        progress: Some(&report),
    };
    let reply = match Reply::ask(request, engine, &control) {
        Err(FleetError::Interrupted) => {
            return Ok(Exit::from_signal(ended_by.load(Ordering::Relaxed)));
        }
        other => other?,
    };
    drop(progress);
    write_to(&options.output, |out| reply.write(options.format, out))?;
    Ok(Exit::Success)
}
