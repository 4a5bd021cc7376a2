//! Text that needs debug info. A line leaves a gap for it; gaps are filled in once enough lines
//! wait, because one pass over a file's debug info serves many addresses.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::rc::Rc;

use tare_annotate::{SourceRoot, Sources};
use tare_render::script::{Fields, decimal, hex, name, name_with_tabs};
use tare_replay::{DsoAddress, Machine};
use tare_symbols::{DsoKind, Frame};

/// Gaps are filled once they and the text around them take this many bytes.
pub(crate) const BLOCK: usize = 1 << 22;

/// Bytes of cached texts of frames above which the cache is cleared, checked after gaps are filled.
/// Most addresses occur many times.
const CACHED_BYTES: usize = 1 << 24;

/// Maximum number of cached source lines, checked after gaps are filled.
const CACHED_LINES: usize = 1 << 18;

/// A request for the functions and source lines of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FrameRequest {
    /// The printed address.
    pub(crate) at: DsoAddress,
    /// Whether it is a return address. Functions and line are then those of the call before it.
    pub(crate) is_return: bool,
    pub(crate) fields: Fields,
    /// Print a line for each inlined function.
    pub(crate) with_inlined: bool,
    /// Print whole paths of source files.
    pub(crate) full_source_paths: bool,
}

/// A gap in the text.
#[derive(Debug)]
struct TextGap {
    position: usize,
    content: GapContent,
}

/// The text that fills a gap.
#[derive(Debug)]
enum GapContent {
    /// The texts of a request by its number, each between the next bytes of the fronts and `end`.
    Frames { request: u32, front_bytes: u32, end: &'static [u8] },
    /// File and line, after a tab.
    Line(DsoAddress),
    /// The source line, unless the thread printed the same one last.
    Source { tid: i32, at: DsoAddress },
}

/// A file and its line, or `None` without debug info.
type SourceLine = Option<(Rc<str>, u32)>;

/// A cache of the texts of frames.
#[derive(Debug, Default)]
struct FrameTexts {
    numbers: HashMap<FrameRequest, u32, foldhash::fast::RandomState>,
    /// By number: a text per frame. The last requests may have none yet.
    texts: Vec<Box<[Box<[u8]>]>>,
    /// Requests without texts, in the order of their numbers.
    waiting: Vec<FrameRequest>,
    bytes: usize,
}

impl FrameTexts {
    /// Returns the number of a request.
    fn number(&mut self, request: FrameRequest) -> u32 {
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(request).or_insert(next);
        if number == next {
            self.waiting.push(request);
        }
        number
    }

    /// Adds the texts of the first waiting request.
    fn add(&mut self, texts: Box<[Box<[u8]>]>) {
        let bytes: usize = texts.iter().map(|text| size_of::<Box<[u8]>>() + text.len()).sum();
        self.bytes += size_of::<(FrameRequest, u32, Box<[Box<[u8]>]>)>() + bytes;
        self.texts.push(texts);
    }

    fn get(&self, number: u32) -> &[Box<[u8]>] {
        self.texts.get(number as usize).map_or(&[], |texts| texts)
    }
}

/// The gaps of a text, and a cache of lookups.
#[derive(Debug, Default)]
pub(crate) struct PendingLines {
    gaps: Vec<TextGap>,
    /// The texts before the frames of all gaps, one after the other.
    fronts: Vec<u8>,
    /// The buffer of the last filled text.
    filled: Vec<u8>,
    frames: FrameTexts,
    lines: HashMap<DsoAddress, SourceLine, foldhash::fast::RandomState>,
    /// The source line that each thread printed last.
    last: HashMap<i32, (Rc<str>, u32), foldhash::fast::RandomState>,
    sources: Sources,
    full_source_paths: bool,
}

/// Returns the number of threads that read debug info.
pub(crate) fn threads() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Whether debug info, or the line records of a jitdump, may cover an address.
pub(crate) fn may_have_lines(machine: &Machine, at: DsoAddress) -> bool {
    machine.dso(at.dso).is_some_and(|dso| {
        dso.kind.has_kernel_file() || matches!(dso.kind, DsoKind::Elf | DsoKind::JitDump { .. })
    })
}

impl PendingLines {
    pub(crate) fn new(sources: SourceRoot, full_source_paths: bool) -> Self {
        Self { sources: Sources::new(sources), full_source_paths, ..Self::default() }
    }

    /// Leaves a gap for the frames of an address, each between `front` and `end`.
    pub(crate) fn push_frames(
        &mut self,
        position: usize,
        front: &[u8],
        end: &'static [u8],
        request: FrameRequest,
    ) {
        let front_bytes = u32::try_from(front.len()).unwrap_or(0);
        self.fronts.extend_from_slice(&front[..front_bytes as usize]);
        let content = GapContent::Frames { request: self.frames.number(request), front_bytes, end };
        self.gaps.push(TextGap { position, content });
    }

    /// Leaves a gap for file and line of an address.
    pub(crate) fn push_line(&mut self, position: usize, at: DsoAddress) {
        self.gaps.push(TextGap { position, content: GapContent::Line(at) });
    }

    /// Leaves a gap for the source line of an address.
    pub(crate) fn push_source(&mut self, position: usize, tid: i32, at: DsoAddress) {
        self.gaps.push(TextGap { position, content: GapContent::Source { tid, at } });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.gaps.is_empty()
    }

    /// Bytes of memory of the gaps.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<TextGap>() * self.gaps.len() + self.fronts.len()
    }

