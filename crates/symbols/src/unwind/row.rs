//! A row of an unwind table (DWARF 5, section 6.4.1), in a form that is quick to apply: how to
//! restore the caller's registers at a place in the code.
//!
//! ```text
//! location   CFA      rbx     rbp     ra          the caller's
//! f          rsp+8                    *(CFA-8)    rsp = CFA, rip = *(CFA-8)
//! f+1        rsp+16           *(CFA-16)  "        and rbp = *(CFA-16)
//! ```

use gimli::{CfaRule, Register, RegisterRule, UnwindExpression, UnwindTableRow};

use super::arch::Arch;

/// A row of an unwind table. Registers have DWARF's numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct UnwindRow {
    /// Canonical frame address (CFA): the caller's stack pointer after the return.
    pub(super) cfa: Cfa,
    /// Return address; `None` in a thread's first function, which has no caller.
    pub(super) return_address: Option<Rule>,
    /// Registers saved in memory, without the return address, with offsets from the CFA in bytes.
    pub(super) saved: Box<[(u8, i32)]>,
    /// Registers with any other rule that changes them.
    pub(super) others: Box<[(u8, Rule)]>,
    /// Whether a signal interrupted the caller, rather than the caller making a call.
    pub(super) is_signal_frame: bool,
}

/// Rule for the canonical frame address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cfa {
    /// Value of a register plus an offset in bytes.
    Register(u8, i32),
    /// The word in memory at a register plus an offset in bytes, plus another offset. Tables don't
    /// have it: code that aligns its stack saves the old stack pointer there.
    Memory { register: u8, at: i32, plus: i32 },
    /// Value of an expression.
    Expression(ExpressionRange),
}

/// Rule for a register's value in the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// Unchanged.
    Same,
    /// Lost.
    Undefined,
    /// In memory, at an offset from the CFA in bytes.
    Offset(i32),
    /// The CFA plus an offset in bytes.
    ValueOffset(i32),
    /// In another register.
    Register(u8),
    /// In memory, at the value of an expression.
    Expression(ExpressionRange),
    /// Value of an expression.
    ValueExpression(ExpressionRange),
}

/// Position of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ExpressionRange {
    /// Number of the DSO.
    pub(super) dso: u32,
    /// Whether it is in `.debug_frame` rather than `.eh_frame`.
    pub(super) is_debug_frame: bool,
    pub(super) offset: u32,
    pub(super) length: u32,
}

/// The table and entry that a row comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) dso: u32,
    pub(super) is_debug_frame: bool,
    pub(super) is_signal_frame: bool,
    /// Register number of the return address (`CommonInformationEntry::return_address_register`).
    pub(super) return_address: Register,
}

impl Origin {
    fn place(&self, expression: &UnwindExpression<usize>) -> Option<ExpressionRange> {
        Some(ExpressionRange {
            dso: self.dso,
            is_debug_frame: self.is_debug_frame,
            offset: u32::try_from(expression.offset).ok()?,
            length: u32::try_from(expression.length).ok()?,
        })
    }

    fn rule(&self, rule: &RegisterRule<usize>) -> Option<Rule> {
        Some(match rule {
            RegisterRule::SameValue => Rule::Same,
            RegisterRule::Offset(bytes) => Rule::Offset(i32::try_from(*bytes).ok()?),
            RegisterRule::ValOffset(bytes) => Rule::ValueOffset(i32::try_from(*bytes).ok()?),
            RegisterRule::Register(other) => Rule::Register(u8::try_from(other.0).ok()?),
            RegisterRule::Expression(expression) => Rule::Expression(self.place(expression)?),
            RegisterRule::ValExpression(expression) => {
                Rule::ValueExpression(self.place(expression)?)
            }
            _ => Rule::Undefined,
        })
    }
}

impl UnwindRow {
    /// Converts a row; `None` if a value is in a range that no compiler writes.
    pub(super) fn new(row: &UnwindTableRow<usize>, origin: &Origin, arch: &Arch) -> Option<Self> {
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                Cfa::Register(u8::try_from(register.0).ok()?, i32::try_from(*offset).ok()?)
            }
            CfaRule::Expression(expression) => Cfa::Expression(origin.place(expression)?),
        };
        let return_address = match row.register(origin.return_address) {
            Some(RegisterRule::Undefined) => None,
            Some(rule) => Some(origin.rule(&rule)?),
            // A leaf function can leave its return address in the link register.
            None if arch.has_link_register => Some(Rule::Same),
            None => None,
        };
        let is_kept = |register: &Register| {
            *register != origin.return_address && usize::from(register.0) < arch.registers
        };
        let registers = row.registers().filter(|(register, _)| is_kept(register));
        let mut saved = Vec::new();
        let mut others = Vec::new();
        for (register, rule) in registers {
            let register = u8::try_from(register.0).ok()?;
            match origin.rule(rule)? {
                Rule::Same => {}
                Rule::Offset(bytes) => saved.push((register, bytes)),
                rule => others.push((register, rule)),
            }
        }
        let saved = saved.into();
        let others = others.into();
        Some(Self { cfa, return_address, saved, others, is_signal_frame: origin.is_signal_frame })
    }

    /// Whether following frame pointers finds this frame's caller: this frame's pointer points to
    /// the caller's frame pointer, right below the return address.
    pub(super) fn keeps_frame_pointer(&self, arch: &Arch) -> bool {
        let fp = self.saved.iter().find(|(register, _)| *register == arch.frame_pointer);
        let Some((_, fp)) = fp else { return false };
        let is_beside = |at: i32| at == fp.saturating_add(8);
        match (self.cfa, self.return_address) {
            // By convention the frame pointer points to the pair; the row doesn't state it.
            (_, Some(Rule::Offset(at))) if arch.has_link_register => is_beside(at),
            (Cfa::Register(base, bytes), Some(Rule::Offset(at))) => {
                base == arch.frame_pointer && bytes.saturating_add(*fp) == 0 && is_beside(at)
            }
            _ => false,
        }
    }
}
