//! Finds functions of a program's file by the names that users type: symbols, demangled names with
//! or without parameters, and patterns.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use tare_format::nearest::nearest;
use tare_symbols::{FileFunction, FileFunctions, count_inlined_calls};

use super::selections::{NoSelection, Selections};
use super::syntax::{glob_matches, parse_number};

/// Maximum number of functions that a name or pattern may select.
const MAX_MATCHES: usize = 256;
/// Maximum number of names in a message.
const MAX_NAMES: usize = 8;
/// Folders in which the dynamic linker looks for libraries, besides those of the architecture.
const LIBRARY_FOLDERS: [&str; 5] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"];
/// Where programs begin: the word on top of the stack is no return address.
const FIRST_FUNCTIONS: [&str; 4] = ["_start", "_dl_start", "_rt0_amd64", "_rt0_amd64_linux"];

/// A location in a file that a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FunctionPlace {
    /// Offset in the file, in bytes.
    pub(super) offset: u64,
    /// The function's name, with its parameters if it has any in the file; for an offset or a
    /// single function, the text as typed.
    pub(super) label: String,
    /// Whether a caller's return address is on the stack there.
    pub(super) can_return: bool,
    /// Places at which the compiler inlined the function instead of a call.
    pub(super) inlined: usize,
    /// Set if the name's symbol selects one of several implementations: this place is the one that
    /// is selected here, and these other functions use it too.
    pub(super) selected_with: Option<Vec<String>>,
}

/// The locations that a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FunctionPlaces {
    /// At least one, by offset.
    pub(super) all: Vec<FunctionPlace>,
    /// Whether the text is a pattern, which may select several functions.
    pub(super) is_pattern: bool,
}

/// Why a name stands for no location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlaceProblem {
    /// Whether the file is the problem; otherwise the name is.
    pub(super) is_in_file: bool,
    /// The file or the name.
    pub(super) place: String,
    /// The reason, in words.
    pub(super) why: String,
    /// Known names that look similar, the most similar first.
    pub(super) nearest: Vec<String>,
}

impl PlaceProblem {
    fn in_file(path: &Path, why: impl Into<String>) -> Self {
        let place = path.display().to_string();
        Self { is_in_file: true, place, why: why.into(), nearest: Vec::new() }
    }

    fn in_name(name: &str, why: impl Into<String>) -> Self {
        let place = name.to_owned();
        Self { is_in_file: false, place, why: why.into(), nearest: Vec::new() }
    }
}

/// A file whose functions can be looked up.
#[derive(Debug)]
pub(super) struct ProgramFile<'a> {
    path: &'a Path,
    bytes: u64,
    functions: Option<FileFunctions>,
    /// Places at which functions are inlined, by symbol.
    inlined: Option<BTreeMap<String, usize>>,
    /// The traced processes; none if a command or all are traced.
    pub(super) pids: &'a [i32],
}

impl<'a> ProgramFile<'a> {
    /// Checks that the path is a regular file.
    pub(super) fn open(path: &'a Path) -> Result<Self, PlaceProblem> {
        let metadata = std::fs::metadata(path).map_err(|error| wrong_file(path, &error))?;
        if !metadata.is_file() {
            return Err(PlaceProblem::in_file(path, "not a program"));
        }
        Ok(Self { path, bytes: metadata.len(), functions: None, inlined: None, pids: &[] })
    }

    /// Reads the file's functions, once.
    pub(super) fn functions(&mut self) -> Result<&FileFunctions, PlaceProblem> {
        if self.functions.is_none() {
            let read = FileFunctions::read(self.path);
            self.functions = Some(read.map_err(|error| wrong_file(self.path, &error))?);
        }
        self.functions.as_ref().ok_or_else(|| PlaceProblem::in_file(self.path, "not a program"))
    }

