//! `tare report`: sums up a recording.

mod interactive;
mod pager;
mod stats;
mod tasks;

pub(crate) use interactive::terms;

use std::io::{BufWriter, Write};
use std::path::Path;

use regex_lite::Regex;
use tare_format::abi::Flags;
use tare_format::abi::bindings::PERF_TYPE_TRACEPOINT;
use tare_format::file::{Description, Header, RecordedEvent};
use tare_format::printable;
use tare_kernel::host::Host;
use tare_measure::overhead::predict::Costs;
use tare_profile::{Losses, Profile};
use tare_replay::{
    ProfileOptions, ProfileSummary, Recording, Tracepoints, has_branches, has_callchains,
};
use tare_tui::ProgressLine;

use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::report::{
    CallGraphs, Interface, RecordingTraits, ReportOptions, ReportPart,
};
use crate::cli::resolved::stored::StoredSamples;
use crate::command::header;
use crate::command::overhead::folder;
use crate::command::recording::{self, open};
use crate::command::stored::{self, OFF_CPU};
use crate::exit::{Exit, Refusal, say};

pub(crate) fn run(raw: raw::ReportArgs) -> Outcome {
    let mut report = ReportOptions::resolve(raw.clone())?;
    if let Some(stored) = StoredSamples::resolve(&raw.stored)? {
        StoredSamples::check_keys(&raw.keys.columns)?;
        return show_stored(&stored, &report);
    }
    let progress = ProgressLine::begin();
    let recording = open(&report.input, &mut report.summed.symbols, &progress)?;
    if report.branches_if_recorded && has_branches(recording.description()) {
        let keys = raw::KeyArgs { branch_stack: true, ..raw.keys };
        let branches = ReportOptions::resolve(raw::ReportArgs { keys, ..raw })?;
        let symbols = report.summed.symbols;
        report =
            ReportOptions { summed: ProfileOptions { symbols, ..branches.summed }, ..branches };
    } else if raw.keys.total_cycles && !report.summed.blocks {
        say(
            "--total-cycles: the recording has no branches, so samples are shown; `tare record -b` records branches",
        );
    }
    if interactive::is_wanted(&report)? {
        drop(progress);
        refuse_keys_without_data(&recording, &report)?;
        return interactive::run(recording, &report);
    }
    if report.output.interface == Interface::Pager {
        return pager::through(|out| write_rows(out, recording, &report, progress));
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    write_rows(&mut out, recording, &report, progress)?;
    out.flush()?;
    Ok(Exit::Success)
}

/// Shows samples of a store as text, or as JSON.
fn show_stored(stored: &StoredSamples, report: &ReportOptions) -> Outcome {
    let progress = ProgressLine::begin();
    let mut summary = stored::summarize(stored)?;
    adapt(&mut summary.profile, report);
    drop(progress);
    if report.output.interface == Interface::Pager {
        return pager::through(|out| {
            write_quietly(out, report, |out| table(out, &summary, report))
        });
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    write_quietly(&mut out, report, |out| table(out, &summary, report))?;
    out.flush()?;
    Ok(Exit::Success)
}

/// Writes the report of a recording.
fn write_rows(
    out: &mut dyn Write,
    recording: Recording,
    report: &ReportOptions,
    progress: ProgressLine,
) -> anyhow::Result<()> {
    write_quietly(out, report, |out| write(out, recording, report, progress))
}

/// Passes on what `write` writes; with `-q`, without the lines that start with `#`.
fn write_quietly(
    out: &mut dyn Write,
    report: &ReportOptions,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if !report.output.quiet {
        return write(out);
    }
    let mut text = Vec::new();
    write(&mut text)?;
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !line.starts_with(b"#")).try_for_each(|line| out.write_all(line))?;
    Ok(())
}

/// Writes the requested part. The progress line is removed before anything is written.
fn write(
    out: &mut dyn Write,
    recording: Recording,
    report: &ReportOptions,
    progress: ProgressLine,
) -> anyhow::Result<()> {
    let mut text = Vec::new();
    let is_alone = matches!(report.output.part, ReportPart::Table | ReportPart::Header(_));
    if let Some(extent) = report.output.header.filter(|_| !is_alone) {
        header::write(&mut text, recording.description(), extent)?;
    }
    match report.output.part {
        ReportPart::Stats => stats::write(&mut text, recording)?,
        ReportPart::Tasks { mmaps } => tasks::write(&mut text, recording, mmaps)?,
        ReportPart::Dump => {
            drop(progress);
            out.write_all(&text)?;
            return dump(out, recording, &report.input);
        }
        ReportPart::Header(extent) => {
            let captured = header::file_time(&report.input);
            header::write_only(&mut text, recording, captured, extent)?;
        }
        ReportPart::Table => {
            let summary = summed(recording, report)?;
            drop(progress);
            return table(out, &summary, report);
        }
    }
    drop(progress);
    Ok(out.write_all(&text)?)
}

/// Refuses keys whose data no sample has. The events of a stream are not known yet.
fn refuse_keys_without_data(recording: &Recording, report: &ReportOptions) -> Result<(), Refusal> {
    if *recording.header() == Header::Pipe {
        return Ok(());
    }
    if report.needs_switches() && !has_switches(recording.description()) {
        return Err(no_switches());
    }
    let events = recording.description().events();
    let sample_types = events.iter().fold(0, |bits, event| bits | event.attr.sample_type);
    match report.columns.find_key_without_data(sample_types) {
        Some(key) => Err(Refusal::usage(key.to_string())),
        None => Ok(()),
    }
}

/// Sums up a recording as the report's options say.
fn summed(recording: Recording, report: &ReportOptions) -> anyhow::Result<ProfileSummary> {
    // The events of a stream are not known yet.
    let is_pipe = *recording.header() == Header::Pipe;
    let known = recorded(recording.description());
    refuse_keys_without_data(&recording, report)?;
    let code = report.code(known, is_pipe || known.has_callchains);
    let options = report.profile(
        code,
        RecordingTraits {
            only_tracepoints: is_pipe || known.only_tracepoints,
            shows_latency: is_pipe || known.shows_latency,
            ..known
        },
    );
    let summary = tare_replay::summarize(recording, &options);
    let mut summary = summary.map_err(recording::refusal)?;
    summary.profile.free_indexes();
    // A table of many rows takes more than is free between other memory.
    tare_kernel::heap::return_freed_memory();
    let event = summary.description.events().first().and_then(|event| event.name.as_deref());
    if let Some(broken) = &mut summary.profile.losses.frame_pointers {
        let event = String::from_utf8_lossy(event.unwrap_or_default());
        let costs = Costs::new(Host::default(), folder::find().ok().flatten());
        broken.cost_us = costs.copied_stack_us(&event);
    }
    tare_replay::suggest_symbol_remedy(&mut summary.profile.losses, &report.summed.symbols);
    adapt(&mut summary.profile, report);
    Ok(summary)
}

/// Applies the options that change a whole profile.
fn adapt(profile: &mut Profile, report: &ReportOptions) {
    find_functions(profile, report);
    if report.rows.hides_unresolved {
        profile.remove_rows(|profile, row| {
            let frame = row.leaf.and_then(|leaf| profile.frame(leaf));
            frame.is_none_or(|frame| frame.function.is_err())
        });
    }
}

fn table(
    out: &mut dyn Write,
    summary: &ProfileSummary,
    report: &ReportOptions,
) -> anyhow::Result<()> {
    let recorded = recorded(&summary.description);
    let shows_latency = recorded.shows_latency && is_parallel(&summary.profile);
    let recorded = RecordingTraits { shows_latency, ..recorded };
    if report.needs_switches() && !has_switches(&summary.description) {
        return Err(no_switches().into());
    }
    let chains = recorded.has_callchains;
    if matches!(report.graph.graphs, CallGraphs::Typed(_)) && !chains {
        let why = "-g: the recording has no call chains; `tare record -g` records them";
        return Err(Refusal::usage(why).into());
    }
    if report.summed.exact && summary.profile.counted().is_empty() {
        let why = "--weight=exact: the recording has no counts per task, or no end; `tare record --follow=inherit` records them";
        return Err(Refusal::usage(why).into());
    }
    if summary.profile.rows().next().is_none() && must_have_rows(report, &summary.profile.losses) {
        return Err(no_samples(report, &summary.profile.losses).into());
    }
    if let Some(extent) = report.output.header {
        header::write(out, &summary.description, extent)?;
    }
    if report.summed.blocks {
        tare_render::blocks(out, &summary.profile, &summary.blocks, report.rows.percent_limit)?;
        return ledger(out, summary);
    }
    let mut view = report.view(recorded);
    view.layout.groups = report.groups(&summary.description);
    if report.output.json {
        tare_render::json(out, &summary.profile, &view, summary.ledger.as_ref())?;
        return Ok(());
    }
    tare_render::text(out, &summary.profile, &view)?;
    if report.output.threads {
        tare_render::counts(out, &summary.profile)?;
    }
    if report.summed.exact || report.columns.is_by_command() {
        tare_render::counted(out, &summary.profile)?;
    }
    ledger(out, summary)
}

/// Whether context switches were recorded.
fn has_switches(description: &Description) -> bool {
    let has_flag = |event: &RecordedEvent| event.attr.flags.contains(Flags::CONTEXT_SWITCH);
    description.events().iter().any(has_flag)
}

fn no_switches() -> Refusal {
    Refusal::usage(
        "latency and parallelism need a recording of context switches: `tare record --latency` makes one",
    )
}

/// Whether more than 1% of the samples were taken while several threads ran. As in perf, a report
/// shows latencies of other recordings only on request.
fn is_parallel(profile: &Profile) -> bool {
    let mut all = 0;
    let mut alone = 0;
    for (row, weight) in profile.rows() {
        all += weight.samples;
        alone += if profile.parallelism(row) == 1 { weight.samples } else { 0 };
    }
    all > 0 && alone * 100 / all < 99
}

/// Writes the ledger as comment lines.
fn ledger(out: &mut dyn Write, summary: &ProfileSummary) -> anyhow::Result<()> {
    let lines = summary.ledger.as_ref().map(tare_render::ledger_lines).unwrap_or_default();
    lines.iter().try_for_each(|line| writeln!(out, "# {}", printable(line.as_bytes())))?;
    Ok(())
}

/// Whether an empty table is an error: neither a filter, nor branches, nor samples of the recorder
/// explain it.
fn must_have_rows(report: &ReportOptions, losses: &Losses) -> bool {
    let is_filtered =
        report.rows.hides_unresolved || !report.summed.cpus.is_empty() || report.is_partial();
    !is_filtered && !report.summed.branches && losses.own_samples == 0
}

/// Applies the patterns of `--ignore-callees` and `--parent`.
fn find_functions(profile: &mut Profile, report: &ReportOptions) {
    let fits = |pattern: &Regex, name: &[u8]| pattern.is_match(&String::from_utf8_lossy(name));
    if let Some(pattern) = &report.patterns.ignored_callees {
        profile.ignore_callees(|name| fits(pattern, name));
    }
    if let Some(pattern) = &report.patterns.parents {
        profile.find_parents(|name| fits(pattern, name));
    }
}

/// `-D`: writes each record in file order.
pub(crate) fn dump(
    out: &mut dyn Write,
    mut recording: Recording,
    input: &Path,
) -> anyhow::Result<()> {
    let name = input.display().to_string();
    let name = printable(name.as_bytes());
    while let Some(entry) = recording.next_record()? {
        tare_render::script::dump(out, &entry, &name)?;
    }
    for gap in recording.losses().gaps() {
        writeln!(out, "\nnot read: {} bytes at byte {}: {}", gap.bytes, gap.offset, gap.why)?;
    }
    Ok(())
}

fn recorded(description: &Description) -> RecordingTraits {
    let events = description.events();
    let mut tracepoints = Tracepoints::default();
    tracepoints.learn(description);
    let is_tracepoint = |event: &RecordedEvent| event.attr.kind == PERF_TYPE_TRACEPOINT;
    RecordingTraits {
        has_callchains: has_callchains(description),
        // Without their formats (simpleperf's recordings have none) tracepoints have no fields.
        only_tracepoints: events.iter().all(is_tracepoint)
            && events.iter().any(|event| tracepoints.field_names(event).is_some()),
        // Recordings of off-CPU time have switches for another reason.
        shows_latency: has_switches(description)
            && !events.iter().any(|event| event.name.as_deref() == Some(OFF_CPU.as_bytes())),
    }
}

fn no_samples(report: &ReportOptions, losses: &Losses) -> Refusal {
    let name = report.input.display();
    let message = if losses.stat_records > 0 {
        format!(
            "{name}: it has the counts of perf stat record and no samples; `perf stat report -i {name}` shows them"
        )
    } else if losses.is_empty() {
        format!("{name}: there are no samples")
    } else {
        format!(
            "{name}: there are no samples, or none that can be read; `tare report --stats` lists the records"
        )
    };
    Refusal { exit: Exit::Failure, message }
}
