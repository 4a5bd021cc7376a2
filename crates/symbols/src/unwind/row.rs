//! How a caller's registers are found from one place in the code: a row of a table of call frames
//! (DWARF 5, section 6.4.1), in a form that is quick to apply.
//!
//! ```text
//! location   CFA      rbx     rbp     ra          the caller's
//! f          rsp+8                    *(CFA-8)    rsp = CFA, rip = *(CFA-8)
//! f+1        rsp+16           *(CFA-16)  "        and rbp = *(CFA-16)
//! ```

use gimli::{CfaRule, Register, RegisterRule, UnwindExpression, UnwindTableRow};

use super::arch::Arch;

/// A row. Registers have DWARF's numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Row {
    /// The canonical frame address: the stack pointer that the caller has after the return.
    pub(super) cfa: Cfa,
    /// The return address; `None` where the code has no caller: it is a thread's first function.
    pub(super) return_address: Option<Rule>,
    /// Registers that were saved, the return address apart: where, in bytes from the canonical
    /// frame address.
    pub(super) saved: Box<[(u8, i32)]>,
    /// Registers with another rule.
    pub(super) others: Box<[(u8, Rule)]>,
    /// What called is not a call but an interruption, by a signal.
    pub(super) is_signal_frame: bool,
}

/// How the canonical frame address is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cfa {
    /// A register's value, and so many bytes more.
    Register(u8, i32),
    /// What an expression yields.
    Expression(ExpressionRange),
}

/// How a register's value in the caller is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// It is as it was.
    Same,
    /// It is lost.
    Undefined,
    /// In memory, so many bytes from the canonical frame address.
    Offset(i32),
    /// It is that address.
    ValueOffset(i32),
    /// In another register.
    Register(u8),
    /// In memory, where an expression says.
    Expression(ExpressionRange),
    /// What an expression yields.
    ValueExpression(ExpressionRange),
}

/// Where an expression lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ExpressionRange {
    /// The number of the DSO.
    pub(super) dso: u32,
    /// In `.debug_frame`, not `.eh_frame`.
    pub(super) is_debug_frame: bool,
    pub(super) offset: u32,
    pub(super) length: u32,
}

/// Which table a row comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) dso: u32,
    pub(super) is_debug_frame: bool,
    pub(super) is_signal_frame: bool,
    /// Whose number the return address has (`CommonInformationEntry::return_address_register`).
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

impl Row {
    /// The row in this form; `None` where it holds what no compiler writes.
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
            // A function that calls none may keep its return address where it was handed it.
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

    /// Whether code that follows frame pointers finds this frame's caller: the caller's frame
    /// pointer lies right below the return address, and this frame's points there.
    pub(super) fn keeps_frame_pointer(&self, arch: &Arch) -> bool {
        let fp = self.saved.iter().find(|(register, _)| *register == arch.frame_pointer);
        let Some((_, fp)) = fp else { return false };
        let is_beside = |at: i32| at == fp.saturating_add(8);
        match (self.cfa, self.return_address) {
            // By convention the pair is where the frame pointer points, which is not said here.
            (_, Some(Rule::Offset(at))) if arch.has_link_register => is_beside(at),
            (Cfa::Register(base, bytes), Some(Rule::Offset(at))) => {
                base == arch.frame_pointer && bytes.saturating_add(*fp) == 0 && is_beside(at)
            }
            _ => false,
        }
    }
}