    /// Finds the locations of `FUNCTION[+OFFSET]`, a pattern of functions, or an offset in the
    /// file.
    pub(super) fn find(&mut self, text: &str) -> Result<FunctionPlaces, PlaceProblem> {
        let bytes = self.bytes;
        if let Some(offset) = parse_number(text) {
            if offset >= bytes {
                return Err(PlaceProblem::in_name(text, format!("the file has {bytes} bytes")));
            }
            let place = FunctionPlace {
                offset,
                label: text.to_owned(),
                can_return: true,
                inlined: 0,
                selected_with: None,
            };
            return Ok(FunctionPlaces { all: vec![place], is_pattern: false });
        }
        let path = self.path;
        self.functions()?;
        let Some(functions) = &self.functions else {
            return Err(PlaceProblem::in_file(path, "not a program"));
        };
        let (name, beyond, found) = match NameMatches::find(functions, text) {
            found if !found.functions.is_empty() => (text, 0, found),
            _ => {
                let (name, beyond) = match text.rsplit_once('+') {
                    Some((name, beyond)) if !is_operator(text) => (name, Some(beyond)),
                    _ => (text, None),
                };
                let wanted = || PlaceProblem::in_name(text, "expected a number after +");
                let beyond = beyond.map(|beyond| parse_number(beyond).ok_or_else(wanted));
                let beyond = beyond.transpose()?.unwrap_or(0);
                (name, beyond, NameMatches::find(functions, name))
            }
        };
        let inlined = self.inlined.get_or_insert_with(|| count_inlined_calls(path));
        if found.functions.is_empty() {
            return Err(inlined_everywhere(path, inlined, name)
                .unwrap_or_else(|| unknown(path, functions, name)));
        }
        let selector = found.functions.iter().find(|function| function.is_selector);
        let places = match selector {
            Some(selector) => {
                let selections = Selections::find(path, functions, self.pids);
                let selected = selected_place(functions, selector, &selections, text);
                let place = selected.map_err(|why| unknown_selection(functions, name, why))?;
                let offset = place.offset.saturating_add(beyond);
                vec![FunctionPlace { offset, can_return: beyond == 0, ..place }]
            }
            None => found.places(text, beyond, inlined),
        };
        if places.len() > MAX_MATCHES {
            let why =
                format!("{} functions match; at most {MAX_MATCHES} can be probed", places.len());
            return Err(PlaceProblem::in_name(text, why));
        }
        if places.iter().any(|place| place.offset >= bytes) {
            return Err(PlaceProblem::in_name(text, "this address isn't in the file"));
        }
        Ok(FunctionPlaces { all: places, is_pattern: found.is_pattern })
    }
}

fn wrong_file(path: &Path, error: &io::Error) -> PlaceProblem {
    let why = match error.kind() {
        io::ErrorKind::NotFound => "No such file or directory".to_owned(),
        io::ErrorKind::InvalidData => format!("not an ELF file: {error}"),
        _ => error.to_string(),
    };
    PlaceProblem::in_file(path, why)
}

/// The functions that a name stands for.
struct NameMatches<'a> {
    /// One per offset.
    functions: Vec<&'a FileFunction>,
    is_pattern: bool,
}

impl<'a> NameMatches<'a> {
    /// Finds functions by the first of these that matches any: symbol, demangled name with or
    /// without parameters, demangled name without template arguments, pattern.
    fn find(functions: &'a FileFunctions, text: &str) -> Self {
        let by = |is_it: &dyn Fn(&FileFunction) -> bool| {
            let all = functions.functions.iter();
            let mut found: Vec<_> = all.filter(|function| is_it(function)).collect();
            found.dedup_by_key(|function| function.offset);
            found
        };
        let mut found = by(&|function| function.symbol == text || function.base_symbol() == text);
        if found.is_empty() {
            let wanted = normalize(text);
            let identifier = last_identifier(text);
            let is_mangled = |function: &FileFunction| {
                let symbol = &function.symbol;
                (symbol.starts_with("_Z") || symbol.starts_with("_R"))
                    && symbol.contains(identifier)
                    && !is_part(symbol)
            };
            let names = |function: &FileFunction| {
                let plain = FileFunction { symbol: function.base_symbol().to_owned(), ..*function };
                [normalize(&plain.name()), normalize(&plain.signature())]
            };
            found = by(&|function| is_mangled(function) && names(function).contains(&wanted));
            if found.is_empty() {
                found = by(&|function| {
                    is_mangled(function)
                        && names(function).iter().any(|name| without_arguments(name) == wanted)
                });
            }
        }
        let is_pattern = found.is_empty() && text.contains(['*', '?', '[']);
        if is_pattern {
            found = by(&|function| {
                let is_match = |name: &str| glob_matches(text, name);
                let is_real = !is_part(&function.symbol)
                    && !function.is_selector
                    && !FIRST_FUNCTIONS.contains(&function.symbol.as_str());
                is_real
                    && (is_match(&function.symbol)
                        || is_match(&function.name())
                        || is_match(&function.signature()))
            });
        }
        Self { functions: found, is_pattern }
    }

