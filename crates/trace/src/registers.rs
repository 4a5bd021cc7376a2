//! The registers of arguments: in 32-bit tasks, a 64-bit argument takes two
//! (`Documentation/process/adding-syscalls.rst`, "Compatibility System Calls").

use crate::names::Abi;

/// Marks the first of two registers, which has the lower half.
const PAIR: u8 = 0x10;

/// The registers of a call's arguments, in the order of the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArgumentRegisters {
    numbers: &'static [u8],
    /// Whether it is a call of a 32-bit task.
    pub(crate) is_compat: bool,
}

impl ArgumentRegisters {
    /// Returns the registers of a call.
    pub(crate) fn for_call(abi: Abi, call: &str) -> Self {
        const P: u8 = PAIR;
        let numbers: &[u8] = match (abi, call) {
            (Abi::I386, "pread64" | "pwrite64") => &[0, 1, 2, 3 | P],
            (Abi::I386, "truncate64" | "ftruncate64") => &[0, 1 | P],
            (Abi::I386, "readahead" | "fadvise64") => &[0, 1 | P, 3, 4],
            (Abi::I386, "fadvise64_64" | "sync_file_range") => &[0, 1 | P, 3 | P, 5],
            (Abi::I386, "lookup_dcookie") => &[P, 2, 3],
            // Pairs begin at an even register.
            (Abi::Arm, "pread64" | "pwrite64") => &[0, 1, 2, 4 | P],
            (Abi::Arm, "truncate64" | "ftruncate64") => &[0, 2 | P],
            (Abi::Arm, "readahead") => &[0, 2 | P, 4],
            (Abi::Arm, "arm_fadvise64_64" | "sync_file_range2") => &[0, 1, 2 | P, 4 | P],
            (Abi::I386 | Abi::Arm, "fallocate") => &[0, 1, 2 | P, 4 | P],
            (Abi::I386 | Abi::Arm, "fanotify_mark") => &[0, 1, 2 | P, 4, 5],
            (Abi::I386 | Abi::Arm, "preadv" | "pwritev") => &[0, 1, 2, 3 | P],
            (Abi::I386 | Abi::Arm, "preadv2" | "pwritev2") => &[0, 1, 2, 3 | P, 5],
            // 64-bit tasks leave the upper half, in register 4, unused.
            (_, "preadv2" | "pwritev2") => &[0, 1, 2, 3, 5],
            _ => &[0, 1, 2, 3, 4, 5],
        };
        Self { numbers, is_compat: abi == Abi::COMPAT }
    }

    /// Returns the first register of an argument.
    pub(crate) fn first(self, argument: usize) -> usize {
        self.numbers.get(argument).map_or(argument, |register| usize::from(register & !PAIR))
    }

    /// Returns the argument that begins in a register.
    pub(crate) fn argument(self, register: usize) -> usize {
        let is_it = |first: &u8| usize::from(first & !PAIR) == register;
        self.numbers.iter().position(is_it).unwrap_or(register)
    }

    /// Whether an argument takes two registers.
    pub(crate) fn is_pair(self, argument: usize) -> bool {
        self.numbers.get(argument).is_some_and(|register| register & PAIR != 0)
    }

    /// Returns the arguments in these registers.
    pub(crate) fn values(self, registers: [u64; 6]) -> [u64; 6] {
        let mut values = [0; 6];
        for (at, value) in values.iter_mut().enumerate().take(self.numbers.len()) {
            let first = self.first(at);
            let register = |number: usize| registers.get(number).copied().unwrap_or(0);
            *value = register(first);
            if self.is_pair(at) {
                *value = (*value & 0xffff_ffff) | register(first + 1) << 32;
            }
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_64_bits_come_from_two_registers() {
        let of = |abi, call| ArgumentRegisters::for_call(abi, call);
        let registers = [3, 0x1000, 3, 2, 1, 9];
        let write = of(Abi::I386, "pwrite64");
        assert_eq!(write.values(registers)[..4], [3, 0x1000, 3, 0x1_0000_0002]);
        assert!(write.is_pair(3) && !write.is_pair(2));
        let write = of(Abi::Arm, "pwrite64");
        assert_eq!(write.values([3, 0x1000, 3, 0, 2, 1])[3], 0x1_0000_0002);
        let mark = of(Abi::I386, "fanotify_mark");
        assert_eq!(mark.values([3, 1, 2, 0, 4, 5])[..5], [3, 1, 2, 4, 5]);
        assert_eq!((mark.first(4), mark.argument(5)), (5, 4));
        assert_eq!(of(Abi::X86_64, "pwrite64").values(registers), registers);
        assert_eq!(of(Abi::X86_64, "pwritev2").values(registers)[..5], [3, 0x1000, 3, 2, 9]);
    }
}
