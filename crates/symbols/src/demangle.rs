//! Names as they stand in source code.

use cpp_demangle::{DemangleOptions, ParseOptions};

/// A C++ or Rust symbol as a reader knows it, without parameters and hashes; any other name as it
/// is. Bytes that are no UTF-8 are replaced.
pub(crate) fn demangle(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    // Of a name such as `_ZN1a1bEv.part.0` the compiler's suffix stays what it is.
    if !(text.starts_with("_Z") || text.starts_with("_R") || text.starts_with("__Z")) {
        return text.into_owned();
    }
    if let Ok(rust) = rustc_demangle::try_demangle(&text) {
        return format!("{rust:#}");
    }
    cpp(text.as_bytes()).unwrap_or_else(|| text.into_owned())
}

fn cpp(name: &[u8]) -> Option<String> {
    const LONGEST: usize = 4096;
    const DEPTH: u32 = 96;
    let parse = ParseOptions::default().recursion_limit(DEPTH);
    let symbol =
        cpp_demangle::Symbol::new_with_options(name.get(..name.len().min(LONGEST))?, &parse)
            .ok()?;
    let options = DemangleOptions::default().no_params().no_return_type().recursion_limit(DEPTH);
    symbol.demangle_with_options(&options).ok()
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn names_are_those_of_the_source() {
        assert_eq!(demangle(b"_ZN3foo3barEi"), "foo::bar");
        assert_eq!(
            demangle(b"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"),
            "core::fmt::Write::write_fmt"
        );
        assert_eq!(demangle(b"_RNvC6_123foo3bar"), "123foo::bar");
        assert_eq!(demangle(b"main"), "main");
        assert_eq!(demangle(b"_Z"), "_Z");
        assert_eq!(demangle(b"\xff_Z"), "\u{fffd}_Z");
    }

    #[test]
    fn nesting_without_end_is_left_as_it_is() {
        let deep = format!("_Z1f{}", "P".repeat(100_000));
        assert!(!demangle(deep.as_bytes()).is_empty());
    }
}
