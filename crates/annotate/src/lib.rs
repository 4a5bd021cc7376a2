//! Annotates functions: the weight of the samples at each instruction, and its source line. Also
//! finds the code between the branches of a sample, and reads source files.

mod aarch64;
mod blocks;
mod disassembly;
mod source;
mod x86;

use std::collections::HashMap;
use std::num::NonZeroUsize;

use tare_profile::{EventId, Profile, SampleStore, SelectedSamples, SymbolId, Weight};
use tare_replay::{DsoAddress, Machine};
use tare_symbols::{Symbol, Unresolved};

pub use blocks::{BranchBlocks, BranchStep, ExecutedInstruction, TakenBranch};
pub use disassembly::{Instruction, Style};
pub use source::{PathPrefix, SourceRoot, Sources, path_below_root, read_source};

/// The instructions of a function with the weight of their samples.
#[derive(Clone, Debug)]
pub struct AnnotatedFunction {
    /// Name of the function. Untrusted.
    pub name: String,
    /// Path of the file that the instructions were read from.
    pub path: String,
    /// Weight of the samples in the function.
    pub own: Weight,
    /// Weight of all selected samples of the event: 100% of the global percentages.
    pub all: Weight,
    /// Instructions in address order.
    pub lines: Vec<AnnotatedLine>,
    /// Weight of the samples whose address isn't the start of one of these instructions.
    pub elsewhere: Weight,
}

/// An instruction with the weight of its samples.
#[derive(Clone, Debug)]
pub struct AnnotatedLine {
    /// The disassembled instruction.
    pub instruction: Instruction,
    /// Weight of the samples at it.
    pub weight: Weight,
    /// Source file and line, if they were requested ([`AnnotateRequest::with_source`]) and debug
    /// info has them. Untrusted.
    pub source: Option<(String, u32)>,
    /// Indices of the instructions in this function that jump here.
    pub jumps_from: Vec<usize>,
}

/// Weight of the samples at each distance from the start of a function, in bytes.
pub type Offsets = HashMap<u32, Weight>;

/// Returns the weight of the selected samples by event, function and distance from its start.
/// Samples without a known function are left out.
pub fn weights(
    profile: &Profile,
    samples: &SampleStore,
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

/// Returns the sum of all weights.
pub fn sum(offsets: &Offsets) -> Weight {
    let mut sum = Weight::default();
    offsets.values().for_each(|weight| sum.add(*weight));
    sum
}

/// How functions are annotated.
#[derive(Clone, Copy, Debug)]
pub struct AnnotateRequest<'a> {
    /// The recorded machine, after the replay.
    pub machine: &'a Machine,
    /// Architecture of the recorded machine, as `uname -m` prints it.
    pub arch: &'a [u8],
    /// Assembler syntax of x86 instructions.
    pub style: Style,
    /// Whether to look up source lines.
    pub with_source: bool,
}

impl AnnotateRequest<'_> {
    /// Disassembles a function and adds the weights to its instructions.
    ///
    /// # Errors
    /// Fails if the instructions of the function can't be read.
    pub fn annotate(
        &self,
        symbol: Symbol,
        offsets: &Offsets,
        all: Weight,
    ) -> Result<AnnotatedFunction, Unresolved> {
        let code = self.machine.code(symbol)?;
        let name_of = |address: u64| self.name_of(symbol, address);
        let instructions = if self.arch == b"aarch64" {
            aarch64::disassemble(&code, &name_of)
        } else {
            x86::disassemble(&code, self.style, self.arch != b"i686", &name_of)
        };
        let sources = self.sources(symbol, code.address, &instructions);
        let mut lines: Vec<AnnotatedLine> = instructions
            .into_iter()
            .zip(sources)
            .map(|(instruction, source)| AnnotatedLine {
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
        Ok(AnnotatedFunction {
            name: self.machine.symbol_name(symbol).to_owned(),
            path: code.path.display().to_string(),
            own: sum(offsets),
            all,
            lines,
            elsewhere,
        })
    }

    /// Returns the name of the function at an address of the file, with the distance from its start
    /// unless that is 0.
    fn name_of(&self, symbol: Symbol, address: u64) -> Option<String> {
        let offset = self.machine.offset_of(symbol, address)?;
        let target = self.machine.symbol(DsoAddress { dso: symbol.dso, address: offset }).ok()?;
        let name = self.machine.symbol_name(target);
        Some(match offset.saturating_sub(target.start) {
            0 => name.to_owned(),
            distance => format!("{name}+{distance:#x}"),
        })
    }

    /// Returns source file and line of each instruction.
    fn sources(
        &self,
        symbol: Symbol,
        address: u64,
        instructions: &[Instruction],
    ) -> Vec<Option<(String, u32)>> {
        if !self.with_source {
            return vec![None; instructions.len()];
        }
        let dso_address = |instruction: &Instruction| DsoAddress {
            dso: symbol.dso,
            address: symbol.start.saturating_add(instruction.address.saturating_sub(address)),
        };
        let addresses: Vec<_> = instructions.iter().map(dso_address).collect();
        let frames = self.machine.frames(&addresses, NonZeroUsize::MIN);
        let source = |index: usize| {
            let location = frames.get(index).next()?.location?;
            (location.line > 0).then(|| (location.file.to_owned(), location.line))
        };
        (0..instructions.len()).map(source).collect()
    }
}

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
