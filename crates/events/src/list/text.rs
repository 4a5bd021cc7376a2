use std::io::{self, Write};

use super::inventory::{ListedEvent, Section, System};
use super::selection::EventKind;
use tare_format::printable;

/// Width at which lines that list several systems are broken, in characters.
const WIDTH: usize = 100;
/// Minimum width of the name column, in characters.
const NAME_WIDTH: usize = 40;

fn title(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Hardware => "Hardware events",
        EventKind::Software => "Software events",
        EventKind::Cache => "Cache events",
        EventKind::Pmu => "Events that PMUs name",
        EventKind::Raw => "Events by number",
        EventKind::Tracepoint => "Tracepoints",
        EventKind::Breakpoint => "Breakpoints",
    }
}

/// Writes the sections, then the note.
pub(super) fn write(
    out: &mut impl Write,
    sections: &[Section],
    note: Option<&str>,
) -> io::Result<()> {
    for (index, section) in sections.iter().enumerate() {
        let gap = if index > 0 { "\n" } else { "" };
        writeln!(out, "{gap}{} ({})", title(section.kind), section.kind.words()[0])?;
        match &section.lacks {
            Some(reason) => writeln!(out, "  none: {}", printable(reason))?,
            None => section.events.iter().try_for_each(|event| write_event(out, event))?,
        }
        write_systems(out, &section.systems)?;
    }
    note.map_or(Ok(()), |note| writeln!(out, "\n{note}"))
}

fn write_event(out: &mut impl Write, event: &ListedEvent) -> io::Result<()> {
    let alias = event.alias.map_or(String::new(), |alias| format!(" or {alias}"));
    let name = format!("{}{alias}", event.name);
    let name = printable(&name);
    let about = [
        (!event.unit.is_empty()).then(|| format!("in {}", event.unit)),
        event.lacks.as_ref().map(|reason| format!("none: {reason}")),
        event.note.map(str::to_owned),
    ];
    let about = about.into_iter().flatten().collect::<Vec<_>>().join("; ");
    if about.is_empty() {
        writeln!(out, "  {name}")
    } else {
        writeln!(out, "  {name:NAME_WIDTH$} {}", printable(&about))
    }
}

fn write_systems(out: &mut impl Write, systems: &[System]) -> io::Result<()> {
    if systems.is_empty() {
        return Ok(());
    }
    let all: usize = systems.iter().map(|system| system.events).sum();
    writeln!(out, "  {all} in {} systems; `tare list 'sched:*'` lists one system", systems.len())?;
    let mut used = 0;
    for system in systems {
        let shown = format!("{} {}", printable(&system.name), system.events);
        if used > 0 && used + shown.len() + 2 > WIDTH {
            writeln!(out, ",")?;
            used = 0;
        }
        write!(out, "{}{shown}", if used == 0 { "  " } else { ", " })?;
        used += shown.len() + 2;
    }
    writeln!(out)
}
