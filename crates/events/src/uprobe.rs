//! `uprobe:path:symbol[+offset]` and `uretprobe:…`: the entry and the return of a function in a
//! program's file, in whatever process runs it.
//!
//! The kernel sets the probe when the event is opened and removes it when the event is closed
//! (`Documentation/ABI/testing/sysfs-bus-event_source-devices-uprobe`,
//! `create_local_trace_uprobe`). Nothing is left in tracefs.

use std::ffi::CString;
use std::io;
use std::path::Path;

use tare_format::abi::Attr;
use tare_kernel::host::Pmu;

use super::error::{LocatedProblem, Problem};
use super::functions::{PlaceProblem, ProgramFile};
use super::modifiers::apply_terms_and_modifiers;
use super::syntax::{EventText, Word};
use super::{Event, Sources};

/// The name of the PMU in sysfs.
pub(super) const PMU: &str = "uprobe";
/// Maximum number of functions listed where a name stands for several.
const MAX_NAMES: usize = 8;

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

/// Finds the file offset of a probe: an event counts at one location.
fn find_file_offset(path: Word<'_>, place: Word<'_>) -> Result<u64, LocatedProblem> {
    let located = |problem: PlaceProblem| {
        let at = if problem.is_in_file { path.at } else { place.at };
        let problem_in_place = Problem::Probe { place: problem.place, why: problem.why };
        LocatedProblem::new(at, problem_in_place).with_names(problem.nearest)
    };
    let found = ProgramFile::open(Path::new(path.text)).and_then(|mut file| file.find(place.text));
    match found.map_err(located)?.all.as_slice() {
        [one] => Ok(one.offset),
        several => {
            let shown = several.iter().take(MAX_NAMES);
            let names: Vec<_> =
                shown.map(|place| format!("{:#x} {}", place.offset, place.label)).collect();
            let why = format!(
                "{} functions match; give the offset of one: {}",
                several.len(),
                names.join(", ")
            );
            Err(LocatedProblem::new(place.at, Problem::Probe { place: place.text.to_owned(), why }))
        }
    }
}
