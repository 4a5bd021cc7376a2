//! Checks of a finished recording.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tare_format::file::writer::HEADER_SIZE;
use tare_format::ledger::Ledger;
use tare_record::RecordingResult;
use tare_record::options::Keep;
use tare_record::output::FileSwitch;
use tare_replay::{CodeDetail, ProfileOptions, Recording, SampleDetail, summarize};

use crate::contents::Contents;
use crate::disk::SimulatedDisk;
use crate::failure::Failure;
use crate::machine::{Truth, comm_of};
use crate::replayed::{self, ReplayedSample};
use crate::scenario::{RecordDestination, Scenario};
use crate::sink::KeptRecords;

/// A finished run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FinishedRun<'a> {
    /// The random scenario.
    pub(crate) scenario: &'a Scenario,
    /// The true events on the machine.
    pub(crate) truth: &'a Truth,
    /// A temporary folder.
    pub(crate) folder: &'a Path,
    /// The recorder's result.
    pub(crate) finished: &'a RecordingResult,
    /// Number of samples that were due before the last flush began; 0 if the output writes later.
    pub(crate) flushed: usize,
    /// End of the run in the events' clock, in nanoseconds.
    pub(crate) ended_ns: u64,
    /// How often a CPU came back online.
    pub(crate) came_back: usize,
}

/// Names and contents of a recording's files, oldest first.
type Files = Vec<(String, Contents)>;

/// Runs the checks that apply.
///
/// # Errors
/// The first check that fails.
pub(crate) fn after(
    ran: &FinishedRun<'_>,
    disk: &SimulatedDisk,
    records: &KeptRecords,
) -> anyhow::Result<()> {
    let RecordingResult { ledger, output } = ran.finished;
    let stopped = output.stopped.is_some() || output.unfinished || ledger.stopped.is_some();
    // An unfinished file has room for the ids of this many returned CPUs.
    let has_room = ran.came_back <= 4 * ran.scenario.cpus as usize;
    if stopped && !has_room {
        return Ok(());
    }
    let files = match ran.scenario.to {
        RecordDestination::Sink => vec![("sink".to_owned(), Contents::of_sink(records)?)],
        // A stream ends at the failed write.
        RecordDestination::Stream if stopped => return Ok(()),
        RecordDestination::Stream => read(&disk.snapshot().files, true)?,
        RecordDestination::File => read(&disk.snapshot().files, false)?,
    };
    each_once(ran.truth, &files)?;
    for (file, contents) in &files {
        contents.order(file)?;
    }
    if !stopped {
        complete(ran, &files)?;
    }
    ledgers(ran, &files, stopped)?;
    if ran.scenario.to == RecordDestination::File {
        if !may_be_cut_back(ran) {
            flushed("at the end", ran, &files, ran.flushed)?;
        }
        // A recording that ended early may lack another CPU's records about a task.
        if !stopped {
            names(ran, &disk.snapshot().files)?;
        }
        // Cutting data back takes two writes; between them the file is inconsistent.
        if let Some(cut) = disk.cut().filter(|_| has_room && !may_be_cut_back(ran)) {
            let files = read(&cut.files, false)?;
            each_once(ran.truth, &files)?;
            flushed("when it was killed", ran, &files, cut.mark)?;
        }
    }
    Ok(())
}

/// Whether a full disk or a failed call may make the recorder cut back data to fit the file's end.
fn may_be_cut_back(ran: &FinishedRun<'_>) -> bool {
    ran.scenario.faults.room.is_some() || ran.scenario.faults.failing.is_some()
}

fn read(files: &BTreeMap<PathBuf, Vec<u8>>, is_stream: bool) -> anyhow::Result<Files> {
    let mut read = Vec::new();
    // Files with a time in their name are older than the one without.
    let by_age = files.iter().skip(1).chain(files.iter().take(1));
    for (path, bytes) in by_age {
        let file = path.display().to_string();
        // A file without a header: the recorder was killed, or its disk failed, before it was
        // written.
        let has_begun = bytes.len() >= HEADER_SIZE && bytes.iter().any(|byte| *byte != 0);
        if !has_begun {
            continue;
        }
        let contents = Contents::of_bytes(bytes, is_stream)
            .map_err(|reason| Failure::Unreadable { file: file.clone(), reason })?;
        read.push((file, contents));
    }
    Ok(read)
}

/// Checks that no sample is duplicated, invented or changed.
fn each_once(truth: &Truth, files: &Files) -> Result<(), Failure> {
    let mut seen = vec![false; truth.samples.len()];
    for sample in files.iter().flat_map(|(_, contents)| &contents.samples) {
        let number = usize::try_from(sample.ip).unwrap_or(usize::MAX);
        let made = truth.samples.get(number).ok_or(Failure::FromNowhere(number))?;
        if made.emitted != tare_kernel::simulated::Emitted::Stored {
            return Err(Failure::FromNowhere(number));
        }
        let period = sample.period.unwrap_or(made.period);
        let seen_as = (sample.id, sample.tid, sample.time_ns, period);
        if seen_as != (made.id, made.tid, made.time_ns, made.period) {
            return Err(Failure::Changed(number));
        }
        if std::mem::replace(&mut seen[number], true) {
            return Err(Failure::Twice(number));
        }
    }
    Ok(())
}

fn numbers(files: &Files) -> std::collections::BTreeSet<usize> {
    let samples = files.iter().flat_map(|(_, contents)| &contents.samples);
    samples.filter_map(|sample| usize::try_from(sample.ip).ok()).collect()
}

