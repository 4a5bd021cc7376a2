//! Types of the kernel and of its programs (BTF, `Documentation/bpf/btf.rst`).

const MAGIC: u16 = 0xeb9f;

// Kinds of types, `include/uapi/linux/btf.h`.
pub(super) const FORWARD: u32 = 7;
pub(super) const TYPEDEF: u32 = 8;
pub(super) const FUNCTION: u32 = 12;

/// A type: its kind, and where its name begins among the strings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Type {
    pub(super) kind: u32,
    name: u32,
}

/// Types as the kernel hands them out, and their strings.
#[derive(Debug)]
pub(super) struct Types<'b> {
    types: &'b [u8],
    strings: &'b [u8],
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// How many bytes follow the 12 that each type begins with.
fn tail(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        // INT, VAR, DECL_TAG
        1 | 14 | 17 => 4,
        // PTR, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FLOAT, TYPE_TAG
        2 | 7..=12 | 16 | 18 => 0,
        // ARRAY
        3 => 12,
        // STRUCT, UNION, DATASEC, ENUM64
        4 | 5 | 15 | 19 => 12 * count,
        // ENUM, FUNC_PROTO
        6 | 13 => 8 * count,
        _ => return None,
    })
}

impl<'b> Types<'b> {
    /// Finds them; `None` where the bytes begin as none do. What is cut has fewer.
    pub(super) fn read(bytes: &'b [u8]) -> Option<Self> {
        if u16::from_ne_bytes(*bytes.first_chunk()?) != MAGIC {
            return None;
        }
        let header = word(bytes, 4)? as usize;
        let part = |offset: usize, len: usize| {
            let start = header.checked_add(word(bytes, offset)? as usize)?.min(bytes.len());
            let len = word(bytes, len)? as usize;
            bytes.get(start..start.saturating_add(len).min(bytes.len()))
        };
        Some(Self { types: part(8, 12)?, strings: part(16, 20)? })
    }

    /// The types, the first of which has the number 1. They end where one is cut or of a kind that
    /// isn't known.
    pub(super) fn iter(&self) -> impl Iterator<Item = Type> + '_ {
        let mut at = Some(0);
        std::iter::from_fn(move || {
            let start = at?;
            let name = word(self.types, start)?;
            let info = word(self.types, start + 4)?;
            let kind = info >> 24 & 0x1f;
            at = tail(kind, (info & 0xffff) as usize).map(|tail| start + 12 + tail);
            Some(Type { kind, name })
        })
    }

    /// The text from a type's name on, which ends at the first zero.
    pub(super) fn text(&self, of: Type) -> Option<&'b [u8]> {
        self.strings.get(of.name as usize..)
    }
}

/// Types and strings as [`Types::read`] takes them.
pub(super) fn written(types: &[u32], strings: &[u8]) -> Vec<u8> {
    const HEADER: u32 = 24;
    let length = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    let types_length = length(4 * types.len());
    let strings_length = length(strings.len());
    let mut bytes = MAGIC.to_ne_bytes().to_vec();
    bytes.extend([1, 0]); // version and flags
    let header = [HEADER, 0, types_length, types_length, strings_length];
    bytes.extend(header.iter().chain(types).flat_map(|word| word.to_ne_bytes()));
    bytes.extend(strings);
    bytes
}

/// The functions among types.
#[derive(Debug)]
pub(super) struct FunctionNames {
    /// By the type's number, from 1.
    names: Vec<Option<Box<[u8]>>>,
}

impl FunctionNames {
    /// Reads types; `None` where they begin as none do. They end where one is cut.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let types = Types::read(bytes)?;
        let name = |of: Type| {
            let text = types.text(of).filter(|_| of.kind == FUNCTION)?;
            text.split(|byte| *byte == 0).next().filter(|name| !name.is_empty())
        };
        Some(Self { names: types.iter().map(|of| name(of).map(Into::into)).collect() })
    }

    /// The name of the function with this type.
    pub(super) fn get(&self, number: u32) -> Option<&[u8]> {
        self.names.get((number as usize).checked_sub(1)?)?.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_their_names() {
        let strings = b"\0main\0member\0";
        let types = [
            [0, 1 << 24, 4, 32].as_slice(),
            &[0, 4 << 24 | 2, 8, 6, 1, 0, 6, 1, 32],
            &[0, 13 << 24 | 1, 1, 6, 1],
            &[1, 12 << 24, 3],
        ]
        .concat();
        let bytes = written(&types, strings);
        let names = FunctionNames::read(&bytes).unwrap();
        let found: Vec<_> = (0..6).map(|number| names.get(number)).collect();
        assert_eq!(found, [None, None, None, None, Some(&b"main"[..]), None]);
        for cut in 0..bytes.len() {
            let names = FunctionNames::read(&bytes[..cut]);
            names.inspect(|names| _ = names.get(4));
        }
    }
}
