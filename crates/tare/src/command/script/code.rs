//! Branch stacks, and the code that ran between branches, in the words of `perf script`.

use std::collections::HashMap;

use tare_annotate::{Blocks, ExecutedInstruction, Instruction, Step, TakenBranch};
use tare_format::record::{Branch, Branches, Sample};
use tare_render::script::{Fields, branch_flags};
use tare_replay::{CpuMode, DsoAddress, Machine};
use tare_symbols::{DsoId, Symbol};

use super::chain::Chains;
use super::inline::may_have_lines;
use super::line;

/// Reads and writes the code of branch stacks.
#[derive(Debug)]
pub(super) struct Code {
    blocks: Blocks,
    most: Option<usize>,
    /// Whether a file lies where it says itself, so that its addresses are absolute.
    is_fixed: HashMap<DsoId, bool>,
}

impl Code {
    /// For the recorded machine's architecture; `most` blocks of a sample.
    pub(super) fn new(arch: &[u8], most: Option<usize>) -> Self {
        Self { blocks: Blocks::new(arch), most, is_fixed: HashMap::new() }
    }

    /// The offset in the file, unless the file has absolute addresses.
    fn offset(&mut self, machine: &Machine, at: Option<DsoAddress>, address: u64) -> u64 {
        let is_user = CpuMode::of_address(address) == CpuMode::User;
        let Some(at) = at.filter(|_| is_user) else { return address };
        let is_fixed = self
            .is_fixed
            .entry(at.dso)
            .or_insert_with(|| machine.code_at(at, 0).is_ok_and(|code| code.address == address));
        if *is_fixed { address } else { at.address }
    }

    /// Adds a sample's branches.
    pub(super) fn branches(
        &mut self,
        text: &mut Vec<u8>,
        machine: &mut Machine,
        chains: &mut Chains,
        sample: &Sample<'_>,
        fields: Fields,
    ) {
        let asked = [Fields::BRSTACK, Fields::BRSTACKSYM, Fields::BRSTACKOFF];
        let Some(form) = asked.into_iter().find(|field| fields.contains(*field)) else { return };
        for branch in sample.branches.iter().flat_map(Branches::iter) {
            for (address, front) in [(branch.from, ""), (branch.to, "/")] {
                let mode = CpuMode::of_address(address);
                let at = machine.dso_address(mode, sample.head.pid.unwrap_or(-1), address);
                if form == Fields::BRSTACKSYM {
                    text.extend_from_slice(front.as_bytes());
                    let begin = text.len();
                    chains.symbol(text, machine, at, Fields::SYM | Fields::SYMOFF);
                    text.remove(begin);
                } else {
                    let shown = match form {
                        Fields::BRSTACKOFF => self.offset(machine, at, address),
                        _ => address,
                    };
                    let front = if front.is_empty() { " 0x" } else { "/0x" };
                    text.extend_from_slice(front.as_bytes());
                    line::hex(text, shown, 0);
                }
                if fields.contains(Fields::DSO) {
                    text.push(b'(');
                    let name = at.map_or(&b"[unknown]"[..], |at| machine.dso_name(at.dso));
                    line::name(text, name);
                    text.push(b')');
                }
            }
            text.extend_from_slice(branch_flags(&branch).as_bytes());
        }
    }

