//! Unwinds x86-64 code without unwind tables by its instructions: follows them to the return, and
//! tells where the stack pointer is then and where the caller's registers are.
//!
//! ```text
//! f: push %rbx        stopped here, what is still to come is: add $32, %rsp; pop %rbx; ret
//!    sub $32, %rsp    CFA = rsp + 32 + 8 + 8, return address at CFA - 8, rbx at CFA - 16
//!    ...
//! ```
//! Hand-written assembly and generated code seldom have tables. Calls are stepped over, and both
//! directions of a branch are tried. A function that doesn't return, because it ends in a call of
//! `exit(3)`, is followed from its beginning to the address instead. Where that is isn't known, so
//! several places are tried. The caller must check that a call is before the return address that a
//! row finds.

use std::collections::{HashMap, HashSet};

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use super::arch::X86_64;
use super::row::{Cfa, Rule, UnwindRow};

/// Limit on the instructions followed from one address to a return.
const INSTRUCTIONS: usize = 4096;

/// Limit on those followed to one address from all places where its function may begin, and from
/// one of them.
const INSTRUCTIONS_FROM_BEGINNINGS: usize = 4096;
const INSTRUCTIONS_FROM_BEGINNING: usize = 512;

/// Following an instruction takes about as long as reading this many bytes of a table.
const WORK: usize = 64;

/// Limit on the branches that are still to be tried.
const BRANCHES: usize = 64;

/// Limit on the words stored in the stack that are remembered.
const STORED: usize = 64;

/// Longest instruction, in bytes.
const LONGEST: usize = 15;

/// Bytes of code that are read at once.
const WINDOW: usize = 256;

const SP: u8 = X86_64.stack_pointer;
const FP: u8 = X86_64.frame_pointer;

/// Registers that a function must preserve, without the stack pointer (System V psABI for x86-64,
/// section 3.2.1).
const PRESERVED: [u8; 6] = [3, 6, 12, 13, 14, 15];

/// Registers that a call may change.
const CHANGED_BY_CALLS: [u8; 9] = [0, 1, 2, 4, 5, 8, 9, 10, 11];

/// Limit on the rows of an address.
const ROWS: usize = 6;

/// Bytes before an address in which its function's beginning is searched.
const FUNCTION_BYTES: u64 = 1024;

/// Alignment of functions in bytes.
const ALIGNMENT: u64 = 16;

/// What an address is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum AddressBase {
    /// The value of a register where following began.
    Register(u8),
    /// The word in memory at such a value plus an offset in bytes.
    Memory(u8, i32),
}

/// An address: a base plus an offset in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SymbolicAddress {
    base: AddressBase,
    bytes: i32,
}

impl SymbolicAddress {
    fn plus(self, bytes: i64) -> Option<Self> {
        let bytes = i32::try_from(i64::from(self.bytes).checked_add(bytes)?).ok()?;
        Some(Self { bytes, ..self })
    }
}

/// The value of a register or of a word in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Address(SymbolicAddress),
    /// The word at an address, as it is where following begins.
    Word(SymbolicAddress),
    Unknown,
}

impl Value {
    /// Returns it as an address, if words at it can be named.
    fn as_address(self) -> Option<SymbolicAddress> {
        match self {
            Self::Address(place) => Some(place),
            Self::Word(SymbolicAddress { base: AddressBase::Register(register), bytes }) => {
                Some(SymbolicAddress { base: AddressBase::Memory(register, bytes), bytes: 0 })
            }
            Self::Word(_) | Self::Unknown => None,
        }
    }
}

/// Where an instruction leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Next,
    Jump(u64),
    /// To the next instruction or to this one.
    Branch(u64),
    Return,
    /// Nowhere that can be followed.
    End,
}

/// Registers and stored words at a place in the code.
#[derive(Clone, Debug)]
struct RegisterValues {
    /// By DWARF's numbers.
    registers: [Value; 16],
    stored: HashMap<SymbolicAddress, Value, foldhash::fast::RandomState>,
}

