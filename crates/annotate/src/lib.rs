//! Functions instruction by instruction: what samples weigh at each, and where in the source it
//! lies.

mod aarch64;
mod blocks;
mod disassembly;
mod source;
mod x86;

use std::collections::HashMap;
use std::num::NonZeroUsize;

use tare_profile::{EventId, Profile, Samples, SelectedSamples, SymbolId, Weight};
use tare_replay::{DsoAddress, Machine};
use tare_symbols::{Symbol, Unresolved};

pub use blocks::{Blocks, ExecutedInstruction, Step, TakenBranch};
pub use disassembly::{Instruction, Style};
pub use source::{PathPrefix, Sources};

/// A function, instruction by instruction.
#[derive(Clone, Debug)]
pub struct Annotated {
    /// Its name. Untrusted.
    pub name: String,
    /// The file that the instructions were read from.
    pub path: String,
    /// What samples weigh in the function.
    pub own: Weight,
    /// What all samples of the event weigh.
    pub all: Weight,
    /// The instructions, by address.
    pub lines: Vec<Line>,
    /// What samples weigh that lie on none of these instructions.
    pub elsewhere: Weight,
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct Line {
    /// What it is.
    pub instruction: Instruction,
    /// What samples weigh that lie on it.
    pub weight: Weight,
    /// File and line of the source, where debug info has them. Untrusted.
    pub source: Option<(String, u32)>,
    /// The instructions of the function that jump here, by their places in the list.
    pub jumps_from: Vec<usize>,
}

/// How much samples weigh at each distance from the start of a function.
pub type Offsets = HashMap<u32, Weight>;

/// What samples weigh in each function: those that are taken, by event, function and distance from
/// its start.
pub fn weights(
    profile: &Profile,
    samples: &Samples,
    selected: &SelectedSamples,
) -> HashMap<(EventId, SymbolId), Offsets> {
    let mut weights: HashMap<(EventId, SymbolId), Offsets> = HashMap::new();
    for sample in samples.iter().filter(|sample| selected.takes(sample)) {
        let leaf = samples.location(sample.location).and_then(|at| profile.frame(at.leaf?));
        let function = leaf.and_then(|leaf| leaf.function.ok());
        if let (Some(function), Some(offset)) = (function, sample.offset) {
            let offsets = weights.entry((sample.event, function)).or_default();
            offsets.entry(offset).or_default().add(Weight { period: sample.period, samples: 1 });
        }
    }
    weights
}

/// The sum of weights.
pub fn sum(offsets: &Offsets) -> Weight {
    let mut sum = Weight::default();
    offsets.values().for_each(|weight| sum.add(*weight));
    sum
}

/// What is asked of a function.
#[derive(Clone, Copy, Debug)]
pub struct AnnotateRequest<'a> {
    /// The recorded machine, after the replay.
    pub machine: &'a Machine,
    /// The recorded machine's architecture, as `uname -m` has it.
    pub arch: &'a [u8],
    /// How instructions are written.
    pub style: Style,
    /// With lines of the source.
    pub with_source: bool,
}

impl AnnotateRequest<'_> {
    /// Takes a function apart.
    ///
    /// # Errors
    /// Its instructions are not there: why.
    pub fn annotate(
        &self,
        symbol: Symbol,
        offsets: &Offsets,
        all: Weight,
    ) -> Result<Annotated, Unresolved> {
        let code = self.machine.code(symbol)?;
        let name_of = |address: u64| self.name_of(symbol, address);
        let instructions = if self.arch == b"aarch64" {
            aarch64::disassemble(&code, &name_of)
        } else {
            x86::disassemble(&code, self.style, self.arch != b"i686", &name_of)
        };
        let sources = self.sources(symbol, code.address, &instructions);
        let mut lines: Vec<Line> = instructions
            .into_iter()
            .zip(sources)
            .map(|(instruction, source)| Line {
                instruction,
                weight: Weight::default(),
                source,
                jumps_from: Vec::new(),
            })
            .collect();
        let mut elsewhere = Weight::default();
        for (offset, weight) in offsets {
            let address = code.address.saturating_add(u64::from(*offset));
            match lines.binary_search_by_key(&address, |line| line.instruction.address) {
                Ok(at) => lines[at].weight.add(*weight),
                Err(_) => elsewhere.add(*weight),
            }
        }
        for from in 0..lines.len() {
            let target = lines[from].instruction.jump;
            let at = target.and_then(|target| {
                lines.binary_search_by_key(&target, |line| line.instruction.address).ok()
            });
            if let Some(at) = at {
                lines[at].jumps_from.push(from);
            }
        }
        Ok(Annotated {
            name: self.machine.symbol_name(symbol).to_owned(),
            path: code.path.display().to_string(),
            own: sum(offsets),
            all,
            lines,
            elsewhere,
        })
    }

    /// What an address of the file is called: a function, and how far behind its start.
    fn name_of(&self, symbol: Symbol, address: u64) -> Option<String> {
        let offset = self.machine.offset_of(symbol, address)?;
        let found = self.machine.symbol(DsoAddress { dso: symbol.dso, address: offset }).ok()?;
        let name = self.machine.symbol_name(found);
        Some(match offset.saturating_sub(found.start) {
            0 => name.to_owned(),
            distance => format!("{name}+{distance:#x}"),
        })
    }

    /// File and line of each instruction.
    fn sources(
        &self,
        symbol: Symbol,
        address: u64,
        instructions: &[Instruction],
    ) -> Vec<Option<(String, u32)>> {
        if !self.with_source {
            return vec![None; instructions.len()];
        }
        let place = |instruction: &Instruction| DsoAddress {
            dso: symbol.dso,
            address: symbol.start.saturating_add(instruction.address.saturating_sub(address)),
        };
        let places: Vec<_> = instructions.iter().map(place).collect();
        let frames = self.machine.frames(&places, NonZeroUsize::MIN);
        let of = |at: usize| {
            let location = frames.get(at).next()?.location?;
            (location.line > 0).then(|| (location.file.to_owned(), location.line))
        };
        (0..instructions.len()).map(of).collect()
    }
}
