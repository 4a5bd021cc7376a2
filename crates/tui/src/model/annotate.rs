//! A function's instructions.

use tare_format::file::features::ARCH;
use tare_profile::{FrameId, SymbolId, Weight};

use super::Model;
use super::query::Query;
use tare_annotate::{AnnotateRequest, AnnotatedFunction, Style, sum, weights};

impl Model {
    /// Returns the function of a frame.
    ///
    /// # Errors
    /// Fails with a message if the frame has no function.
    pub(crate) fn function_of(&mut self, frame: FrameId) -> Result<SymbolId, String> {
        let profile = self.profile();
        let found = profile.frame(frame).ok_or("there is no function on this line")?;
        found.function.map_err(|why| tare_format::printable(profile.string(why)).into_owned())
    }

    /// Returns the functions with samples of their own, the heaviest first.
    pub(crate) fn functions_by_weight(&mut self, query: &Query) -> Vec<SymbolId> {
        let selected = query.selected(self);
        let (profile, samples) = self.sink.tables();
        let weights = weights(profile, samples, &selected);
        let event_weights = weights.iter().filter(|((event, _), _)| Some(*event) == query.event);
        let mut functions: Vec<_> =
            event_weights.map(|((_, function), offsets)| (*function, sum(offsets))).collect();
        functions.sort_by_key(|(function, weight)| (std::cmp::Reverse(weight.period), *function));
        functions.into_iter().map(|(function, _)| function).collect()
    }

    /// Annotates a function.
    ///
    /// # Errors
    /// Fails with a message if its code can't be read.
    pub(crate) fn annotate(
        &mut self,
        query: &Query,
        function: SymbolId,
        style: Style,
    ) -> Result<AnnotatedFunction, String> {
        let all = self.events(query).into_iter().find(|(event, _)| Some(*event) == query.event);
        let selected = query.selected(self);
        let live = self.live.as_ref().map(|live| live.replay.machine());
        let Some(machine) = live.or(self.replay.as_ref().map(tare_replay::Replay::machine)) else {
            return Err("instructions can be shown once the recording is loaded".to_owned());
        };
        let (profile, samples) = self.sink.tables();
        let symbol =
            self.sink.recorded_symbol(function).ok_or("there is no function on this line")?;
        let weights = weights(profile, samples, &selected);
        let offsets = query.event.and_then(|event| weights.get(&(event, function)));
        let arch = self.description.features().text(ARCH).unwrap_or_default();
        let request = AnnotateRequest { machine, arch, style, with_source: true };
        let all = all.map_or(Weight::default(), |(_, weight)| weight);
        request
            .annotate(symbol, offsets.unwrap_or(&Default::default()), all)
            .map_err(|why| format!("no instructions: {why}"))
    }
}
