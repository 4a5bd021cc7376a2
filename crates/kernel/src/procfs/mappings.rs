//! `/proc/PID/maps`.

use std::borrow::Cow;

/// A mapping of a process's address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// `PROT_*`.
    pub prot: u32,
    /// `MAP_SHARED` or `MAP_PRIVATE`.
    pub flags: u32,
    /// Offset in the file in bytes.
    pub offset: u64,
    /// The file's device: major and minor number.
    pub device: (u32, u32),
    /// The file's inode; 0 for none.
    pub inode: u64,
    /// The file's path, followed by ` (deleted)` if it was removed; a name such as `[stack]`; or
    /// nothing.
    pub path: Cow<'a, [u8]>,
}

/// Iterates over the mappings in the text of `/proc/PID/maps`, skipping malformed lines.
pub fn mappings(text: &[u8]) -> impl Iterator<Item = Mapping<'_>> {
    text.split(|byte| *byte == b'\n').filter_map(mapping)
}

/// Parses `7f0c2d000000-7f0c2d021000 r-xp 00002000 fe:00 1234    /usr/lib/libc.so.6`
fn mapping(line: &[u8]) -> Option<Mapping<'_>> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let range = text(fields.next()?)?;
    let access = fields.next().filter(|access| access.len() == 4)?;
    let offset = hex(text(fields.next()?)?)?;
    let (major, minor) = text(fields.next()?)?.split_once(':')?;
    let inode = text(fields.next()?)?.parse().ok()?;
    let path = fields.next().unwrap_or_default();
    let (start, end) = range.split_once('-')?;
    let bit = |at: usize, letter: u8, bit: i32| {
        if access[at] == letter { bit.cast_unsigned() } else { 0 }
    };
    Some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        prot: bit(0, b'r', libc::PROT_READ)
            | bit(1, b'w', libc::PROT_WRITE)
            | bit(2, b'x', libc::PROT_EXEC),
        flags: bit(3, b's', libc::MAP_SHARED) | bit(3, b'p', libc::MAP_PRIVATE),
        offset,
        device: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
        inode,
        path: unescaped(path.trim_ascii_start()),
    })
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn hex(digits: &str) -> Option<u64> {
    u64::from_str_radix(digits, 16).ok()
}

/// Decodes a path. A line feed is the only character that the kernel escapes, as an octal number.
fn unescaped(path: &[u8]) -> Cow<'_, [u8]> {
    const LINE_FEED: &[u8] = b"\\012";
    if !path.windows(LINE_FEED.len()).any(|window| window == LINE_FEED) {
        return Cow::Borrowed(path);
    }
    let mut plain = Vec::new();
    let mut rest = path;
    while let Some((&first, others)) = rest.split_first() {
        let escaped = rest.strip_prefix(LINE_FEED);
        plain.push(if escaped.is_some() { b'\n' } else { first });
        rest = escaped.unwrap_or(others);
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_kinds_are_parsed() {
        let text = b"55d0c0a00000-55d0c0a02000 r-xp 00001000 fe:02 77                         /bin/a b (deleted)\n\
            7ffd00000000-7ffd00021000 rw-s 00000000 00:00 0                          [stack]\n\
            7f0000000000-7f0000001000 ---p 00000000 00:00 0 \n\
            ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n\
            1000-2000 r--p 0 8:1 9 /new\\012line\\\n\
            nonsense\n";
        let found: Vec<_> = mappings(text).collect();
        let paths: Vec<_> = found.iter().map(|mapping| &*mapping.path).collect();
        assert_eq!(
            paths,
            [&b"/bin/a b (deleted)"[..], b"[stack]", b"", b"[vsyscall]", b"/new\nline\\"]
        );
        let first = &found[0];
        assert_eq!(
            (first.start, first.end, first.offset),
            (0x55d0_c0a0_0000, 0x55d0_c0a0_2000, 0x1000)
        );
        assert_eq!((first.prot, first.flags, first.device, first.inode), (5, 2, (0xfe, 2), 77));
        assert_eq!((found[1].prot, found[1].flags, found[2].prot), (3, 1, 0));
    }
}
