//! `tare store`: what a store has, names that come later, compaction, and a check of all files.

mod status;

use std::io::{Write, stdout};
use std::path::Path;

use serde_json::{Value, json};
use tare_agent::{NamelessFile, name_frames, now_us};
use tare_format::printable;
use tare_render::{count, grouped, json_line};
use tare_store::{Store, StoreError, StoreOptions, StoreReader, Verification};

use crate::Outcome;
use crate::cli::raw::{self, StoreAction};
use crate::cli::resolved::store::StoreCommand;
use crate::exit::{Exit, Refusal};

/// Version of the documents that `--json` prints.
const VERSION: u32 = 1;

/// Files without names that the text lists.
const SHOWN_FILES: usize = 20;

pub(crate) fn run(raw: raw::StoreCommandArgs) -> Outcome {
    let command = StoreCommand::resolve(raw)?;
    let path = &command.stored.store;
    match command.action {
        StoreAction::Status => status::print(&reader(path)?, &command),
        StoreAction::Symbolize => symbolize(&writer(path)?, &command),
        StoreAction::Compact => compact(&writer(path)?, command.json),
        StoreAction::Verify => verify(&reader(path)?, path, command.json),
    }
}

fn reader(path: &Path) -> Result<StoreReader, Refusal> {
    StoreReader::open(path, 1).map_err(|error| not_opened(&error))
}

/// Opens a store that exists.
fn writer(path: &Path) -> Result<Store, Refusal> {
    reader(path)?;
    Store::open(path, StoreOptions::default()).map_err(|error| not_opened(&error))
}

fn not_opened(error: &StoreError) -> Refusal {
    let message = format!("{error}; --store DIR selects another store");
    Refusal { exit: Exit::Failure, message }
}

fn symbolize(store: &Store, command: &StoreCommand) -> Outcome {
    let (named, nameless) = name_frames(store, &command.symbols)?;
    let mut out = stdout().lock();
    if command.json {
        let document = json!({
            "version": VERSION,
            "segments": named.segments,
            "frames": named.frames,
            "samples": named.samples,
            "unnamed_frames": named.unnamed,
            "nameless": nameless.iter().map(nameless_value).collect::<Vec<_>>(),
        });
        json_line(&mut out, &document)?;
        return Ok(Exit::Success);
    }
    writeln!(
        out,
        "named      {} frames, the innermost of {} samples, in {}",
        grouped(named.frames),
        grouped(named.samples),
        count(named.segments, "segment")
    )?;
    writeln!(
        out,
        "nameless   {} frames of {}",
        grouped(named.unnamed),
        count(nameless.len() as u64, "file")
    )?;
    for file in nameless.iter().take(SHOWN_FILES) {
        write_nameless(&mut out, file)?;
    }
    if let Some(more) = nameless.len().checked_sub(SHOWN_FILES).filter(|more| *more > 0) {
        writeln!(out, "           {more} more files: --json lists all")?;
    }
    Ok(Exit::Success)
}

fn reason(file: &NamelessFile) -> String {
    let none = || "it has no build id".to_owned();
    file.reason.map_or_else(none, |reason| reason.to_string())
}

fn nameless_value(file: &NamelessFile) -> Value {
    json!({
        "build_id": file.build_id,
        "module": file.module,
        "addresses": file.addresses,
        "reason": reason(file),
    })
}

fn write_nameless(out: &mut impl Write, file: &NamelessFile) -> std::io::Result<()> {
    let text = |text: &Option<String>| printable(text.as_deref().unwrap_or("-")).into_owned();
    writeln!(
        out,
        "           {:>7} addresses  {}  {}: {}",
        grouped(file.addresses),
        text(&file.build_id),
        text(&file.module),
        reason(file)
    )
}

fn compact(store: &Store, json: bool) -> Outcome {
    store.recover()?;
    let done = store.compact(now_us())?;
    let mut out = stdout().lock();
    if json {
        let document = json!({
            "version": VERSION,
            "inputs": done.inputs,
            "outputs": done.outputs,
            "bytes_read": done.bytes_read,
            "bytes_written": done.bytes_written,
        });
        json_line(&mut out, &document)?;
        return Ok(Exit::Success);
    }
    match done.inputs {
        0 => writeln!(out, "nothing to compact: no hour or day has ended, or all are compacted")?,
        inputs => writeln!(
            out,
            "{} of {} bytes became {} of {} bytes",
            count(inputs, "segment"),
            grouped(done.bytes_read),
            grouped(done.outputs),
            grouped(done.bytes_written)
        )?,
    }
    Ok(Exit::Success)
}

fn verify(store: &StoreReader, path: &Path, json: bool) -> Outcome {
    let found = store.verify()?;
    let mut out = stdout().lock();
    let exit = if found.problems.is_empty() { Exit::Success } else { Exit::Failure };
    if json {
        json_line(&mut out, &verification_value(&found))?;
        return Ok(exit);
    }
    for problem in &found.problems {
        let file = problem.path.strip_prefix(path).unwrap_or(&problem.path);
        let line = format!("{}: {}", file.display(), problem.kind);
        writeln!(out, "{}", printable(&line))?;
    }
    let verdict = match found.problems.len() {
        0 => "ok".to_owned(),
        problems => count(problems as u64, "problem"),
    };
    writeln!(
        out,
        "{verdict}: {}, {}, {}",
        count(found.segments, "segment"),
        count(found.files, "file"),
        count(found.samples, "sample")
    )?;
    if found.unfinished > 0 {
        writeln!(
            out,
            "{} that the next agent removes",
            count(found.unfinished, "unfinished file")
        )?;
    }
    Ok(exit)
}

fn verification_value(found: &Verification) -> Value {
    let problems = found.problems.iter().map(|problem| {
        json!({ "file": problem.path.to_string_lossy(), "problem": problem.kind.to_string() })
    });
    json!({
        "version": VERSION,
        "segments": found.segments,
        "files": found.files,
        "samples": found.samples,
        "unfinished_files": found.unfinished,
        "problems": problems.collect::<Vec<_>>(),
    })
}