/// Returns DWARF's number of the general register that a register is or is a part of.
fn number(register: Register) -> Option<u8> {
    /// DWARF's numbers in the order of the processor's.
    const NUMBERS: [u8; 16] = [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];
    let register = register as usize;
    let wide = [Register::RAX, Register::EAX, Register::AX].into_iter();
    let index = wide.map(|first| register.wrapping_sub(first as usize)).find(|index| *index < 16);
    let index = index.or_else(|| {
        // AL to BL, AH to BH, then SPL to R15L.
        let byte = register.wrapping_sub(Register::AL as usize);
        (byte < 20).then_some(if byte < 4 { byte } else { byte - 4 })
    })?;
    NUMBERS.get(index).copied()
}

/// Returns DWARF's number of a whole general register.
fn whole_number(register: Register) -> Option<u8> {
    let is_whole = (Register::RAX..=Register::R15).contains(&register);
    if is_whole { number(register) } else { None }
}

impl RegisterValues {
    fn new() -> Self {
        let own = |register: usize| {
            let base = AddressBase::Register(u8::try_from(register).unwrap_or_default());
            Value::Address(SymbolicAddress { base, bytes: 0 })
        };
        Self { registers: std::array::from_fn(own), stored: HashMap::default() }
    }

    fn get(&self, register: u8) -> Value {
        self.registers.get(usize::from(register)).copied().unwrap_or(Value::Unknown)
    }

    fn set(&mut self, register: u8, value: Value) {
        if let Some(own) = self.registers.get_mut(usize::from(register)) {
            *own = value;
        }
    }

    fn load(&self, place: Option<SymbolicAddress>) -> Value {
        let stored = |place: SymbolicAddress| self.stored.get(&place).copied();
        place.map_or(Value::Unknown, |place| stored(place).unwrap_or(Value::Word(place)))
    }

    fn store(&mut self, place: Option<SymbolicAddress>, value: Value) {
        if let Some(place) = place
            && (self.stored.len() < STORED || self.stored.contains_key(&place))
        {
            self.stored.insert(place, value);
        }
    }

    /// Moves the stack pointer, and returns the address that it had.
    fn move_stack(&mut self, bytes: i64) -> Option<SymbolicAddress> {
        let old = self.get(SP).as_address();
        let new = old.and_then(|old| old.plus(bytes));
        self.set(SP, new.map_or(Value::Unknown, Value::Address));
        old
    }

    fn pop(&mut self) -> Value {
        let from = self.move_stack(8);
        self.load(from)
    }

    fn push(&mut self, value: Value) {
        self.move_stack(-8);
        self.store(self.get(SP).as_address(), value);
    }

    /// Returns the address of an instruction's operand in memory, if it has a base alone.
    fn operand_place(&self, instruction: &Instruction) -> Option<SymbolicAddress> {
        if instruction.memory_index() != Register::None {
            return None;
        }
        let base = self.get(whole_number(instruction.memory_base())?).as_address()?;
        base.plus(instruction.memory_displacement64().cast_signed())
    }

    /// Applies an instruction.
    fn apply(&mut self, instruction: &Instruction) -> Flow {
        let first = instruction.op0_register();
        let is_register = instruction.op0_kind() == OpKind::Register;
        match instruction.mnemonic() {
            Mnemonic::Ret if instruction.op_count() == 0 => return Flow::Return,
            Mnemonic::Jmp if instruction.op0_kind() == OpKind::NearBranch64 => {
                return Flow::Jump(instruction.near_branch_target());
            }
            Mnemonic::INVALID
            | Mnemonic::Ret
            | Mnemonic::Retf
            | Mnemonic::Jmp
            | Mnemonic::Ud2
            | Mnemonic::Hlt
            | Mnemonic::Int3
            | Mnemonic::Enter => return Flow::End,
            Mnemonic::Call => CHANGED_BY_CALLS.iter().for_each(|at| self.set(*at, Value::Unknown)),
            Mnemonic::Push => {
                let value = whole_number(first).map_or(Value::Unknown, |from| self.get(from));
                self.push(value);
            }
            Mnemonic::Pushfq => self.push(Value::Unknown),
            Mnemonic::Pop => {
                let value = self.pop();
                number(first).into_iter().for_each(|into| self.set(into, value));
            }
            Mnemonic::Popfq => drop(self.pop()),
            Mnemonic::Leave => {
                self.set(SP, self.get(FP));
                let value = self.pop();
                self.set(FP, value);
            }
            Mnemonic::Cpuid => (0..4).for_each(|at| self.set(at, Value::Unknown)),
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Bt => {}
            _ if instruction.op0_kind() == OpKind::NearBranch64 => {
                return Flow::Branch(instruction.near_branch_target());
            }
            _ if is_register => self.write(first, instruction),
            Mnemonic::Mov => {
                let from = whole_number(instruction.op1_register());
                let value = from.map_or(Value::Unknown, |from| self.get(from));
                self.store(self.operand_place(instruction), value);
            }
            _ => {}
        }
        Flow::Next
    }

