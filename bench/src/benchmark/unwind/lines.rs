//! Functions and lines of the addresses in a recording's stacks: tare's library beside the library
//! `addr2line`, each on one thread.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Instant;

use addr2line::Context;
use addr2line::gimli::{AbbreviationsCacheStrategy, Dwarf, EndianSlice, LittleEndian, SectionId};
use anyhow::Context as _;
use object::{Object, ObjectSection, ObjectSegment};
use serde_json::json;
use tare_kernel::file_view::FileView;
use tare_symbols::{DsoAddress, DsoId, DsoTable, SymbolOptions, Symbolizer};

use super::recordings::{RecordedStacks, record_all};
use super::{PAIRS, stacks};
use crate::benchmark::symbols::answer::{self, Frame, Frames, UNKNOWN};
use crate::report::{Bound, Estimate, Finding, Report};
use crate::scratch::Scratch;
use crate::setting::Setting;

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let mut report = Report { table: Vec::new(), findings: Vec::new(), raw: json!(null) };
    let mut raw = Vec::new();
    for recording in record_all(&scratch)? {
        let recorded = RecordedStacks::read(&recording)?;
        let pairs = setting.rounds.unwrap_or(PAIRS);
        raw.push(compare(recording.name, &recorded, pairs, &mut report)?);
    }
    report.raw = json!(raw);
    Ok(report)
}

/// The distinct addresses of a file.
struct FileAddresses {
    dso: DsoId,
    path: String,
    offsets: Vec<u64>,
}

/// Looks up the addresses of a recording with both libraries, in pairs.
fn compare(
    name: &str,
    recorded: &RecordedStacks,
    pairs: usize,
    report: &mut Report,
) -> anyhow::Result<serde_json::Value> {
    let files = distinct_addresses(recorded);
    let count: usize = files.iter().map(|file| file.offsets.len()).sum();
    let mut times_ms = [Vec::new(), Vec::new()];
    let mut answers = [Vec::new(), Vec::new()];
    // The first pair warms the page cache.
    for pair in 0..=pairs {
        // Each library is the first in every second pair.
        let order = if pair % 2 == 0 { [0, 1] } else { [1, 0] };
        for library in order {
            let begin = Instant::now();
            let found = match library {
                0 => frames_by_tare(&recorded.dsos, &files),
                _ => frames_by_addr2line(&files)?,
            };
            if pair > 0 {
                times_ms[library].push(begin.elapsed().as_secs_f64() * 1e3);
            }
            answers[library] = found;
        }
    }
    let ratios = times_ms[0].iter().zip(&times_ms[1]).map(|(ours, theirs)| ours / theirs);
    let ratio = Estimate::median(ratios.collect());
    let [ours_ms, theirs_ms] = times_ms.clone().map(Estimate::median);
    let has_line = |frames: &&Frames| frames.iter().any(|frame| frame.line > 0);
    let [our_lines, their_lines] =
        [0, 1].map(|library| answers[library].iter().filter(has_line).count());
    let mut differences: BTreeMap<&str, usize> = BTreeMap::new();
    for (ours, theirs) in answers[0].iter().zip(&answers[1]) {
        let difference = answer::difference(ours, theirs).unwrap_or("the same");
        *differences.entry(difference).or_default() += 1;
    }
    report.table.push(format!(
        "{name}: {count} addresses of {} files; with lines: {our_lines}, addr2line {their_lines}",
        files.len()
    ));
    report.table.push(format!("  ms: tare {ours_ms}, addr2line {theirs_ms}, ratio {ratio}"));
    report.table.extend(differences.iter().map(|(what, count)| format!("{count:>9}  {what}")));
    report.findings.push(Finding {
        what: format!("{name}: time of {count} addresses, tare/addr2line"),
        measured: ratio,
        bound: Bound::AtMost(1.0),
    });
    Ok(json!({
        "recording": name, "addresses": count, "with_lines": [our_lines, their_lines],
        "differences": differences, "ms": times_ms,
    }))
}

