//! The code between the branches of a branch stack: the instructions that ran from the target of
//! one branch to the origin of the next, and from the target of the latest to the sample, as `perf
//! script -F brstackinsn` prints them.

use std::collections::HashMap;
use std::rc::Rc;

use tare_replay::{CpuMode, DsoAddress, Machine};
use tare_symbols::Symbol;

use crate::disassembly::{Instruction, Style};
use crate::{aarch64, x86};

/// Limit on the bytes of a block, as in perf: a longer one means that a branch is missing.
const MAX_BLOCK_BYTES: u64 = 16384 - MAX_INSTRUCTION_BYTES;
/// Bytes of the longest instruction.
const MAX_INSTRUCTION_BYTES: u64 = 15;
/// Bytes to search for an unrecorded branch from the target of the latest recorded one on, if the
/// sample's address lies before that target.
const SEARCH_BYTES: u64 = 128;
/// Limit on the blocks kept in memory. A loop executes the same few blocks many times, so a small
/// cache holds them.
const MAX_CACHED_BLOCKS: usize = 1 << 12;

/// A branch of a sample.
#[derive(Clone, Copy, Debug)]
pub struct TakenBranch {
    /// Address of the branch instruction.
    pub from: u64,
    /// Address it jumped to.
    pub to: u64,
    /// Whether it aborted a transaction.
    pub is_abort: bool,
}

/// One line of the code that led to a sample.
#[derive(Clone, Debug)]
pub enum BranchStep {
    /// Execution enters a function, or returns to it.
    Function(Symbol, DsoAddress),
    /// An instruction ran.
    Instruction(ExecutedInstruction),
    /// The block has no instruction at the origin of its branch.
    Mismatch,
    /// An unrecorded branch comes before the address of the sample.
    NotReached,
}

/// An instruction that ran.
#[derive(Clone, Debug)]
pub struct ExecutedInstruction {
    /// Virtual address, in the process or the kernel.
    pub address: u64,
    /// The same address in its file.
    pub at: Option<DsoAddress>,
    /// `None` if the bytes are no x86 instruction. On aarch64 it isn't `None` then: its text begins
    /// with `.inst`.
    pub instruction: Option<Rc<Instruction>>,
    /// If it is a recorded branch: the index of the branch in the sample, and the number of
    /// instructions since the branch before, itself included (0 if unknown).
    pub branch: Option<(usize, u32)>,
}

/// The address of a block's first instruction, and the address of its last one or, if that is
/// unknown, the end of the search.
#[derive(Clone, Copy, Debug)]
struct BlockRange {
    start: u64,
    end: u64,
}

/// Finds the code between the branches of samples.
#[derive(Debug)]
pub struct BranchBlocks {
    arch: Vec<u8>,
    read: HashMap<(DsoAddress, u64), Rc<[Rc<Instruction>]>, foldhash::fast::RandomState>,
    steps: Vec<BranchStep>,
    function: Option<Symbol>,
}

impl BranchBlocks {
    /// `arch` is the architecture of the recorded machine, as `uname -m` prints it.
    #[must_use]
    pub fn new(arch: &[u8]) -> Self {
        Self { arch: arch.to_vec(), read: HashMap::default(), steps: Vec::new(), function: None }
    }

    /// Returns the code that led to a sample at `ip`. `branches` begins with the latest one;
    /// `max_blocks` limits the number of blocks between branches.
    pub fn steps(
        &mut self,
        machine: &mut Machine,
        pid: i32,
        ip: u64,
        branches: &[TakenBranch],
        max_blocks: Option<usize>,
    ) -> &[BranchStep] {
        self.steps.clear();
        self.function = None;
        let limit = max_blocks.map_or(usize::MAX, |max_blocks| max_blocks.saturating_add(1));
        let Some(oldest) = branches.len().min(limit).checked_sub(1) else { return &self.steps };
        let from = branches[oldest].from;
        if let Some(code) = self.code(machine, pid, BlockRange { start: from, end: from })
            && let Some(first) = code.first()
        {
            self.note_function(machine, pid, from);
            let executed = executed(machine, pid, from, Some(first));
            let branch = Some((oldest, 0));
            self.steps.push(BranchStep::Instruction(ExecutedInstruction { branch, ..executed }));
        }
        let mut at = oldest;
        while at > 0 {
            let start = branches[at].to;
            at -= 1;
            // If the recording lacks the kernel's branches, a block may seem to begin in user code
            // and end in the kernel, or the reverse. As in perf, it ends at the branch after that.
            if is_kernel(start) != is_kernel(branches[at].from) && at > 0 {
                at -= 1;
            }
            self.block(machine, pid, BlockRange { start, end: branches[at].from }, at);
        }
        let latest = branches[0];
        if latest.from != ip && !latest.is_abort {
            self.last_block(machine, pid, latest.to, ip);
        }
        &self.steps
    }

    /// Returns the instruction at an address; `None` if its bytes can't be read.
    pub fn instruction(
        &mut self,
        machine: &mut Machine,
        pid: i32,
        address: u64,
    ) -> Option<Rc<Instruction>> {
        self.code(machine, pid, BlockRange { start: address, end: address })?.first().cloned()
    }

