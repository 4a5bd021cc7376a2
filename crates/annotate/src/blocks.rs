//! Branch stacks as code: the instructions that ran from where one branch went to where the next one
//! came from, as `perf script -F brstackinsn` shows them.

use std::collections::HashMap;
use std::rc::Rc;

use tare_replay::{CpuMode, DsoAddress, Machine};
use tare_symbols::Symbol;

use crate::disassembly::{Instruction, Style};
use crate::{aarch64, x86};

/// Bytes of a block beyond which a stack isn't believed, as in perf.
const MOST_BYTES: u64 = 16384 - LONGEST;
/// Bytes behind a block that its last instruction may have.
const LONGEST: u64 = 15;
/// Bytes that are gone through for a branch that is missing.
const MISSING: u64 = 128;
/// Blocks that are kept: loops come many times.
const KEPT: usize = 1 << 12;

/// A branch, as a sample has it.
#[derive(Clone, Copy, Debug)]
pub struct TakenBranch {
    /// Where it came from.
    pub from: u64,
    /// Where it went.
    pub to: u64,
    /// It ended a transaction early.
    pub is_abort: bool,
}

/// What is shown of a sample's branches, one behind the other.
#[derive(Clone, Debug)]
pub enum Step {
    /// A function begins, or goes on.
    Function(Symbol, DsoAddress),
    /// An instruction.
    Instruction(ExecutedInstruction),
    /// The block's last instruction is not where the branch came from.
    Mismatch,
    /// A branch that isn't recorded lies before the sample's own address.
    NotReached,
}

/// An instruction that ran.
#[derive(Clone, Debug)]
pub struct ExecutedInstruction {
    /// Its address in the address space.
    pub address: u64,
    /// The same in its file.
    pub at: Option<DsoAddress>,
    /// `None`: it is none.
    pub instruction: Option<Rc<Instruction>>,
    /// Which of the sample's branches it is, and how many instructions ran since the one before,
    /// itself included; 0 where that isn't known.
    pub branch: Option<(usize, u32)>,
}

/// Reads branch stacks as code.
#[derive(Debug)]
pub struct Blocks {
    arch: Vec<u8>,
    read: HashMap<(DsoAddress, u64), Rc<[Rc<Instruction>]>, foldhash::fast::RandomState>,
    steps: Vec<Step>,
    function: Option<Symbol>,
}

impl Blocks {
    /// For the recorded machine's architecture, as `uname -m` has it.
    #[must_use]
    pub fn new(arch: &[u8]) -> Self {
        let (read, steps, function) = Default::default();
        Self { arch: arch.to_vec(), read, steps, function }
    }

    /// What ran up to a sample at `ip`, by its branches, the latest first; `most` blocks at most.
    pub fn of(
        &mut self,
        machine: &mut Machine,
        pid: i32,
        ip: u64,
        branches: &[TakenBranch],
        most: Option<usize>,
    ) -> &[Step] {
        self.steps.clear();
        self.function = None;
        let shown = most.map_or(branches.len(), |most| branches.len().min(most.saturating_add(1)));
        let Some(oldest) = shown.checked_sub(1) else { return &self.steps };
        let from = branches[oldest].from;
        if let Some(code) = self.code(machine, pid, from, from)
            && let Some(first) = code.first()
        {
            self.function(machine, pid, from);
            let ran = ExecutedInstruction {
                branch: Some((oldest, 0)),
                ..ran(machine, pid, from, Some(first))
            };
            self.steps.push(Step::Instruction(ran));
        }
        let mut at = oldest;
        while at > 0 {
            let start = branches[at].to;
            at -= 1;
            // Where the kernel's branches are left out, a block seems to reach from one into the
            // other: it ends at the branch behind.
            if is_kernel(start) != is_kernel(branches[at].from) && at > 0 {
                at -= 1;
            }
            self.block(machine, pid, start, branches[at].from, at);
        }
        let latest = branches[0];
        if latest.from != ip && !latest.is_abort {
            self.last_block(machine, pid, latest.to, ip);
        }
        &self.steps
    }

    /// An instruction that a sample lies on.
    pub fn instruction(
        &mut self,
        machine: &mut Machine,
        pid: i32,
        address: u64,
    ) -> Option<Rc<Instruction>> {
        self.code(machine, pid, address, address)?.first().cloned()
    }

