//! The registers of `bpf/probes.bpf.c`, named as in the kernel's probes
//! (`Documentation/trace/kprobetrace.rst`; `arch/*/kernel/ptrace.c`, `regoffset_table`).

#[cfg(target_arch = "x86_64")]
const NAMES: [&str; 21] = [
    "r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8", "ax", "cx", "dx", "si", "di",
    "orig_ax", "ip", "cs", "flags", "sp", "ss",
];
#[cfg(target_arch = "aarch64")]
const NAMES: [&str; 34] = [
    "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",
    "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27",
    "x28", "x29", "lr", "sp", "pc", "pstate",
];

/// The registers of integer arguments, in order (System V psABI for x86-64, 3.2.3; AAPCS64, 6.8.2).
#[cfg(target_arch = "x86_64")]
const ARGUMENTS: &[&str] = &["di", "si", "dx", "cx", "r8", "r9"];
#[cfg(target_arch = "aarch64")]
const ARGUMENTS: &[&str] = &["x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"];

#[cfg(target_arch = "x86_64")]
const RETURNED: &str = "ax";
#[cfg(target_arch = "aarch64")]
const RETURNED: &str = "x0";

pub(super) const COUNT: usize = NAMES.len();

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register(usize);

impl Register {
    /// Returns the register of this name: the kernel's (`di`), with the `r` of 64-bit assembler
    /// (`rdi`), or `x30`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let find = |name: &str| NAMES.iter().position(|known| *known == name).map(Self);
        let short = name.strip_prefix('r').filter(|_| cfg!(target_arch = "x86_64"));
        let link = || (name == "x30").then(|| find("lr"))?;
        find(name).or_else(|| short.and_then(find)).or_else(link)
    }

    /// Returns the register with this number in samples (`arch/*/include/uapi/asm/perf_regs.h`).
    #[must_use]
    pub fn by_perf_number(number: u32) -> Option<Self> {
        let number = usize::try_from(number).ok()?;
        #[cfg(target_arch = "x86_64")]
        return match number {
            0..=11 => {
                const FIRST: [&str; 12] =
                    ["ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "ip", "flags", "cs", "ss"];
                Self::named(FIRST[number])
            }
            16..=23 => Self::named(&format!("r{}", number - 8)),
            _ => None,
        };
        #[cfg(target_arch = "aarch64")]
        return (number < COUNT).then_some(Self(number));
    }

    /// Returns the register of a function's integer argument, counted from 1.
    #[must_use]
    pub fn argument(number: usize) -> Option<Self> {
        Self::named(ARGUMENTS.get(number.checked_sub(1)?)?)
    }

    /// Number of arguments in registers.
    pub const ARGUMENTS: usize = ARGUMENTS.len();

    /// Returns the register of the return value.
    #[must_use]
    pub fn returned() -> Self {
        Self::named(RETURNED).unwrap_or(Self(0))
    }

    /// Returns the stack pointer.
    #[must_use]
    pub fn stack_pointer() -> Self {
        Self::named("sp").unwrap_or(Self(0))
    }

    /// Returns its offset among the registers, in bytes.
    pub(super) fn offset(self) -> u16 {
        u16::try_from(8 * self.0).unwrap_or(0)
    }

    /// Returns its value from a record's registers.
    pub(super) fn value_in(self, all: &[u64; COUNT]) -> u64 {
        all[self.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_have_both_names() {
        #[cfg(target_arch = "x86_64")]
        {
            assert_eq!(Register::named("rdi"), Register::named("di"));
            assert_eq!(Register::named("r8").map(Register::offset), Some(72));
            assert_eq!(Register::returned().offset(), 80);
            assert_eq!(Register::stack_pointer().offset(), 152);
        }
        assert_eq!(Register::named("nothing"), None);
        assert_eq!((Register::argument(0), Register::argument(99)), (None, None));
        assert!((1..=Register::ARGUMENTS).all(|number| Register::argument(number).is_some()));
    }
}
