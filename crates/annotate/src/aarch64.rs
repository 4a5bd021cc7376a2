//! Disassembly of aarch64.

use tare_symbols::FunctionCode;

use super::disassembly::{Instruction, NameLookup, with_target_name};

/// Disassembles a function. A word that is no instruction becomes `.inst`.
pub(super) fn disassemble(code: &FunctionCode, names: NameLookup<'_>) -> Vec<Instruction> {
    let words = code.bytes.as_chunks::<4>().0.iter();
    let instruction = |(at, bytes): (u64, &[u8; 4])| {
        let address = code.address.wrapping_add(at * 4);
        let word = u32::from_le_bytes(*bytes);
        let target = target(word, address);
        Instruction {
            address,
            bytes: bytes.to_vec(),
            text: with_target_name(text(word, address), target.map(|(address, _)| address), names),
            jump: target.filter(|(_, is_call)| !is_call).map(|(address, _)| address),
            // 0x6b: branches to an address in a register, such as br, blr, ret and eret.
            is_branch: target.is_some() || word >> 25 == 0x6b,
        }
    };
    (0..).zip(words).map(instruction).collect()
}

fn text(word: u32, address: u64) -> String {
    let mut text = String::new();
    match disarm64::decoder::decode(word) {
        Some(opcode) => {
            // Writing to a string can't fail.
            let _ = disarm64::format_insn::format_insn_pc(address, &mut text, &opcode);
            text
        }
        None => format!(".inst   {word:#010x}"),
    }
}

/// Returns the target of a direct branch, and whether it is a call. Source: Arm Architecture
/// Reference Manual, "Branches, Exception Generating and System instructions".
fn target(word: u32, address: u64) -> Option<(u64, bool)> {
    let signed = |low: u32, bits: u32| {
        let field = word >> low & ((1 << bits) - 1);
        i64::from((field << (32 - bits)).cast_signed() >> (32 - bits)) * 4
    };
    let (distance, is_call) = match word >> 24 {
        0x14..=0x17 => (signed(0, 26), false),
        0x94..=0x97 => (signed(0, 26), true),
        // b.cond, cbz, cbnz
        0x54 | 0x34 | 0x35 | 0xb4 | 0xb5 => (signed(5, 19), false),
        // tbz, tbnz
        0x36 | 0x37 | 0xb6 | 0xb7 => (signed(5, 14), false),
        _ => return None,
    };
    Some((address.wrapping_add_signed(distance), is_call))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_branch_targets() {
        // b +8, bl -4, b.ne +12, cbz x0 -8, tbnz w1 #3 +16, ret
        let words: [u32; 6] =
            [0x1400_0002, 0x97ff_ffff, 0x5400_0061, 0xb4ff_ffc0, 0x3718_0081, 0xd65f_03c0];
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let code = FunctionCode { bytes, address: 0x1000, path: "x".into() };
        let names = |address| (address == 0x1000).then(|| "start".to_owned());
        let instructions = disassemble(&code, &names);
        let jumps: Vec<_> = instructions.iter().map(|instruction| instruction.jump).collect();
        let expected = [Some(0x1008), None, Some(0x1014), Some(0x1004), Some(0x1020), None];
        assert_eq!(jumps, expected);
        let call = &instructions[1].text;
        assert!(call.starts_with("bl") && call.ends_with("<start>"), "{instructions:?}");
        assert!(instructions[5].text.starts_with("ret"), "{instructions:?}");
    }
}
