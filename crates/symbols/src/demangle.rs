//! Demangling of C++ and Rust names.

use std::borrow::Cow;

use cpp_demangle::{BorrowedSymbol, DemangleOptions, ParseOptions, Symbol};

/// Bytes of a C++ name that are demangled.
const MAX_BYTES: usize = 4096;
/// Nesting depth up to which a C++ name is demangled.
const MAX_DEPTH: u32 = 96;

/// Demangles a C++ or Rust name, without hashes, and without parameters except those of a thunk's
/// target. Returns any other name unchanged. Invalid UTF-8 is replaced.
pub(crate) fn demangle(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    if !(text.starts_with("_Z") || text.starts_with("_R") || text.starts_with("__Z")) {
        return text.into_owned();
    }
    if let Ok(rust) = rustc_demangle::try_demangle(&text)
        && (text.starts_with("_R") || has_rust_hash(&text))
    {
        return format!("{rust:#}");
    }
    // The symbol version after `@` isn't mangled.
    let (mangled, version) = text.split_at(text.find('@').unwrap_or(text.len()));
    match cpp(mangled.as_bytes()) {
        Some(name) => name + version,
        None => text.into_owned(),
    }
}

/// Demangles a C++ name with its parameters; `None` for any other name.
pub(crate) fn signature(name: &str) -> Option<String> {
    let is_cpp = name.starts_with("_Z") && !has_rust_hash(name);
    let name = &name.as_bytes()[..name.len().min(MAX_BYTES)];
    let name = &*without_lambda_parameters(name);
    let parse = ParseOptions::default().recursion_limit(MAX_DEPTH);
    let symbol = is_cpp.then(|| Symbol::new_with_options(name, &parse).ok()).flatten()?;
    let options = DemangleOptions::default().no_return_type().recursion_limit(MAX_DEPTH);
    let text = symbol.demangle_with_options(&options).ok()?;
    Some(packs(&literals(&text.replace("_GLOBAL__N_1", "(anonymous namespace)"))))
}

/// Whether the last `17h` of a name is followed by a hash of 16 digits and `E`: Rust's legacy
/// mangling.
fn has_rust_hash(name: &str) -> bool {
    name.rsplit_once("17h").is_some_and(|(_, hash)| {
        let (digits, end) = hash.split_at_checked(16).unwrap_or_default();
        end.starts_with('E') && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// Demangles a C++ name as `c++filt -p` and perf do, with a few exceptions (`docs/symbols.md`).
fn cpp(name: &[u8]) -> Option<String> {
    let name = &*without_lambda_parameters(&name[..name.len().min(MAX_BYTES)]);
    let parse = ParseOptions::default().recursion_limit(MAX_DEPTH);
    let whole = Symbol::new_with_options(name, &parse);
    // The target of a thunk keeps its parameters.
    let is_special = name.starts_with(b"_ZT") || name.starts_with(b"_ZGT");
    let options = DemangleOptions::default().no_return_type().recursion_limit(MAX_DEPTH);
    let options = if is_special { options } else { options.no_params() };
    let text = match whole {
        Ok(symbol) => symbol.demangle_with_options(&options),
        Err(_) => without_type(name, &parse)?.demangle_with_options(&options),
    };
    let text = text.ok()?;
    let text = if is_special { special(&text) } else { without_qualifiers(&text).into() };
    Some(packs(&literals(&user_literal(text).replace("_GLOBAL__N_1", "(anonymous namespace)"))))
}

/// Removes the template parameters that a generic lambda declares (`Ul Ty T_ E_`, Itanium C++ ABI
/// 5.1.8), which the crate can't parse. The name then has `auto:1` in their place.
fn without_lambda_parameters(name: &[u8]) -> Cow<'_, [u8]> {
    const LAMBDA: &[u8] = b"Ul";
    const TYPE: &[u8] = b"Ty";
    if !name.windows(4).any(|part| part == b"UlTy") {
        return Cow::Borrowed(name);
    }
    let mut kept = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, behind)) = rest.split_first() {
        if let Some(mut inside) = rest.strip_prefix(LAMBDA) {
            while let Some(behind) = inside.strip_prefix(TYPE) {
                inside = behind;
            }
            kept.extend_from_slice(LAMBDA);
            rest = inside;
        } else {
            kept.push(*first);
            rest = behind;
        }
    }
    Cow::Owned(kept)
}

