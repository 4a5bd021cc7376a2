//! One thread of a lookup, which reads unit after unit.

use std::collections::HashMap;
use std::rc::Rc;

use gimli::Dwarf;

use super::file::{DebugFile, Slice};
use super::functions::{UnitFunctions, functions};
use super::lines::{self, SourcePosition};
use super::names::{FunctionName, Info, NameResolver, UnitOf};
use super::split::SplitFiles;
use super::units::Units;
use crate::answers::{AnswerFrame, Answers};
use crate::limits;
use crate::search::SymbolOptions;
use crate::texts::{TextId, Texts};

/// Average limit on the frames per address, which only damaged files reach.
const FRAMES_EACH: usize = 16;

/// Data shared by all threads.
#[derive(Clone, Copy)]
pub(super) struct WorkerContext<'d> {
    pub(super) options: &'d SymbolOptions,
    pub(super) main: &'d DebugFile,
    pub(super) units: &'d Units,
    pub(super) alternative: Option<(&'d DebugFile, &'d Units)>,
    pub(super) split: &'d SplitFiles,
    /// Called with the number of bytes of units read since the last call.
    pub(super) passed: &'d (dyn Fn(usize) + Sync),
}

/// Looks up addresses in one unit after the other.
pub(super) struct Worker<'d> {
    shared: WorkerContext<'d>,
    names: NameResolver<'d>,
    pub(super) texts: Texts,
}

/// A unit's file table. Paths are joined when first needed.
struct Files<'a, 'd> {
    of: &'a UnitOf<'d>,
    paths: HashMap<u64, Option<TextId>, foldhash::fast::RandomState>,
}

impl<'d> Worker<'d> {
    pub(super) fn new(shared: WorkerContext<'d>) -> Self {
        let mut dwarf: Dwarf<Slice<'d>> = shared.main.dwarf();
        let alternative = shared.alternative.map(|(file, units)| {
            dwarf.set_sup(file.dwarf());
            Info { dwarf: Rc::new(file.dwarf()), units }
        });
        let main = Info { dwarf: Rc::new(dwarf), units: shared.units };
        let texts = Texts::new(shared.main.name_bytes());
        Self { shared, names: NameResolver::new(main, alternative), texts }
    }

    /// Finds the frames of sorted addresses in a unit, on request with lines. Texts are this
    /// worker's.
    pub(super) fn answers(&mut self, unit: u32, with_lines: bool, addresses: &[u64]) -> Answers {
        let mut answers = Answers::default();
        let Some(of) = self.names.main_unit(unit, with_lines) else {
            addresses.iter().for_each(|_| answers.push([]));
            return answers;
        };
        let WorkerContext { options, main, split, .. } = self.shared;
        let places = match of.unit.line_program.clone() {
            Some(program) => lines::positions(program, addresses),
            None => vec![None; addresses.len()],
        };
        let whole = split.find(options, &main.path, &of, unit).unwrap_or_else(|| of.clone());
        let functions = functions(&whole.dwarf, &whole.unit, addresses, self.shared.passed);
        let mut files = Files { of: &of, paths: HashMap::default() };
        let mut left = addresses.len().saturating_mul(FRAMES_EACH).saturating_add(1 << 16);
        for (place, innermost) in places.into_iter().zip(&functions.innermost) {
            let mut frames = self.frames(&whole, &mut files, &functions, *innermost, place);
            frames.truncate(left.max(FRAMES_EACH));
            left = left.saturating_sub(frames.len());
            answers.push(frames);
        }
        answers
    }

    /// Lists the frames of an address, innermost first. Each outer frame has the line of its
    /// inlined call.
    fn frames(
        &mut self,
        of: &UnitOf<'d>,
        files: &mut Files<'_, 'd>,
        functions: &UnitFunctions,
        innermost: Option<u32>,
        place: Option<SourcePosition>,
    ) -> Vec<AnswerFrame> {
        let nowhere = SourcePosition { file: None, line: 0, column: 0 };
        let mut frames = Vec::new();
        let mut frame =
            |place: SourcePosition, function: FunctionName, is_inlined, texts: &mut Texts| {
                let file = place.file.and_then(|file| files.path(file, texts));
                let SourcePosition { line, column, .. } = place;
                let FunctionName { name, first_line } = function;
                frames.push(AnswerFrame { name, file, line, column, first_line, is_inlined });
                frames.len() < limits::INLINED
            };
        let Some(mut at) = innermost else {
            place.map(|place| frame(place, FunctionName::default(), false, &mut self.texts));
            return frames;
        };
        let mut place = place.unwrap_or(nowhere);
        while let Some(function) = functions.all.get(at as usize) {
            let name = self.names.name(of, function.offset, &mut self.texts);
            let is_inlined = function.inlined_into.is_some();
            if !frame(place, name, is_inlined, &mut self.texts) {
                break;
            }
            let Some(outer) = function.inlined_into else { break };
            (at, place) = (outer, function.call);
        }
        frames
    }
}

impl Files<'_, '_> {
    fn path(&mut self, file: u64, texts: &mut Texts) -> Option<TextId> {
        let UnitOf { dwarf, unit, .. } = self.of;
        *self.paths.entry(file).or_insert_with(|| {
            let header = unit.line_program.as_ref()?.header();
            lines::path(dwarf, unit, header, file).map(|path| texts.add(&path))
        })
    }
}
