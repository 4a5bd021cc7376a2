//! Functions and static tracepoints for `tare trace --probe`, `--kprobe` and `--usdt`.
//!
//! `fetch` parses arguments in the notation of `perf probe` and the kernel
//! (`Documentation/trace/uprobetracer.rst`); `usdt` reads the notes about static tracepoints in
//! programs, and `operand` the locations of their arguments.

mod fetch;
mod operand;
mod usdt;

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tare_kernel::functions::{ARGUMENTS, Argument, ProbeCall, ProbeLocation, ProbePlan};
use tare_kernel::host::Host;
use tare_kernel::procfs;

use super::nearest::list;
use super::syntax::{Word, number};
use super::uprobe::file_offset;

pub use fetch::Format;

/// `PROT_EXEC` of mmap(2).
const PROT_EXEC: u32 = 4;

/// A probe: where it sits and what it fetches.
#[derive(Clone, Debug)]
pub struct Probe {
    /// What was typed, without arguments.
    pub name: String,
    /// Where it lies: one place, of USDT as many as the program has.
    pub places: Vec<ProbePlace>,
    /// It is a function, whose calls return.
    pub returns: bool,
}

/// One of the places of a probe.
#[derive(Clone, Debug)]
pub struct ProbePlace {
    /// Where.
    pub location: ProbeLocation,
    /// What is read there.
    pub arguments: Vec<NamedArgument>,
}

/// An argument, and how it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedArgument {
    /// As typed before `=`, or what was typed.
    pub name: String,
    /// How it is read.
    pub argument: Argument,
    /// How it is shown.
    pub format: Format,
}

impl ProbePlace {
    /// Names and values of what was read there.
    #[must_use]
    pub fn show(&self, call: &ProbeCall<'_>) -> Vec<(String, String)> {
        let value = |(number, named): (usize, &NamedArgument)| {
            let found = call.argument(number, named.argument.text.is_some());
            (named.name.clone(), named.format.show(&found))
        };
        self.arguments.iter().enumerate().map(value).collect()
    }
}

/// Returns what the kernel has to do at each place, and for each place its probe and its index in
/// that probe. `each`: record each call, for functions only calls that took long enough.
#[must_use]
pub fn plans(
    probes: &[Probe],
    each: bool,
    min_duration_ns: u64,
) -> (Vec<ProbePlan>, Vec<(usize, usize)>) {
    let plan = |probe: &Probe, place: &ProbePlace| ProbePlan {
        name: probe.name.clone(),
        location: place.location.clone(),
        returns: probe.returns,
        arguments: place.arguments.iter().map(|named| named.argument.clone()).collect(),
        records_each: each,
        min_duration_ns: if probe.returns { min_duration_ns } else { 0 },
    };
    let all = probes.iter().enumerate().flat_map(|(number, probe)| {
        let places = probe.places.iter().enumerate();
        places.map(move |(at, place)| (plan(probe, place), (number, at)))
    });
    all.unzip()
}

/// Why a text is no probe. Its `Display` is one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// Something is missing or too much.
    #[error("{text}: {wanted}")]
    Form {
        /// What was typed.
        text: String,
        /// What is expected.
        wanted: &'static str,
    },
    /// There is no such program.
    #[error("{0}: there is no such file, in the folders of PATH neither")]
    NoFile(String),
    /// Not a valid file or location.
    #[error("{0}")]
    Place(String),
    /// Not a valid argument.
    #[error("'{text}': {why}")]
    Argument {
        /// What was typed.
        text: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The file names no such place.
    #[error("{file} has no USDT probe {wanted}: {has}")]
    NoUsdt {
        /// The file.
        file: String,
        /// What was typed.
        wanted: String,
        /// Those that it has.
        has: String,
    },
}

/// What is asked for, as typed.
#[derive(Clone, Copy, Debug)]
pub struct ProbeRequest<'a> {
    /// Functions of programs: see [`function`].
    pub functions: &'a [String],
    /// Functions of the kernel: see [`kernel_function`].
    pub of_kernel: &'a [String],
    /// Places that programs name: see [`usdt`].
    pub usdt: &'a [String],
}

