//! `tare buildid-list`: lists build ids and files, as `perf buildid-list` does.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::Context;
use object::Object;
use serde_json::{Value, json};
use tare_format::record::{FileId, Record};
use tare_format::{hex, printable};
use tare_kernel::host::Host;
use tare_record::describe::kernel_build_id;
use tare_replay::{CodeDetail, ProfileOptions};
use tare_symbols::SymbolOptions;
use tare_tui::ProgressLine;

use crate::Outcome;
use crate::cli::raw::BuildidListArgs;
use crate::command::recording::open;
use crate::exit::{Exit, Refusal};

/// A build id in hexadecimal digits, and the file that has it.
type BuildIdLine = (String, Vec<u8>);

pub(crate) fn run(raw: &BuildidListArgs) -> Outcome {
    let input = raw.input.path();
    let mut listed = if raw.kernel {
        vec![(running_kernel()?, Vec::new())]
    } else if let Some(id) = binary_build_id(&input)? {
        vec![(id, Vec::new())]
    } else {
        recorded(&input)?
    };
    if raw.with_hits {
        let hits = hits(&input)?;
        listed.retain(|(_, path)| hits.contains(path));
    }
    let mut out = std::io::stdout().lock();
    if raw.json.json {
        let file = |(id, path): &BuildIdLine| -> Value {
            json!({ "build_id": id, "path": String::from_utf8_lossy(path) })
        };
        let files: Vec<Value> = listed.iter().map(file).collect();
        tare_render::json_line(&mut out, &json!({ "version": 1, "files": files }))?;
        return Ok(Exit::Success);
    }
    for (id, path) in &listed {
        writeln!(out, "{}", format!("{id} {}", printable(path)).trim_end())?;
    }
    Ok(Exit::Success)
}

/// Reads the build id of a binary. `None` if the file is not an ELF file.
fn binary_build_id(path: &Path) -> anyhow::Result<Option<String>> {
    let mut magic = [0; 4];
    let is_elf = path.is_file()
        && std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && magic == *b"\x7fELF";
    if !is_elf {
        return Ok(None);
    }
    let data = std::fs::read(path).with_context(|| format!("{}", path.display()))?;
    let id = object::File::parse(&*data).ok().and_then(|file| file.build_id().ok()?.map(hex));
    let message = format!("{}: it has no build id; link it with --build-id", path.display());
    Ok(Some(id.ok_or(Refusal { exit: Exit::Failure, message })?))
}

/// The build id of the running kernel.
fn running_kernel() -> anyhow::Result<String> {
    let id = kernel_build_id(&Host::default());
    Ok(hex(&id.context("/sys/kernel/notes has no build id")?))
}

/// The build ids that a recording lists, then those of its records. Of each path the first counts.
fn recorded(path: &Path) -> anyhow::Result<Vec<BuildIdLine>> {
    let progress = ProgressLine::begin();
    let mut recording = open(path, &mut SymbolOptions::default(), &progress)?;
    let mut of_records: Vec<BuildIdLine> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut add = |id: &[u8], path: &[u8]| {
        if seen.insert(path.to_vec()) {
            of_records.push((hex(id), path.to_vec()));
        }
    };
    while let Some(entry) = recording.next_record()? {
        match entry.record.decode() {
            Ok(Record::Mmap(mmap)) => {
                if let FileId::BuildId(id) = mmap.file {
                    add(id, mmap.path);
                }
            }
            Ok(Record::BuildId(known)) => add(known.build_id, known.path),
            _ => {}
        }
    }
    // A stream's records describe its features.
    let features = recording.description().features();
    let listed = features.build_ids().into_iter().flatten();
    let mut listed: Vec<BuildIdLine> =
        listed.map(|known| (hex(known.build_id), known.path.to_vec())).collect();
    let mut seen = BTreeSet::new();
    listed.extend(of_records);
    listed.retain(|(_, path)| seen.insert(path.clone()));
    Ok(listed)
}

/// The files that samples hit.
fn hits(path: &Path) -> anyhow::Result<BTreeSet<Vec<u8>>> {
    let mut symbols = SymbolOptions::default();
    let progress = ProgressLine::begin();
    let recording = open(path, &mut symbols, &progress)?;
    let options = ProfileOptions {
        code: CodeDetail::Leaf,
        include_self: true,
        symbols,
        ..ProfileOptions::default()
    };
    let profile = tare_replay::summarize(recording, &options)?.profile;
    let dso = |row: &tare_profile::Row| profile.dso(profile.frame(row.leaf?)?.dso?);
    let dsos = profile.rows().filter_map(|(row, _)| dso(row));
    Ok(dsos.map(|dso| profile.string(dso.path).to_vec()).collect())
}
