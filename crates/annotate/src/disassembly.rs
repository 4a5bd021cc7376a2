//! Instructions as text.

/// How instructions of x86 are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// As the GNU assembler has it: source, then destination.
    #[default]
    Att,
    /// As in Intel's manuals.
    Intel,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The file's own address of it.
    pub address: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// As text; where it jumps to or what it calls is named.
    pub text: String,
    /// Where it jumps to, unless that is a call.
    pub jump: Option<u64>,
    /// Whether another may run next than the one behind it.
    pub is_branch: bool,
}

/// What functions are called, by their addresses in the file.
pub(super) type Names<'a> = &'a dyn Fn(u64) -> Option<String>;

/// Text with the name of what is jumped to or called.
pub(super) fn named(text: String, target: Option<u64>, names: Names<'_>) -> String {
    match target.and_then(names) {
        Some(name) => format!("{text} <{name}>"),
        None => text,
    }
}
