//! Functions and static tracepoints for `tare trace --probe`, `--kprobe` and `--usdt`.
//!
//! `fetch` parses arguments in the notation of `perf probe` and the kernel
//! (`Documentation/trace/uprobetracer.rst`). `usdt` reads a program's notes about its static
//! tracepoints; `operand` parses the locations of their arguments. `returns` tells where a probe on
//! the return of a function could end the program.

mod fetch;
mod operand;
mod returns;
mod usdt;

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tare_format::nearest::join_names;
use tare_kernel::functions::{ARGUMENTS, Argument, ProbeCall, ProbeLocation, ProbePlan};
use tare_kernel::host::Host;
use tare_kernel::procfs;

use super::syntax::{Word, parse_number};
use super::uprobe::find_file_offset;

pub use fetch::Format;
pub use returns::{maps_unwinder, returns_hazard};

/// `PROT_EXEC` of `mmap(2)`.
const PROT_EXEC: u32 = 4;

/// A probe, as the user requested it.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The text as typed, without arguments.
    pub name: String,
    /// The probed locations: one for a function, all that the program has for USDT.
    pub places: Vec<ProbePlace>,
    /// Whether returns are traced too. It is set for functions; the caller checks
    /// [`returns_hazard`].
    pub returns: bool,
}

/// A location of a probe, with the arguments read there.
#[derive(Clone, Debug)]
pub struct ProbePlace {
    /// The location in a file or in the kernel.
    pub location: ProbeLocation,
    /// The arguments.
    pub arguments: Vec<NamedArgument>,
}

/// An argument, with its name and format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedArgument {
    /// The text before `=`, or else the text without its type.
    pub name: String,
    /// How the kernel fetches it.
    pub argument: Argument,
    /// The format in which it is shown.
    pub format: Format,
}

impl ProbePlace {
    /// Formats the arguments of a call, as names and values.
    #[must_use]
    pub fn show(&self, call: &ProbeCall<'_>) -> Vec<(String, String)> {
        let value = |(number, named): (usize, &NamedArgument)| {
            let found = call.argument(number, named.argument.text.is_some());
            (named.name.clone(), named.format.show(&found))
        };
        self.arguments.iter().enumerate().map(value).collect()
    }
}

/// Returns a plan for each place of the probes, and for each plan the indices of its probe and of
/// the place in that probe.
///
/// `records_each`: the kernel records each call; where returns are traced, only calls of at least
/// `min_duration_ns`.
#[must_use]
pub fn plan_probes(
    probes: &[Probe],
    records_each: bool,
    min_duration_ns: u64,
) -> (Vec<ProbePlan>, Vec<(usize, usize)>) {
    let plan = |probe: &Probe, place: &ProbePlace| ProbePlan {
        name: probe.name.clone(),
        location: place.location.clone(),
        returns: probe.returns,
        arguments: place.arguments.iter().map(|named| named.argument.clone()).collect(),
        records_each,
        min_duration_ns: if probe.returns { min_duration_ns } else { 0 },
    };
    let all = probes.iter().enumerate().flat_map(|(number, probe)| {
        let places = probe.places.iter().enumerate();
        places.map(move |(at, place)| (plan(probe, place), (number, at)))
    });
    all.unzip()
}

/// Why a text isn't a valid probe. `Display` writes one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// The text breaks the grammar.
    #[error("{text}: {wanted}")]
    Form {
        /// The text as typed.
        text: String,
        /// The expected form.
        wanted: &'static str,
    },
    /// There is no such file, and no such program.
    #[error("{0}: no such file, and no such program in PATH")]
    NoFile(String),
    /// Not a valid file or location.
    #[error("{0}")]
    Place(String),
    /// Not a valid argument.
    #[error("'{text}': {why}")]
    Argument {
        /// The argument as typed.
        text: String,
        /// The reason, in words.
        why: &'static str,
    },
    /// The file has no such USDT probe.
    #[error("{file} has no USDT probe {wanted}: {has}")]
    NoUsdt {
        /// The file.
        file: String,
        /// The probe as typed.
        wanted: String,
        /// The probes that the file has, in words.
        has: String,
    },
}

/// The requested probes, as typed.
#[derive(Clone, Copy, Debug)]
pub struct ProbeRequest<'a> {
    /// Functions of programs: see [`parse_function`].
    pub functions: &'a [String],
    /// Functions of the kernel: see [`parse_kernel_function`].
    pub kernel_functions: &'a [String],
    /// Static tracepoints of programs: see [`find_usdt`].
    pub usdt: &'a [String],
}

