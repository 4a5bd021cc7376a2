//! Names of system calls and errors, from the kernel's `unistd` and `errno` headers.

use std::borrow::Cow;
use std::fmt;

use tare_kernel::bpf::Call;

use crate::table::Table;

/// Calls that have the same number on every architecture: from 424 on.
const COMMON: &str = include_str!("tables/common.txt");

/// The ABI that a call number belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abi {
    /// 64-bit code on x86.
    X86_64,
    /// 32-bit code on x86.
    I386,
    /// 64-bit code on Arm.
    Aarch64,
    /// 32-bit code on Arm (EABI).
    Arm,
}

impl Abi {
    /// The ABI of 64-bit code on this machine.
    pub const NATIVE: Self =
        if cfg!(target_arch = "aarch64") { Self::Aarch64 } else { Self::X86_64 };

    /// The ABI of 32-bit code on this machine.
    pub const COMPAT: Self = if cfg!(target_arch = "aarch64") { Self::Arm } else { Self::I386 };

    /// Returns the ABI of a call recorded on this machine.
    #[must_use]
    pub fn for_call(call: Call) -> Self {
        if call.compat { Self::COMPAT } else { Self::NATIVE }
    }

    fn table(self) -> Table {
        let own = match self {
            Self::X86_64 => include_str!("tables/x86_64.txt"),
            Self::I386 => include_str!("tables/i386.txt"),
            Self::Aarch64 => include_str!("tables/aarch64.txt"),
            Self::Arm => include_str!("tables/arm.txt"),
        };
        Table::parse(&[own, COMMON])
    }
}

impl fmt::Display for Abi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::X86_64 => "x86_64",
            Self::I386 => "i386",
            Self::Aarch64 => "aarch64",
            Self::Arm => "arm",
        })
    }
}

/// The names of this machine's system calls.
#[derive(Clone, Debug)]
pub struct CallNames {
    native: Table,
    compat: Table,
}

impl Default for CallNames {
    fn default() -> Self {
        Self { native: Abi::NATIVE.table(), compat: Abi::COMPAT.table() }
    }
}

impl CallNames {
    fn table(&self, compat: bool) -> &Table {
        if compat { &self.compat } else { &self.native }
    }

    /// Returns the name of a call, if its number has one.
    #[must_use]
    pub fn find(&self, call: Call) -> Option<&'static str> {
        self.table(call.compat).name(call.number)
    }

    /// Returns the name of a call; `syscall_0x1b3` for a number without one, as in strace, and
    /// `other numbers` for [`Call::OTHERS`].
    #[must_use]
    pub fn name(&self, call: Call) -> Cow<'static, str> {
        match self.find(call) {
            Some(name) => Cow::Borrowed(name),
            None if call.number == Call::OTHERS => Cow::Borrowed("other numbers"),
            None => Cow::Owned(format!("syscall_{:#x}", call.number)),
        }
    }

    /// Iterates over all calls that have a name.
    pub fn calls(&self) -> impl Iterator<Item = (Call, &'static str)> + '_ {
        [false, true].into_iter().flat_map(|compat| {
            let call = move |(number, name)| (Call { number, compat }, name);
            self.table(compat).names().map(call)
        })
    }
}

/// Names of errors, including those that only the kernel and its tracers see (`ERESTARTSYS`).
#[derive(Clone, Debug)]
pub struct Errno(Table);

impl Default for Errno {
    fn default() -> Self {
        Self(Table::parse(&[include_str!("tables/errno.txt")]))
    }
}

impl Errno {
    /// Returns the name of an error, or its number.
    #[must_use]
    pub fn name(&self, errno: u32) -> Cow<'static, str> {
        self.0.name(errno).map_or_else(|| Cow::Owned(errno.to_string()), Cow::Borrowed)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Returns the numbers of a header, by name.
    fn header(path: &str, prefix: &str) -> Option<BTreeMap<String, u32>> {
        let Ok(text) = std::fs::read_to_string(path) else {
            println!("skipped: there is no {path}");
            return None;
        };
        let numbers = text.lines().filter_map(|line| {
            let mut words =
                line.strip_prefix("#define")?.trim_start().strip_prefix(prefix)?.split_whitespace();
            Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
        });
        Some(numbers.collect())
    }

    #[test]
    fn call_numbers_match_the_installed_headers() {
        let folder = "/usr/include/x86_64-linux-gnu/asm";
        for (abi, file) in [(Abi::X86_64, "unistd_64.h"), (Abi::I386, "unistd_32.h")] {
            let Some(header) = header(&format!("{folder}/{file}"), "__NR_") else { return };
            assert!(header.len() > 300, "{abi}");
            let table = abi.table();
            for (name, number) in header {
                assert_eq!(table.name(number), Some(&name[..]), "{abi} {number}");
            }
        }
    }

    #[test]
    fn errors_match_the_installed_headers() {
        let names = Errno::default();
        for file in ["errno-base.h", "errno.h"] {
            let path = format!("/usr/include/asm-generic/{file}");
            for (name, number) in header(&path, "E").unwrap_or_default() {
                assert_eq!(names.name(number), format!("E{name}"));
            }
        }
        assert_eq!((&*names.name(512), &*names.name(400)), ("ERESTARTSYS", "400"));
    }

    #[test]
    fn names_calls_of_every_architecture() {
        for (abi, number) in
            [(Abi::X86_64, 59), (Abi::I386, 11), (Abi::Aarch64, 221), (Abi::Arm, 11)]
        {
            let table = abi.table();
            assert_eq!((table.name(number), table.name(435)), (Some("execve"), Some("clone3")));
            assert_eq!(table.name(Call::BEYOND), None);
        }
    }
}