    /// A block that ends with a branch, which is the one with this number.
    fn block(&mut self, machine: &mut Machine, pid: i32, start: u64, end: u64, branch: usize) {
        let Some(code) = self.code(machine, pid, start, end) else { return };
        let mut count = 0;
        let mut next = start;
        for instruction in code.iter() {
            let address = next;
            self.function(machine, pid, address);
            let is_end = address == end;
            count += 1;
            let ran = ran(machine, pid, address, Some(instruction));
            let branch = is_end.then_some((branch, count));
            self.steps.push(Step::Instruction(ExecutedInstruction { branch, ..ran }));
            if is_end {
                return;
            }
            if is_bad(instruction) {
                break;
            }
            next = address.wrapping_add(instruction.bytes.len() as u64);
        }
        self.steps.push(Step::Mismatch);
    }

    /// From where the latest branch went to the sample. Branches that the CPU hasn't recorded yet
    /// may lie in between: the first one ends it.
    fn last_block(&mut self, machine: &mut Machine, pid: i32, start: u64, ip: u64) {
        let end = if ip < start { start.saturating_add(MISSING) } else { ip };
        let code = self.code(machine, pid, start, end);
        self.function(machine, pid, start);
        let Some(code) = code else {
            let Some(code) = self.code(machine, pid, ip, ip) else { return };
            self.steps.push(Step::Instruction(ran(machine, pid, ip, code.first())));
            return;
        };
        let mut next = start;
        for instruction in code.iter() {
            let address = next;
            if address > end {
                break;
            }
            self.steps.push(Step::Instruction(ran(machine, pid, address, Some(instruction))));
            if is_bad(instruction) {
                break;
            }
            if instruction.is_branch && address != ip {
                self.steps.push(Step::NotReached);
                break;
            }
            next = address.wrapping_add(instruction.bytes.len() as u64);
        }
    }

    /// Says where another function begins than that of the step before.
    fn function(&mut self, machine: &mut Machine, pid: i32, address: u64) {
        let Some(at) = machine.dso_address(CpuMode::of_address(address), pid, address) else {
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
            self.steps.push(Step::Function(symbol, at));
        }
    }

    /// The instructions of a block, its last one included; `None` where its bytes aren't there.
    fn code(
        &mut self,
        machine: &mut Machine,
        pid: i32,
        start: u64,
        end: u64,
    ) -> Option<Rc<[Rc<Instruction>]>> {
        let length = end.checked_sub(start).filter(|length| *length <= MOST_BYTES)?;
        if start == 0 || is_kernel(start) != is_kernel(end) {
            return None;
        }
        let at = machine.dso_address(CpuMode::of_address(start), pid, start)?;
        if let Some(known) = self.read.get(&(at, length)) {
            return (!known.is_empty()).then(|| known.clone());
        }
        let bytes = usize::try_from(length + LONGEST).unwrap_or_default();
        let code = machine.code_at(at, bytes);
        let read: Rc<[_]> = code.map_or_else(
            |_| Rc::default(),
            |code| {
                let names = |_| None;
                let found = if self.arch == b"aarch64" {
                    aarch64::disassemble(&code, &names)
                } else {
                    x86::disassemble(&code, Style::Att, self.arch != b"i686", &names)
                };
                found.into_iter().map(Rc::new).collect()
            },
        );
        if self.read.len() >= KEPT {
            self.read.clear();
        }
        self.read.insert((at, length), read.clone());
        (!read.is_empty()).then_some(read)
    }
}

fn ran(
    machine: &mut Machine,
    pid: i32,
    address: u64,
    instruction: Option<&Rc<Instruction>>,
) -> ExecutedInstruction {
    let at = machine.dso_address(CpuMode::of_address(address), pid, address);
    let instruction = instruction.filter(|one| !is_bad(one)).cloned();
    ExecutedInstruction { address, at, instruction, branch: None }
}

fn is_bad(instruction: &Instruction) -> bool {
    instruction.text.is_empty() || instruction.text == "(bad)"
}

fn is_kernel(address: u64) -> bool {
    CpuMode::of_address(address) == CpuMode::Kernel
}
