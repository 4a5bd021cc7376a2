//! A disassembled instruction, and the syntax of x86.

/// Assembler syntax of x86.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Syntax of the GNU assembler: source, then destination.
    #[default]
    Att,
    /// Syntax of Intel's manuals: destination, then source.
    Intel,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Address in the file.
    pub address: u64,
    /// Encoded bytes.
    pub bytes: Vec<u8>,
    /// Text. [`crate::AnnotateRequest::annotate`] appends the name of the function that it jumps to
    /// or calls, if known.
    pub text: String,
    /// Target of a direct jump; `None` for a call.
    pub jump: Option<u64>,
    /// Whether it is a jump, a call or a return; on x86 also a system call, an interrupt, a return
    /// from either, or an entry into a virtual machine.
    pub is_branch: bool,
}

/// Returns the name of the function at an address of the file.
pub(super) type NameLookup<'a> = &'a dyn Fn(u64) -> Option<String>;

/// Appends the name of a jump or call target to the text of an instruction.
pub(super) fn with_target_name(text: String, target: Option<u64>, names: NameLookup<'_>) -> String {
    match target.and_then(names) {
        Some(name) => format!("{text} <{name}>"),
        None => text,
    }
}