    /// Fills all gaps of a text.
    pub(crate) fn fill(&mut self, machine: &Machine, text: &mut Vec<u8>) {
        self.look_up(machine);
        let mut filled = std::mem::take(&mut self.filled);
        filled.clear();
        let mut copied = 0;
        let all_fronts = std::mem::take(&mut self.fronts);
        let mut fronts = &all_fronts[..];
        for TextGap { position, content } in std::mem::take(&mut self.gaps) {
            filled.extend_from_slice(&text[copied..position]);
            copied = position;
            match content {
                GapContent::Frames { request, front_bytes, end } => {
                    let front = fronts.split_off(..front_bytes as usize).unwrap_or_default();
                    for frame in self.frames.get(request) {
                        filled.extend_from_slice(front);
                        filled.extend_from_slice(frame);
                        filled.extend_from_slice(end);
                    }
                }
                GapContent::Line(at) => {
                    if let Some(Some((file, line))) = self.lines.get(&at) {
                        filled.push(b'\t');
                        add_location(&mut filled, file, *line, self.full_source_paths);
                    }
                }
                GapContent::Source { tid, at } => self.add_source(&mut filled, tid, at),
            }
        }
        filled.extend_from_slice(&text[copied..]);
        self.filled = std::mem::replace(text, filled);
        if self.frames.bytes > CACHED_BYTES {
            self.frames = FrameTexts::default();
        }
        if self.lines.len() > CACHED_LINES {
            self.lines.clear();
        }
    }

    /// Adds a source line: `|17       ret`.
    fn add_source(&mut self, text: &mut Vec<u8>, tid: i32, at: DsoAddress) {
        let Some(Some((file, line))) = self.lines.get(&at) else { return };
        if self.last.get(&tid).is_some_and(|last| (&last.0, last.1) == (file, *line)) {
            return;
        }
        let Some(source) = self.sources.line(file, *line) else { return };
        text.extend_from_slice(format!("|{line:<8} ").as_bytes());
        name_with_tabs(text, source.as_bytes());
        text.push(b'\n');
        self.last.insert(tid, (file.clone(), *line));
    }

    /// Reads debug info for the addresses of gaps that aren't cached.
    fn look_up(&mut self, machine: &Machine) {
        let mut lines: HashSet<DsoAddress, foldhash::fast::RandomState> = HashSet::default();
        for gap in &self.gaps {
            match &gap.content {
                GapContent::Line(at) | GapContent::Source { at, .. }
                    if !self.lines.contains_key(at) =>
                {
                    lines.insert(*at);
                }
                _ => {}
            }
        }
        let requests = std::mem::take(&mut self.frames.waiting);
        let call = |request: &FrameRequest| machine.call_site(request.at, request.is_return);
        let mut addresses: Vec<DsoAddress> = requests.iter().map(call).collect();
        addresses.extend(&lines);
        let frames = machine.frames(&addresses, threads());
        for (index, request) in requests.iter().enumerate() {
            let frames: Vec<Frame<'_>> = frames.get(index).collect();
            self.frames.add(frame_texts(machine, request, &frames).into());
        }
        for (index, address) in addresses.iter().enumerate().skip(requests.len()) {
            let location = frames.get(index).next().and_then(|frame| frame.location);
            let location = location.filter(|location| location.line > 0);
            let line = location.map(|location| (Rc::from(location.file), location.line));
            self.lines.insert(*address, line);
        }
    }
}

/// Formats each frame as perf does: ` name+0x12 (file)`, or ` name+0x12 (inlined)` for an inlined
/// function. With [`Fields::SRCLINE`], a second line with source file and line stands before
/// ` (inlined)`.
fn frame_texts(machine: &Machine, request: &FrameRequest, frames: &[Frame<'_>]) -> Vec<Box<[u8]>> {
    // A call that doesn't return may be a function's last instruction, with the return address in
    // the next function.
    let symbol = machine.symbol(machine.call_site(request.at, request.is_return));
    let innermost = frames.first().and_then(|frame| frame.location);
    let frames = match frames {
        frames if request.with_inlined => frames,
        [.., last] => std::slice::from_ref(last),
        [] => frames,
    };
    let frame_text = |frame: &Frame<'_>| {
        let mut text = Vec::new();
        let fields = request.fields;
        if fields.contains(Fields::SYM) {
            let function = match symbol {
                Ok(symbol) if !frame.is_inlined => Some(machine.symbol_name(symbol)),
                _ => frame.name.ok(),
            };
            text.push(b' ');
            name(&mut text, function.unwrap_or("[unknown]").as_bytes());
            if let Some(symbol) = symbol.ok().filter(|_| fields.contains(Fields::SYMOFF)) {
                text.extend_from_slice(b"+0x");
                hex(&mut text, request.at.address.wrapping_sub(symbol.start), 0);
            }
        }
        if fields.contains(Fields::DSO) && !frame.is_inlined {
            text.extend_from_slice(b" (");
            name(&mut text, machine.dso_name(request.at.dso));
            text.push(b')');
        }
        let location = if request.with_inlined { frame.location } else { innermost };
        if let Some(location) = location.filter(|_| fields.contains(Fields::SRCLINE)) {
            text.extend_from_slice(b"\n  ");
            add_location(&mut text, location.file, location.line, request.full_source_paths);
        }
        text.extend_from_slice(if frame.is_inlined { b" (inlined)" } else { b"" });
        text.into_boxed_slice()
    };
    frames.iter().map(frame_text).collect()
}

/// Adds `file:12`.
fn add_location(text: &mut Vec<u8>, file: &str, line: u32, full_path: bool) {
    let base = file.rsplit('/').next().unwrap_or(file);
    name(text, if full_path { file } else { base }.as_bytes());
    text.push(b':');
    decimal(text, line.into(), 0, b' ');
}
