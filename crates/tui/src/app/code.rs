//! The instruction view: which function, and how.

use tare_annotate::AnnotatedFunction;
use tare_profile::SymbolId;

use super::App;
use crate::keys::{Action, View};
use crate::model::Model;

impl App {
    /// Shows the instructions of the function under the cursor.
    pub(super) fn annotate(&mut self, model: &mut Model) {
        let Some(frame) = self.subject(model).frame else {
            self.message = "there is no function on this line".to_owned();
            return;
        };
        match model.function_of(frame) {
            Ok(function) => self.show_function(model, function),
            Err(why) => self.message = why,
        }
    }

    /// Shows the instructions of the named function, or of the heaviest. Returns `false` if it has
    /// no sample.
    pub(crate) fn open_function(&mut self, model: &mut Model, name: Option<&str>) -> bool {
        self.begins_with_code = true;
        let found = model.functions_by_weight(&self.query);
        let profile = model.profile();
        let is_it = |function: &SymbolId| {
            let symbol = profile.symbol(*function);
            symbol.is_some_and(|symbol| {
                name.is_none_or(|name| profile.string(symbol.name) == name.as_bytes())
            })
        };
        // Without a name, functions whose file can't be read are skipped.
        for function in found.into_iter().filter(is_it).collect::<Vec<_>>() {
            self.show_function(model, function);
            if self.view == View::Annotate || name.is_some() {
                return true;
            }
        }
        name.is_none()
    }

    fn show_function(&mut self, model: &mut Model, function: SymbolId) {
        match model.annotated(&self.query, function, self.style) {
            Ok(annotated) => self.put_code(annotated, function),
            Err(why) => self.message = why,
        }
    }

    fn put_code(&mut self, annotated: AnnotatedFunction, function: SymbolId) {
        self.annotate.show(annotated);
        self.annotated = Some(function);
        if self.view != View::Annotate {
            self.before = self.view;
        }
        self.view = View::Annotate;
    }

    /// Shows the next or previous function by weight.
    pub(super) fn next_function(&mut self, model: &mut Model, step: isize) {
        let found = model.functions_by_weight(&self.query);
        let at = found.iter().position(|function| Some(*function) == self.annotated);
        let next = match at {
            Some(at) => at.checked_add_signed(step).and_then(|at| found.get(at)),
            None => found.first(),
        };
        match next {
            Some(function) => self.show_function(model, *function),
            None if step > 0 => self.message = "no function weighs less".to_owned(),
            None => self.message = "no function weighs more".to_owned(),
        }
    }

    /// Handles keys of this view; returns `false` for others.
    pub(super) fn act_on_code(&mut self, model: &mut Model, action: Action) -> bool {
        match action {
            Action::Source => self.annotate.toggle_source(),
            Action::LineNumbers => self.annotate.toggle_line_numbers(),
            Action::Figure => {
                self.message = format!("each with its {}", self.annotate.next_figure());
            }
            Action::Files => self.annotate.toggle_files(),
            Action::Distances => {
                let are = self.annotate.toggle_distances();
                let by = if are { "distances from the function's start" } else { "addresses" };
                self.message = format!("instructions with {by}");
            }
            Action::Level => {
                self.message = format!("distances {}", self.annotate.next_level());
            }
            Action::WholeAddresses => {
                let are = self.annotate.toggle_whole_addresses();
                let by = if are { "addresses in place of distances" } else { "distances" };
                self.message = by.to_owned();
            }
            Action::Jumps => self.annotate.toggle_jumps(),
            Action::Arrow => {
                let is_there = self.annotate.toggle_arrow();
                let by = if is_there { "a line" } else { "no line" };
                self.message = format!("{by} from a jump to where it leads");
            }
            Action::OfAll => {
                let of = if self.annotate.toggle_of_all() { "all samples" } else { "the function" };
                self.message = format!("percentages of {of}");
            }
            Action::BySamples => {
                let by = if self.annotate.toggle_by_samples() { "samples" } else { "periods" };
                self.message = format!("percentages by {by}");
            }
            Action::Hottest => self.annotate.hottest(),
            Action::NextHottest => self.annotate.next_hottest(1),
            Action::PreviousHottest => self.annotate.next_hottest(-1),
            Action::NextFunction => self.next_function(model, 1),
            Action::PreviousFunction => self.next_function(model, -1),
            Action::Jump if !self.annotate.jump() => {
                self.message = "this is no jump within the function".to_owned();
            }
            Action::Jump => {}
            Action::Print if self.view == View::Annotate => {
                let lines = self.annotate.lines();
                self.print_into("tare.annotate", Ok(lines.into_bytes()));
            }
            _ => return false,
        }
        true
    }
}
