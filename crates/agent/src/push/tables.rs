//! Tables of a request: texts, modules, functions and frames, to which its samples refer by number.
//!
//! Numbers of texts begin with 0, the empty text; all others begin with 1, and 0 stands for none.
//! OTLP and pprof count alike.

use std::borrow::Cow;
use std::collections::HashMap;

use foldhash::fast::RandomState;
use indexmap::{IndexMap, IndexSet};
use tare_store::{Segment, StackFrame, StackId, TextId};

/// Name of a frame of which nothing is known.
const UNKNOWN: &str = "[unknown]";

/// Name of the only frame of a stack that the window had no room for.
const NOT_KEPT: &str = "[stack not kept]";

/// Begins the names of the kernel's modules.
const KERNEL: char = '[';

/// Bytes of a location, a function and a mapping in a request, about.
const ROW_BYTES: usize = 16;

/// Tables of a request with samples of one window.
pub(super) struct Tables<'a> {
    segment: &'a Segment,
    strings: IndexSet<Cow<'a, str>, RandomState>,
    /// Texts of the window that `strings` has.
    known: HashMap<TextId, u32, RandomState>,
    modules: IndexMap<ModuleKey, ModuleRow, RandomState>,
    functions: IndexSet<FunctionRow, RandomState>,
    frames: IndexMap<StackFrame, LocationRow, RandomState>,
    bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ModuleKey {
    path: Option<TextId>,
    build_id: Option<TextId>,
}

/// A binary or library.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModuleRow {
    /// Its path.
    pub(super) path: u32,
    /// Its build id in hexadecimal.
    pub(super) build_id: u32,
    /// The first address after those of its frames.
    pub(super) end: u64,
}

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FunctionRow {
    /// Its name.
    pub(super) name: u32,
    /// Its source file.
    pub(super) file: u32,
}

/// A frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocationRow {
    /// Number of its module.
    pub(super) module: u32,
    /// Number of its function.
    pub(super) function: u32,
    /// Offset in the module's file.
    pub(super) address: u64,
    /// Line in the source file, 0 if it isn't known.
    pub(super) line: u32,
    /// Whether it is the kernel's.
    pub(super) is_kernel: bool,
}

impl<'a> Tables<'a> {
    pub(super) fn new(segment: &'a Segment) -> Self {
        let mut strings = IndexSet::default();
        strings.insert(Cow::Borrowed(""));
        Self {
            segment,
            strings,
            known: HashMap::default(),
            modules: IndexMap::default(),
            functions: IndexSet::default(),
            frames: IndexMap::default(),
            bytes: 0,
        }
    }

    /// Returns the bytes that the tables take in a request, about.
    pub(super) fn bytes(&self) -> usize {
        let rows = self.modules.len() + self.functions.len() + self.frames.len();
        self.bytes + rows * ROW_BYTES
    }

    /// Returns the number of a text.
    pub(super) fn string(&mut self, text: impl Into<Cow<'a, str>>) -> u32 {
        let text = text.into();
        if let Some(at) = self.strings.get_index_of(&text) {
            return number(at);
        }
        self.bytes += text.len() + 2;
        number(self.strings.insert_full(text).0)
    }

    /// Returns the number of a text of the window, 0 for none.
    pub(super) fn text(&mut self, id: Option<TextId>) -> u32 {
        let Some(id) = id else { return 0 };
        if let Some(at) = self.known.get(&id) {
            return *at;
        }
        let at = self.string(self.segment.text(id));
        self.known.insert(id, at);
        at
    }

    /// Fills `locations` with the numbers of a stack's frames.
    pub(super) fn stack(&mut self, stack: StackId, locations: &mut Vec<u32>) {
        locations.clear();
        let segment = self.segment;
        locations.extend(segment.frames(stack).map(|frame| self.frame(frame)));
        if locations.is_empty() {
            // The frame's line can't be that of any frame of the window, which all have a module
            // or no line.
            let key = StackFrame { line: Some(u32::MAX), ..StackFrame::default() };
            locations.push(self.frame(&key));
        }
    }

    fn frame(&mut self, frame: &StackFrame) -> u32 {
        if let Some(at) = self.frames.get_index_of(frame) {
            return number(at) + 1;
        }
        let row = self.location(frame);
        number(self.frames.insert_full(*frame, row).0) + 1
    }

    fn location(&mut self, frame: &StackFrame) -> LocationRow {
        let is_placed = frame.module.is_some() || frame.build_id.is_some();
        let name = match frame.function {
            Some(_) => self.text(frame.function),
            None if is_placed => 0,
            None if frame.line.is_some() => self.string(NOT_KEPT),
            None => self.string(UNKNOWN),
        };
        let file = self.text(frame.file);
        let function = match name {
            0 => 0,
            _ => number(self.functions.insert_full(FunctionRow { name, file }).0) + 1,
        };
        let module = if is_placed { self.module(frame) } else { 0 };
        let path = frame.module.map_or("", |module| self.segment.text(module));
        LocationRow {
            module,
            function,
            address: frame.address,
            line: if is_placed { frame.line.unwrap_or(0) } else { 0 },
            is_kernel: path.starts_with(KERNEL),
        }
    }

    fn module(&mut self, frame: &StackFrame) -> u32 {
        let key = ModuleKey { path: frame.module, build_id: frame.build_id };
        let [path, build_id] = [key.path, key.build_id].map(|id| self.text(id));
        let entry = self.modules.entry(key);
        let at = entry.index();
        let row = entry.or_insert(ModuleRow { path, build_id, end: 0 });
        row.end = row.end.max(frame.address.saturating_add(1));
        number(at) + 1
    }

    /// Returns all texts.
    pub(super) fn take_strings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.strings).into_iter().map(Cow::into_owned).collect()
    }

    /// Returns the modules in the order of their numbers.
    pub(super) fn modules(&self) -> impl Iterator<Item = ModuleRow> {
        self.modules.values().copied()
    }

    /// Returns the functions in the order of their numbers.
    pub(super) fn functions(&self) -> impl Iterator<Item = FunctionRow> {
        self.functions.iter().copied()
    }

    /// Returns the frames in the order of their numbers.
    pub(super) fn locations(&self) -> impl Iterator<Item = LocationRow> {
        self.frames.values().copied()
    }
}

/// The limits of a window keep numbers far below 2^31.
fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
