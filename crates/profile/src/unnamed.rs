//! Why most samples without a function have none, and how to fix it.

/// The source of symbols that would name most of the samples without a function.
#[derive(Clone, Debug, PartialEq)]
pub struct NamingAdvice {
    /// The weight of the samples that would be named, in percent of the event's.
    pub percent: f64,
    /// The missing source of symbols.
    pub lack: MissingSymbols,
    /// A command or a setting that provides it, in words, if the reader knows the machine.
    pub remedy: Option<String>,
}

impl Eq for NamingAdvice {}

/// A source of symbols that is missing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MissingSymbols {
    /// The debug file of a binary without symbols, or with few.
    DebugFile(BinaryFile),
    /// The binary itself, in the recorded build.
    Binary(BinaryFile),
    /// The binary itself, in a build without a build id.
    UnidentifiedBinary(BinaryFile),
    /// Permission to read a file.
    Permission(BinaryFile),
    /// The perf map of a runtime; the text is the runtime's option that writes it.
    PerfMap(&'static str),
    /// The kernel's addresses, which are hidden from this user.
    KernelAddresses,
    /// The symbols of the recorded kernel, by its build id in hexadecimal digits.
    KernelSymbols(Option<String>),
}

/// A file with code. Untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BinaryFile {
    /// Its recorded path.
    pub path: String,
    /// Its build id in hexadecimal digits, if recorded.
    pub build_id: Option<String>,
}
