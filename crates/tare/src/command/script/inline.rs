//! Lines that debug info is asked for: they are left open until enough of them have come together,
//! so that a file's debug info is gone through for many addresses at once.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::rc::Rc;

use tare_annotate::Sources;
use tare_replay::{DsoAddress, Machine};
use tare_symbols::{DsoKind, Frame};

use super::line;
use tare_render::script::Fields;

/// Bytes of text after which open lines are filled in.
pub(super) const BLOCK: usize = 1 << 22;

/// Texts that are kept: most addresses come many times.
const KEPT: usize = 1 << 18;

/// An address and what is asked about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct InlineRequest {
    /// The address that is shown.
    pub(super) at: DsoAddress,
    /// The address that lies in the instruction: of a caller the one before that it returns to.
    pub(super) within: DsoAddress,
    pub(super) fields: Fields,
    /// In a call chain, each inlined function has a line.
    pub(super) with_inlined: bool,
    /// Paths of source files are whole.
    pub(super) with_paths: bool,
}

/// A place in the text that waits for its lines.
#[derive(Debug)]
struct Open {
    position: usize,
    awaited: PendingText,
}

/// What it waits for.
#[derive(Debug)]
enum PendingText {
    /// A line for each frame: what each begins with, and ends with.
    Frames(Box<[u8]>, &'static [u8], InlineRequest),
    /// File and line, behind a tab.
    Line(DsoAddress),
    /// The line of the source, unless it is the one that this thread had before.
    Source(i32, DsoAddress),
}

/// A file and a line of it; `None`: debug info has none.
type SourceLine = Option<(Rc<str>, u32)>;

/// The lines that wait, and what was found before.
#[derive(Debug, Default)]
pub(super) struct OpenLines {
    open: Vec<Open>,
    found: HashMap<InlineRequest, Rc<[Box<[u8]>]>, foldhash::fast::RandomState>,
    places: HashMap<DsoAddress, SourceLine, foldhash::fast::RandomState>,
    /// The line of each thread that was printed last.
    last: HashMap<i32, (Rc<str>, u32), foldhash::fast::RandomState>,
    sources: Sources,
    with_paths: bool,
}

/// As many threads as may run at once.
pub(super) fn threads() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Whether a file's debug info, or a compiler's, may know more of an address.
pub(super) fn may_have_lines(machine: &Machine, at: DsoAddress) -> bool {
    machine.dso(at.dso).is_some_and(|dso| {
        dso.kind.has_kernel_file() || matches!(dso.kind, DsoKind::Elf | DsoKind::JitDump { .. })
    })
}

/// The address whose line and inlined functions an address of a call chain has.
pub(super) fn within(at: DsoAddress, is_caller: bool) -> DsoAddress {
    DsoAddress { address: at.address.saturating_sub(u64::from(is_caller)), ..at }
}

impl OpenLines {
    /// `with_paths`: paths of source files are whole.
    pub(super) fn new(with_paths: bool) -> Self {
        Self { with_paths, ..Self::default() }
    }

    /// Leaves lines open at a position of the text.
    pub(super) fn push(
        &mut self,
        position: usize,
        front: &[u8],
        end: &'static [u8],
        asked: InlineRequest,
    ) {
        self.open.push(Open { position, awaited: PendingText::Frames(front.into(), end, asked) });
    }

    /// Leaves room for file and line of an address.
    pub(super) fn push_line(&mut self, position: usize, at: DsoAddress) {
        self.open.push(Open { position, awaited: PendingText::Line(at) });
    }

    /// Leaves room for the source of an address.
    pub(super) fn push_source(&mut self, position: usize, tid: i32, at: DsoAddress) {
        self.open.push(Open { position, awaited: PendingText::Source(tid, at) });
    }

    /// Whether nothing is open.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Fills in what is open.
    pub(super) fn fill(&mut self, machine: &Machine, text: &mut Vec<u8>) {
        self.look_up(machine);
        let mut filled = Vec::with_capacity(text.len() + 64 * self.open.len());
        let mut copied = 0;
        for Open { position, awaited } in std::mem::take(&mut self.open) {
            filled.extend_from_slice(&text[copied..position]);
            copied = position;
            match awaited {
                PendingText::Frames(front, end, asked) => {
                    for piece in self.found.get(&asked).iter().flat_map(|pieces| pieces.iter()) {
                        filled.extend_from_slice(&front);
                        filled.extend_from_slice(piece);
                        filled.extend_from_slice(end);
                    }
                }
                PendingText::Line(at) => {
                    if let Some(Some((file, number))) = self.places.get(&at) {
                        filled.push(b'\t');
                        place(&mut filled, file, *number, self.with_paths);
                    }
                }
                PendingText::Source(tid, at) => self.source(&mut filled, tid, at),
            }
        }
        filled.extend_from_slice(&text[copied..]);
        *text = filled;
        if self.found.len() > KEPT {
            self.found.clear();
        }
        if self.places.len() > KEPT {
            self.places.clear();
        }
    }

