//! What most samples without a function's name lack.

/// What most samples without a function's name lack, and what mends it.
#[derive(Clone, Debug, PartialEq)]
pub struct NamingAdvice {
    /// The share of an event's samples that would have names, in percent of their weight.
    pub percent: f64,
    /// What they lack.
    pub lack: MissingSymbols,
    /// A command or a setting that mends it, in words: whoever knows the machine fills it in.
    pub remedy: Option<String>,
}

impl Eq for NamingAdvice {}

/// What samples without a function's name lack.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MissingSymbols {
    /// A file has no symbols, or few: its debug file.
    DebugFile(BinaryFile),
    /// The file itself, in the build that was recorded.
    Binary(BinaryFile),
    /// What this user may not read.
    Permission(BinaryFile),
    /// The list of functions that a runtime compiled; what has it written.
    PerfMap(&'static str),
    /// The kernel's addresses, which it hides.
    KernelAddresses,
    /// The symbols of the recorded kernel, by its build id in hexadecimal digits.
    KernelSymbols(Option<String>),
}

/// A file with code. Untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BinaryFile {
    /// Its recorded path.
    pub path: String,
    /// Its build id in hexadecimal digits, where it was recorded.
    pub build_id: Option<String>,
}