    /// Returns the locations `beyond` bytes after the start of each function.
    fn places(
        &self,
        text: &str,
        beyond: u64,
        inlined: &BTreeMap<String, usize>,
    ) -> Vec<FunctionPlace> {
        let is_single = self.functions.len() == 1 && !self.is_pattern;
        let label = |function: &FileFunction| match beyond {
            _ if is_single => text.to_owned(),
            0 => function.signature(),
            _ => format!("{}+{beyond:#x}", function.signature()),
        };
        let place = |function: &&FileFunction| FunctionPlace {
            offset: function.offset.saturating_add(beyond),
            label: label(function),
            can_return: beyond == 0 && !FIRST_FUNCTIONS.contains(&function.symbol.as_str()),
            inlined: inlined.get(function.base_symbol()).copied().unwrap_or(0),
            selected_with: None,
        };
        let mut places: Vec<_> = self.functions.iter().map(place).collect();
        // Functions of the same name are told apart by their offset in the file, which can be typed
        // instead of the name.
        let labels: Vec<String> = places.iter().map(|place| place.label.clone()).collect();
        for place in &mut places {
            if labels.iter().filter(|label| **label == place.label).count() > 1 {
                place.label = format!("{} at {:#x}", place.label, place.offset);
            }
        }
        places
    }
}

/// Whether a symbol is a part of a function that no caller enters.
fn is_part(symbol: &str) -> bool {
    symbol.ends_with(".cold") || symbol.contains(".cold.")
}

/// Whether a text names an operator, which may contain any character.
fn is_operator(text: &str) -> bool {
    text.contains("operator")
}

/// Returns the identifier that a mangled name has to contain; empty if there may be none.
fn last_identifier(text: &str) -> &str {
    if is_operator(text) || text.starts_with('(') || text.contains(['{', '*', '?', '[']) {
        return "";
    }
    let name = text.split(['(', '<']).next().unwrap_or_default().trim_end();
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    name.rsplit(|c: char| !is_part(c)).next().unwrap_or_default()
}

/// Rewrites a name so that different spellings are equal: no spaces except between words, `const`
/// after its type, and no brackets around the type of a Rust method.
fn normalize(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    for (at, c) in name.char_indices() {
        let next = name[at..].chars().skip(1).find(|c| !c.is_whitespace());
        if !c.is_whitespace() {
            text.push(c);
        } else if text.ends_with(is_word) && next.is_some_and(is_word) {
            text.push(' ');
        }
    }
    let text = move_const(&text);
    match text.strip_prefix('<').and_then(|rest| rest.split_once(">::")) {
        Some((kind, method)) if !kind.contains(" as ") && !kind.contains('<') => {
            format!("{kind}::{method}")
        }
        _ => text,
    }
}

/// Writes `const` after the type of a parameter, as demanglers do: `const char*` -> `char const*`.
fn move_const(text: &str) -> String {
    const WORD: &str = "const ";
    let mut moved = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(WORD) {
        let is_first = rest[..at].ends_with(['(', ',', '<']);
        moved.push_str(&rest[..at]);
        rest = &rest[at + WORD.len()..];
        if !is_first {
            moved.push_str(WORD);
            continue;
        }
        let mut depth = 0_u32;
        let end = rest.find(|c: char| {
            let is_end = depth == 0 && "*&,)>".contains(c);
            match c {
                '<' => depth += 1,
                '>' => depth = depth.saturating_sub(1),
                _ => {}
            }
            is_end
        });
        let (kind, behind) = rest.split_at(end.unwrap_or(rest.len()));
        moved.push_str(kind);
        moved.push_str(" const");
        rest = behind;
    }
    moved + rest
}

/// Removes the template arguments at the end of a name, and its parameters.
fn without_arguments(name: &str) -> &str {
    let mut depth = 0_u32;
    let start = name.char_indices().rev().find(|(_, c)| {
        match c {
            '>' => depth += 1,
            '<' => depth = depth.saturating_sub(1),
            _ => {}
        }
        *c == '<' && depth == 0
    });
    match start {
        Some((at, _)) if at > 0 && name.ends_with('>') => {
            name[..at].strip_suffix("::").unwrap_or(&name[..at])
        }
        _ => name,
    }
}