    /// Applies an instruction that writes a register.
    fn write(&mut self, into: Register, instruction: &Instruction) {
        let moved = |bytes: u64, sign: i64| {
            let old = whole_number(into).and_then(|register| self.get(register).as_address());
            old.and_then(|old| old.plus(sign.checked_mul(bytes.cast_signed())?))
        };
        let is_immediate = instruction.op_count() == 2
            && !matches!(instruction.op1_kind(), OpKind::Register | OpKind::Memory);
        let value = match instruction.mnemonic() {
            Mnemonic::Add if is_immediate => {
                moved(instruction.immediate(1), 1).map_or(Value::Unknown, Value::Address)
            }
            Mnemonic::Sub if is_immediate => {
                moved(instruction.immediate(1), -1).map_or(Value::Unknown, Value::Address)
            }
            Mnemonic::Lea => self.operand_place(instruction).map_or(Value::Unknown, Value::Address),
            Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => {
                let from = whole_number(instruction.op1_register());
                from.map_or(Value::Unknown, |from| self.get(from))
            }
            Mnemonic::Mov if instruction.op1_kind() == OpKind::Memory => {
                self.load(self.operand_place(instruction))
            }
            Mnemonic::Xchg | Mnemonic::Xadd | Mnemonic::Mulx => {
                let other = number(instruction.op1_register());
                other.into_iter().for_each(|other| self.set(other, Value::Unknown));
                Value::Unknown
            }
            _ => Value::Unknown,
        };
        let value = if whole_number(into).is_some() { value } else { Value::Unknown };
        number(into).into_iter().for_each(|into| self.set(into, value));
    }

    /// Returns the row of a function that returns now.
    fn row(&self) -> Option<UnwindRow> {
        let at = self.get(SP).as_address()?;
        let end = at.bytes.checked_add(8)?;
        let mut saved = Vec::new();
        let mut others = Vec::new();
        for register in PRESERVED {
            match self.get(register) {
                Value::Address(SymbolicAddress { base: AddressBase::Register(own), bytes: 0 })
                    if own == register => {}
                Value::Address(SymbolicAddress {
                    base: AddressBase::Register(other),
                    bytes: 0,
                }) => {
                    others.push((register, Rule::Register(other)));
                }
                Value::Word(place) if place.base == at.base => {
                    saved.push((register, place.bytes.checked_sub(end)?));
                }
                _ => others.push((register, Rule::Undefined)),
            }
        }
        let cfa = match at.base {
            AddressBase::Register(register) => Cfa::Register(register, end),
            AddressBase::Memory(register, bytes) => Cfa::Memory { register, at: bytes, plus: end },
        };
        Some(UnwindRow {
            cfa,
            return_address: Some(Rule::Offset(-8)),
            saved: saved.into(),
            others: others.into(),
            is_signal_frame: false,
        })
    }
}

