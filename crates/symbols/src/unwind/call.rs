//! Recognizes a return address by the call instruction before it, for x86-64: in a function without
//! unwind tables and frame pointer, such as musl's memcpy(3), the word at the stack pointer is the
//! return address as long as the function has pushed nothing.

/// Bytes before a return address that [`Call::before`] needs.
pub(super) const BYTES: usize = 8;

/// Limit on the bytes from the start of a function to an address in it, in code without symbols.
/// Functions without unwind tables are mostly short ones in assembly.
const FUNCTION_BYTES: u64 = 4096;

/// A call instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// It calls the function this many bytes behind the return address.
    Direct(i32),
    /// It calls the function at an address in a register or in memory.
    Indirect,
}

impl Call {
    /// Finds the call that ends these bytes, which precede a return address (Intel's Software
    /// Developer's Manual, volume 2, CALL: `E8 rel32` and `FF /2`).
    pub(super) fn before(bytes: [u8; BYTES]) -> Option<Self> {
        let from_end = |at: usize| bytes[BYTES - at];
        if from_end(5) == 0xe8 {
            let [.., a, b, c, d] = bytes;
            return Some(Self::Direct(i32::from_le_bytes([a, b, c, d])));
        }
        let is_call = (2..=7).any(|length| {
            let modrm = from_end(length - 1);
            from_end(length) == 0xff
                && modrm >> 3 & 7 == 2
                && indirect_length(modrm, (length > 2).then(|| from_end(length - 2))) == length
        });
        is_call.then_some(Self::Indirect)
    }

    /// Whether the call, which returns to an address of the process, names the function at another
    /// address.
    pub(super) fn reaches(self, return_address: u64, address: u64) -> bool {
        let inside = self.target(return_address).and_then(|start| address.checked_sub(start));
        inside.is_some_and(|inside| inside < FUNCTION_BYTES)
    }

    /// Returns the first address of the called function, if the instruction tells it.
    pub(super) fn target(self, return_address: u64) -> Option<u64> {
        match self {
            Self::Indirect => None,
            Self::Direct(bytes) => Some(return_address.wrapping_add_signed(bytes.into())),
        }
    }
}

/// Returns the bytes of `FF /2` with this ModRM byte and the byte behind it, without prefixes.
fn indirect_length(modrm: u8, next: Option<u8>) -> usize {
    let has_sib = modrm >> 6 != 3 && modrm & 7 == 4;
    let has_no_base = match next {
        Some(sib) if has_sib => sib & 7 == 5,
        _ => modrm & 7 == 5,
    };
    let displacement = match modrm >> 6 {
        0 if has_no_base => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    2 + usize::from(has_sib) + displacement
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the call that ends an instruction's bytes.
    fn call(instruction: &[u8]) -> Option<Call> {
        let mut bytes = [0x90; BYTES];
        bytes[BYTES - instruction.len()..].copy_from_slice(instruction);
        Call::before(bytes)
    }

    #[test]
    fn calls_are_recognized_by_their_last_bytes() {
        assert_eq!(call(&[0xe8, 0xfb, 0xff, 0xff, 0xff]), Some(Call::Direct(-5)));
        for indirect in [
            &[0xff, 0xd0][..],               // *%rax
            &[0x41, 0xff, 0xd4],             // *%r12
            &[0xff, 0x13],                   // *(%rbx)
            &[0xff, 0x50, 0x18],             // *0x18(%rax)
            &[0xff, 0x54, 0x24, 0x08],       // *8(%rsp)
            &[0xff, 0x14, 0xc3],             // *(%rbx,%rax,8)
            &[0xff, 0x15, 1, 2, 3, 0],       // *0x30201(%rip)
            &[0xff, 0x90, 0, 1, 0, 0],       // *0x100(%rax)
            &[0xff, 0x14, 0xc5, 0, 1, 0, 0], // *0x100(,%rax,8)
        ] {
            assert_eq!(call(indirect), Some(Call::Indirect), "{indirect:x?}");
        }
        for other in [&[0xff, 0xe0][..], &[0xff, 0x25, 1, 2, 3, 0], &[0xc3], &[0xff, 0x50]] {
            assert_eq!(call(other), None, "{other:x?}");
        }
    }

    #[test]
    fn only_a_direct_call_reaches_a_function() {
        assert!(!Call::Indirect.reaches(0x1000, 0x1100));
    }

    #[test]
    fn a_direct_call_reaches_the_function_that_it_names() {
        let call = Call::Direct(0x100);
        assert_eq!(call.target(0x1000), Some(0x1100));
        let reached = [0x10ff, 0x1100, 0x1180, 0x9000].map(|at| call.reaches(0x1000, at));
        assert_eq!(reached, [false, true, true, false]);
    }
}
