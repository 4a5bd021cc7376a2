//! One unwinding step: from a frame's registers to its caller's, by a row and the copied stack.

use gimli::{Encoding, Evaluation, EvaluationResult, Format, Location, Value};

use super::UnwindOutcome;
use super::arch::Arch;
use super::row::{Cfa, ExpressionRange, Rule, UnwindRow};
use super::tables::Bytes;

/// Registers of the processor with the most (`Arch::registers`).
const REGISTERS: usize = 32;

/// Limit on the operations of an expression, which can loop. Compilers write about ten.
const MAX_OPERATIONS: u32 = 1 << 10;

/// A copy of a stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory<'a> {
    /// Address of the first byte.
    pub(super) start: u64,
    pub(super) bytes: &'a [u8],
    /// Bytes of a word: 4 or 8.
    pub(super) word_bytes: u8,
}

impl Memory<'_> {
    #[inline]
    pub(super) fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(at..)?;
        if self.word_bytes == 4 {
            return Some(u32::from_le_bytes(*bytes.first_chunk()?).into());
        }
        Some(u64::from_le_bytes(*bytes.first_chunk()?))
    }

    /// Address after the last byte.
    pub(super) fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes.len() as u64)
    }
}

/// The registers of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct RegisterFrame {
    pub(super) pc: u64,
    values: [u64; REGISTERS],
    /// A bit for each register with a known value.
    known: u32,
    /// Whether the frame was interrupted rather than made a call, so that its address is exact.
    pub(super) is_exact: bool,
}

/// Why a frame has no caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It is the thread's first frame.
    First,
    /// The copy lacks the word at this address.
    Unread(u64),
    /// A needed register is lost, an expression can't be evaluated, or the stack would go
    /// backwards.
    Damaged,
    /// The code can't be unwound.
    Incomplete(UnwindOutcome),
}

impl RegisterFrame {
    pub(super) fn new(pc: u64, registers: &[u64], arch: &Arch) -> Self {
        let mut values = [0; REGISTERS];
        let mut known = 0;
        for (number, (slot, value)) in values.iter_mut().zip(registers).enumerate() {
            *slot = *value;
            known |= 1 << number;
        }
        let mut frame = Self { pc, values, known, is_exact: true };
        if !arch.has_link_register {
            frame.set(arch.return_address, Some(pc));
        }
        frame
    }

    #[inline]
    pub(super) fn get(&self, register: u8) -> Option<u64> {
        let value = *self.values.get(usize::from(register))?;
        (self.known >> register & 1 == 1).then_some(value)
    }

    #[inline]
    pub(super) fn set(&mut self, register: u8, value: Option<u64>) {
        let Some(slot) = self.values.get_mut(usize::from(register)) else { return };
        match value {
            Some(value) => {
                *slot = value;
                self.known |= 1 << register;
            }
            None => self.known &= !(1 << register),
        }
    }

