//! Weight by function, module, thread or process of a recording.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;
use indexmap::IndexSet;
use tare_profile::{FrameId, Profile, Row, SliceRow};
use tare_render::FrameText;

/// What samples of a recording are summed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordedLabel {
    Event,
    Thread,
    Process,
    Function,
    Module,
}

impl RecordedLabel {
    pub(super) const ALL: [(&'static str, Self); 5] = [
        ("thread", Self::Thread),
        ("process", Self::Process),
        ("function", Self::Function),
        ("module", Self::Module),
        ("event", Self::Event),
    ];

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, label)| *label)
    }

    fn is_of_frames(self) -> bool {
        matches!(self, Self::Function | Self::Module)
    }
}

/// Samples, own weight, and weight with callees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LabelSum {
    pub(super) samples: u64,
    pub(super) own: u64,
    pub(super) total: u64,
}

/// Sums by event and label, and the weight of each event.
#[derive(Debug, Default)]
pub(super) struct LabelSums {
    pub(super) groups: BTreeMap<(String, String), LabelSum>,
    pub(super) events: BTreeMap<String, u64>,
}

/// Names of a profile's frames, each looked up once.
pub(super) struct FrameNames<'a> {
    profile: &'a Profile,
    label: RecordedLabel,
    texts: IndexSet<String, RandomState>,
    known: HashMap<FrameId, usize, RandomState>,
    frames: Vec<FrameId>,
}

impl<'a> FrameNames<'a> {
    pub(super) fn new(profile: &'a Profile, label: RecordedLabel) -> Self {
        let texts = IndexSet::default();
        Self { profile, label, texts, known: HashMap::default(), frames: Vec::new() }
    }

    /// Returns the names of a row, innermost first; of a label that isn't of frames, one.
    pub(super) fn names(&mut self, row: &Row) -> Vec<usize> {
        if !self.label.is_of_frames() {
            let text = row_text(self.profile, self.label, row);
            return vec![self.texts.insert_full(text).0];
        }
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        self.profile.frames_of_row(row, &mut frames);
        let names = frames.iter().map(|frame| self.frame_name(*frame)).collect();
        self.frames = frames;
        names
    }

    pub(super) fn text(&self, name: usize) -> &str {
        self.texts.get_index(name).map_or("", String::as_str)
    }

    fn frame_name(&mut self, frame: FrameId) -> usize {
        if let Some(known) = self.known.get(&frame) {
            return *known;
        }
        let text = FrameText::new(self.profile, frame);
        let text = match self.label {
            RecordedLabel::Module => text.dso.unwrap_or_default().into_owned(),
            _ => text.name.into_owned(),
        };
        let name = self.texts.insert_full(text).0;
        self.known.insert(frame, name);
        name
    }
}

/// Returns the value of a label that isn't of frames.
pub(super) fn row_text(profile: &Profile, label: RecordedLabel, row: &Row) -> String {
    let string = |id| String::from_utf8_lossy(profile.string(id)).into_owned();
    match label {
        RecordedLabel::Event => profile.event(row.event).map(|event| string(event.name)),
        RecordedLabel::Process => {
            let thread = row.thread.and_then(|thread| profile.thread(thread));
            thread.map(|thread| thread.pid.to_string())
        }
        _ => row.comm.map(string),
    }
    .unwrap_or_default()
}

/// Sums rows up.
pub(super) fn sum_up(
    profile: &Profile,
    rows: impl Iterator<Item = SliceRow>,
    label: RecordedLabel,
) -> LabelSums {
    let mut names = FrameNames::new(profile, label);
    let mut sums: HashMap<(usize, usize), LabelSum, RandomState> = HashMap::default();
    let mut events = IndexSet::<String>::new();
    let mut weights: Vec<u64> = Vec::new();
    for SliceRow { row, weight, .. } in rows {
        let event = events.insert_full(row_text(profile, RecordedLabel::Event, &row)).0;
        weights.resize(events.len(), 0);
        weights[event] += weight.period;
        let mut of_row = names.names(&row);
        if let Some(own) = of_row.first() {
            let sum = sums.entry((event, *own)).or_default();
            sum.samples += weight.samples;
            sum.own += weight.period;
        }
        of_row.sort_unstable();
        of_row.dedup();
        for name in of_row {
            sums.entry((event, name)).or_default().total += weight.period;
        }
    }
    let event = |at: usize| events.get_index(at).cloned().unwrap_or_default();
    let groups = sums.into_iter();
    let groups = groups.map(|((at, name), sum)| ((event(at), names.text(name).to_owned()), sum));
    LabelSums {
        groups: groups.collect(),
        events: weights.iter().enumerate().map(|(at, weight)| (event(at), *weight)).collect(),
    }
}
