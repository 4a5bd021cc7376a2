//! Disassembly of x86.

use iced_x86::{
    Decoder, DecoderOptions, Formatter, GasFormatter, Instruction as Decoded, IntelFormatter,
    Mnemonic, OpKind,
};
use tare_symbols::FunctionCode;

use super::disassembly::{Instruction, NameLookup, Style, with_target_name};

/// Disassembles a function. Bytes that are no instruction become `(bad)`.
pub(super) fn disassemble(
    code: &FunctionCode,
    style: Style,
    is_64_bit: bool,
    names: NameLookup<'_>,
) -> Vec<Instruction> {
    let bitness = if is_64_bit { 64 } else { 32 };
    let mut decoder = Decoder::with_ip(bitness, &code.bytes, code.address, DecoderOptions::NONE);
    let mut formatter: Box<dyn Formatter> = match style {
        Style::Att => Box::new(GasFormatter::new()),
        Style::Intel => Box::new(IntelFormatter::new()),
    };
    let options = formatter.options_mut();
    options.set_uppercase_hex(false);
    options.set_branch_leading_zeros(false);
    options.set_small_hex_numbers_in_decimal(false);
    options.set_space_after_operand_separator(false);
    options.set_first_operand_char_index(7);
    options.set_rip_relative_addresses(true);
    if style == Style::Intel {
        options.set_hex_prefix("0x");
        options.set_hex_suffix("");
    }
    let mut instructions = Vec::new();
    let mut decoded = Decoded::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut decoded);
        let mut text = String::new();
        formatter.format(&decoded, &mut text);
        let target = target(&decoded);
        let begin = usize::try_from(decoded.ip().wrapping_sub(code.address)).unwrap_or(usize::MAX);
        let bytes = code.bytes.get(begin..).unwrap_or_default();
        instructions.push(Instruction {
            address: decoded.ip(),
            bytes: bytes.get(..decoded.len()).unwrap_or(bytes).to_vec(),
            text: with_target_name(text, target.map(|(address, _)| address), names),
            jump: target.filter(|(_, is_call)| !is_call).map(|(address, _)| address),
            is_branch: is_branch(&decoded),
        });
    }
    instructions
}

/// Returns the target of a direct near branch, and whether it is a call.
fn target(decoded: &Decoded) -> Option<(u64, bool)> {
    let is_near = matches!(
        decoded.op0_kind(),
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
    );
    is_near.then(|| (decoded.near_branch_target(), decoded.mnemonic() == Mnemonic::Call))
}

/// Whether it is a jump, a call, a return, a system call, an interrupt, a return from either, or an
/// entry into a virtual machine: the branches that `intel_pt_insn_decoder()` of perf knows, without
/// those of FRED and APX.
fn is_branch(decoded: &Decoded) -> bool {
    let mnemonic = decoded.mnemonic();
    let is_transfer = matches!(
        mnemonic,
        Mnemonic::Call
            | Mnemonic::Jmp
            | Mnemonic::Ret
            | Mnemonic::Retf
            | Mnemonic::Iret
            | Mnemonic::Iretd
            | Mnemonic::Iretq
            | Mnemonic::Int
            | Mnemonic::Int3
            | Mnemonic::Into
            | Mnemonic::Syscall
            | Mnemonic::Sysenter
            | Mnemonic::Sysret
            | Mnemonic::Sysretq
            | Mnemonic::Sysexit
            | Mnemonic::Sysexitq
            | Mnemonic::Vmlaunch
            | Mnemonic::Vmresume
    );
    is_transfer || mnemonic != Mnemonic::Xbegin && target(decoded).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code() -> FunctionCode {
        // push %rbp; mov %rsp,%rbp; call +0; jne -11; (bad)
        let bytes = vec![0x55, 0x48, 0x89, 0xe5, 0xe8, 0, 0, 0, 0, 0x75, 0xf5, 0x06];
        FunctionCode { bytes, address: 0x1000, path: "x".into() }
    }

    #[test]
    fn writes_both_syntaxes() {
        let names = |address| (address == 0x1009).then(|| "next".to_owned());
        let att = disassemble(&code(), Style::Att, true, &names);
        let texts: Vec<_> = att.iter().map(|line| (line.address, line.text.as_str())).collect();
        assert_eq!(
            texts,
            [
                (0x1000, "push   %rbp"),
                (0x1001, "mov    %rsp,%rbp"),
                (0x1004, "call   0x1009 <next>"),
                (0x1009, "jne    0x1000"),
                (0x100b, "(bad)"),
            ]
        );
        assert_eq!(
            att.iter().map(|line| line.jump).collect::<Vec<_>>()[2..4],
            [None, Some(0x1000)]
        );
        let intel = disassemble(&code(), Style::Intel, true, &names);
        assert_eq!(intel[1].text, "mov    rbp,rsp");
        assert_eq!(intel[1].bytes, [0x48, 0x89, 0xe5]);
    }
}