    /// Steps to the caller. `expression` returns the bytes of an expression.
    #[inline]
    pub(super) fn step<'a>(
        &mut self,
        row: &UnwindRow,
        memory: &Memory<'_>,
        arch: &Arch,
        expression: &impl Fn(&ExpressionRange) -> Option<Bytes<'a>>,
    ) -> Result<(), Stop> {
        // Fast path for nearly all rows: the CFA is a register plus an offset, and every saved
        // register is in memory.
        let (base, bytes, at) = match (row.cfa, row.return_address) {
            (Cfa::Register(base, bytes), Some(Rule::Offset(at))) if row.others.is_empty() => {
                (base, bytes, at)
            }
            _ => {
                return self.step_by_rules(row, arch, &|frame| Evaluated {
                    frame,
                    memory,
                    expression,
                });
            }
        };
        let base = self.get(base).ok_or(Stop::Damaged)?;
        let cfa = base.checked_add_signed(bytes.into()).ok_or(Stop::Damaged)?;
        let at = cfa.wrapping_add_signed(at.into());
        let pc = memory.word(at).ok_or(Stop::Unread(at))?;
        let sp = self.get(arch.stack_pointer).unwrap_or(0);
        self.set(arch.stack_pointer, Some(cfa));
        self.restore(row, cfa, sp, memory);
        self.arrive(row, cfa, sp, pc, arch)
    }

    /// Steps to the caller with rules of any kind, which use the registers of this frame.
    #[inline(never)]
    fn step_by_rules<'m, 'a, F: Fn(&ExpressionRange) -> Option<Bytes<'a>> + 'm>(
        &mut self,
        row: &UnwindRow,
        arch: &Arch,
        evaluated: &impl Fn(Self) -> Evaluated<'m, F>,
    ) -> Result<(), Stop> {
        let old = evaluated(*self);
        let cfa = match row.cfa {
            Cfa::Register(register, bytes) => {
                let base = self.get(register).ok_or(Stop::Damaged)?;
                base.checked_add_signed(bytes.into()).ok_or(Stop::Damaged)?
            }
            Cfa::Memory { register, at, plus } => {
                let base = self.get(register).ok_or(Stop::Damaged)?;
                let at = base.wrapping_add_signed(at.into());
                let word = old.memory.word(at).ok_or(Stop::Unread(at))?;
                word.checked_add_signed(plus.into()).ok_or(Stop::Damaged)?
            }
            Cfa::Expression(place) => old.value(&place, None)?,
        };
        let Some(rule) = row.return_address else { return Err(Stop::First) };
        let pc = match rule {
            Rule::Offset(bytes) => {
                let at = cfa.wrapping_add_signed(bytes.into());
                old.memory.word(at).ok_or(Stop::Unread(at))?
            }
            rule => old.apply(rule, arch.return_address, cfa)?.ok_or(Stop::Damaged)?,
        };
        let sp = old.frame.get(arch.stack_pointer).unwrap_or(0);
        self.set(arch.stack_pointer, Some(cfa));
        self.restore(row, cfa, sp, old.memory);
        for (register, rule) in &row.others {
            self.set(*register, old.apply(*rule, *register, cfa).unwrap_or(None));
        }
        self.arrive(row, cfa, sp, pc, arch)
    }

    /// Restores the registers saved in memory.
    #[inline]
    fn restore(&mut self, row: &UnwindRow, cfa: u64, sp: u64, memory: &Memory<'_>) {
        for (register, bytes) in &row.saved {
            let at = cfa.wrapping_add_signed((*bytes).into());
            // A register saved below the stack pointer was popped already; rows don't always state
            // that, since it still has its value.
            if at >= sp {
                self.set(*register, memory.word(at));
            }
        }
    }

    /// Ends a step, and checks that it went up the stack. An interrupted frame may stay at the same
    /// place, and a signal frame may lead to another stack.
    #[inline]
    fn arrive(
        &mut self,
        row: &UnwindRow,
        cfa: u64,
        sp: u64,
        pc: u64,
        arch: &Arch,
    ) -> Result<(), Stop> {
        let is_further = cfa > sp || self.is_exact && cfa == sp && pc != self.pc;
        if !is_further && !row.is_signal_frame {
            return Err(Stop::Damaged);
        }
        self.return_to(pc, arch);
        self.is_exact = row.is_signal_frame;
        Ok(())
    }

    fn return_to(&mut self, pc: u64, arch: &Arch) {
        self.pc = pc;
        self.set(arch.return_address, Some(pc));
    }

    /// Steps to the caller by the frame pointer, which points to the caller's, with the return
    /// address above it.
    pub(super) fn step_by_frame_pointer(
        &mut self,
        memory: &Memory<'_>,
        arch: &Arch,
    ) -> Result<(), Stop> {
        let fp = self.get(arch.frame_pointer).ok_or(Stop::Damaged)?;
        let sp = self.get(arch.stack_pointer).ok_or(Stop::Damaged)?;
        if fp == 0 && !self.is_exact {
            return Err(Stop::First);
        }
        let word_bytes = u64::from(arch.word_bytes);
        if fp < sp || fp % word_bytes != 0 {
            return Err(Stop::Damaged);
        }
        let caller = memory.word(fp).ok_or(Stop::Unread(fp))?;
        let at = fp.saturating_add(word_bytes);
        let pc = memory.word(at).ok_or(Stop::Unread(at))?;
        self.known = 0;
        self.set(arch.stack_pointer, at.checked_add(word_bytes));
        self.set(arch.frame_pointer, Some(caller));
        self.return_to(pc, arch);
        self.is_exact = false;
        Ok(())
    }

    /// Steps to the caller of a function that has pushed nothing: the return address is at the
    /// stack pointer.
    pub(super) fn step_out_of_leaf(&mut self, sp: u64, pc: u64, arch: &Arch) {
        self.set(arch.stack_pointer, sp.checked_add(arch.word_bytes.into()));
        self.return_to(pc, arch);
        self.is_exact = false;
    }

    /// Steps out of one of Python's trampolines: code without a file that calls the interpreter for
    /// a single function (`Python/asm_trampoline.S`). `is_caller` recognizes return addresses in
    /// the interpreter. Returns `false` if the code is no trampoline.
    ///
    /// ```text
    /// sub $8, %rsp    call *%rcx    add $8, %rsp    ret                  up to 3.14
    /// push %rbp    mov %rsp, %rbp    call *%rcx    pop %rbp    ret       later
    /// ```
    /// During the call a word is below the return address. On processors with a link register a
    /// trampoline keeps a frame pointer.
    pub(super) fn step_out_of_trampoline(
        &mut self,
        memory: &Memory<'_>,
        arch: &Arch,
        is_caller: impl Fn(u64) -> bool,
    ) -> bool {
        let is_known = arch.word_bytes == 8 && !arch.has_link_register;
        let Some(sp) = self.get(arch.stack_pointer).filter(|_| is_known) else {
            return false;
        };
        // An interrupted trampoline may not have pushed that word yet.
        let places = if self.is_exact { &[0, 8][..] } else { &[8] };
        let return_address = |bytes: &u64| {
            let at = sp.checked_add(*bytes)?;
            Some((at, memory.word(at).filter(|pc| is_caller(pc.wrapping_sub(1)))?))
        };
        let Some((at, pc)) = places.iter().find_map(return_address) else { return false };
        if at > sp && self.get(arch.frame_pointer) == Some(sp) {
            self.set(arch.frame_pointer, memory.word(sp));
        }
        self.set(arch.stack_pointer, at.checked_add(8));
        self.return_to(pc, arch);
        self.is_exact = false;
        true
    }

    /// Steps from the code that ends a signal handler to the interrupted code.
    pub(super) fn step_out_of_signal(
        &mut self,
        memory: &Memory<'_>,
        arch: &Arch,
    ) -> Result<(), Stop> {
        let sp = self.get(arch.stack_pointer).ok_or(Stop::Damaged)?;
        self.restore_interrupted(sp, memory, arch)
    }

    /// Steps like [`Self::step_out_of_signal`] in a 32-bit program on x86. The frame of a handler
    /// without `SA_SIGINFO` has no `siginfo` (`struct sigframe_ia32` of
    /// `arch/x86/include/asm/sigframe.h`). Returns whether the stack has a signal's frame.
    pub(super) fn step_out_of_signal_in_32_bits(
        &mut self,
        memory: &Memory<'_>,
        arch: &Arch,
        is_code: impl Fn(u64) -> bool,
    ) -> bool {
        /// Words in front of the registers in a frame with `siginfo`, without it.
        const BYTES_MORE: u64 = 156;
        /// From the `siginfo`'s pointer to itself.
        const TO_INFO: u64 = 8;
        let Some(sp) = self.get(arch.stack_pointer) else { return false };
        let info = sp.saturating_add(4);
        let has_info = memory.word(info) == info.checked_add(TO_INFO);
        let start = if has_info { Some(sp) } else { sp.checked_sub(BYTES_MORE) };
        let Some(start) = start else { return false };
        self.restore_interrupted(start, memory, arch).is_ok() && is_code(self.pc)
    }

    /// Restores the registers of interrupted code from a signal's frame.
    fn restore_interrupted(
        &mut self,
        start: u64,
        memory: &Memory<'_>,
        arch: &Arch,
    ) -> Result<(), Stop> {
        let at = |offset: u16| start.checked_add(offset.into()).ok_or(Stop::Damaged);
        let pc = at(arch.signal_frame.pc)?;
        let pc = memory.word(pc).ok_or(Stop::Unread(pc))?;
        for (register, offset) in arch.signal_frame.registers {
            self.set(*register, memory.word(at(*offset)?));
        }
        if !arch.has_link_register {
            self.set(arch.return_address, Some(pc));
        }
        (self.pc, self.is_exact) = (pc, true);
        Ok(())
    }
}

