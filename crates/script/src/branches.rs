//! Prints branch stacks, and the code that ran between branches, in perf's layout.

use std::collections::HashMap;

use tare_annotate::{BranchBlocks, BranchStep, ExecutedInstruction, Instruction, TakenBranch};
use tare_format::record::{Branch, Branches, Sample};
use tare_render::script::{Fields, branch_flags, hex, name};
use tare_replay::{CpuMode, DsoAddress, Machine};
use tare_symbols::{DsoId, Symbol};

use crate::extra::SampleLine;
use crate::pending::may_have_lines;

/// Prints branch stacks and their code.
#[derive(Debug)]
pub(crate) struct BranchPrinter {
    blocks: BranchBlocks,
    max_blocks: Option<usize>,
    /// Whether a file's code has fixed addresses, which are printed as they are.
    is_fixed: HashMap<DsoId, bool>,
}

impl BranchPrinter {
    /// `arch` is the recorded machine's, as `uname -m` prints it.
    pub(crate) fn new(arch: &[u8], max_blocks: Option<usize>) -> Self {
        Self { blocks: BranchBlocks::new(arch), max_blocks, is_fixed: HashMap::new() }
    }

    /// Returns the offset in the file, or the address itself in the kernel, in fixed files and
    /// outside of known mappings.
    fn offset(&mut self, machine: &Machine, at: Option<DsoAddress>, address: u64) -> u64 {
        let is_user = CpuMode::from_address(address) == CpuMode::User;
        let Some(at) = at.filter(|_| is_user) else { return address };
        let is_fixed = self
            .is_fixed
            .entry(at.dso)
            .or_insert_with(|| machine.code_at(at, 0).is_ok_and(|code| code.address == address));
        if *is_fixed { address } else { at.address }
    }

    /// Adds a sample's branches, in the first of three layouts that is selected.
    pub(crate) fn add_branches(&mut self, line: &mut SampleLine<'_>, sample: &Sample<'_>) {
        let layouts = [Fields::BRSTACK, Fields::BRSTACKSYM, Fields::BRSTACKOFF];
        let layout = layouts.into_iter().find(|field| line.fields.contains(*field));
        let Some(layout) = layout else { return };
        let pid = sample.head.pid.unwrap_or(-1);
        for branch in sample.branches.iter().flat_map(Branches::iter) {
            for (address, separator) in [(branch.from, ""), (branch.to, "/")] {
                let mode = CpuMode::from_address(address);
                let at = line.machine.dso_address(mode, pid, address);
                if layout == Fields::BRSTACKSYM {
                    line.text.extend_from_slice(separator.as_bytes());
                    let begin = line.text.len();
                    let fields = Fields::SYM | Fields::SYMOFF;
                    line.addresses.add_symbol(line.text, line.machine, at, false, fields);
                    line.text.remove(begin);
                } else {
                    let printed = match layout {
                        Fields::BRSTACKOFF => self.offset(line.machine, at, address),
                        _ => address,
                    };
                    let front = if separator.is_empty() { " 0x" } else { "/0x" };
                    line.text.extend_from_slice(front.as_bytes());
                    hex(line.text, printed, 0);
                }
                if line.fields.contains(Fields::DSO) {
                    line.text.push(b'(');
                    let dso = at.map_or(&b"[unknown]"[..], |at| line.machine.dso_name(at.dso));
                    name(line.text, dso);
                    line.text.push(b')');
                }
            }
            line.text.extend_from_slice(branch_flags(&branch).as_bytes());
        }
    }

    /// Adds a sample's own instruction, and the code of its branches.
    pub(crate) fn add_code(&mut self, line: &mut SampleLine<'_>, sample: &Sample<'_>) {
        let pid = sample.head.pid.unwrap_or(-1);
        let ip = sample.head.ip.unwrap_or(0);
        if line.fields.intersects(Fields::INSN | Fields::INSNLEN | Fields::DISASM) {
            let instruction = self.blocks.instruction(line.machine, pid, ip);
            add_own_instruction(line.text, instruction.as_deref(), line.fields);
        }
        if line.fields.intersects(Fields::BLOCKS) {
            self.add_blocks(line, sample);
        }
    }

