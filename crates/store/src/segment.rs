//! A window of a host, as it is built and written.

use foldhash::fast::RandomState;
use indexmap::{IndexMap, IndexSet};
use twox_hash::XxHash64;

use crate::rows::{NULL_INT, Rows};
use crate::schema::{FRAMES, FrameColumn, SAMPLES, SEGMENTS, SampleColumn, SegmentColumn};
use crate::texts::{MAX_TEXT_BYTES, TextId, TextTable, code, cut};

/// Longest text of further labels, in bytes: labels that don't fit are left out.
pub const MAX_EXTRA_BYTES: usize = 4 << 10;

/// Number of frames per stack, from the innermost. Further frames are dropped.
pub const MAX_STACK_FRAMES: usize = 1 << 10;

/// Frames per stack that a window has room for if it has as many stacks as it may.
const MEAN_FRAMES: usize = 32;

/// Where and when a window was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Name of the host.
    pub host: String,
    /// Id of the boot.
    pub boot: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Version of the writer.
    pub agent_version: String,
    /// Start of the window, in microseconds since 1970 (UTC).
    pub start_us: i64,
    /// End of the window, in microseconds since 1970 (UTC).
    pub end_us: i64,
}

/// What a window counted, and what it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Samples in the window.
    pub samples: u64,
    /// Samples that the kernel or the writer dropped.
    pub lost: u64,
    /// Samples with an incomplete stack.
    pub truncated: u64,
    /// Samples whose innermost frame has no function.
    pub unnamed: u64,
    /// The writer's CPU time in microseconds.
    pub recorder_cpu_us: u64,
    /// Time for sampling in the kernel, in microseconds.
    pub kernel_us: u64,
    /// The sampling rate at the window's end, in thousandths of a hertz.
    pub rate_millihertz: u64,
    /// Number of CPUs online.
    pub cpus: u64,
}

/// Labels of samples: texts of the same [`SegmentBuilder`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSet {
    /// Name of the service.
    pub service: Option<TextId>,
    /// Version of the service.
    pub version: Option<TextId>,
    /// Id of the container.
    pub container: Option<TextId>,
    /// Name of the process.
    pub process: Option<TextId>,
    /// Name of the thread, or the pattern it is folded to.
    pub thread: Option<TextId>,
    /// The systemd unit.
    pub unit: Option<TextId>,
    /// The Kubernetes namespace.
    pub namespace: Option<TextId>,
    /// The Kubernetes pod.
    pub pod: Option<TextId>,
    /// The pod's owner, such as a deployment.
    pub owner: Option<TextId>,
    /// Image of the container.
    pub image: Option<TextId>,
    /// Further labels as a JSON object: [`SegmentBuilder::extra`].
    pub extra: Option<TextId>,
}

/// A frame of a stack.
///
/// Build id (or else module path) and address identify it. A frame that has neither
/// should have a module that distinguishes its process, such as the path of a perf map, because
/// frames with the same identity get the names of the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StackFrame {
    /// Name of the function.
    pub function: Option<TextId>,
    /// Source file.
    pub file: Option<TextId>,
    /// Line in the source file.
    pub line: Option<u32>,
    /// Path of the binary or library.
    pub module: Option<TextId>,
    /// Build id of the module, in hexadecimal.
    pub build_id: Option<TextId>,
    /// Offset in the module's file.
    pub address: u64,
}

/// A stack of a [`SegmentBuilder`]: a hash of its build ids and file offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(i64);

impl StackId {
    /// Stands for a stack that the window had no room for.
    pub const OMITTED: Self = Self(0);

    /// Returns the id as files have it.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

/// How much a window keeps. Samples beyond are summed without their stack and are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentLimits {
    /// Number of distinct stacks.
    pub stacks: usize,
    /// Number of distinct frames.
    pub frames: usize,
    /// Bytes of texts. Beyond it, new texts become [`OVERFLOW_TEXT`].
    pub text_bytes: usize,
}

/// Replaces texts beyond [`SegmentLimits::text_bytes`].
pub const OVERFLOW_TEXT: &str = "(too many names)";

