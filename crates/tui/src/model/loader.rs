//! Fills a model from a recording, in steps between which the interface can read it.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tare_format::file::Header;
use tare_format::ledger::Ledger;
use tare_profile::Losses;
use tare_replay::{Error, Recording, Replay, ReplayOptions, SampleSink, SampleSinkOptions};

use super::{Model, Progress, SharedModel};

/// Records replayed between two checks for a waiting reader.
const STEP: u32 = 1 << 8;

/// Time after which the loader unlocks the model between two steps.
const TURN: Duration = Duration::from_millis(10);

/// What to load.
#[derive(Debug)]
pub(crate) struct Source {
    /// The recording, positioned at its beginning.
    pub(crate) recording: Recording,
    /// Where to look for symbols.
    pub(crate) symbols: tare_symbols::SymbolOptions,
    /// Which fields of samples to keep.
    pub(crate) samples: SampleSinkOptions,
    /// Keep the recorder's own samples.
    pub(crate) include_self: bool,
    /// Adds advice on how to get names for unnamed samples.
    pub(crate) mend: fn(&mut Losses, &tare_symbols::SymbolOptions),
}

impl Model {
    /// Creates the empty model of a recording.
    pub(crate) fn new(source: &Source) -> Self {
        let description = source.recording.description().clone();
        Self {
            sink: SampleSink::new(source.samples.clone(), &description),
            ledger: ledger(&description),
            description,
            losses: Losses::default(),
            progress: Progress::Loading(0, records_end(&source.recording)),
            include_self: source.include_self,
            totals: None,
            replay: None,
            live: None,
        }
    }
}

fn ledger(description: &tare_format::file::Description) -> Option<Ledger> {
    description.notes().iter().rev().find_map(|note| Ledger::from_note(note))
}

/// Returns the offset at which a file's records end; a pipe's end isn't known.
fn records_end(recording: &Recording) -> Option<u64> {
    match recording.header() {
        Header::File(header) => Some(header.data.offset.saturating_add(header.data.size)),
        Header::Pipe => None,
    }
}

/// Loads a recording to its end.
pub(crate) fn load(shared: &SharedModel, source: Source) {
    let Source { mut recording, symbols, mend, .. } = source;
    let mut replay =
        Replay::new(ReplayOptions { symbols: symbols.clone(), ..ReplayOptions::default() });
    let end = records_end(&recording);
    loop {
        let mut model = shared.fill();
        let flow = load_turn(shared, &mut model, &mut replay, &mut recording);
        model.losses = replay.losses_of(&recording);
        model.progress = match flow {
            Ok(ControlFlow::Continue(())) => Progress::Loading(replay.offset(), end),
            Ok(ControlFlow::Break(())) => Progress::Done,
            Err(error) => Progress::Failed(error.to_string()),
        };
        if !matches!(model.progress, Progress::Loading(..)) {
            let description = recording.description();
            model.sink.learn_events(description);
            model.sink.locate(replay.machine());
            model.losses.unnamed = model.sink.unnamed();
            model.losses.frame_pointers = model.sink.frame_pointers();
            mend(&mut model.losses, &symbols);
            model.ledger = ledger(description);
            model.description = description.clone();
            model.totals = None;
            model.replay = Some(replay);
            return;
        }
        if model.description.events().len() < recording.description().events().len() {
            model.description = recording.description().clone();
        }
    }
}

/// Loads until the turn is over or a reader waits; [`ControlFlow::Break`] at the end.
fn load_turn(
    shared: &SharedModel,
    model: &mut Model,
    replay: &mut Replay,
    recording: &mut Recording,
) -> Result<ControlFlow<()>, Error> {
    let until = Instant::now() + TURN;
    while !shared.is_wanted() && Instant::now() < until {
        if replay.step(recording, &mut model.sink, STEP)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}
