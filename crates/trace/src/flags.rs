//! Names of flags and enumerated numbers, from the kernel's uapi headers.

use std::collections::HashMap;
use std::fmt::Write as _;

/// Tables of names by number. A line of the text may continue a table that an earlier line began.
#[derive(Clone, Debug)]
pub(crate) struct Flags(HashMap<&'static str, Vec<(u64, &'static str)>>);

impl Default for Flags {
    fn default() -> Self {
        let mut tables: HashMap<_, Vec<_>> = HashMap::new();
        for line in include_str!("tables/flags.txt").lines() {
            let mut words = line.split(' ');
            let table = tables.entry(words.next().unwrap_or_default()).or_default();
            table.extend(words.filter_map(|word| {
                let (name, value) = word.split_once('=')?;
                Some((number(value)?, name))
            }));
        }
        if cfg!(target_arch = "aarch64")
            && let Some(own) = tables.remove("open.arm")
        {
            tables.insert("open", own);
        }
        Self(tables)
    }
}

fn number(text: &str) -> Option<u64> {
    text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16)).ok()
}

impl Flags {
    fn table(&self, table: &str) -> &[(u64, &'static str)] {
        self.0.get(table).map_or(&[], Vec::as_slice)
    }

    /// Whether there is such a table.
    #[cfg(test)]
    pub(crate) fn has(&self, table: &str) -> bool {
        self.0.contains_key(table)
    }

    /// Returns the name of a number.
    pub(crate) fn name(&self, table: &str, value: u64) -> Option<&'static str> {
        self.table(table).iter().find(|(number, _)| *number == value).map(|(_, name)| *name)
    }

    /// Returns the name of a number, or the number in strace's notation for unknown ones.
    pub(crate) fn number(&self, table: &str, value: u64) -> String {
        self.name(table, value).map_or_else(|| self.unknown(table, value), str::to_owned)
    }

    /// Returns the names of the flags, in table order, followed by the unnamed bits as a number. If
    /// no bit has a name, the number is in strace's notation for unknown ones.
    pub(crate) fn flags(&self, table: &str, value: u64) -> String {
        if value == 0 {
            return self.name(table, 0).unwrap_or("0").to_owned();
        }
        let (text, rest) = self.known(table, value);
        match (text.is_empty(), rest) {
            (false, 0) => text,
            (false, rest) => format!("{text}|{rest:#x}"),
            (true, rest) => self.unknown(table, rest),
        }
    }

    /// Returns the names of the known flags, separated by `|`, and the remaining bits.
    pub(crate) fn known(&self, table: &str, mut value: u64) -> (String, u64) {
        let mut text = String::new();
        for &(flag, name) in self.table(table).iter().filter(|(flag, _)| *flag != 0) {
            if value & flag == flag {
                let _ = write!(text, "{}{name}", if text.is_empty() { "" } else { "|" });
                value &= !flag;
            }
        }
        (text, value)
    }

    /// Returns a number with strace's placeholder, which in most tables is the prefix of the names.
    fn unknown(&self, table: &str, value: u64) -> String {
        let names = self.table(table).iter().map(|(_, name)| *name);
        match (table, common_prefix(names)) {
            ("ioctl", _) => format!("{value:#x}"),
            ("access", _) => format!("{value:#x} /* ?_OK */"),
            ("wait", _) => format!("{value:#x} /* W??? */"),
            (_, Some(prefix)) => format!("{value:#x} /* {prefix}_??? */"),
            (table, None) => format!("{value:#x} /* {}_??? */", table.to_uppercase()),
        }
    }
}

/// Returns the common prefix of all names of a table, up to an underscore; if it has no underscore,
/// the first name's part before its own.
fn common_prefix<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let first = names.next()?;
    let common = names.fold(first.len(), |len, name| {
        let same = first.bytes().zip(name.bytes()).take_while(|(left, right)| left == right);
        same.count().min(len)
    });
    let end = first[..common].rfind('_').or_else(|| first.find('_'))?;
    Some(&first[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_flags_and_numbers() {
        let flags = Flags::default();
        assert_eq!(flags.flags("prot", 3), "PROT_READ|PROT_WRITE");
        assert_eq!(
            (flags.flags("prot", 0), flags.flags("at", 0)),
            ("PROT_NONE".into(), "0".into())
        );
        assert_eq!(flags.flags("epoll", 0x8000_0001), "EPOLLIN|EPOLLET");
        assert_eq!(flags.flags("at", 0x1000_0100), "AT_SYMLINK_NOFOLLOW|0x10000000");
        assert_eq!(flags.number("archprctl", 0x3001), "0x3001 /* ARCH_??? */");
        assert_eq!(flags.number("signal", 17), "SIGCHLD");
        assert_eq!(flags.flags("msync", 0x80), "0x80 /* MS_??? */");
        assert_eq!(flags.flags("seals", 0x80), "0x80 /* F_SEAL_??? */");
        assert_eq!(flags.flags("open", 0x4000_0000), "0x40000000 /* O_??? */");
    }
}
