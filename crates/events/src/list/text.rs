use std::io::{self, Write};

use super::inventory::{Entry, Section, System};
use super::selection::Kind;
use tare_format::printable;

/// Columns that lines of several names fill.
const WIDTH: usize = 100;
/// Width of the name column.
const NAME_WIDTH: usize = 40;

fn title(kind: Kind) -> &'static str {
    match kind {
        Kind::Hardware => "Hardware events",
        Kind::Software => "Software events",
        Kind::Cache => "Cache events",
        Kind::Pmu => "Events that PMUs name",
        Kind::Raw => "Events by number",
        Kind::Tracepoint => "Tracepoints",
        Kind::Breakpoint => "Breakpoints",
    }
}

/// Writes the sections, and a note after them.
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
            None => section.events.iter().try_for_each(|event| line(out, event))?,
        }
        systems(out, &section.systems)?;
    }
    note.map_or(Ok(()), |note| writeln!(out, "\n{note}"))
}

fn line(out: &mut impl Write, event: &Entry) -> io::Result<()> {
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

fn systems(out: &mut impl Write, systems: &[System]) -> io::Result<()> {
    if systems.is_empty() {
        return Ok(());
    }
    let all: usize = systems.iter().map(|system| system.events).sum();
    writeln!(
        out,
        "  {all} in {} systems; `tare list 'sched:*'` shows those of one",
        systems.len()
    )?;
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
