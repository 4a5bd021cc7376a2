//! Columns of a table: figures and sort keys.

use std::cmp::Ordering;

use tare_profile::{Entry, Function, Key, Profile, Space, StringId, Weight};

use tare_format::printable;

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
            Self::Key(Key::Comm) => "Command",
            Self::Key(Key::Tid) => "    Pid:Command",
            Self::Key(Key::Tgid) => "   Tgid",
            Self::Key(Key::Dso) => "Shared Object",
            Self::Key(Key::Symbol) => "Symbol",
            Self::Key(Key::Cpu) => "CPU",
            Self::Key(Key::Event) => "Event",
        }
    }

    /// The least width of a figure, which stands at its right; `None` for names, which stand at the
    /// left.
    pub(crate) fn figure_width(self) -> Option<usize> {
        match self {
            Self::Children | Self::Overhead => Some(8),
            Self::Samples | Self::Period => Some(12),
            Self::Key(_) => None,
        }
    }

    /// What stands in it for an entry.
    pub(crate) fn cell(self, profile: &Profile, entry: &Entry, all: Weight) -> String {
        match self {
            Self::Children => format!("{:.2}%", percent(entry.total, all)),
            Self::Overhead => format!("{:.2}%", percent(entry.own, all)),
            Self::Samples => entry.own.samples.to_string(),
            Self::Period => entry.own.period.to_string(),
            Self::Key(key) => key_cell(key, profile, entry),
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
            Self::Overhead | Self::Period => right.own.period.cmp(&left.own.period),
            Self::Samples => right.own.samples.cmp(&left.own.samples),
            Self::Key(Key::Comm) => text(left.group.comm).cmp(&text(right.group.comm)),
            Self::Key(Key::Tid) => left.group.tid.cmp(&right.group.tid),
            Self::Key(Key::Tgid) => left.group.tgid.cmp(&right.group.tgid),
            Self::Key(Key::Dso) => left.group.dso.map(text).cmp(&right.group.dso.map(text)),
            Self::Key(Key::Cpu) => left.group.cpu.cmp(&right.group.cpu),
            Self::Key(Key::Event) => left.group.event.cmp(&right.group.event),
            Self::Key(Key::Symbol) => {
                let name = |function| match function {
                    Some(Function::Named(symbol)) => {
                        profile.symbol(symbol).map(|symbol| profile.string(symbol.name))
                    }
                    _ => None,
                };
                let by_name = name(left.group.function).cmp(&name(right.group.function));
                by_name.then_with(|| left.group.function.cmp(&right.group.function))
            }
        }
    }
}

/// Of one thread callers stand above what they call, where both weigh the same.
fn nearer_the_root(left: &Entry, right: &Entry) -> Ordering {
    left.thread.cmp(&right.thread).then(right.depth.cmp(&left.depth))
}

/// The share of a period in another, in percent; 0 of nothing.
pub(crate) fn percent(part: Weight, all: Weight) -> f64 {
    if all.period == 0 { 0.0 } else { 100.0 * part.period as f64 / all.period as f64 }
}

fn key_cell(key: Key, profile: &Profile, entry: &Entry) -> String {
    let text = |id: Option<StringId>| {
        id.map_or("[unknown]".into(), |id| printable(profile.string(id)).into_owned())
    };
    match key {
        Key::Comm => text(entry.group.comm),
        Key::Tid => {
            let name = entry.thread.and_then(|thread| profile.name_of(thread));
            entry
                .group
                .tid
                .map_or_else(|| "[unknown]".into(), |tid| format!("{tid:>7}:{}", text(name)))
        }
        Key::Tgid => {
            entry.group.tgid.map_or_else(|| "[unknown]".into(), |tgid| format!("{tgid:>7}"))
        }
        Key::Dso => text(entry.group.dso.flatten()),
        Key::Cpu => {
            entry.group.cpu.flatten().map_or_else(|| "-001".into(), |cpu| format!("{cpu:03}"))
        }
        Key::Event => {
            text(entry.group.event.and_then(|event| profile.event(event)).map(|event| event.name))
        }
        Key::Symbol => format!(
            "[{}] {}",
            space_letter(profile, entry),
            function(profile, entry.group.function.unwrap_or(Function::Unknown))
        ),
    }
}

fn space_letter(profile: &Profile, entry: &Entry) -> char {
    match entry
        .frame
        .and_then(|frame| profile.frame(frame))
        .map_or(Space::Unknown, |frame| frame.space)
    {
        Space::Kernel => 'k',
        Space::User => '.',
        Space::GuestKernel => 'g',
        Space::GuestUser => 'u',
        Space::Hypervisor => 'H',
        Space::Unknown => '?',
    }
}

/// A function's name, or its address with 16 digits.
fn function(profile: &Profile, function: Function) -> String {
    match function {
        Function::Named(symbol) => profile
            .symbol(symbol)
            .map_or_else(String::new, |symbol| printable(profile.string(symbol.name)).into_owned()),
        Function::Address(_, 0) => format!("{:016x}", 0),
        Function::Address(_, address) => format!("{address:#018x}"),
        Function::Unknown => "[unknown]".into(),
    }
}