impl RegisterValues {
    /// Returns the row of a function that was followed from its beginning to here.
    fn row_inside(&self) -> Option<UnwindRow> {
        /// From the stack pointer at the beginning to the CFA: the return address.
        const TO_CFA: i32 = 8;
        let own = |register: u8| match self.get(register) {
            Value::Address(SymbolicAddress { base: AddressBase::Register(SP), bytes }) => {
                Some((register, bytes))
            }
            _ => None,
        };
        let (register, bytes) = own(SP).or_else(|| own(FP))?;
        let mut saved = Vec::new();
        let mut others = Vec::new();
        for register in PRESERVED {
            let is_own = |value: &Value| {
                *value
                    == Value::Address(SymbolicAddress {
                        base: AddressBase::Register(register),
                        bytes: 0,
                    })
            };
            if is_own(&self.get(register)) {
                continue;
            }
            let stored = self
                .stored
                .iter()
                .find(|(place, value)| is_own(value) && place.base == AddressBase::Register(SP));
            match stored {
                Some((place, _)) => saved.push((register, place.bytes.checked_sub(TO_CFA)?)),
                None => others.push((register, Rule::Undefined)),
            }
        }
        Some(UnwindRow {
            cfa: Cfa::Register(register, TO_CFA.checked_sub(bytes)?),
            return_address: Some(Rule::Offset(-8)),
            saved: saved.into(),
            others: others.into(),
            is_signal_frame: false,
        })
    }
}

/// A part of a file's code.
struct CodeWindow<R> {
    /// Reads the code at an address; returns whether there is as much.
    read: R,
    start: u64,
    bytes: [u8; WINDOW],
    length: usize,
}

impl<R: FnMut(u64, &mut [u8]) -> bool> CodeWindow<R> {
    fn new(read: R) -> Self {
        Self { read, start: 0, bytes: [0; WINDOW], length: 0 }
    }

    /// Decodes the instruction at an address.
    fn decode(&mut self, address: u64) -> Option<Instruction> {
        let inside = |window: &Self| {
            let at = usize::try_from(address.checked_sub(window.start)?).ok()?;
            window.bytes.get(at..window.length).filter(|rest| !rest.is_empty()).map(<[u8]>::len)
        };
        if inside(self).is_none_or(|left| left < LONGEST) {
            // Less than a whole window is left at a segment's end.
            let mut lengths = [WINDOW, WINDOW / 4].into_iter().chain((1..=LONGEST).rev());
            let Self { read, bytes, .. } = self;
            self.length = lengths
                .find(|length| bytes.get_mut(..*length).is_some_and(|into| read(address, into)))?;
            self.start = address;
        }
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(at..self.length)?;
        Some(Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode())
    }
}

/// Code to follow, and what was followed of it.
struct CodePaths<'a, R> {
    code: CodeWindow<R>,
    seen: HashSet<u64, foldhash::fast::RandomState>,
    /// Work that the thread may still do, in bytes of tables.
    left: &'a mut usize,
    /// Limit on the instructions followed from one address.
    instructions: usize,
}

impl<'a, R: FnMut(u64, &mut [u8]) -> bool> CodePaths<'a, R> {
    fn new(read: R, left: &'a mut usize, instructions: usize) -> Self {
        Self { code: CodeWindow::new(read), seen: HashSet::default(), left, instructions }
    }

    /// Follows all paths from an address, until `stop` returns a row for a place on them. The place
    /// is an address, the registers before its instruction, and whether it returns.
    fn follow(
        &mut self,
        from: u64,
        stop: impl Fn(u64, &RegisterValues, bool) -> Option<UnwindRow>,
    ) -> Option<UnwindRow> {
        self.seen.clear();
        let mut paths = vec![(from, RegisterValues::new())];
        while let Some((mut at, mut state)) = paths.pop() {
            let mut is_target = true;
            while self.seen.insert(at) {
                *self.left = self.left.saturating_sub(WORK);
                if self.seen.len() > self.instructions || *self.left == 0 {
                    return None;
                }
                let Some(instruction) = self.code.decode(at) else { break };
                // Another function begins here.
                if instruction.mnemonic() == Mnemonic::Endbr64 && !is_target {
                    break;
                }
                is_target = false;
                let before = at;
                at = instruction.next_ip();
                let flow = if let Some(row) = stop(before, &state, false) {
                    return Some(row);
                } else {
                    state.apply(&instruction)
                };
                match flow {
                    Flow::Next => {}
                    Flow::Jump(target) => {
                        at = target;
                        is_target = true;
                    }
                    Flow::Branch(target) => {
                        if paths.len() < BRANCHES {
                            paths.push((target, state.clone()));
                        }
                    }
                    Flow::Return => match stop(before, &state, true) {
                        Some(row) => return Some(row),
                        None => break,
                    },
                    Flow::End => break,
                }
            }
        }
        None
    }
}