impl Default for SegmentLimits {
    fn default() -> Self {
        Self { stacks: 1 << 16, frames: 1 << 18, text_bytes: 8 << 20 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct RowKey {
    /// Index of the label set.
    labels: u32,
    event: TextId,
    wait_reason: Option<TextId>,
    stack: StackId,
}

#[derive(Clone, Copy, Debug, Default)]
struct RowSum {
    samples: u64,
    weight: u64,
}

/// Distinct stacks, made of distinct frames.
#[derive(Debug, Default)]
struct StackTable {
    frames: IndexSet<StackFrame, RandomState>,
    /// Indexes into `frames` of all stacks, one after the other.
    chains: Vec<u32>,
    /// Each stack's begin and end in `chains`.
    stacks: IndexMap<StackId, [u32; 2], RandomState>,
}

/// Collects a window of a host.
#[derive(Debug)]
pub struct SegmentBuilder {
    info: SegmentInfo,
    limits: SegmentLimits,
    texts: TextTable,
    labels: IndexSet<LabelSet, RandomState>,
    stacks: StackTable,
    rows: IndexMap<RowKey, RowSum, RandomState>,
    omitted: u64,
    hashed: Vec<u8>,
}

impl SegmentBuilder {
    /// Begins an empty window.
    #[must_use]
    pub fn new(info: SegmentInfo) -> Self {
        Self::with_limits(info, SegmentLimits::default())
    }

    /// Begins an empty window that keeps at most `limits`.
    #[must_use]
    pub fn with_limits(info: SegmentInfo, limits: SegmentLimits) -> Self {
        Self {
            info,
            limits,
            texts: TextTable::default(),
            labels: IndexSet::default(),
            stacks: StackTable::default(),
            rows: IndexMap::default(),
            omitted: 0,
            hashed: Vec::new(),
        }
    }

    /// Returns the id of a text. A text longer than [`MAX_TEXT_BYTES`] is cut at the end of a
    /// character.
    pub fn text(&mut self, text: &str) -> TextId {
        let text = cut(text, MAX_TEXT_BYTES);
        if self.texts.bytes() + text.len() > self.limits.text_bytes && !self.texts.has(text) {
            return self.texts.intern(OVERFLOW_TEXT);
        }
        self.texts.intern(text)
    }

    /// Returns the id of a text; bytes that aren't UTF-8 become U+FFFD.
    pub fn text_lossy(&mut self, text: &[u8]) -> TextId {
        self.text(&String::from_utf8_lossy(text))
    }

    /// Returns the id of further labels as a JSON object, sorted by name. Values are cut to
    /// [`MAX_TEXT_BYTES`]; labels beyond [`MAX_EXTRA_BYTES`] are left out.
    pub fn extra(&mut self, labels: &[(&str, &str)]) -> Option<TextId> {
        let mut sorted = labels.to_vec();
        sorted.sort_unstable();
        sorted.dedup_by_key(|label| label.0);
        let mut json = String::from("{");
        for (name, value) in sorted {
            let [name, value] = [name, value]
                .map(|text| serde_json::Value::from(cut(text, MAX_TEXT_BYTES)).to_string());
            let comma = if json.len() > 1 { "," } else { "" };
            if json.len() + comma.len() + name.len() + value.len() + 2 <= MAX_EXTRA_BYTES {
                json.extend([comma, &name, ":", &value]);
            }
        }
        json.push('}');
        let has_room = self.texts.bytes() + json.len() <= self.limits.text_bytes;
        (json.len() > 2 && (has_room || self.texts.has(&json))).then(|| self.texts.intern(&json))
    }

    /// Returns the id of a stack, whose innermost frame is first. The frames of a stack that the
    /// window has already aren't compared or stored again.
    ///
    /// An empty stack and a stack beyond the window's limits are [`StackId::OMITTED`].
    pub fn stack(&mut self, frames: &[StackFrame]) -> StackId {
        let frames = &frames[..frames.len().min(MAX_STACK_FRAMES)];
        if frames.is_empty() {
            return StackId::OMITTED;
        }
        let id = self.hash(frames);
        let table = &mut self.stacks;
        if table.stacks.contains_key(&id) {
            return id;
        }
        if table.stacks.len() >= self.limits.stacks
            || table.frames.len() + frames.len() > self.limits.frames
            || table.chains.len() + frames.len() > self.limits.stacks.saturating_mul(MEAN_FRAMES)
        {
            return StackId::OMITTED;
        }
        let begin = number(table.chains.len());
        for frame in frames {
            table.chains.push(number(table.frames.insert_full(*frame).0));
        }
        table.stacks.insert(id, [begin, number(table.chains.len())]);
        id
    }

    fn hash(&mut self, frames: &[StackFrame]) -> StackId {
        let bytes = &mut self.hashed;
        bytes.clear();
        for frame in frames {
            let texts = &self.texts;
            let module = |id: TextId| texts.get(id.code()).map_or(&[][..], |text| &text[..]);
            let [kind, identity] = match (frame.build_id, frame.module) {
                (Some(id), _) => [&b"\x01"[..], module(id)],
                (None, Some(path)) => [&b"\x02"[..], module(path)],
                (None, None) => [&b"\x00"[..], &[][..]],
            };
            bytes.extend_from_slice(kind);
            bytes.extend_from_slice(&number(identity.len()).to_le_bytes());
            bytes.extend_from_slice(identity);
            bytes.extend_from_slice(&frame.address.to_le_bytes());
        }
        match XxHash64::oneshot(0, bytes).cast_signed() {
            0 => StackId(1),
            hash => StackId(hash),
        }
    }

    /// Adds samples. Their number and weight are added to those of equal labels, event, reason and
    /// stack.
    pub fn add(
        &mut self,
        labels: &LabelSet,
        event: TextId,
        wait_reason: Option<TextId>,
        stack: StackId,
        samples: u64,
        weight: u64,
    ) {
        let labels = match self.labels.get_index_of(labels) {
            Some(at) => at,
            None => self.labels.insert_full(*labels).0,
        };
        let key = RowKey { labels: number(labels), event, wait_reason, stack };
        let sum = self.rows.entry(key).or_default();
        sum.samples = sum.samples.saturating_add(samples);
        sum.weight = sum.weight.saturating_add(weight);
        if stack == StackId::OMITTED {
            self.omitted = self.omitted.saturating_add(samples);
        }
    }

    /// Changes the end of a window that ended early, in microseconds since 1970 (UTC).
    pub fn set_end(&mut self, end_us: i64) {
        self.info.end_us = end_us;
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns the sum of all samples added.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.rows.values().map(|sum| sum.samples).fold(0, u64::saturating_add)
    }

    /// Returns the memory that the window takes, about, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.texts.memory()
            + self.labels.len() * (size_of::<LabelSet>() + 16)
            + self.stacks.frames.len() * (size_of::<StackFrame>() + 16)
            + self.stacks.chains.len() * 4
            + self.stacks.stacks.len() * 32
            + self.rows.len() * (size_of::<RowKey>() + size_of::<RowSum>() + 16)
    }

    /// Returns whether the window is half of its limits, so that it has room for one more stack.
    #[must_use]
    pub fn is_half_full(&self) -> bool {
        let SegmentLimits { stacks, frames, text_bytes } = self.limits;
        2 * self.stacks.stacks.len() >= stacks
            || 2 * self.stacks.frames.len() >= frames
            || 2 * self.stacks.chains.len() >= stacks.saturating_mul(MEAN_FRAMES)
            || 2 * self.texts.bytes() >= text_bytes
    }

    /// Ends the window. Its rows are sorted as files have them.
    #[must_use]
    pub fn finish(mut self, figures: Figures) -> Segment {
        let host = self.texts.intern(&self.info.host);
        let ranks = self.texts.ranks();
        let rank = |id: Option<TextId>| ranks[code(id) as usize];
        let labels = &self.labels;
        self.rows.sort_unstable_by_key(|key, _| {
            let set = &labels[key.labels as usize];
            let first = [set.service, set.container, Some(key.event)].map(rank);
            let rest = [set.version, set.process, set.thread, set.unit, set.namespace];
            let last = [set.pod, set.owner, set.image, set.extra, key.wait_reason];
            (first, key.stack, rest.map(rank), last.map(rank))
        });
        self.stacks.stacks.sort_unstable_keys();
        self.hashed = Vec::new();
        Segment { builder: self, host, figures }
    }
}

/// A row of samples, with texts of its [`Segment`].
#[derive(Clone, Copy, Debug)]
pub struct SegmentRow {
    /// Labels.
    pub labels: LabelSet,
    /// Name of the event.
    pub event: TextId,
    /// What the thread waited for.
    pub wait_reason: Option<TextId>,
    /// The stack.
    pub stack: StackId,
    /// Number of samples.
    pub samples: u64,
    /// Sum of their periods.
    pub weight: u64,
}

/// A finished window, to be written with [`Store::write`](crate::Store::write).
#[derive(Debug)]
pub struct Segment {
    builder: SegmentBuilder,
    host: TextId,
    figures: Figures,
}

impl Segment {
    /// Returns where and when it was recorded.
    #[must_use]
    pub fn info(&self) -> &SegmentInfo {
        &self.builder.info
    }

    /// Returns what it counted.
    #[must_use]
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Returns the rows, sorted as files have them.
    pub fn rows(&self) -> impl Iterator<Item = SegmentRow> {
        self.builder.rows.iter().map(|(key, sum)| SegmentRow {
            labels: self.builder.labels[key.labels as usize],
            event: key.event,
            wait_reason: key.wait_reason,
            stack: key.stack,
            samples: sum.samples,
            weight: sum.weight,
        })
    }

    /// Returns the frames of a stack from the innermost; none of a stack that wasn't kept.
    pub fn frames(&self, stack: StackId) -> impl Iterator<Item = &StackFrame> {
        let table = &self.builder.stacks;
        let [begin, end] = table.stacks.get(&stack).copied().unwrap_or_default();
        let chain = &table.chains[begin as usize..end as usize];
        chain.iter().map(|frame| &table.frames[*frame as usize])
    }

    /// Returns a text of this window.
    #[must_use]
    pub fn text(&self, id: TextId) -> &str {
        let text = self.builder.texts.get(id.code()).map_or(&[][..], |text| &text[..]);
        std::str::from_utf8(text).unwrap_or_default()
    }

    pub(crate) fn texts(&self) -> &TextTable {
        &self.builder.texts
    }

    /// Calls `write` with the rows of samples, at most `limit` at a time.
    pub(crate) fn for_samples<E>(
        &self,
        limit: usize,
        mut write: impl FnMut(&Rows) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rows = Rows::new(&SAMPLES);
        for (at, (key, sum)) in self.builder.rows.iter().enumerate() {
            self.push_sample(&mut rows, key, *sum);
            if rows.len() == limit || at + 1 == self.builder.rows.len() {
                write(&rows)?;
                rows.clear();
            }
        }
        Ok(())
    }

    fn push_sample(&self, rows: &mut Rows, key: &RowKey, sum: RowSum) {
        let info = &self.builder.info;
        let set = &self.builder.labels[key.labels as usize];
        for column in SampleColumn::ALL {
            let text = match column {
                SampleColumn::Service => set.service,
                SampleColumn::Version => set.version,
                SampleColumn::Host => Some(self.host),
                SampleColumn::Container => set.container,
                SampleColumn::Process => set.process,
                SampleColumn::Thread => set.thread,
                SampleColumn::Unit => set.unit,
                SampleColumn::Namespace => set.namespace,
                SampleColumn::Pod => set.pod,
                SampleColumn::Owner => set.owner,
                SampleColumn::Image => set.image,
                SampleColumn::Extra => set.extra,
                SampleColumn::Event => Some(key.event),
                SampleColumn::WaitReason => key.wait_reason,
                SampleColumn::Function => self.leaf(key.stack),
                number => {
                    let value = match number {
                        SampleColumn::Window => info.start_us,
                        SampleColumn::WindowUs => info.end_us.saturating_sub(info.start_us),
                        SampleColumn::StackId => key.stack.0,
                        SampleColumn::Samples => signed(sum.samples),
                        _ => signed(sum.weight),
                    };
                    rows.push_int(*number as usize, value);
                    continue;
                }
            };
            rows.push_code(*column as usize, code(text));
        }
    }

    fn leaf(&self, stack: StackId) -> Option<TextId> {
        let [begin, _] = *self.builder.stacks.stacks.get(&stack)?;
        let table = &self.builder.stacks;
        table.frames[table.chains[begin as usize] as usize].function
    }

    /// Calls `write` with the rows of frames, at most `limit` at a time.
    pub(crate) fn for_frames<E>(
        &self,
        limit: usize,
        mut write: impl FnMut(&Rows) -> Result<(), E>,
    ) -> Result<(), E> {
        let table = &self.builder.stacks;
        let mut rows = Rows::new(&FRAMES);
        for (stack, [begin, end]) in &table.stacks {
            for (depth, frame) in table.chains[*begin as usize..*end as usize].iter().enumerate() {
                push_frame(&mut rows, *stack, depth, &table.frames[*frame as usize]);
                if rows.len() == limit {
                    write(&rows)?;
                    rows.clear();
                }
            }
        }
        if rows.len() > 0 { write(&rows) } else { Ok(()) }
    }

    /// Returns the row of the table of segments, with texts of the second value.
    pub(crate) fn summary(&self) -> (Rows, TextTable) {
        let figures = &self.figures;
        let counts = [
            figures.samples,
            figures.lost,
            figures.truncated,
            figures.unnamed,
            self.builder.omitted,
            figures.recorder_cpu_us,
            figures.kernel_us,
            figures.rate_millihertz,
            figures.cpus,
        ];
        segment_row("window", &self.builder.info, counts)
    }
}

/// Returns the row of a gap in the table of segments; `samples` is a lower bound of the samples
/// lost.
pub(crate) fn gap_row(info: &SegmentInfo, samples: u64) -> (Rows, TextTable) {
    segment_row("gap", info, [samples, 0, 0, 0, 0, 0, 0, 0, 0])
}

fn segment_row(kind: &str, info: &SegmentInfo, counts: [u64; 9]) -> (Rows, TextTable) {
    let mut texts = TextTable::default();
    let mut rows = Rows::new(&SEGMENTS);
    let columns = [
        (SegmentColumn::Kind, kind),
        (SegmentColumn::Host, &info.host),
        (SegmentColumn::Boot, &info.boot),
        (SegmentColumn::Kernel, &info.kernel),
        (SegmentColumn::AgentVersion, &info.agent_version),
    ];
    for (column, text) in columns {
        rows.push_code(column as usize, texts.intern(text).code());
    }
    rows.push_int(SegmentColumn::Start as usize, info.start_us);
    rows.push_int(SegmentColumn::End as usize, info.end_us);
    for (at, count) in counts.into_iter().enumerate() {
        rows.push_int(SegmentColumn::Samples as usize + at, signed(count));
    }
    (rows, texts)
}

fn push_frame(rows: &mut Rows, stack: StackId, depth: usize, frame: &StackFrame) {
    rows.push_int(FrameColumn::StackId as usize, stack.0);
    rows.push_int(FrameColumn::Depth as usize, signed(depth as u64));
    rows.push_code(FrameColumn::Function as usize, code(frame.function));
    rows.push_code(FrameColumn::File as usize, code(frame.file));
    let line = frame.line.and_then(|line| i32::try_from(line).ok());
    rows.push_int(FrameColumn::Line as usize, line.map_or(NULL_INT, i64::from));
    rows.push_code(FrameColumn::Module as usize, code(frame.module));
    rows.push_code(FrameColumn::BuildId as usize, code(frame.build_id));
    rows.push_int(FrameColumn::Address as usize, frame.address.cast_signed());
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Indexes stay below 2^32: the limits of a window are far below.
fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