/// Parses only the name of a function whose type the crate can't parse, because it contains an `sr`
/// expression (a member of a dependent type). Result and parameters aren't shown anyway.
fn without_type<'a>(name: &'a [u8], parse: &ParseOptions) -> Option<BorrowedSymbol<'a>> {
    let (symbol, behind) = BorrowedSymbol::with_tail_and_options(name, parse).ok()?;
    behind.windows(2).any(|part| part == b"sr").then_some(symbol)
}

/// Rewrites names of tables and thunks, which the crate prints in another format than `c++filt`.
fn special(text: &str) -> String {
    // Other names have no ` [clone .cold]` either.
    let text = text.split(" [clone ").next().unwrap_or(text);
    let within = |open: &str, close: &str| text.strip_prefix(open)?.strip_suffix(close);
    // `{virtual override thunk({offset(-16)}, a::b(int))}`
    let thunk = |open: &str| Some(within(open, ")}")?.split_once("}, ")?.1);
    if let Some(class) = within("{vtable(", ")}") {
        format!("vtable for {class}")
    } else if let Some(class) = within("{vtt(", ")}") {
        format!("VTT for {class}")
    } else if let Some(function) = thunk("{virtual override thunk({offset(") {
        format!("non-virtual thunk to {function}")
    } else if let Some(function) = thunk("{virtual override thunk({virtual offset(") {
        format!("virtual thunk to {function}")
    } else if let Some((class, base)) =
        text.strip_prefix("construction vtable for ").and_then(|rest| rest.split_once("-in-"))
    {
        format!("construction vtable for {base}-in-{class}")
    } else {
        text.to_owned()
    }
}

/// Removes a member function's qualifiers, which belong to the removed parameters.
fn without_qualifiers(mut text: &str) -> &str {
    const QUALIFIERS: [&str; 4] = [" &&", " &", " const", " volatile"];
    while let Some(rest) = QUALIFIERS.iter().find_map(|qualifier| text.strip_suffix(qualifier)) {
        text = rest;
    }
    text
}

/// `operator_km::operator ""` -> `operator"" _km`
fn user_literal(text: String) -> String {
    let suffix = text.strip_suffix("::operator \"\"");
    match suffix.and_then(|front| front.rsplit_once("operator")) {
        Some((scope, name)) => format!("{scope}operator\"\" {name}"),
        None => text,
    }
}

/// Rewrites numbers in template arguments: `(unsigned long)15` -> `15ul`.
fn literals(text: &str) -> Cow<'_, str> {
    const TYPES: [(&str, &str); 5] = [
        ("(unsigned long)", "ul"),
        ("(long)", "l"),
        ("(unsigned int)", "u"),
        ("(long long)", "ll"),
        ("(unsigned long long)", "ull"),
    ];
    let mut text = Cow::from(text);
    for (kind, suffix) in TYPES {
        if !text.contains(kind) {
            continue;
        }
        let mut parts = text.split(kind);
        let mut changed = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let digits = part.strip_prefix('-').unwrap_or(part);
            let behind = digits.trim_start_matches(|c: char| c.is_ascii_digit());
            if behind.len() == digits.len() || !behind.starts_with(['>', ',', ')']) {
                changed.extend([kind, part]);
            } else {
                changed.extend([&part[..part.len() - behind.len()], suffix, behind]);
            }
        }
        text = changed.into();
    }
    text
}