/// The distinct addresses of all stacks, by file in the order of their first address. Files that
/// don't exist are left out.
fn distinct_addresses(recorded: &RecordedStacks) -> Vec<FileAddresses> {
    let mut seen = HashSet::new();
    let mut files: Vec<FileAddresses> = Vec::new();
    stacks::unwind_with_tare(recorded, |spaces, pid, addresses| {
        for address in addresses {
            let Some(mapping) = spaces.find_user(pid, *address) else { continue };
            let dso = mapping.dso;
            let offset = mapping.to_dso(*address);
            let path = recorded.dsos.get(dso).map(|dso| String::from_utf8_lossy(&dso.name));
            let Some(path) = path.filter(|path| Path::new(&**path).is_file()) else { continue };
            if !seen.insert((dso, offset)) {
                continue;
            }
            match files.iter_mut().find(|file| file.dso == dso) {
                Some(file) => file.offsets.push(offset),
                None => {
                    files.push(FileAddresses { dso, path: path.into(), offsets: vec![offset] });
                }
            }
        }
    });
    files
}

fn frames_by_tare(dsos: &DsoTable, files: &[FileAddresses]) -> Vec<Frames> {
    // Without folders of debug files both libraries read the same files.
    let options =
        SymbolOptions { demangle: false, debug_folders: Vec::new(), ..SymbolOptions::default() };
    let symbolizer = Symbolizer::new(options);
    let addresses: Vec<DsoAddress> = files
        .iter()
        .flat_map(|file| {
            file.offsets.iter().map(|offset| DsoAddress { dso: file.dso, address: *offset })
        })
        .collect();
    let found = symbolizer.frames(dsos, &addresses, NonZeroUsize::MIN);
    let frame = |frame: tare_symbols::Frame<'_>| Frame {
        name: frame.name.unwrap_or(UNKNOWN).to_owned(),
        file: frame.location.map_or(UNKNOWN, |at| at.file).to_owned(),
        line: frame.location.map_or(0, |at| at.line),
    };
    (0..found.len()).map(|place| found.get(place).map(frame).collect()).collect()
}

fn frames_by_addr2line(files: &[FileAddresses]) -> anyhow::Result<Vec<Frames>> {
    let mut all = Vec::new();
    for file in files {
        add_frames_by_addr2line(file, &mut all).with_context(|| file.path.clone())?;
    }
    Ok(all)
}

fn add_frames_by_addr2line(file: &FileAddresses, all: &mut Vec<Frames>) -> anyhow::Result<()> {
    let view = FileView::open(File::open(&file.path)?)?;
    let parsed = object::File::parse(view.bytes())?;
    let section = |id: SectionId| -> anyhow::Result<EndianSlice<'_, LittleEndian>> {
        let bytes = match parsed.section_by_name(id.name()) {
            Some(section) => section.data()?,
            None => &[],
        };
        Ok(EndianSlice::new(bytes, LittleEndian))
    };
    let mut dwarf = Dwarf::load(section)?;
    dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
    let context = Context::from_dwarf(dwarf)?;
    let symbols = parsed.symbol_map();
    let segments: Vec<_> =
        parsed.segments().map(|segment| (segment.file_range(), segment.address())).collect();
    for offset in &file.offsets {
        let holds = |((start, bytes), _): &&((u64, u64), u64)| offset.wrapping_sub(*start) < *bytes;
        let segment = segments.iter().find(holds);
        let address = segment.map_or(u64::MAX, |((start, _), base)| offset - start + base);
        let mut frames = Frames::new();
        let mut found = context.find_frames(address).skip_all_loads()?;
        while let Some(frame) = found.next()? {
            let name = frame.function.as_ref().map(addr2line::FunctionName::raw_name);
            let name = name.transpose()?.unwrap_or(Cow::Borrowed(UNKNOWN)).into_owned();
            let location = frame.location;
            let path = location.as_ref().and_then(|at| at.file).unwrap_or(UNKNOWN).to_owned();
            let line = location.and_then(|at| at.line).unwrap_or(0);
            frames.push(Frame { name, file: path, line });
        }
        let symbol = symbols.containing(address).map(object::SymbolMapName::name);
        match (frames.last_mut(), symbol) {
            (Some(outer), Some(symbol)) if outer.name == UNKNOWN => {
                symbol.clone_into(&mut outer.name);
            }
            (None, symbol) => frames.push(Frame {
                name: symbol.unwrap_or(UNKNOWN).to_owned(),
                file: UNKNOWN.to_owned(),
                line: 0,
            }),
            _ => {}
        }
        all.push(frames);
    }
    Ok(())
}
