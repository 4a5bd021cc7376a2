//! Strips compiler suffixes and hashes from function names, so that a function has the same name in
//! two builds.

use std::borrow::Cow;

/// Suffixes of gcc and clang, which a number may follow.
const SUFFIXES: [&[u8]; 10] = [
    b"isra",
    b"constprop",
    b"part",
    b"cold",
    b"llvm",
    b"lto_priv",
    b"localalias",
    b"clone",
    b"__uniq",
    b"ipa_sra",
];

/// Returns the name in the source, as far as the symbol shows it.
///
/// ```text
/// parse.isra.0.cold, parse.llvm.8417  parse           gcc, clang: copies of a function, and parts
/// parse(int) [clone .part.3]          parse(int)
/// lex::next::h0123456789abcdef        lex::next       Rust's legacy mangling: a hash of the build
/// lex[8d3f2e1a0b4c5d6e]::next         lex::next       Rust's v0: a hash of the crate
/// _ZN3lex4next17h0123456789abcdefE    _ZN3lex4nextE   legacy mangling, not demangled
/// _RNvCs1a2B_3lex4next                _RNvC3lex4next  v0, not demangled
/// ```
#[must_use]
pub fn source_name(name: &[u8]) -> Cow<'_, [u8]> {
    let mut kept = name;
    while let Some(shorter) =
        strip_clone(kept).or_else(|| strip_suffix(kept)).or_else(|| strip_legacy_hash(kept))
    {
        kept = shorter;
    }
    if let Some(front) = kept.strip_suffix(b"E").and_then(strip_mangled_hash) {
        let mut name = front.to_vec();
        name.push(b'E');
        return Cow::Owned(name);
    }
    if kept.starts_with(b"_R") { strip_v0_mangled(kept) } else { strip_v0(kept) }
}

/// Strips `[clone .cold]`, which the C++ demangler appends: `f(int) [clone .cold]`.
fn strip_clone(name: &[u8]) -> Option<&[u8]> {
    let inner = name.strip_suffix(b"]")?;
    let at = inner.windows(9).rposition(|part| part == b" [clone .")?;
    (at > 0).then(|| &name[..at])
}

fn strip_suffix(name: &[u8]) -> Option<&[u8]> {
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (front, number) = name.split_at(name.len() - digits);
    let front = if number.is_empty() { front } else { front.strip_suffix(b".")? };
    let dot = front.iter().rposition(|byte| *byte == b'.').filter(|at| *at > 0)?;
    SUFFIXES.contains(&&front[dot + 1..]).then(|| &front[..dot])
}

fn is_hash(text: &[u8]) -> bool {
    text.len() == 16 && text.iter().all(u8::is_ascii_hexdigit)
}

fn strip_legacy_hash(name: &[u8]) -> Option<&[u8]> {
    let (front, hash) = name.split_at(name.len().checked_sub(16)?);
    front.strip_suffix(b"::h").filter(|front| is_hash(hash) && !front.is_empty())
}

fn strip_mangled_hash(name: &[u8]) -> Option<&[u8]> {
    let (front, hash) = name.split_at(name.len().checked_sub(16)?);
    let front = front.strip_suffix(b"17h").filter(|_| is_hash(hash))?;
    front.starts_with(b"_ZN").then_some(front)
}

/// Strips hashes in brackets after a name. Brackets of arrays and slices don't follow a name.
fn strip_v0(name: &[u8]) -> Cow<'_, [u8]> {
    let is_disambiguator = |at: usize| {
        let inner = &name[at + 1..];
        let end = inner.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(inner.len());
        let is_named = at > 0 && (name[at - 1].is_ascii_alphanumeric() || name[at - 1] == b'_');
        (is_named && (8..=16).contains(&end) && inner.get(end) == Some(&b']')).then_some(end + 2)
    };
    let brackets = name.iter().enumerate().filter(|(_, byte)| **byte == b'[');
    let found: Vec<_> = brackets.filter_map(|(at, _)| Some((at, is_disambiguator(at)?))).collect();
    if found.is_empty() { Cow::Borrowed(name) } else { Cow::Owned(remove_parts(name, &found)) }
}

/// Strips the disambiguators of crates: `s`, digits in base 62 and `_`, between `C` and the crate's
/// name.
fn strip_v0_mangled(name: &[u8]) -> Cow<'_, [u8]> {
    let disambiguator = |at: usize| {
        let behind = name.get(at + 1..)?.strip_prefix(b"s")?;
        let end = behind.iter().position(|byte| !byte.is_ascii_alphanumeric())?;
        let is_it = behind[end] == b'_' && behind.get(end + 1).is_some_and(u8::is_ascii_digit);
        is_it.then_some((at + 1, end + 2))
    };
    let found: Vec<_> =
        (0..name.len()).filter(|at| name[*at] == b'C').filter_map(disambiguator).collect();
    if found.is_empty() { Cow::Borrowed(name) } else { Cow::Owned(remove_parts(name, &found)) }
}

/// Removes parts, each given by its start and length in bytes.
fn remove_parts(name: &[u8], parts: &[(usize, usize)]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(name.len());
    let mut from = 0;
    for (at, length) in parts {
        kept.extend_from_slice(name.get(from..*at).unwrap_or_default());
        from = from.max(at + length);
    }
    kept.extend_from_slice(name.get(from..).unwrap_or_default());
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_suffixes_and_hashes() {
        for (name, wanted) in [
            ("parse.isra.0", "parse"),
            ("parse.constprop.12.isra.0.cold", "parse"),
            ("parse.part.3.lto_priv.0", "parse"),
            ("parse.cold", "parse"),
            ("parse.cold.7", "parse"),
            ("parse.llvm.1234567890", "parse"),
            ("parse.__uniq.3141.llvm.59", "parse"),
            ("parse(int) [clone .isra.0] [clone .cold]", "parse(int)"),
            ("lex::next::h0123456789abcdef", "lex::next"),
            ("lex::next::h0123456789abcdef.llvm.7", "lex::next"),
            ("_ZN3lex4next17h0123456789abcdefE", "_ZN3lex4nextE"),
            ("_ZN3lex4next17h0123456789abcdefE.llvm.7", "_ZN3lex4nextE"),
            (
                "lex[8d3f2e1a0b4c5d6e]::next::<core[846817f741e54dfd]::Item>",
                "lex::next::<core::Item>",
            ),
            ("_RNvNtCs1a2B_3lex4scan4next", "_RNvNtC3lex4scan4next"),
            ("_RINvCsaaa_3lex4nextNtCsbbb_4core4ItemE", "_RINvC3lex4nextNtC4core4ItemE"),
        ] {
            assert_eq!(String::from_utf8_lossy(&source_name(name.as_bytes())), wanted, "{name}");
        }
    }

    #[test]
    fn keeps_other_names() {
        for name in [
            "",
            ".",
            ".cold",
            "parse",
            "__x64_sys_read",
            "a.b",
            "parse.1",
            "v1.part",
            "std::vector<int>::operator[](unsigned long)",
            "<[u8]>::sort",
            "<&[deadbeef; 8]>::len",
            "lex::hash",
            "LazyCompile:*next file.js:1:2",
            "_ZN3lex4nextE",
            " [clone .cold]",
        ] {
            let wanted = if name == "v1.part" { "v1" } else { name };
            assert_eq!(String::from_utf8_lossy(&source_name(name.as_bytes())), wanted);
        }
    }
}
