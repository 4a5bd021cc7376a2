//! Columns of a table: figures and sort keys.

use std::cmp::Ordering;
use std::fmt::{self, Write};

use crate::details;

use tare_format::printable;
use tare_profile::{
    Entry, FrameId, Function, Key, Profile, Space, StringId, Table, Weight, short_name,
};

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// The share of what samples weigh that were in it or in what it called.
    Children,
    /// The share of what samples weigh that were in it.
    Overhead,
    /// How many samples were in it.
    Samples,
    /// The sum of their periods.
    Period,
    /// The share of what samples weigh that were in it in this part of an address space.
    OverheadOf(Space),
    /// A sort key.
    Key(Key),
}

impl Column {
    /// What stands above it.
    #[must_use]
    pub fn title(self, has_children: bool) -> &'static str {
        match self {
            Self::Children => "Children",
            Self::Overhead if has_children => "Self",
            Self::Overhead => "Overhead",
            Self::Samples => "Samples",
            Self::Period => "Period",
            Self::OverheadOf(Space::Kernel) => "sys",
            Self::OverheadOf(Space::GuestKernel) => "guest sys",
            Self::OverheadOf(Space::GuestUser) => "guest usr",
            Self::OverheadOf(_) => "usr",
            Self::Key(Key::Detail(detail)) => details::title(detail),
            Self::Key(Key::Comm) => "Command",
            Self::Key(Key::Tid) => "    Pid:Command",
            Self::Key(Key::Tgid) => "   Tgid",
            Self::Key(Key::Dso) => "Shared Object",
            Self::Key(Key::Symbol) => "Symbol",
            Self::Key(Key::SrcLine) => "Source:Line",
            Self::Key(Key::SrcFile) => "Source File",
            Self::Key(Key::Cpu) => "CPU",
            Self::Key(Key::Event) => "Event",
            Self::Key(Key::Trace) => "Trace output",
        }
    }

    /// What stands in it for an entry, made safe for a terminal.
    #[must_use]
    pub fn text(self, profile: &Profile, table: &Table, entry: &Entry) -> String {
        let mut text = String::new();
        // A string takes all that is written to it.
        let _ = self.cell(&mut text, profile, table, entry);
        text
    }

    /// The width of a percentage, whatever it is; `None` for all else.
    #[must_use]
    pub fn percentage_width(self) -> Option<usize> {
        match self {
            Self::Children | Self::Overhead | Self::OverheadOf(_) => self.figure_width(),
            Self::Samples | Self::Period | Self::Key(_) => None,
        }
    }

    /// The least width of a figure, which stands at its right; `None` for names, which stand at the
    /// left.
    #[must_use]
    pub fn figure_width(self) -> Option<usize> {
        match self {
            Self::Children | Self::Overhead => Some(8),
            Self::Samples | Self::Period => Some(12),
            Self::OverheadOf(Space::Kernel | Space::User) => Some(8),
            Self::OverheadOf(_) => Some(9),
            Self::Key(Key::Detail(detail)) => details::least_width(detail).err(),
            Self::Key(_) => None,
        }
    }

    /// The least width of a name.
    pub(crate) fn name_width(self) -> usize {
        match self {
            Self::Key(Key::Detail(detail)) => details::least_width(detail).unwrap_or(0),
            _ => 0,
        }
    }

    /// Writes what stands in it for an entry.
    pub(crate) fn cell(
        self,
        out: &mut impl Write,
        profile: &Profile,
        table: &Table,
        entry: &Entry,
    ) -> fmt::Result {
        match self {
            Self::Children => write!(out, "{:.2}%", percent(entry.total, table.all)),
            Self::Overhead => write!(out, "{:.2}%", percent(entry.own, table.all)),
            Self::Samples => write!(out, "{}", entry.own.samples),
            Self::Period => write!(out, "{}", entry.own.period),
            Self::OverheadOf(space) => {
                let part = Weight { period: of_space(entry, space), samples: 0 };
                write!(out, "{:.2}%", percent(part, table.all))
            }
            Self::Key(key) => key_cell(out, key, profile, table, entry),
        }
    }

    /// What comes first of two: the heavier, then by name.
    pub(crate) fn compare(self, profile: &Profile, left: &Entry, right: &Entry) -> Ordering {
        let text = |id: Option<StringId>| id.map(|id| profile.string(id));
        match self {
            Self::Children => right
                .total
                .period
                .cmp(&left.total.period)
                .then_with(|| nearer_the_root(left, right)),
            Self::OverheadOf(space) => of_space(right, space).cmp(&of_space(left, space)),
            Self::Key(Key::Detail(detail)) => details::compare(detail, profile, left, right),
            Self::Overhead | Self::Period => right.own.period.cmp(&left.own.period),
            Self::Samples => right.own.samples.cmp(&left.own.samples),
            Self::Key(Key::Comm) => text(left.comm).cmp(&text(right.comm)),
            Self::Key(key @ (Key::Tid | Key::Tgid)) => {
                number(key, profile, left).cmp(&number(key, profile, right))
            }
            Self::Key(Key::Dso) => {
                let name = |entry: &Entry| text(short_name(profile, entry.frame));
                name(left).cmp(&name(right))
            }
            Self::Key(Key::SrcLine | Key::SrcFile) => {
                let place = |entry: &Entry| {
                    let line = profile.frame(entry.frame?)?.line?;
                    Some((profile.string(line.file), line.line))
                };
                place(left).cmp(&place(right))
            }
            Self::Key(Key::Cpu) => left.cpu.cmp(&right.cpu),
            Self::Key(Key::Trace) => text(left.trace).cmp(&text(right.trace)),
            // A table is of one event.
            Self::Key(Key::Event) => Ordering::Equal,
            Self::Key(Key::Symbol) => {
                let name = |function| match function {
                    Function::Named(symbol) => {
                        profile.symbol(symbol).map(|symbol| profile.string(symbol.name))
                    }
                    _ => None,
                };
                let left = left.function(profile);
                let right = right.function(profile);
                name(left).cmp(&name(right)).then_with(|| left.cmp(&right))
            }
        }
    }
}