/// Explains that a function has no code of its own, if that is so.
fn inlined_everywhere(
    path: &Path,
    inlined: &BTreeMap<String, usize>,
    name: &str,
) -> Option<PlaceProblem> {
    let wanted = normalize(name);
    let is_it = |symbol: &str| {
        let function = FileFunction { offset: 0, symbol: symbol.to_owned(), is_selector: false };
        symbol == name
            || [function.name(), function.signature()]
                .map(|name| normalize(&name))
                .contains(&wanted)
    };
    let places: usize =
        inlined.iter().filter(|(symbol, _)| is_it(symbol)).map(|(_, places)| places).sum();
    let why = format!(
        "the compiler inlined this function at all {places} places that call it in {}; a probe needs a copy that isn't inlined (noinline)",
        path.display()
    );
    (places > 0).then(|| PlaceProblem::in_name(name, why))
}

/// Explains that a file has no such function: the library that has it, or similar names.
fn unknown(path: &Path, functions: &FileFunctions, name: &str) -> PlaceProblem {
    let file = path.display();
    if functions.imports.iter().any(|import| import == name) {
        let why = match find_library(functions, name) {
            Some(library) => format!(
                "{file} calls this function of a library: probe {}:{name}",
                library.display()
            ),
            None => format!(
                "{file} calls this function of another file, one of {}",
                functions.libraries.join(", ")
            ),
        };
        return PlaceProblem::in_name(name, why);
    }
    if functions.functions.is_empty() {
        let why = format!("{file} has no symbol table; a file offset works (FILE:0xOFFSET)");
        return PlaceProblem::in_name(name, why);
    }
    let why = format!("{file} has no such function (`tare list '{file}:*'` lists its functions)");
    let mut names: Vec<String> = functions.functions.iter().map(FileFunction::name).collect();
    names.sort();
    names.dedup();
    let method = format!("::{name}");
    let qualified = names.iter().filter(|known| known.ends_with(&method));
    let mut near: Vec<String> = qualified.take(MAX_NAMES).cloned().collect();
    if near.is_empty() {
        near = nearest(name, names);
    }
    PlaceProblem { nearest: near, ..PlaceProblem::in_name(name, why) }
}

/// Finds the library that defines a function, among those that a program is linked with.
fn find_library(functions: &FileFunctions, name: &str) -> Option<PathBuf> {
    functions.libraries.iter().filter_map(|library| library_path(library)).find(|path| {
        FileFunctions::read(path)
            .is_ok_and(|library| library.functions.iter().any(|function| function.symbol == name))
    })
}

/// Finds a library by its file name where the dynamic linker looks for it.
pub(super) fn library_path(name: &str) -> Option<PathBuf> {
    let arch = std::env::consts::ARCH;
    let own = ["/lib", "/usr/lib"].map(|folder| format!("{folder}/{arch}-linux-gnu"));
    let folders = own.into_iter().chain(LIBRARY_FOLDERS.map(str::to_owned));
    let paths = folders.map(|folder| Path::new(&folder).join(name));
    paths.into_iter().find(|path| path.is_file())
}

/// Returns the place of the implementation that is selected for a function, which processes call in
/// place of the symbol's code and of old versions.
fn selected_place(
    functions: &FileFunctions,
    selector: &FileFunction,
    selections: &Selections<'_>,
    label: &str,
) -> Result<FunctionPlace, NoSelection> {
    let offset = selections.implementation(selector.offset)?;
    let others = functions.functions.iter().filter(|other| {
        other.is_selector
            && other.symbol != selector.symbol
            && selections.implementation(other.offset) == Ok(offset)
    });
    let mut shared: Vec<String> = others.map(|other| other.symbol.clone()).collect();
    shared.sort();
    shared.dedup();
    Ok(FunctionPlace {
        offset,
        label: label.to_owned(),
        can_return: true,
        inlined: 0,
        selected_with: Some(shared),
    })
}