    /// Adds a line of the source: `|17       ret`.
    fn source(&mut self, text: &mut Vec<u8>, tid: i32, at: DsoAddress) {
        let Some(Some((file, number))) = self.places.get(&at) else { return };
        if self.last.get(&tid).is_some_and(|last| (&last.0, last.1) == (file, *number)) {
            return;
        }
        let Some(source) = self.sources.line(file, *number) else { return };
        text.extend_from_slice(format!("|{number:<8} ").as_bytes());
        line::name_with_tabs(text, source.as_bytes());
        text.push(b'\n');
        self.last.insert(tid, (file.clone(), *number));
    }

    fn look_up(&mut self, machine: &Machine) {
        let mut all: HashSet<InlineRequest, foldhash::fast::RandomState> = HashSet::default();
        let mut places: HashSet<DsoAddress, foldhash::fast::RandomState> = HashSet::default();
        for open in &self.open {
            match &open.awaited {
                PendingText::Frames(_, _, asked) if !self.found.contains_key(asked) => {
                    all.insert(*asked);
                }
                PendingText::Line(at) | PendingText::Source(_, at)
                    if !self.places.contains_key(at) =>
                {
                    places.insert(*at);
                }
                _ => {}
            }
        }
        let new: Vec<InlineRequest> = all.into_iter().collect();
        let mut addresses: Vec<DsoAddress> = new.iter().map(|asked| asked.within).collect();
        addresses.extend(&places);
        let frames = machine.frames(&addresses, threads());
        for (place, asked) in new.iter().enumerate() {
            let frames: Vec<Frame<'_>> = frames.get(place).collect();
            let pieces = pieces(machine, asked, &frames);
            self.found.insert(*asked, pieces.into());
        }
        for (at, address) in addresses.iter().enumerate().skip(new.len()) {
            let location = frames.get(at).next().and_then(|frame| frame.location);
            let location = location.filter(|location| location.line > 0);
            let found = location.map(|location| (Rc::from(location.file), location.line));
            self.places.insert(*address, found);
        }
    }
}

/// Awaited is shown of each frame, as in perf: ` name+0x12 (file)`, of an inlined one ` name+0x12
/// (inlined)`, with the line of source below.
fn pieces(machine: &Machine, asked: &InlineRequest, frames: &[Frame<'_>]) -> Vec<Box<[u8]>> {
    let symbol = machine.symbol(asked.at);
    // A call that doesn't return may be a function's last instruction: the next one's has the name.
    let is_other = frames.last().is_some_and(|last| last.symbol != symbol.ok());
    let innermost = frames.first().and_then(|frame| frame.location);
    let frames = match frames {
        frames if asked.with_inlined && !is_other => frames,
        [.., last] => std::slice::from_ref(last),
        [] => frames,
    };
    let piece = |frame: &Frame<'_>| {
        let mut text = Vec::new();
        let fields = asked.fields;
        if fields.contains(Fields::SYM) {
            let name = match symbol {
                Ok(symbol) if !frame.is_inlined => Some(machine.symbol_name(symbol)),
                _ => frame.name.ok(),
            };
            text.push(b' ');
            line::name(&mut text, name.unwrap_or("[unknown]").as_bytes());
            if let Some(symbol) = symbol.ok().filter(|_| fields.contains(Fields::SYMOFF)) {
                text.extend_from_slice(b"+0x");
                line::hex(&mut text, asked.at.address.wrapping_sub(symbol.start), 0);
            }
        }
        if fields.contains(Fields::DSO) && !frame.is_inlined {
            text.extend_from_slice(b" (");
            line::name(&mut text, machine.dso_name(asked.at.dso));
            text.push(b')');
        }
        let location = if asked.with_inlined { frame.location } else { innermost };
        if let Some(location) = location.filter(|_| fields.contains(Fields::SRCLINE)) {
            text.extend_from_slice(b"\n  ");
            place(&mut text, location.file, location.line, asked.with_paths);
        }
        text.extend_from_slice(if frame.is_inlined { b" (inlined)" } else { b"" });
        text.into_boxed_slice()
    };
    frames.iter().map(piece).collect()
}

/// Adds `file:12`.
fn place(text: &mut Vec<u8>, file: &str, number: u32, with_paths: bool) {
    let base = file.rsplit('/').next().unwrap_or(file);
    line::name(text, if with_paths { file } else { base }.as_bytes());
    text.push(b':');
    line::decimal(text, number.into(), 0, b' ');
}