impl ProbeRequest<'_> {
    /// Resolves all probes, in the order of the fields. `files` returns the files to search for
    /// USDT probes that name no file; `find` finds the file of a program by its name.
    ///
    /// # Errors
    /// See [`ProbeError`].
    pub fn resolve(
        &self,
        files: impl FnOnce() -> Vec<PathBuf>,
        find: Find<'_>,
    ) -> Result<Vec<Probe>, ProbeError> {
        let mut all = Vec::new();
        for text in self.functions {
            all.push(parse_function(text, find)?);
        }
        for text in self.kernel_functions {
            all.push(parse_kernel_function(text)?);
        }
        if self.usdt.is_empty() {
            return Ok(all);
        }
        let path = |file: PathBuf| match file.to_str().filter(|text| !text.contains('/')) {
            Some(name) => find(name).unwrap_or(file),
            None => file,
        };
        let files: Vec<PathBuf> = files().into_iter().map(path).collect();
        for text in self.usdt {
            all.push(find_usdt(text, &files, find)?);
        }
        Ok(all)
    }
}

/// Finds the file of a program that was given by name, in PATH for example.
pub type Find<'a> = &'a dyn Fn(&str) -> Option<PathBuf>;

fn form(text: &str, wanted: &'static str) -> ProbeError {
    ProbeError::Form { text: text.to_owned(), wanted }
}

/// Parses `FILE:FUNCTION[+OFFSET] [ARGUMENT…]`; an offset in the file may replace the function.
///
/// # Errors
/// See [`ProbeError`].
pub fn parse_function(text: &str, find: Find<'_>) -> Result<Probe, ProbeError> {
    const WANTED: &str =
        "give FILE:FUNCTION and its arguments, like './prog:open_file name=+0(%di):string'";
    let mut words = text.split_ascii_whitespace();
    let place = words.next().ok_or_else(|| form(text, WANTED))?;
    let (file, function) = split_file(place, find)?.ok_or_else(|| form(place, WANTED))?;
    let path = file.to_str().ok_or_else(|| ProbeError::NoFile(place.to_owned()))?;
    let word = |text| Word { at: 0, text };
    let offset = find_file_offset(word(path), word(function))
        .map_err(|problem| ProbeError::Place(problem.into_message()))?;
    let location = ProbeLocation::File { path: c_path(&file)?, offset, semaphore: 0 };
    let arguments = parse_arguments(words, true)?;
    let places = vec![ProbePlace { location, arguments }];
    Ok(Probe { name: place.to_owned(), places, returns: true })
}

/// Parses `FUNCTION[+OFFSET] [ARGUMENT…]` of the kernel.
///
/// # Errors
/// See [`ProbeError`].
pub fn parse_kernel_function(text: &str) -> Result<Probe, ProbeError> {
    const WANTED: &str = "give a function of the kernel and its arguments, like 'vfs_read $arg3'";
    let mut words = text.split_ascii_whitespace();
    let place = words.next().ok_or_else(|| form(text, WANTED))?;
    let (function, offset) = place.split_once('+').unwrap_or((place, "0"));
    let offset = parse_number(offset).ok_or_else(|| form(place, "expected a number after +"))?;
    if function.is_empty()
        || !function.chars().all(|c| c.is_ascii_alphanumeric() || "_.$".contains(c))
    {
        return Err(form(place, WANTED));
    }
    let function = CString::new(function).map_err(|_| form(place, WANTED))?;
    let location = ProbeLocation::Kernel { function, offset };
    let places = vec![ProbePlace { location, arguments: parse_arguments(words, false)? }];
    Ok(Probe { name: place.to_owned(), places, returns: true })
}

/// Finds `[FILE:]PROVIDER:NAME [argN[:TYPE]…]`: a static tracepoint that a program declares with
/// `DTRACE_PROBE` of `sys/sdt.h`. Without a file, searches `files`. Without arguments, the first 8
/// are read.
///
/// # Errors
/// See [`ProbeError`].
pub fn find_usdt(text: &str, files: &[PathBuf], find: Find<'_>) -> Result<Probe, ProbeError> {
    const WANTED: &str = "give PROVIDER:NAME, or FILE:PROVIDER:NAME, like ./prog:server:request";
    let mut words = text.split_ascii_whitespace();
    let text = words.next().ok_or_else(|| form(text, WANTED))?;
    let chosen: Vec<&str> = words.collect();
    let (rest, name) = text.rsplit_once(':').ok_or_else(|| form(text, WANTED))?;
    let named = match rest.rsplit_once(':') {
        Some((file, _)) => vec![find_file(file, find)?],
        None => files.to_vec(),
    };
    let provider = rest.rsplit_once(':').map_or(rest, |(_, provider)| provider);
    if provider.is_empty() || name.is_empty() {
        return Err(form(text, WANTED));
    }
    let mut places = Vec::new();
    let mut has = Vec::new();
    let mut last_problem = None;
    for file in &named {
        let all = match usdt::read(file) {
            Ok(all) => all,
            // Of several files, some may not be programs.
            Err(problem) => {
                last_problem = Some(problem);
                continue;
            }
        };
        for one in all {
            if one.provider == provider && one.name == name {
                let mut place = one.to_place(c_path(file)?)?;
                if !chosen.is_empty() {
                    place.arguments = fetch::select_arguments(&chosen, &place.arguments)?;
                }
                places.push(place);
            } else {
                has.push(format!("{}:{}", one.provider, one.name));
            }
        }
    }
    if !places.is_empty() {
        return Ok(Probe { name: text.to_owned(), places, returns: false });
    }
    if let (Some(problem), [_]) = (last_problem, named.as_slice()) {
        return Err(problem);
    }
    has.sort();
    has.dedup();
    let shown = match named.as_slice() {
        [] => {
            return Err(form(text, "without a command and -p, name the file: FILE:PROVIDER:NAME"));
        }
        [one] => one.display().to_string(),
        [first, ..] => format!("{} with the files it maps", first.display()),
    };
    has.truncate(12);
    let names = if has.is_empty() { "none".to_owned() } else { join_names(&has) };
    let has = format!("it has {names}");
    Err(ProbeError::NoUsdt { file: shown, wanted: format!("{provider}:{name}"), has })
}

