//! `uprobe:path:symbol[+offset]` and `uretprobe:…`: the entry and the return of a function in a
//! program's file, in whatever process runs it.
//!
//! The kernel sets the probe when the event is opened and removes it when the event is closed
//! (`Documentation/ABI/testing/sysfs-bus-event_source-devices-uprobe`,
//! `create_local_trace_uprobe`). Nothing is left in tracefs.

use std::ffi::CString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use tare_format::abi::Attr;
use tare_kernel::host::Pmu;

use super::error::{LocatedProblem, Problem};
use super::modifiers::apply_terms_and_modifiers;
use super::syntax::{EventText, Word, parse_number};
use super::{Event, Sources};

/// The name of the PMU in sysfs.
pub(super) const PMU: &str = "uprobe";

pub(super) fn resolve(typed: &EventText<'_>, sources: &Sources) -> Result<Event, LocatedProblem> {
    let (kind, path, place, modifiers) = match (typed.words.as_slice(), typed.tail) {
        (&[kind, path, place], tail) => (kind, path, place, tail),
        (&[kind, path, place, modifiers], None) => (kind, path, place, Some(modifiers)),
        _ => {
            return Err(LocatedProblem::new(
                typed.whole.at,
                Problem::Syntax("a probe has the form uprobe:FILE:SYMBOL[+OFFSET][:MODIFIERS]"),
            ));
        }
    };
    let wrong = |word: Word<'_>, why: String| {
        LocatedProblem::new(word.at, Problem::Probe { place: word.text.to_owned(), why })
    };
    let Some(pmu) = sources.pmu(PMU) else {
        return Err(LocatedProblem::new(kind.at, Problem::UnknownPmu(PMU.to_owned())));
    };
    let mut attr =
        Attr { kind: pmu.kind().map_err(|error| sysfs(kind.at, &error))?, ..Attr::default() };
    if kind.text == "uretprobe" {
        attr.config = find_return_bit(&pmu, kind.at)?;
    }
    attr.config2 = find_file_offset(path, place)?;
    let name = CString::new(path.text)
        .map_err(|_| wrong(path, "a path can't contain a NUL byte".to_owned()))?;
    attr.uprobe_path = Some(name);
    let mut event = Event::new(typed.whole.text, attr);
    event.pmu = Some(PMU.to_owned());
    // For an inherited event the kernel sets the probe again, and reads the path from the memory of
    // the forking task: that fails, and so does the fork (`perf_uprobe_init`, called by
    // `inherit_event`).
    event.inherit = Some(false);
    apply_terms_and_modifiers(&mut event, typed.terms.as_deref(), modifiers)?;
    Ok(event)
}

fn sysfs(at: usize, error: &io::Error) -> LocatedProblem {
    LocatedProblem::new(at, Problem::Sysfs { pmu: PMU.to_owned(), why: error.to_string() })
}

/// Finds the config bit that selects returns.
fn find_return_bit(pmu: &Pmu, at: usize) -> Result<u64, LocatedProblem> {
    let format = pmu.format("retprobe").map_err(|error| sysfs(at, &error))?;
    let missing = || {
        LocatedProblem::new(
            at,
            Problem::Sysfs { pmu: PMU.to_owned(), why: "format/retprobe is missing".to_owned() },
        )
    };
    format.map(|format| format.put(1, 0)).ok_or_else(missing)
}

/// Finds the file offset of a probe. `place` is an offset in the file, or `FUNCTION[+OFFSET]`,
/// whose address is converted by the program headers.
pub(super) fn find_file_offset(path: Word<'_>, place: Word<'_>) -> Result<u64, LocatedProblem> {
    let wrong = |word: Word<'_>, why: String| {
        LocatedProblem::new(word.at, Problem::Probe { place: word.text.to_owned(), why })
    };
    let metadata = std::fs::metadata(path.text).map_err(|error| wrong(path, error.to_string()))?;
    if !metadata.is_file() {
        return Err(wrong(path, "not a program".to_owned()));
    }
    if let Some(offset) = parse_number(place.text) {
        let outside = || wrong(place, format!("the file has {} bytes", metadata.size()));
        return if offset < metadata.size() { Ok(offset) } else { Err(outside()) };
    }
    let (symbol, beyond) = match place.text.rsplit_once('+') {
        Some((symbol, beyond)) => (
            symbol,
            parse_number(beyond)
                .ok_or_else(|| wrong(place, "expected a number after +".to_owned()))?,
        ),
        None => (place.text, 0),
    };
    let bytes =
        std::fs::read(Path::new(path.text)).map_err(|error| wrong(path, error.to_string()))?;
    let file = object::File::parse(bytes.as_slice())
        .map_err(|error| wrong(path, format!("not an ELF file: {error}")))?;
    let functions = || {
        file.symbols()
            .chain(file.dynamic_symbols())
            .filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text)
    };
    let Some(found) = functions().find(|function| function.name() == Ok(symbol)) else {
        let problem = Problem::Probe {
            place: symbol.to_owned(),
            why: format!("{} has no such function (`nm` lists its functions)", path.text),
        };
        return Err(LocatedProblem::new(place.at, problem)
            .with_nearest(symbol, functions().filter_map(|function| function.name().ok())));
    };
    let address = found
        .address()
        .checked_add(beyond)
        .ok_or_else(|| wrong(place, "the offset is too large".to_owned()))?;
    let in_file = file.segments().find_map(|segment| {
        let (offset, size) = segment.file_range();
        let within = address.checked_sub(segment.address()).filter(|&within| within < size)?;
        offset.checked_add(within)
    });
    in_file.ok_or_else(|| wrong(place, "this address isn't in the file".to_owned()))
}