/// Explains that a function selects one of several implementations when the program starts, and
/// names implementations that may be selected.
fn unknown_selection(functions: &FileFunctions, name: &str, why: NoSelection) -> PlaceProblem {
    let selectors = functions.functions.iter().filter(|function| function.is_selector);
    let selectors: Vec<u64> = selectors.map(|function| function.offset).collect();
    let all = functions.functions.iter().filter(|one| !selectors.contains(&one.offset));
    let start = format!("{name}_");
    let is_implementation = |symbol: &&str| symbol.trim_start_matches('_').starts_with(&start);
    let mut names: Vec<_> =
        all.map(|function| function.symbol.as_str()).filter(is_implementation).collect();
    names.sort_unstable();
    names.dedup();
    let among = match names.as_slice() {
        [] => "the implementation by its offset (FILE:0xOFFSET)".to_owned(),
        names => {
            let more = if names.len() > MAX_NAMES { ", ..." } else { "" };
            let shown = &names[..names.len().min(MAX_NAMES)];
            format!("one of {}{more}", shown.join(", "))
        }
    };
    let why = match why {
        NoSelection::Unknown => "which one can't be read from a process that has loaded the file",
        NoSelection::Differs => "the traced processes use several",
    };
    let why = format!(
        "this symbol selects an implementation when the program starts (IFUNC), and {why}: probe {among}"
    );
    PlaceProblem::in_name(name, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(symbols: &[(u64, &str)]) -> FileFunctions {
        let function = |(offset, symbol): &(u64, &str)| FileFunction {
            offset: *offset,
            symbol: (*symbol).to_owned(),
            is_selector: false,
        };
        FileFunctions { functions: symbols.iter().map(function).collect(), ..Default::default() }
    }

    fn labels(functions: &FileFunctions, text: &str) -> Vec<String> {
        let found = NameMatches::find(functions, text);
        found.places(text, 0, &BTreeMap::new()).into_iter().map(|place| place.label).collect()
    }

    #[test]
    fn finds_functions_by_demangled_name_and_by_pattern() {
        let all = functions(&[
            (0x10, "_ZN2ns3Foo3barEi"),
            (0x20, "_Z4overPKc"),
            (0x30, "_Z4overi"),
            (0x40, "_Z4overi.cold"),
            (0x50, "main"),
            (0x60, "_Z3maxIiET_S0_S0_"),
            (0x70, "_ZN4progplE1SS_"),
        ]);
        for text in ["ns::Foo::bar(int)", "ns::Foo::bar", "ns::Foo::bar( int )"] {
            assert_eq!(labels(&all, text), [text]);
        }
        assert_eq!(labels(&all, "*Foo*"), ["ns::Foo::bar(int)"]);
        assert_eq!(labels(&all, "over(const char*)").len(), 1);
        assert_eq!(labels(&all, "over"), ["over(char const*)", "over(int)"]);
        assert_eq!(labels(&all, "over*"), ["over(char const*)", "over(int)"]);
        assert_eq!(labels(&all, "max<int>").len(), 1);
        assert_eq!(labels(&all, "max").len(), 1);
        assert_eq!(labels(&all, "prog::operator+").len(), 1);
        assert!(labels(&all, "bar").is_empty());
    }

    #[test]
    fn functions_of_one_name_are_told_apart_and_aliases_are_one() {
        let all = functions(&[(0x10, "helper"), (0x10, "alias"), (0x20, "helper")]);
        assert_eq!(labels(&all, "helper"), ["helper at 0x10", "helper at 0x20"]);
        assert_eq!(labels(&all, "alias"), ["alias"]);
        let copies =
            functions(&[(0x10, "work"), (0x20, "work.constprop.0"), (0x30, "work.part.0")]);
        assert_eq!(labels(&copies, "work"), ["work", "work.constprop.0"]);
    }

    #[test]
    fn finds_rust_methods_with_and_without_brackets() {
        let symbol = "_RNvMCs1234_4progNtB2_1T3run";
        let all = functions(&[(0x10, symbol)]);
        assert_eq!(labels(&all, "<prog::T>::run").len(), 1);
        assert_eq!(labels(&all, "prog::T::run").len(), 1);
    }

    #[test]
    fn suggests_qualified_names() {
        let all = functions(&[(0x10, "_ZN2ns3Foo3barEi")]);
        let problem = unknown(Path::new("./x"), &all, "bar");
        assert_eq!(problem.nearest, ["ns::Foo::bar"]);
    }
}