/// Lists the files that a process maps as code. Returns an empty list if the process has exited, or
/// this user may not read its mappings.
#[must_use]
pub fn list_mapped_files(host: &Host, pid: i32) -> Vec<PathBuf> {
    let mut text = Vec::new();
    if procfs::read_mappings(host, pid, &mut text).is_err() {
        return Vec::new();
    }
    let is_code = |mapping: &procfs::Mapping<'_>| {
        mapping.prot & PROT_EXEC != 0 && mapping.path.starts_with(b"/")
    };
    let mut files: Vec<PathBuf> = procfs::mappings(&text)
        .filter(is_code)
        .map(|mapping| OsStr::from_bytes(&mapping.path).into())
        .collect();
    files.dedup();
    files
}

/// Splits `FILE:PLACE`. The file may contain colons: the longest prefix that is a file wins.
fn split_file<'a>(text: &'a str, find: Find<'_>) -> Result<Option<(PathBuf, &'a str)>, ProbeError> {
    let mut splits = text.rmatch_indices(':').map(|(at, _)| (&text[..at], &text[at + 1..]));
    let whole = splits.clone().find(|(file, _)| Path::new(file).is_file());
    if let Some((file, place)) = whole {
        return Ok(Some((file.into(), place)).filter(|_| !place.is_empty()));
    }
    let Some((file, place)) = splits.next_back() else { return Ok(None) };
    if file.is_empty() || place.is_empty() {
        return Ok(None);
    }
    Ok(Some((find_file(file, find)?, place)))
}

fn find_file(file: &str, find: Find<'_>) -> Result<PathBuf, ProbeError> {
    if Path::new(file).exists() {
        return Ok(file.into());
    }
    find(file).ok_or_else(|| ProbeError::NoFile(file.to_owned()))
}

fn c_path(path: &Path) -> Result<CString, ProbeError> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| ProbeError::NoFile(path.display().to_string()))
}

fn parse_arguments<'a>(
    words: impl Iterator<Item = &'a str>,
    in_user_memory: bool,
) -> Result<Vec<NamedArgument>, ProbeError> {
    let all: Vec<_> =
        words.map(|word| fetch::parse_argument(word, in_user_memory)).collect::<Result<_, _>>()?;
    if all.len() > ARGUMENTS {
        return Err(form(&all[ARGUMENTS].name, "a probe has at most 8 arguments"));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nowhere(_: &str) -> Option<PathBuf> {
        None
    }

    #[test]
    fn explains_invalid_probes() {
        let error = |result: Result<Probe, ProbeError>| result.unwrap_err().to_string();
        assert!(error(parse_function("main", &nowhere)).starts_with("main: give FILE:FUNCTION"));
        assert!(error(parse_function("", &nowhere)).contains("give FILE:FUNCTION"));
        assert_eq!(
            error(parse_function("/none:main", &nowhere)),
            "/none: no such file, and no such program in PATH"
        );
        assert!(error(parse_function("/:main", &nowhere)).contains("not a program"));
        assert!(error(parse_kernel_function("a b c d e f g h i j")).contains("C variables"));
        assert!(error(parse_kernel_function("../x")).contains("a function of the kernel"));
        assert!(error(find_usdt("x", &[], &nowhere)).contains("PROVIDER:NAME"));
        assert!(error(find_usdt("a:b", &[], &nowhere)).contains("name the file"));
        let nine = format!("f {}", "%sp ".repeat(9));
        assert!(error(parse_kernel_function(&nine)).contains("at most 8"));
    }

    #[test]
    fn finds_functions_of_programs_and_of_the_kernel() {
        let own = std::env::current_exe().unwrap();
        let probe = parse_function(&format!("{}:main x=%sp", own.display()), &nowhere).unwrap();
        assert!(probe.returns);
        assert_eq!(probe.places[0].arguments[0].name, "x");
        let probe = parse_kernel_function("vfs_read+4").unwrap();
        assert_eq!(
            probe.places[0].location,
            ProbeLocation::Kernel { function: c"vfs_read".into(), offset: 4 }
        );
    }
}
