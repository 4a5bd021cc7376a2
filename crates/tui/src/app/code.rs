//! The instruction view: which function, and how it is displayed.

use tare_profile::SymbolId;

use super::App;
use super::pages::write_numbered;
use crate::keys::{Action, View};
use crate::model::Model;

impl App {
    /// Shows the instructions of the function under the cursor.
    pub(super) fn annotate(&mut self, model: &mut Model) {
        let Some(frame) = self.subject(model).frame else {
            self.bottom.say("there is no function on this line");
            return;
        };
        match model.function_of(frame) {
            Ok(function) => self.show_function(model, function),
            Err(why) => self.bottom.say(why),
        }
    }

    /// Shows the instructions of the named function, or of the heaviest. Returns `false` if the
    /// named one has no sample.
    pub(crate) fn open_function(&mut self, model: &mut Model, name: Option<&str>) -> bool {
        self.navigation.start_with_code();
        let functions = model.functions_by_weight(self.query.query());
        let profile = model.profile();
        let has_name = |function: &SymbolId| {
            let symbol = profile.symbol(*function);
            symbol.is_some_and(|symbol| {
                name.is_none_or(|name| profile.string(symbol.name) == name.as_bytes())
            })
        };
        // Without a name, functions whose file can't be read are skipped.
        for function in functions.into_iter().filter(has_name).collect::<Vec<_>>() {
            self.show_function(model, function);
            if self.navigation.view() == View::Annotate || name.is_some() {
                return true;
            }
        }
        name.is_none()
    }

    fn show_function(&mut self, model: &mut Model, function: SymbolId) {
        match model.annotate(self.query.query(), function, self.views.annotate.syntax()) {
            Ok(annotated) => {
                self.views.annotate.show(function, annotated);
                self.navigation.show(View::Annotate);
            }
            Err(why) => self.bottom.say(why),
        }
    }

    /// Shows the next or previous function by weight.
    fn step_function(&mut self, model: &mut Model, step: isize) {
        let functions = model.functions_by_weight(self.query.query());
        let shown = self.views.annotate.function;
        let at = functions.iter().position(|function| Some(*function) == shown);
        let next = match at {
            Some(at) => at.checked_add_signed(step).and_then(|at| functions.get(at)),
            None => functions.first(),
        };
        match next {
            Some(function) => self.show_function(model, *function),
            None if step > 0 => self.bottom.say("no function weighs less"),
            None => self.bottom.say("no function weighs more"),
        }
    }

    /// Executes actions of this view; returns `false` for others.
    pub(super) fn act_on_code(&mut self, model: &mut Model, action: Action) -> bool {
        let code = &mut self.views.annotate;
        match action {
            Action::Source => code.toggle_source(),
            Action::LineNumbers => code.toggle_line_numbers(),
            Action::Figure => self.bottom.say(format!("figure: {}", code.next_figure())),
            Action::Files => code.toggle_files(),
            Action::Distances => {
                let are_offsets = code.toggle_distances();
                let shown =
                    if are_offsets { "offsets from the function's start" } else { "addresses" };
                self.bottom.say(shown);
            }
            Action::Level => self.bottom.say(format!("offsets {}", code.next_level())),
            Action::WholeAddresses => {
                let are_addresses = code.toggle_whole_addresses();
                let shown = if are_addresses { "addresses instead of offsets" } else { "offsets" };
                self.bottom.say(shown);
            }
            Action::Jumps => code.toggle_jumps(),
            Action::Arrow => {
                let state = if code.toggle_arrow() { "shown" } else { "hidden" };
                self.bottom.say(format!("line from a jump to its target: {state}"));
            }
            Action::OfAll => {
                let base = if code.toggle_of_all() { "all samples" } else { "the function" };
                self.bottom.say(format!("percentages of {base}"));
            }
            Action::BySamples => {
                let unit = if code.toggle_by_samples() { "sample counts" } else { "periods" };
                self.bottom.say(format!("percentages of {unit}"));
            }
            Action::Hottest => code.go_to_hottest(),
            Action::NextHottest => code.step_by_weight(1),
            Action::PreviousHottest => code.step_by_weight(-1),
            Action::NextFunction => self.step_function(model, 1),
            Action::PreviousFunction => self.step_function(model, -1),
            Action::Jump => {
                if !code.follow_jump() {
                    self.bottom.say("this instruction doesn't jump within the function");
                }
            }
            Action::Print if self.navigation.view() == View::Annotate => {
                let lines = code.lines();
                self.bottom.say(write_numbered("tare.annotate", Ok(lines.into_bytes())));
            }
            _ => return false,
        }
        true
    }
}