    fn add_blocks(&mut self, line: &mut SampleLine<'_>, sample: &Sample<'_>) {
        let branches: Vec<Branch> = sample.branches.iter().flat_map(Branches::iter).collect();
        if branches.is_empty() {
            return;
        }
        line.text.push(b'\n');
        let taken = |branch: &Branch| TakenBranch {
            from: branch.from,
            to: branch.to,
            is_abort: branch.abort,
        };
        let taken: Vec<_> = branches.iter().map(taken).collect();
        let pid = sample.head.pid.unwrap_or(-1);
        let ip = sample.head.ip.unwrap_or(0);
        let steps = self.blocks.steps(line.machine, pid, ip, &taken, self.max_blocks);
        let mut cycles = 0;
        for (index, step) in steps.iter().enumerate() {
            match step {
                BranchStep::Function(symbol, at) => add_function(line, *symbol, *at),
                BranchStep::Instruction(executed) => {
                    let branch = executed.branch.and_then(|(branch, _)| branches.get(branch));
                    add_instruction(line.text, executed, branch, line.fields, &mut cycles);
                    let is_last = matches!(steps.get(index + 1), Some(BranchStep::NotReached));
                    let with_source = line.fields.contains(Fields::SRCCODE) && !is_last;
                    let at =
                        executed.at.filter(|at| with_source && may_have_lines(line.machine, *at));
                    if let Some(at) = at {
                        let tid = sample.head.tid.unwrap_or(-1);
                        line.addresses.pending.push_source(line.text.len(), tid, at);
                    }
                }
                BranchStep::Mismatch => {
                    line.text.extend_from_slice(b"\tmismatch of LBR data and executable\n");
                }
                BranchStep::NotReached => {
                    line.text.extend_from_slice(b"\t... not reaching sample ...\n");
                }
            }
        }
    }
}

/// Adds the name of a function above its first instruction that ran: `\tmain+12:`.
fn add_function(line: &mut SampleLine<'_>, symbol: Symbol, at: DsoAddress) {
    line.text.push(b'\t');
    name(line.text, line.machine.symbol_name(symbol).as_bytes());
    match at.address.wrapping_sub(symbol.start) {
        0 => {}
        offset => line.text.extend_from_slice(format!("+{offset}").as_bytes()),
    }
    line.text.push(b':');
    if line.fields.contains(Fields::SRCLINE) && may_have_lines(line.machine, at) {
        line.addresses.pending.push_line(line.text.len(), at);
    }
    line.text.push(b'\n');
}

/// Adds the instruction of a sample: ` ilen: 1 insn: 55`.
fn add_own_instruction(text: &mut Vec<u8>, instruction: Option<&Instruction>, fields: Fields) {
    if fields.contains(Fields::INSNLEN) {
        let length = instruction.map_or(0, |instruction| instruction.bytes.len());
        text.extend_from_slice(format!(" ilen: {length}").as_bytes());
    }
    let Some(instruction) = instruction else { return };
    if fields.contains(Fields::INSN) {
        text.extend_from_slice(b" insn:");
        for byte in &instruction.bytes {
            text.extend_from_slice(format!(" {byte:02x}").as_bytes());
        }
    }
    if fields.contains(Fields::DISASM) {
        text.extend_from_slice(b"\t\t");
        name(text, instruction.text.as_bytes());
    }
}

/// Adds a line with an instruction, and after a branch its flags, cycles and instructions per
/// cycle. `cycles` is the running sum of a sample's branches.
fn add_instruction(
    text: &mut Vec<u8>,
    executed: &ExecutedInstruction,
    branch: Option<&Branch>,
    fields: Fields,
    cycles: &mut u64,
) {
    text.extend_from_slice(format!("\t{:016x}\t", executed.address).as_bytes());
    let begin = text.len();
    match &executed.instruction {
        None => text.extend_from_slice(b"<bad>"),
        Some(instruction) if fields.contains(Fields::BRSTACKDISASM) => {
            name(text, instruction.text.as_bytes());
        }
        Some(instruction) => {
            text.extend_from_slice(b"insn: ");
            for byte in &instruction.bytes {
                text.extend_from_slice(format!("{byte:02x} ").as_bytes());
            }
        }
    }
    let length = executed.instruction.as_ref().map_or(0, |instruction| instruction.bytes.len());
    let length = fields.contains(Fields::BRSTACKINSNLEN).then(|| format!("ilen: {length}"));
    let Some(branch) = branch else {
        let length = length.map_or_else(String::new, |length| format!("\t{length}"));
        return text.extend_from_slice(format!("{length}\n").as_bytes());
    };
    text.resize(text.len().max(begin + 30), b' ');
    text.push(b'\t');
    text.extend_from_slice(length.map_or_else(String::new, |length| length + "\t").as_bytes());
    text.push(b'#');
    let flags = [
        (branch.predicted, " PRED"),
        (branch.mispredicted, " MISPRED"),
        (branch.in_transaction, " INTX"),
        (branch.abort, " ABORT"),
    ];
    for (_, word) in flags.iter().filter(|(is_set, _)| *is_set) {
        text.extend_from_slice(word.as_bytes());
    }
    if branch.cycles > 0 {
        *cycles += u64::from(branch.cycles);
        text.extend_from_slice(format!(" {} cycles [{cycles}]", branch.cycles).as_bytes());
        if let Some((_, count @ 1..)) = executed.branch {
            let rate = f64::from(count) / f64::from(branch.cycles);
            text.extend_from_slice(format!(" {rate:.2} IPC").as_bytes());
        }
    }
    text.push(b'\n');
}