impl ProbeRequest<'_> {
    /// All of it, in that order. `files` are where places are looked for that name no file; those
    /// that are no paths are found as other files are.
    ///
    /// # Errors
    /// See [`ProbeError`].
    pub fn probes(
        &self,
        files: impl FnOnce() -> Vec<PathBuf>,
        find: Find<'_>,
    ) -> Result<Vec<Probe>, ProbeError> {
        let mut all = Vec::new();
        for text in self.functions {
            all.push(function(text, find)?);
        }
        for text in self.of_kernel {
            all.push(kernel_function(text)?);
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
            all.push(usdt(text, &files, find)?);
        }
        Ok(all)
    }
}

/// How a program's file is found where the text is no path of one.
pub type Find<'a> = &'a dyn Fn(&str) -> Option<PathBuf>;

fn form(text: &str, wanted: &'static str) -> ProbeError {
    ProbeError::Form { text: text.to_owned(), wanted }
}

/// Takes `FILE:FUNCTION[+OFFSET] [ARGUMENT…]`, or an offset in the file in place of a function.
///
/// # Errors
/// See [`ProbeError`].
pub fn function(text: &str, find: Find<'_>) -> Result<Probe, ProbeError> {
    const WANTED: &str =
        "give FILE:FUNCTION and what is to be read, as './prog:open_file name=+0(%di):string'";
    let mut words = text.split_ascii_whitespace();
    let place = words.next().ok_or_else(|| form(text, WANTED))?;
    let (file, function) = in_file(place, find)?.ok_or_else(|| form(place, WANTED))?;
    let path = file.to_str().ok_or_else(|| ProbeError::NoFile(place.to_owned()))?;
    let word = |text| Word { at: 0, text };
    let offset = file_offset(word(path), word(function))
        .map_err(|problem| ProbeError::Place(problem.said()))?;
    let location = ProbeLocation::File { path: c_path(&file)?, offset, semaphore: 0 };
    let arguments = arguments(words, true)?;
    let places = vec![ProbePlace { location, arguments }];
    Ok(Probe { name: place.to_owned(), places, returns: true })
}

/// Takes `FUNCTION[+OFFSET] [ARGUMENT…]` of the kernel.
///
/// # Errors
/// See [`ProbeError`].
pub fn kernel_function(text: &str) -> Result<Probe, ProbeError> {
    const WANTED: &str =
        "give a function of the kernel and what is to be read, as 'vfs_read $arg3'";
    let mut words = text.split_ascii_whitespace();
    let place = words.next().ok_or_else(|| form(text, WANTED))?;
    let (function, offset) = place.split_once('+').unwrap_or((place, "0"));
    let offset = number(offset).ok_or_else(|| form(place, "a number belongs after +"))?;
    if function.is_empty()
        || !function.chars().all(|c| c.is_ascii_alphanumeric() || "_.$".contains(c))
    {
        return Err(form(place, WANTED));
    }
    let function = CString::new(function).map_err(|_| form(place, WANTED))?;
    let location = ProbeLocation::Kernel { function, offset };
    let places = vec![ProbePlace { location, arguments: arguments(words, false)? }];
    Ok(Probe { name: place.to_owned(), places, returns: true })
}