/// Follows a function's code from an address to its return, and returns the row at the address.
/// `read` reads code; `left` is the work that the thread may still do, in bytes of tables.
pub(super) fn row_to_return(
    address: u64,
    read: impl FnMut(u64, &mut [u8]) -> bool,
    left: &mut usize,
) -> Option<UnwindRow> {
    let mut paths = CodePaths::new(read, left, INSTRUCTIONS);
    paths.follow(address, |_, state, returns| returns.then(|| state.row()).flatten())
}

/// Follows code from each place before an address where its function may begin, the nearest first,
/// and returns the distinct rows at the address.
pub(super) fn rows_from_beginnings(
    address: u64,
    read: impl FnMut(u64, &mut [u8]) -> bool,
    left: &mut usize,
) -> Vec<UnwindRow> {
    let mut paths = CodePaths::new(read, left, INSTRUCTIONS_FROM_BEGINNING);
    let mut rows: Vec<UnwindRow> = Vec::new();
    let mut followed = 0;
    let nearest = address / ALIGNMENT * ALIGNMENT;
    for number in 0..FUNCTION_BYTES / ALIGNMENT {
        let Some(start) = nearest.checked_sub(number * ALIGNMENT) else { break };
        let here = |at: u64, state: &RegisterValues, _| {
            (at == address).then(|| state.row_inside()).flatten()
        };
        let row = paths.follow(start, here);
        rows.extend(row.filter(|row| !rows.contains(row)));
        followed += paths.seen.len();
        if rows.len() >= ROWS || followed >= INSTRUCTIONS_FROM_BEGINNINGS {
            break;
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows code that begins at address 0x1000, from an offset in it on.
    fn follow(code: &[u8], offset: u64) -> Option<UnwindRow> {
        let read = |address: u64, into: &mut [u8]| {
            let at = usize::try_from(address.wrapping_sub(0x1000)).unwrap_or(usize::MAX);
            let from = code.get(at..).and_then(|rest| rest.get(..into.len()));
            from.map(|from| into.copy_from_slice(from)).is_some()
        };
        let left = &mut (1 << 20);
        row_to_return(0x1000 + offset, read, left)
            .or_else(|| rows_from_beginnings(0x1000 + offset, read, left).into_iter().next())
    }

    /// push %rbx; push %r12; sub $0x20,%rsp; xor %ebx,%ebx; add $0x20,%rsp; pop %r12; pop %rbx; ret
    const PUSHES: [u8; 17] = [
        0x53, 0x41, 0x54, 0x48, 0x83, 0xec, 0x20, 0x31, 0xdb, 0x48, 0x83, 0xc4, 0x20, 0x41, 0x5c,
        0x5b, 0xc3,
    ];

    #[test]
    fn every_instruction_of_a_function_knows_its_callers_registers() {
        let at = |offset: u64| {
            let row = follow(&PUSHES, offset).unwrap();
            (row.cfa, row.saved.to_vec())
        };
        let saved = vec![(3, -16), (12, -24)];
        assert_eq!(at(0), (Cfa::Register(SP, 8), vec![]));
        assert_eq!(at(1), (Cfa::Register(SP, 16), vec![(3, -16)]));
        assert_eq!(at(3), (Cfa::Register(SP, 24), saved.clone()));
        assert_eq!(at(7), (Cfa::Register(SP, 56), saved.clone()));
        assert_eq!(at(13), (Cfa::Register(SP, 24), saved));
        assert_eq!(at(15), (Cfa::Register(SP, 16), vec![(3, -16)]));
        assert_eq!(at(16), (Cfa::Register(SP, 8), vec![]));
    }

    /// mov %rsp,%rax; sub $0x80,%rsp; and $-32,%rsp; mov %rax,0x40(%rsp); nop; mov
    /// 0x40(%rsp),%rsp; ret
    #[test]
    fn an_aligned_stack_is_left_by_the_saved_stack_pointer() {
        let code = [
            0x48, 0x89, 0xe0, 0x48, 0x81, 0xec, 0x80, 0, 0, 0, 0x48, 0x83, 0xe4, 0xe0, 0x48, 0x89,
            0x44, 0x24, 0x40, 0x90, 0x48, 0x8b, 0x64, 0x24, 0x40, 0xc3,
        ];
        let row = follow(&code, 19).unwrap();
        assert_eq!(row.cfa, Cfa::Memory { register: SP, at: 0x40, plus: 8 });
        assert_eq!(follow(&code, 25).unwrap().cfa, Cfa::Register(SP, 8));
    }

    /// push %rbp; mov %rsp,%rbp; sub $0x30,%rsp; call; leave; ret
    #[test]
    fn a_frame_pointer_leads_to_the_caller() {
        let code = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x30, 0xe8, 0, 0, 0, 0, 0xc9, 0xc3];
        let row = follow(&code, 13).unwrap();
        assert_eq!((row.cfa, &*row.saved), (Cfa::Register(FP, 16), &[(FP, -16)][..]));
        assert_eq!(follow(&code, 1).unwrap().cfa, Cfa::Register(SP, 16));
    }

    /// push %rbx; 1: dec %rdi; je 2f; jmp 1b; ud2; 2: pop %rbx; ret
    #[test]
    fn both_directions_of_a_branch_are_tried() {
        let code = [0x53, 0x48, 0xff, 0xcf, 0x74, 0x04, 0xeb, 0xf9, 0x0f, 0x0b, 0x5b, 0xc3];
        let row = follow(&code, 1).unwrap();
        assert_eq!((row.cfa, &*row.saved), (Cfa::Register(SP, 16), &[(3, -16)][..]));
    }

    #[test]
    fn code_that_never_returns_has_no_row() {
        // pop %rcx, jmp *%rcx; nothing at all; add %rax,%rsp, ret; the middle of the first; and the
        // next function's return, behind push %rax and endbr64
        for (code, offset) in [
            (&[0x48, 0x01, 0xc4, 0x59, 0xff, 0xe1][..], 4),
            (&[], 0),
            (&[0x48, 0x01, 0xc4, 0xc3], 3 + 1),
            (&[0x48, 0x01, 0xc4, 0x50, 0xf3, 0x0f, 0x1e, 0xfa, 0xc3], 3),
        ] {
            assert_eq!(follow(code, offset), None, "{code:x?}");
        }
    }

    /// push %rbx; mov %rdi,%rbx; sub $0x10,%rsp; call main; mov %eax,%edi; call exit; and the next
    /// function: endbr64; ret
    #[test]
    fn a_function_that_does_not_return_is_followed_from_its_beginning() {
        let code = [
            0x53, 0x48, 0x89, 0xfb, 0x48, 0x83, 0xec, 0x10, 0xe8, 0, 0, 0, 0, 0x89, 0xc7, 0xe8, 0,
            0, 0, 0, 0xf3, 0x0f, 0x1e, 0xfa, 0xc3,
        ];
        let row = follow(&code, 13).unwrap();
        assert_eq!((row.cfa, &*row.saved), (Cfa::Register(SP, 32), &[(3, -16)][..]));
    }

    #[test]
    fn following_is_bounded() {
        // A file of 64 MiB that repeats: je over the next byte.
        let read = |address: u64, into: &mut [u8]| {
            for (at, byte) in (address..).zip(into.iter_mut()) {
                *byte = if at % 2 == 0 { 0x74 } else { 0x01 };
            }
            true
        };
        let all = 10 * WORK * INSTRUCTIONS;
        let mut left = all;
        assert_eq!(row_to_return(1 << 20, read, &mut left), None);
        assert!(left > all - 2 * WORK * INSTRUCTIONS);
        let mut left = all;
        assert_eq!(rows_from_beginnings(1 << 20 | 1, read, &mut left), []);
        let most = INSTRUCTIONS_FROM_BEGINNINGS + 2 * INSTRUCTIONS_FROM_BEGINNING;
        assert!(left > all - WORK * most);
        left = 100;
        assert_eq!((row_to_return(0, read, &mut left), left), (None, 0));
    }
}