    /// Adds a block that ends with the branch at this index.
    fn block(&mut self, machine: &mut Machine, pid: i32, range: BlockRange, branch: usize) {
        let Some(code) = self.code(machine, pid, range) else { return };
        let mut count = 0;
        let mut next = range.start;
        for instruction in code.iter() {
            let address = next;
            self.note_function(machine, pid, address);
            let is_end = address == range.end;
            count += 1;
            let executed = executed(machine, pid, address, Some(instruction));
            let branch = is_end.then_some((branch, count));
            self.steps.push(BranchStep::Instruction(ExecutedInstruction { branch, ..executed }));
            if is_end {
                return;
            }
            if is_bad(instruction) {
                break;
            }
            next = address.wrapping_add(instruction.bytes.len() as u64);
        }
        self.steps.push(BranchStep::Mismatch);
    }

    /// Adds the code from the target of the latest branch to the sample, or only the sample's own
    /// instruction if that code can't be read. The code ends at the first branch instruction in
    /// between: the CPU may have taken that branch without having recorded it yet.
    fn last_block(&mut self, machine: &mut Machine, pid: i32, start: u64, ip: u64) {
        let end = if ip < start { start.saturating_add(SEARCH_BYTES) } else { ip };
        let code = self.code(machine, pid, BlockRange { start, end });
        self.note_function(machine, pid, start);
        let Some(code) = code else {
            let range = BlockRange { start: ip, end: ip };
            let Some(code) = self.code(machine, pid, range) else { return };
            self.steps.push(BranchStep::Instruction(executed(machine, pid, ip, code.first())));
            return;
        };
        let mut next = start;
        for instruction in code.iter() {
            let address = next;
            if address > end {
                break;
            }
            let executed = executed(machine, pid, address, Some(instruction));
            self.steps.push(BranchStep::Instruction(executed));
            if is_bad(instruction) {
                break;
            }
            if instruction.is_branch && address != ip {
                self.steps.push(BranchStep::NotReached);
                break;
            }
            next = address.wrapping_add(instruction.bytes.len() as u64);
        }
    }

    /// Adds a [`BranchStep::Function`] if the address is in another function than the latest such
    /// step.
    fn note_function(&mut self, machine: &mut Machine, pid: i32, address: u64) {
        let Some(at) = machine.dso_address(CpuMode::from_address(address), pid, address) else {
            return;
        };
        let is_in = |symbol: &Symbol| {
            symbol.dso == at.dso && (symbol.start..symbol.end).contains(&at.address)
        };
        if self.function.as_ref().is_some_and(is_in) {
            return;
        }
        if let Ok(symbol) = machine.symbol(at) {
            self.function = Some(symbol);
            self.steps.push(BranchStep::Function(symbol, at));
        }
    }

    /// Returns the instructions of a block, including the one at its end; a few after its end may
    /// follow. `None` if the bytes can't be read or the range can't be a block: it is too long,
    /// runs backwards, begins at 0, or crosses between user code and the kernel.
    fn code(
        &mut self,
        machine: &mut Machine,
        pid: i32,
        range: BlockRange,
    ) -> Option<Rc<[Rc<Instruction>]>> {
        let BlockRange { start, end } = range;
        let length = end.checked_sub(start).filter(|length| *length <= MAX_BLOCK_BYTES)?;
        if start == 0 || is_kernel(start) != is_kernel(end) {
            return None;
        }
        let at = machine.dso_address(CpuMode::from_address(start), pid, start)?;
        if let Some(known) = self.read.get(&(at, length)) {
            return (!known.is_empty()).then(|| known.clone());
        }
        let bytes = usize::try_from(length + MAX_INSTRUCTION_BYTES).unwrap_or_default();
        let code = machine.code_at(at, bytes);
        let read: Rc<[_]> = code.map_or_else(
            |_| Rc::default(),
            |code| {
                let names = |_| None;
                let instructions = if self.arch == b"aarch64" {
                    aarch64::disassemble(&code, &names)
                } else {
                    x86::disassemble(&code, Style::Att, self.arch != b"i686", &names)
                };
                instructions.into_iter().map(Rc::new).collect()
            },
        );
        if self.read.len() >= MAX_CACHED_BLOCKS {
            self.read.clear();
        }
        self.read.insert((at, length), read.clone());
        (!read.is_empty()).then_some(read)
    }
}

fn executed(
    machine: &mut Machine,
    pid: i32,
    address: u64,
    instruction: Option<&Rc<Instruction>>,
) -> ExecutedInstruction {
    let at = machine.dso_address(CpuMode::from_address(address), pid, address);
    let instruction = instruction.filter(|instruction| !is_bad(instruction)).cloned();
    ExecutedInstruction { address, at, instruction, branch: None }
}

fn is_bad(instruction: &Instruction) -> bool {
    instruction.text.is_empty() || instruction.text == "(bad)"
}

fn is_kernel(address: u64) -> bool {
    CpuMode::from_address(address) == CpuMode::Kernel
}
