//! `tare overhead`: measures the cost of sampling on this machine, and of profilers on a program.

pub(crate) mod folder;
mod profiler;
mod rate_limit;
mod session;
mod with;

use std::io::{BufWriter, IsTerminal, Write};
use std::path::Path;

use anyhow::Context;
use tare_events::Sources;
use tare_kernel::host::Host;
use tare_kernel::signals::Signals;
use tare_measure::overhead::kept::{self, StateFolder, StoredStudies};
use tare_measure::overhead::study::{self, Study, StudyHost};
use tare_measure::overhead::{page, text};
use tare_record::own_file::NewFile;

use self::rate_limit::RateLimit;
use self::session::{StudyFailure, StudySession};

use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::overhead::{self as resolved, Overhead};
use crate::exit::{Exit, Refusal, say};

pub(crate) fn run(raw: &raw::OverheadArgs) -> Outcome {
    let host = Host::default();
    let sources = Sources::new(host.clone());
    match Overhead::resolve(raw, &sources)? {
        Overhead::With(with) => with::run(&with, raw),
        Overhead::Show(events) => show(raw, &host, &events),
        Overhead::Study(asked) => measure(raw, &host, &sources, &asked),
    }
}

fn measure(
    raw: &raw::OverheadArgs,
    host: &Host,
    sources: &Sources,
    asked: &resolved::Study,
) -> Outcome {
    // The page is created first: if it can't be written, the study, which takes minutes, isn't
    // made.
    let mut page = raw.report.as_deref().map(create_page).transpose()?;
    let folder = state_folder(asked.save);
    let signals = Signals::block().context("cannot wait for signals")?;
    let limit = RateLimit::keep(host, folder.as_ref());
    let mut session =
        StudySession::new(asked, host, sources, &signals, limit, std::io::stderr().is_terminal())?;
    let studies = match session.studies() {
        Ok(studies) => studies,
        Err(StudyFailure::Interrupted) => return Ok(Exit::Interrupted),
        Err(StudyFailure::Other(error)) => return Err(error),
    };
    // Restores the CPU affinity and the rate limit before anything is written.
    drop(session);
    drop(signals);
    if let Some(folder) = folder.as_ref().filter(|_| asked.save) {
        keep(folder, &studies);
    }
    if let Some(file) = &mut page {
        write_page(file, &studies, raw.overlay)?;
    }
    print(raw, &studies)
}

/// Creates the file of `--report`. Only its owner can read it, because it names the host.
fn create_page(path: &Path) -> anyhow::Result<NewFile> {
    NewFile::create(path).with_context(|| format!("--report {}", path.display()))
}

fn write_page(file: &mut NewFile, studies: &[Study], overlay: bool) -> anyhow::Result<()> {
    let mut out = BufWriter::new(file.file());
    let written = page::write(&mut out, studies, overlay).and_then(|()| out.flush());
    drop(out);
    written.and_then(|()| file.publish()).context("cannot write the report")
}

/// Opens the folder for results. Without one, a study is made and printed, but not saved.
fn state_folder(needed: bool) -> Option<StateFolder> {
    match folder::make() {
        Ok(folder) => Some(folder),
        Err(error) => {
            if needed {
                say(&format!("the result is not saved: {}", crate::exit::message(&error)));
            }
            None
        }
    }
}

fn keep(folder: &StateFolder, studies: &[Study]) {
    for study in studies {
        match kept::save(folder, study) {
            Ok(path) => say(&format!("saved in {}", path.display())),
            Err(error) => say(&format!("the result is not saved: {error}")),
        }
    }
}

/// Prints the saved studies of this host, for these events or for all.
fn show(raw: &raw::OverheadArgs, host: &Host, events: &[String]) -> Outcome {
    let machine = StudyHost::detect(host);
    let kept = match folder::find()? {
        Some(folder) => kept::load_all(&folder)?,
        None => StoredStudies::default(),
    };
    for error in kept.unusable {
        say(&format!("{error}: a new study replaces it"));
    }
    let wanted = |study: &Study| {
        study.conditions.host == machine.host
            && (events.is_empty() || events.contains(&study.conditions.event))
    };
    let studies: Vec<Study> = kept.studies.into_iter().filter(wanted).collect();
    if studies.is_empty() {
        let of =
            if events.is_empty() { String::new() } else { format!(" of {}", events.join(", ")) };
        return Err(Refusal {
            exit: Exit::Failure,
            message: format!("no study{of} was made on this host: `tare overhead` makes one"),
        }
        .into());
    }
    for study in studies.iter().filter(|study| study.conditions.kernel != machine.kernel) {
        say(&format!(
            "{}: measured on kernel {}, this is {}",
            study.conditions.event, study.conditions.kernel, machine.kernel
        ));
    }
    if let Some(path) = &raw.report {
        let mut file = create_page(path)?;
        write_page(&mut file, &studies, raw.overlay)?;
    }
    print(raw, &studies)
}

fn print(raw: &raw::OverheadArgs, studies: &[Study]) -> Outcome {
    let mut out = std::io::stdout().lock();
    if raw.json.json {
        study::write_json(&mut out, studies, raw.overlay)?;
    } else if raw.csv {
        study::write_csv(&mut out, studies)?;
    } else {
        studies.iter().try_for_each(|study| text::write(&mut out, study, raw.overlay))?;
    }
    Ok(Exit::Success)
}