/// What was in an entry in a part of an address space.
fn of_space(entry: &Entry, space: Space) -> u64 {
    let parts = entry.own_by_space.as_deref().copied();
    let [kernel, user, guest_kernel, guest_user] = parts.unwrap_or_default();
    match space {
        Space::Kernel => kernel,
        Space::GuestKernel => guest_kernel,
        Space::GuestUser => guest_user,
        _ => user,
    }
}

/// The number of an entry's thread or process.
pub(crate) fn number(key: Key, profile: &Profile, entry: &Entry) -> Option<i32> {
    let thread = profile.thread(entry.thread?)?;
    Some(if key == Key::Tid { thread.tid } else { thread.pid })
}

/// Of one thread callers stand above what they call, where both weigh the same.
fn nearer_the_root(left: &Entry, right: &Entry) -> Ordering {
    left.thread.cmp(&right.thread).then(right.depth.cmp(&left.depth))
}

/// The share of a period in another, in percent; 0 of nothing.
#[must_use]
pub fn percent(part: Weight, all: Weight) -> f64 {
    if all.period == 0 { 0.0 } else { 100.0 * part.period as f64 / all.period as f64 }
}

fn key_cell(
    out: &mut impl Write,
    key: Key,
    profile: &Profile,
    table: &Table,
    entry: &Entry,
) -> fmt::Result {
    const UNKNOWN: &str = "[unknown]";
    let text = |out: &mut dyn Write, id: Option<StringId>| match id {
        Some(id) => out.write_str(&printable(profile.string(id))),
        None => out.write_str(UNKNOWN),
    };
    match (key, number(key, profile, entry)) {
        (Key::Comm, _) => text(out, entry.comm),
        (Key::Tid | Key::Tgid, None) => out.write_str(UNKNOWN),
        (Key::Tgid, Some(tgid)) => write!(out, "{tgid:>7}"),
        (Key::Tid, Some(tid)) => {
            write!(out, "{tid:>7}:")?;
            text(out, entry.thread.and_then(|thread| profile.name_of(thread)))
        }
        (Key::Trace, _) => text(out, entry.trace),
        (Key::Detail(detail), _) => details::cell(out, detail, profile, entry),
        (Key::Dso, _) => text(out, short_name(profile, entry.frame)),
        (Key::SrcLine | Key::SrcFile, _) => source(out, key, profile, entry),
        (Key::Cpu, _) => match entry.cpu {
            Some(cpu) => write!(out, "{cpu:03}"),
            None => out.write_str("-001"),
        },
        (Key::Event, _) => text(out, profile.event(table.event).map(|event| event.name)),
        (Key::Symbol, _) => {
            write!(out, "[{}] ", space_letter(profile, entry))?;
            function(out, profile, entry.function(profile))?;
            out.write_str(inlined(profile, entry.frame))
        }
    }
}

/// What stands behind the name of a function that was inlined.
pub fn inlined(profile: &Profile, frame: Option<FrameId>) -> &'static str {
    let frame = frame.and_then(|frame| profile.frame(frame));
    if frame.is_some_and(|frame| frame.is_inlined) { " (inlined)" } else { "" }
}

/// The last part of a source file's path, and the line in it.
fn source(out: &mut impl Write, key: Key, profile: &Profile, entry: &Entry) -> fmt::Result {
    let Some(line) = entry.frame.and_then(|frame| profile.frame(frame)?.line) else {
        return out.write_str(if key == Key::SrcLine { "??:0" } else { "." });
    };
    let path = profile.string(line.file);
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    out.write_str(&printable(name))?;
    if key == Key::SrcLine { write!(out, ":{}", line.line) } else { Ok(()) }
}

fn space_letter(profile: &Profile, entry: &Entry) -> char {
    let frame = entry.frame.and_then(|frame| profile.frame(frame));
    frame.map_or(Space::Unknown, |frame| frame.space).letter()
}

/// What tables call the function of a frame, made safe for a terminal: its name, else the address.
#[must_use]
pub fn function_name(profile: &Profile, frame: Option<FrameId>) -> String {
    let mut name = String::new();
    // A string takes all that is written to it.
    let _ = function(&mut name, profile, Function::of(profile, frame));
    name
}

/// A function's name, or its address with 16 digits.
fn function(out: &mut impl Write, profile: &Profile, function: Function) -> fmt::Result {
    match function {
        Function::Named(symbol) => match profile.symbol(symbol) {
            Some(symbol) => out.write_str(&printable(profile.string(symbol.name))),
            None => Ok(()),
        },
        Function::Address(_, 0) => write!(out, "{:016x}", 0),
        Function::Address(_, address) => write!(out, "{address:#018x}"),
        Function::Unknown => out.write_str("[unknown]"),
    }
}