/// Takes `[FILE:]PROVIDER:NAME [argN[:TYPE]…]`: a place that a program names itself, by
/// `DTRACE_PROBE` of `sys/sdt.h`. Without a file it is looked for in `files`; where no arguments
/// are named, all are read.
///
/// # Errors
/// See [`ProbeError`].
pub fn usdt(text: &str, files: &[PathBuf], find: Find<'_>) -> Result<Probe, ProbeError> {
    const WANTED: &str = "give PROVIDER:NAME, or FILE:PROVIDER:NAME, as ./prog:server:request";
    let mut words = text.split_ascii_whitespace();
    let text = words.next().ok_or_else(|| form(text, WANTED))?;
    let chosen: Vec<&str> = words.collect();
    let (rest, name) = text.rsplit_once(':').ok_or_else(|| form(text, WANTED))?;
    let named = match rest.rsplit_once(':') {
        Some((file, _)) => vec![found(file, find)?],
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
            // Of several files, not all need be programs.
            Err(problem) => {
                last_problem = Some(problem);
                continue;
            }
        };
        for one in all {
            if one.provider == provider && one.name == name {
                let mut place = one.place(c_path(file)?)?;
                if !chosen.is_empty() {
                    place.arguments = fetch::of_place(&chosen, &place.arguments)?;
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
        [first, ..] => format!("{} and what it has mapped", first.display()),
    };
    has.truncate(12);
    let has =
        if has.is_empty() { "it has none".to_owned() } else { format!("it has {}", list(&has)) };
    Err(ProbeError::NoUsdt { file: shown, wanted: format!("{provider}:{name}"), has })
}

/// The files of a process that code may be in; none of one that is gone.
#[must_use]
pub fn mapped_files(host: &Host, pid: i32) -> Vec<PathBuf> {
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

/// The file of `FILE:PLACE`, and the place: the file has colons where the longer text is one.
fn in_file<'a>(text: &'a str, find: Find<'_>) -> Result<Option<(PathBuf, &'a str)>, ProbeError> {
    let mut splits = text.rmatch_indices(':').map(|(at, _)| (&text[..at], &text[at + 1..]));
    let whole = splits.clone().find(|(file, _)| Path::new(file).is_file());
    if let Some((file, place)) = whole {
        return Ok(Some((file.into(), place)).filter(|_| !place.is_empty()));
    }
    let Some((file, place)) = splits.next_back() else { return Ok(None) };
    if file.is_empty() || place.is_empty() {
        return Ok(None);
    }
    Ok(Some((found(file, find)?, place)))
}

fn found(file: &str, find: Find<'_>) -> Result<PathBuf, ProbeError> {
    if Path::new(file).exists() {
        return Ok(file.into());
    }
    find(file).ok_or_else(|| ProbeError::NoFile(file.to_owned()))
}

fn c_path(path: &Path) -> Result<CString, ProbeError> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| ProbeError::NoFile(path.display().to_string()))
}

fn arguments<'a>(
    words: impl Iterator<Item = &'a str>,
    in_user_memory: bool,
) -> Result<Vec<NamedArgument>, ProbeError> {
    let all: Vec<_> =
        words.map(|word| fetch::argument(word, in_user_memory)).collect::<Result<_, _>>()?;
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
    fn what_is_no_probe_is_named() {
        let says = |result: Result<Probe, ProbeError>| result.unwrap_err().to_string();
        assert!(says(function("main", &nowhere)).starts_with("main: give FILE:FUNCTION"));
        assert!(says(function("", &nowhere)).contains("give FILE:FUNCTION"));
        assert_eq!(
            says(function("/none:main", &nowhere)),
            "/none: there is no such file, in the folders of PATH neither"
        );
        assert!(says(function("/:main", &nowhere)).contains("no program's file"));
        assert!(says(kernel_function("a b c d e f g h i j")).contains("C variables"));
        assert!(says(kernel_function("../x")).contains("a function of the kernel"));
        assert!(says(usdt("x", &[], &nowhere)).contains("PROVIDER:NAME"));
        assert!(says(usdt("a:b", &[], &nowhere)).contains("name the file"));
        let nine = format!("f {}", "%sp ".repeat(9));
        assert!(says(kernel_function(&nine)).contains("at most 8"));
    }

    #[test]
    fn own_functions_are_found() {
        let own = std::env::current_exe().unwrap();
        let probe = function(&format!("{}:main x=%sp", own.display()), &nowhere).unwrap();
        assert!(probe.returns);
        assert_eq!(probe.places[0].arguments[0].name, "x");
        let probe = kernel_function("vfs_read+4").unwrap();
        assert_eq!(
            probe.places[0].location,
            ProbeLocation::Kernel { function: c"vfs_read".into(), offset: 4 }
        );
    }
}