/// Removes empty packs from template arguments: `look<int, >` -> `look<int>`.
fn packs(text: &str) -> String {
    if !text.contains(", >") && !text.contains("<, ") && !text.contains(", , ") {
        return text.to_owned();
    }
    let mut changed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let is_operator = changed.trim_end_matches('<').ends_with("operator");
        let is_first = (changed.ends_with('<') || changed.ends_with(", ")) && !is_operator;
        if rest.starts_with(", >") && !is_operator {
            // Two closing brackets have a space between them.
            changed.push_str(if changed.ends_with('>') { " " } else { "" });
            rest = &rest[2..];
        } else if rest.starts_with(", ") && is_first {
            rest = &rest[2..];
        } else {
            changed.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn demangles_both_languages() {
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
    fn bounds_nesting() {
        let deep = format!("_Z1f{}", "P".repeat(100_000));
        assert!(!demangle(deep.as_bytes()).is_empty());
    }

    #[test]
    fn prints_names_like_cxxfilt() {
        for (mangled, expected) in [
            ("_Z4lookIiJEEiT_DpT0_", "look<int>"),
            ("_Z4lookI4packIiEJEEiT_DpT0_", "look<pack<int> >"),
            ("_Z4lookIJEiEvv", "look<int>"),
            ("_Z4lookIiJEiEvv", "look<int, int>"),
            ("_ZThn16_N1C1gEi", "non-virtual thunk to C::g(int)"),
            ("_ZTv0_n24_N1CD0Ev", "virtual thunk to C::~C()"),
            ("_ZTv0_n24_N1CD0Ev.cold", "virtual thunk to C::~C()"),
            ("_ZN1a1bEv.part.0", "a::b"),
            (
                "_ZZ4mainENKUlTyT_PS_E_clIiEEDaS_S0_",
                "main::{lambda(auto:1, auto:1*)#1}::operator()<int>",
            ),
            (
                "_ZZ4mainENKUlTyTyRKT_T0_E_clIicEEDaS1_S2_",
                "main::{lambda(auto:1 const&, auto:2)#1}::operator()<int, char>",
            ),
            ("_ZTV1C", "vtable for C"),
            ("_ZTT1C", "VTT for C"),
            ("_ZTC1C0_1B", "construction vtable for B-in-C"),
            ("_ZTI1C", "typeinfo for C"),
            ("_Z2srIiEN2enIXsr2isIT_E5valueEiE4typeES2_", "sr<int>"),
            (
                "_Z3litILm1ELln2ELb1ELc97ELj4ELx5ELy6ELs7EEiv",
                "lit<1ul, -2l, true, (char)97, 4u, 5ll, 6ull, (short)7>",
            ),
            ("_ZNO1Q1mEv", "Q::m"),
            ("_ZZ4mainENKUliE_clEi", "main::{lambda(int)#1}::operator()"),
            ("_Zli3_kmy", "operator\"\" _km"),
            ("_ZdlPvm@CXXABI_1.3.9", "operator delete@CXXABI_1.3.9"),
            ("_ZN12_GLOBAL__N_110messages_cE", "(anonymous namespace)::messages_c"),
            ("_ZN1aeqERKS_S1_", "a::operator=="),
            ("_Zone", "_Zone"),
            ("_Zstrange_name_with_sr", "_Zstrange_name_with_sr"),
        ] {
            assert_eq!(demangle(mangled.as_bytes()), expected, "{mangled}");
        }
    }

    /// Compares up to 1,000 names of libstdc++, and allows differences in 1%.
    #[test]
    fn agrees_with_cxxfilt_on_libstdcxx() {
        let run = |program: &str, args: &[&str]| {
            let output = std::process::Command::new(program).args(args).output().ok()?;
            let text = String::from_utf8(output.stdout).ok()?;
            (output.status.success() && !text.is_empty()).then_some(text)
        };
        let library = run("cc", &["-print-file-name=libstdc++.so.6"]).unwrap_or_default();
        let Some(symbols) = run("nm", &["-D", "--defined-only", library.trim()]) else {
            return println!("skipped: no nm of a libstdc++");
        };
        let name = |line: &str| Some(line.rsplit(' ').next()?.split('@').next()?.to_owned());
        let mut names: Vec<_> = symbols.lines().filter_map(name).collect();
        names.retain(|name| name.starts_with("_Z"));
        names.sort();
        names.dedup();
        let names: Vec<_> = names.iter().step_by((names.len() / 1000).max(1)).take(1000).collect();
        let mut args = vec!["-p"];
        args.extend(names.iter().map(|name| name.as_str()));
        let Some(theirs) = run("c++filt", &args) else {
            return println!("skipped: no c++filt");
        };
        assert!(names.len() >= 900 && theirs.lines().count() == names.len());
        // c++filt prints std::string in full, perf doesn't.
        let short = |name: &str| {
            let name = name.replace(
                "basic_string<char, std::char_traits<char>, std::allocator<char> >",
                "string",
            );
            let name = ["ostream", "istream", "iostream"].iter().fold(name, |name, stream| {
                name.replace(&format!("basic_{stream}<char, std::char_traits<char> >"), stream)
            });
            name.replace("string > >", "string> >").replace("basic_", "").replace("> >", ">>")
        };
        let pairs = names.iter().zip(theirs.lines());
        let differ: Vec<_> = pairs
            .map(|(name, theirs)| (name, demangle(name.as_bytes()), theirs))
            .filter(|(_, ours, theirs)| short(ours) != short(theirs))
            .collect();
        assert!(
            differ.len() * 100 <= names.len(),
            "{} of {}: {differ:#?}",
            differ.len(),
            names.len()
        );
    }
}