/// The state that rules are applied to.
struct Evaluated<'m, F> {
    frame: RegisterFrame,
    memory: &'m Memory<'m>,
    expression: &'m F,
}

impl<'a, F: Fn(&ExpressionRange) -> Option<Bytes<'a>>> Evaluated<'_, F> {
    /// Returns a register's value in the caller; `None` if it is lost.
    fn apply(&self, rule: Rule, register: u8, cfa: u64) -> Result<Option<u64>, Stop> {
        let read = |at: u64| self.memory.word(at).ok_or(Stop::Unread(at));
        Ok(match rule {
            Rule::Same => self.frame.get(register),
            Rule::Undefined => None,
            Rule::Offset(bytes) => Some(read(cfa.wrapping_add_signed(bytes.into()))?),
            Rule::ValueOffset(bytes) => Some(cfa.wrapping_add_signed(bytes.into())),
            Rule::Register(other) => self.frame.get(other),
            Rule::Expression(place) => Some(read(self.value(&place, Some(cfa))?)?),
            Rule::ValueExpression(place) => Some(self.value(&place, Some(cfa))?),
        })
    }

    /// Evaluates an expression. For a register's rule, the stack starts with the CFA.
    fn value(&self, place: &ExpressionRange, cfa: Option<u64>) -> Result<u64, Stop> {
        let bytes = (self.expression)(place).ok_or(Stop::Damaged)?;
        let address_size = self.memory.word_bytes;
        let encoding = Encoding { address_size, format: Format::Dwarf32, version: 5 };
        let mut evaluation = Evaluation::new(bytes, encoding);
        evaluation.set_max_iterations(MAX_OPERATIONS);
        if let Some(cfa) = cfa {
            evaluation.set_initial_value(cfa);
        }
        let mut result = evaluation.evaluate();
        loop {
            result = match result {
                Ok(EvaluationResult::Complete) => break,
                Ok(EvaluationResult::RequiresRegister { register, .. }) => {
                    let register = u8::try_from(register.0).map_err(|_| Stop::Damaged)?;
                    let value = self.frame.get(register).ok_or(Stop::Damaged)?;
                    evaluation.resume_with_register(Value::Generic(value))
                }
                Ok(EvaluationResult::RequiresMemory { address, size, .. })
                    if size == address_size =>
                {
                    let value = self.memory.word(address).ok_or(Stop::Unread(address))?;
                    evaluation.resume_with_memory(Value::Generic(value))
                }
                _ => return Err(Stop::Damaged),
            };
        }
        match evaluation.as_result().last().map(|piece| &piece.location) {
            Some(Location::Address { address }) => Ok(*address),
            _ => Err(Stop::Damaged),
        }
    }
}
