//! A function's instructions.

use tare_format::file::features::ARCH;
use tare_profile::{FrameId, Weight};

use super::Model;
use super::query::Query;
use tare_annotate::{Annotated, Asked, Style, weights};

impl Model {
    /// The function of a frame, instruction by instruction.
    ///
    /// # Errors
    /// There is nothing to be shown: why, in words.
    pub(crate) fn annotated(&mut self, query: &Query, frame: FrameId) -> Result<Annotated, String> {
        let all = self.events(query).into_iter().find(|(event, _)| Some(*event) == query.event);
        let selected = query.selected(self);
        let live = self.live.as_ref().map(|live| live.replay.machine());
        let Some(machine) = live.or(self.replay.as_ref().map(tare_replay::Replay::machine)) else {
            return Err("instructions are shown once the recording is loaded".to_owned());
        };
        let (profile, samples) = self.sink.tables();
        let found = profile.frame(frame).ok_or("there is no function here")?;
        let function = found
            .function
            .map_err(|why| tare_format::printable(profile.string(why)).into_owned())?;
        let symbol = self.sink.recorded_symbol(function).ok_or("there is no function here")?;
        let weights = weights(profile, samples, &selected);
        let offsets = query.event.and_then(|event| weights.get(&(event, function)));
        let arch = self.description.features().text(ARCH).unwrap_or_default();
        let asked = Asked { machine, arch, style: Style::Att, with_source: true };
        let all = all.map_or(Weight::default(), |(_, weight)| weight);
        asked
            .annotate(symbol, offsets.unwrap_or(&Default::default()), all)
            .map_err(|why| format!("no instructions: {why}"))
    }
}
