//! Whether a probe may be set on the returns of a function.
//!
//! The kernel replaces the return address of each call (`kernel/events/uprobes.c`,
//! `prepare_uretprobe`). Code that walks or leaves the stack without returning finds that address:
//! an exception then aborts the program, and Go's runtime crashes.

use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol};

/// Sections of a program that was compiled by Go.
const GO_SECTIONS: [&str; 3] = [".gopclntab", ".go.buildinfo", ".note.go.buildid"];

/// Functions that leave calls without returning from them, or switch to another stack.
const LEAVERS: [&str; 16] = [
    "_Unwind_RaiseException",
    "_Unwind_ForcedUnwind",
    "_Unwind_Resume",
    "__cxa_throw",
    "pthread_cancel",
    "pthread_exit",
    "longjmp",
    "_longjmp",
    "siglongjmp",
    "__longjmp_chk",
    "setcontext",
    "swapcontext",
    "makecontext",
    "sigaltstack",
    "jump_fcontext",
    "make_fcontext",
];

/// Libraries for exceptions, for walking stacks and for switching them, by the start of their
/// names.
const UNWINDERS: [&str; 5] = ["libstdc++", "libc++", "libgcc_s", "libunwind", "libboost_context"];

/// Returns why a probe on the returns of a file's functions could end the program; `None` if
/// nothing in the file speaks against it, or the file can't be read.
#[must_use]
pub fn returns_hazard(path: &Path) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    let file = object::File::parse(bytes.as_slice()).ok()?;
    if GO_SECTIONS.iter().any(|name| file.section_by_name(name).is_some()) {
        return Some("Go's runtime moves stacks and reads return addresses".to_owned());
    }
    let has_tables =
        file.section_by_name(".gcc_except_table").is_some_and(|table| table.size() > 0);
    if has_tables {
        return Some("the file has exception tables, so exceptions may pass through it".to_owned());
    }
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let mut names = symbols.filter_map(|symbol| symbol.name().ok());
    if let Some(name) = names.find(|name| LEAVERS.contains(name)) {
        return Some(format!("the file uses {name}, which leaves functions without a return"));
    }
    let is_library = file.kind() == object::ObjectKind::Dynamic && file.entry() == 0;
    is_library.then(|| "any program may call this library, also one with exceptions".to_owned())
}

/// Whether a process that maps these files may throw exceptions, or walk or switch stacks.
#[must_use]
pub fn maps_unwinder<'a>(files: impl IntoIterator<Item = &'a Path>) -> bool {
    let is_unwinder = |file: &Path| {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        UNWINDERS.iter().any(|start| name.starts_with(start))
    };
    files.into_iter().any(is_unwinder)
}