/// Checks that every sample that had room is present, unless the scenario drops it.
fn complete(ran: &FinishedRun<'_>, files: &Files) -> Result<(), Failure> {
    let there = numbers(files);
    let missing: Vec<usize> = match ran.scenario.keep {
        Keep::All => ran.truth.stored().filter(|number| !there.contains(number)).collect(),
        // Slow writes advance only the recorder's clock.
        Keep::Last(_) if !ran.scenario.faults.takes.is_zero() => Vec::new(),
        Keep::Last(time) => {
            let since =
                ran.ended_ns.saturating_sub(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
            let recent = ran.truth.stored().filter(|at| ran.truth.samples[*at].time_ns >= since);
            recent.filter(|number| !there.contains(number)).collect()
        }
        // An overwritten ring holds at least the newest records.
        Keep::WhatFits => {
            ran.truth.stored().last().filter(|last| !there.contains(last)).into_iter().collect()
        }
    };
    match missing.first() {
        Some(first) => Err(Failure::Missing(missing.len(), *first)),
        None => Ok(()),
    }
}

fn flushed(
    when: &'static str,
    ran: &FinishedRun<'_>,
    files: &Files,
    mark: usize,
) -> Result<(), Failure> {
    if ran.scenario.keep != Keep::All {
        return Ok(());
    }
    let there = numbers(files);
    let due = ran.truth.stored().take_while(|number| *number < mark);
    let missing: Vec<usize> = due.filter(|number| !there.contains(number)).collect();
    match missing.first() {
        Some(first) => Err(Failure::Flushed { when, missing: missing.len(), first: *first }),
        None => Ok(()),
    }
}

/// Checks that the ledgers agree with the files.
fn ledgers(ran: &FinishedRun<'_>, files: &Files, stopped: bool) -> Result<(), Failure> {
    let mut samples = 0;
    let mut lost = 0;
    for (file, contents) in files {
        samples += contents.samples.len() as u64;
        lost += contents.lost;
        let Some(ledger) = &contents.ledger else {
            if stopped || ran.scenario.to == RecordDestination::Sink {
                continue;
            }
            return Err(Failure::NoLedger(file.clone()));
        };
        if ledger.finished {
            let are = [contents.samples.len() as u64, contents.lost, contents.throttled];
            says(file, ledger, are)?;
        }
    }
    let unread = ran.finished.output.unfinished;
    if !unread {
        let throttled = files.iter().map(|(_, contents)| contents.throttled).sum();
        says("all files", &ran.finished.ledger, [samples, lost, throttled])?;
    }
    if !stopped && ran.scenario.keep == Keep::All {
        let told = ran.finished.ledger.events.iter().filter_map(|event| event.lost).sum();
        says_of("all files", "lost samples", told, ran.truth.lost())?;
        says_of(
            "all files",
            "throttled in truth",
            ran.finished.ledger.throttled,
            ran.truth.throttled,
        )?;
    }
    Ok(())
}

fn says(file: &str, ledger: &Ledger, [samples, lost, throttled]: [u64; 3]) -> Result<(), Failure> {
    says_of(file, "samples", ledger.events.iter().map(|event| event.samples).sum(), samples)?;
    says_of(file, "lost records", ledger.losses.iter().map(|loss| loss.records).sum(), lost)?;
    says_of(file, "throttled", ledger.throttled, throttled)
}

fn says_of(file: &str, what: &'static str, says: u64, are: u64) -> Result<(), Failure> {
    if says == are {
        return Ok(());
    }
    Err(Failure::Ledger { file: file.to_owned(), what, says, are })
}

/// Checks that a profile's weight is the sum of the samples' periods at their own rates.
fn weights(ran: &FinishedRun<'_>, file: &str, real: &Path) -> anyhow::Result<()> {
    let options =
        ProfileOptions { code: CodeDetail::None, include_self: true, ..ProfileOptions::default() };
    let profile = summarize(Recording::open(real)?, &options)?.profile;
    let says: u64 = profile.rows().map(|(_, weight)| weight.period).sum();
    let made = |sample: ReplayedSample| ran.truth.samples.get(usize::try_from(sample.ip).ok()?);
    let samples = replayed::samples(real, SampleDetail::Leaf)?;
    let are = samples.into_iter().filter_map(made).map(|made| made.period).sum();
    if says == are {
        return Ok(());
    }
    Err(Failure::Weights { file: file.to_owned(), says, are }.into())
}

/// Checks that each file by itself gives threads their names of that time.
fn names(ran: &FinishedRun<'_>, files: &BTreeMap<PathBuf, Vec<u8>>) -> anyhow::Result<()> {
    if ran.scenario.keep != Keep::All || ran.truth.tasks_lost || ran.scenario.describes_at_the_end {
        return Ok(());
    }
    // A switch by size may leave records in the rings that are older than the next file's
    // description of running tasks.
    let is_by_size = matches!(ran.scenario.output.switch, Some(FileSwitch::Size(_)));
    for (number, (path, bytes)) in files.iter().enumerate() {
        let file = path.display().to_string();
        if bytes.iter().all(|byte| *byte == 0) || is_by_size && files.len() > 1 {
            continue;
        }
        let real = crate::files::written(ran.folder, number, bytes)?;
        weights(ran, &file, &real)?;
        let samples = replayed::samples(&real, SampleDetail::Leaf)?;
        if !samples.is_sorted_by_key(|sample| sample.time_ns) {
            return Err(Failure::Replay(file).into());
        }
        for replayed in samples {
            let sample = usize::try_from(replayed.ip)?;
            let was = comm_of(ran.truth.samples[sample].comm);
            if replayed.comm != was {
                return Err(Failure::Name { file, sample, says: replayed.comm, was }.into());
            }
        }
    }
    Ok(())
}
