//! Names of functions in a program's types (BTF, `Documentation/bpf/btf.rst`).

/// The kinds of types that are followed by more than their own three words, and by how many bytes:
/// once, or for each member.
const FURTHER: [(u32, usize, usize); 10] = [
    (1, 4, 0),   // integer
    (3, 12, 0),  // array
    (4, 0, 12),  // struct
    (5, 0, 12),  // union
    (6, 0, 8),   // enum
    (13, 0, 8),  // function prototype
    (14, 4, 0),  // variable
    (15, 0, 12), // section
    (17, 4, 0),  // tag of a declaration
    (19, 0, 12), // enum of 64 bits
];

const FUNCTION: u32 = 12;

/// The functions among types.
#[derive(Debug)]
pub(super) struct FunctionNames {
    bytes: Vec<u8>,
    /// Where the strings begin.
    strings: usize,
    /// By number, from 1: where the name begins among the strings.
    types: Vec<Option<u32>>,
}

impl FunctionNames {
    /// Reads types; `None` where they begin as none do. They end where one is cut.
    pub(super) fn read(bytes: Vec<u8>) -> Option<Self> {
        let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        if u16::from_ne_bytes(*bytes.first_chunk()?) != 0xeb9f {
            return None;
        }
        let header = word(4)? as usize;
        let mut at = header.checked_add(word(8)? as usize)?;
        let end = at.checked_add(word(12)? as usize)?;
        let strings = header.checked_add(word(16)? as usize)?;
        let mut types = Vec::new();
        while at < end
            && let (Some(name), Some(info)) = (word(at), word(at + 4))
        {
            let (kind, members) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
            types.push((kind == FUNCTION).then_some(name));
            let further = FURTHER.iter().find(|(further, ..)| *further == kind);
            at += 12 + further.map_or(0, |(_, once, each)| once + each * members);
        }
        Some(Self { bytes, strings, types })
    }

    /// The name of the function with this type.
    pub(super) fn get(&self, number: u32) -> Option<&[u8]> {
        let name = (*self.types.get((number as usize).checked_sub(1)?)?)?;
        let text = self.bytes.get(self.strings.checked_add(name as usize)?..)?;
        text.split(|byte| *byte == 0).next().filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_their_names() {
        let strings = b"\0main\0member\0";
        let words = |words: &[u32]| words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<_>>();
        let types = words(
            &[
                [0, 1 << 24, 4, 32].as_slice(),
                &[0, 4 << 24 | 2, 8, 6, 1, 0, 6, 1, 32],
                &[0, 13 << 24 | 1, 1, 6, 1],
                &[1, 12 << 24, 3],
            ]
            .concat(),
        );
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
        let mut bytes = 0xeb9f_u16.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        bytes.extend(words(&[24, 0, len(&types), len(&types), len(strings)]));
        bytes.extend(types);
        bytes.extend(strings);
        let names = FunctionNames::read(bytes.clone()).unwrap();
        let found: Vec<_> = (0..6).map(|number| names.get(number)).collect();
        assert_eq!(found, [None, None, None, None, Some(&b"main"[..]), None]);
        for cut in 0..bytes.len() {
            let names = FunctionNames::read(bytes[..cut].to_vec());
            names.inspect(|names| _ = names.get(4));
        }
    }
}