    /// Adds the instruction that a sample lies on, and the code of its branches.
    pub(super) fn add(
        &mut self,
        text: &mut Vec<u8>,
        machine: &mut Machine,
        chains: &mut Chains,
        sample: &Sample<'_>,
        fields: Fields,
    ) {
        let pid = sample.head.pid.unwrap_or(-1);
        let ip = sample.head.ip.unwrap_or(0);
        if fields.intersects(Fields::INSN | Fields::INSNLEN | Fields::DISASM) {
            let instruction = self.blocks.instruction(machine, pid, ip);
            sampled(text, instruction.as_deref(), fields);
        }
        if !fields.intersects(Fields::BLOCKS) {
            return;
        }
        let branches: Vec<Branch> = sample.branches.iter().flat_map(Branches::iter).collect();
        if branches.is_empty() {
            return;
        }
        text.push(b'\n');
        let taken = |branch: &Branch| TakenBranch {
            from: branch.from,
            to: branch.to,
            is_abort: branch.abort,
        };
        let taken: Vec<_> = branches.iter().map(taken).collect();
        let steps = self.blocks.of(machine, pid, ip, &taken, self.most);
        let mut cycles = 0;
        for (place, step) in steps.iter().enumerate() {
            match step {
                Step::Function(symbol, at) => {
                    let with_line = fields.contains(Fields::SRCLINE);
                    function(text, machine, chains, *symbol, *at, with_line);
                }
                Step::Instruction(ran) => {
                    let branch = ran.branch.and_then(|(branch, _)| branches.get(branch));
                    instruction(text, ran, branch, fields, &mut cycles);
                    let is_last = matches!(steps.get(place + 1), Some(Step::NotReached));
                    let wants_source = fields.contains(Fields::SRCCODE) && !is_last;
                    let at = ran.at.filter(|at| wants_source && may_have_lines(machine, *at));
                    if let Some(at) = at {
                        chains.open.push_source(text.len(), sample.head.tid.unwrap_or(-1), at);
                    }
                }
                Step::Mismatch => {
                    text.extend_from_slice(b"\tmismatch of LBR data and executable\n");
                }
                Step::NotReached => {
                    text.extend_from_slice(b"\t... not reaching sample ...\n");
                }
            }
        }
    }
}

/// Adds the name of a function that begins or goes on: `\tmain+12:`.
fn function(
    text: &mut Vec<u8>,
    machine: &Machine,
    chains: &mut Chains,
    symbol: Symbol,
    at: DsoAddress,
    with_line: bool,
) {
    text.push(b'\t');
    line::name(text, machine.symbol_name(symbol).as_bytes());
    match at.address.wrapping_sub(symbol.start) {
        0 => {}
        offset => text.extend_from_slice(format!("+{offset}").as_bytes()),
    }
    text.push(b':');
    if with_line && may_have_lines(machine, at) {
        chains.open.push_line(text.len(), at);
    }
    text.push(b'\n');
}

/// Adds the instruction of a sample: ` ilen: 1 insn: 55`.
fn sampled(text: &mut Vec<u8>, instruction: Option<&Instruction>, fields: Fields) {
    if fields.contains(Fields::INSNLEN) {
        let length = instruction.map_or(0, |one| one.bytes.len());
        text.extend_from_slice(format!(" ilen: {length}").as_bytes());
    }
    let Some(instruction) = instruction else { return };
    if fields.contains(Fields::INSN) {
        text.extend_from_slice(b" insn:");
        bytes(text, instruction, " ", "");
    }
    if fields.contains(Fields::DISASM) {
        text.extend_from_slice(b"\t\t");
        line::name(text, instruction.text.as_bytes());
    }
}

fn bytes(text: &mut Vec<u8>, instruction: &Instruction, front: &str, end: &str) {
    for byte in &instruction.bytes {
        text.extend_from_slice(format!("{front}{byte:02x}{end}").as_bytes());
    }
}

/// Adds a line with an instruction, and what is known of the branch that it is.
fn instruction(
    text: &mut Vec<u8>,
    ran: &ExecutedInstruction,
    branch: Option<&Branch>,
    fields: Fields,
    cycles: &mut u64,
) {
    text.extend_from_slice(format!("\t{:016x}\t", ran.address).as_bytes());
    let begin = text.len();
    match &ran.instruction {
        None => text.extend_from_slice(b"<bad>"),
        Some(one) if fields.contains(Fields::BRSTACKDISASM) => {
            line::name(text, one.text.as_bytes());
        }
        Some(one) => {
            text.extend_from_slice(b"insn: ");
            bytes(text, one, "", " ");
        }
    }
    let length = ran.instruction.as_ref().map_or(0, |one| one.bytes.len());
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
        if let Some((_, count @ 1..)) = ran.branch {
            let rate = f64::from(count) / f64::from(branch.cycles);
            text.extend_from_slice(format!(" {rate:.2} IPC").as_bytes());
        }
    }
    text.push(b'\n');
}
