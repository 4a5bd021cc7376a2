//! Functions and static tracepoints for `tare trace --probe`, `--kprobe` and `--usdt`.
//!
//! `fetch` parses arguments in the notation of `perf probe` and the kernel
//! (`Documentation/trace/uprobetracer.rst`). `usdt` reads a program's notes about its static
//! tracepoints; `operand` parses the locations of their arguments. `files` finds the probed files, as
//! the probed processes have them; `list` lists what they have. `returns` tells where a probe on the return of a function could
//! end the program.

mod fetch;
mod files;
mod list;
mod operand;
mod returns;
mod usdt;

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tare_format::nearest::join_names;
use tare_kernel::functions::{
    ARGUMENTS, Argument, ArgumentBase, ProbeCall, ProbeLocation, ProbePlan,
};

use super::functions::{FunctionPlaces, PlaceProblem, ProgramFile};
use super::syntax::parse_number;

pub use fetch::Format;
pub use files::{Find, ProbeFiles, list_mapped_files, maps_file};
pub use list::{ProbePoint, list_points};
pub use returns::{maps_unwinder, returns_hazard};

/// A probe, as the user requested it.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The text as typed, without arguments; if it stands for several functions, the file and the
    /// function.
    pub name: String,
    /// Whether the typed name stands for this function and others.
    pub is_one_of_several: bool,
    /// Places at which the compiler inlined the function: calls there aren't seen.
    pub inlined: usize,
    /// Set if the typed name selects one of several implementations, and the probe is on the one
    /// selected here: the other functions that use it, whose calls count too.
    pub selected_with: Option<Vec<String>>,
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

impl Probe {
    /// Whether an argument is read at the return: the return value, or memory.
    #[must_use]
    pub fn reads_at_return(&self) -> bool {
        let arguments = self.places.iter().flat_map(|place| &place.arguments);
        arguments
            .into_iter()
            .any(|named| named.argument.at_return || named.argument.base == ArgumentBase::Returned)
    }
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
    /// Resolves all probes, in the order of the fields. `default` returns the files to search for
    /// USDT probes that name no file.
    ///
    /// # Errors
    /// See [`ProbeError`].
    pub fn resolve(
        &self,
        default: impl FnOnce() -> Vec<PathBuf>,
        files: &ProbeFiles<'_>,
    ) -> Result<Vec<Probe>, ProbeError> {
        let mut all = Vec::new();
        for text in self.functions {
            all.extend(parse_function(text, files)?);
        }
        for text in self.kernel_functions {
            all.push(parse_kernel_function(text)?);
        }
        if self.usdt.is_empty() {
            return Ok(all);
        }
        let default = default();
        for text in self.usdt {
            all.push(find_usdt(text, &default, files)?);
        }
        Ok(all)
    }
}

fn form(text: &str, wanted: &'static str) -> ProbeError {
    ProbeError::Form { text: text.to_owned(), wanted }
}

impl From<PlaceProblem> for ProbeError {
    fn from(problem: PlaceProblem) -> Self {
        let PlaceProblem { place, why, nearest, .. } = problem;
        Self::Place(match nearest.as_slice() {
            [] => format!("{place}: {why}"),
            near => format!("{place}: {why}; nearest: {}", join_names(near)),
        })
    }
}

/// Parses `FILE:FUNCTION[+OFFSET] [ARGUMENT…]`; an offset in the file may replace the function. The
/// function is a symbol, a demangled name with or without parameters, or a pattern. Returns a probe
/// for each function that it stands for.
///
/// # Errors
/// See [`ProbeError`].
pub fn parse_function(text: &str, files: &ProbeFiles<'_>) -> Result<Vec<Probe>, ProbeError> {
    const WANTED: &str =
        "give FILE:FUNCTION and its arguments, like './prog:open_file name=+0(%di):string'";
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let [first, rest @ ..] = words.as_slice() else { return Err(form(text, WANTED)) };
    let (typed, function) = files.split(first)?.ok_or_else(|| form(first, WANTED))?;
    let paths = files.find(typed)?;
    let mut probes = Vec::new();
    for path in &paths {
        let mut file = ProgramFile::open(path)?;
        file.pids = files.pids;
        let (found, name, arguments) = split_function(&mut file, function, rest)?;
        let arguments = parse_arguments(arguments.iter().copied(), true)?;
        let is_one_of_several = found.all.len() > 1 && !found.is_pattern;
        for place in found.all {
            let of_file = if found.is_pattern || is_one_of_several { &place.label } else { &name };
            let location =
                ProbeLocation::File { path: c_path(path)?, offset: place.offset, semaphore: 0 };
            let places = vec![ProbePlace { location, arguments: arguments.clone() }];
            let name = match paths.len() {
                1 => format!("{typed}:{of_file}"),
                _ => format!("{}:{of_file}", path.display()),
            };
            let returns = place.can_return;
            let is_at_return =
                |named: &NamedArgument| named.argument.at_return && !place.can_return;
            if let Some(named) = arguments.iter().find(|named| is_at_return(named)) {
                let why = "only a function has a return: probe it without an offset";
                return Err(ProbeError::Argument { text: named.name.clone(), why });
            }
            probes.push(Probe {
                name,
                is_one_of_several,
                inlined: place.inlined,
                selected_with: place.selected_with,
                places,
                returns,
            });
        }
    }
    Ok(probes)
}

/// Splits the function's name, which may contain spaces, from the arguments: the longest name that
/// the file has.
fn split_function<'a, 'w>(
    file: &mut ProgramFile<'_>,
    first: &str,
    words: &'a [&'w str],
) -> Result<(FunctionPlaces, String, &'a [&'w str]), ProbeError> {
    let name = |count: usize| {
        let all = std::iter::once(first).chain(words[..count].iter().copied());
        all.collect::<Vec<_>>().join(" ")
    };
    for count in (0..=words.len()).rev() {
        if let Ok(found) = file.find(&name(count)) {
            return Ok((found, name(count), &words[count..]));
        }
    }
    // Without such a name, the brackets tell where it ends.
    let is_closed = |count: &usize| {
        let name = name(*count);
        name.matches('(').count() <= name.matches(')').count()
    };
    let count = (0..=words.len()).find(is_closed).unwrap_or(0);
    match file.find(&name(count)) {
        Ok(found) => Ok((found, name(count), &words[count..])),
        Err(problem) => Err(problem.into()),
    }
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
    let name = place.to_owned();
    Ok(Probe {
        name,
        is_one_of_several: false,
        inlined: 0,
        selected_with: None,
        places,
        returns: true,
    })
}

/// Finds `[FILE:]PROVIDER:NAME [argN[:TYPE]…]`: a static tracepoint that a program declares with
/// `DTRACE_PROBE` of `sys/sdt.h`. Without a file, searches `default`. Without arguments, the first
/// 8 are read.
///
/// # Errors
/// See [`ProbeError`].
pub fn find_usdt(
    text: &str,
    default: &[PathBuf],
    files: &ProbeFiles<'_>,
) -> Result<Probe, ProbeError> {
    const WANTED: &str = "give PROVIDER:NAME, or FILE:PROVIDER:NAME, like ./prog:server:request";
    let mut words = text.split_ascii_whitespace();
    let text = words.next().ok_or_else(|| form(text, WANTED))?;
    let chosen: Vec<&str> = words.collect();
    let (rest, name) = text.rsplit_once(':').ok_or_else(|| form(text, WANTED))?;
    let named = match rest.rsplit_once(':') {
        Some((file, _)) => files.find(file)?,
        None => default.to_vec(),
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
        let name = text.to_owned();
        return Ok(Probe {
            name,
            is_one_of_several: false,
            inlined: 0,
            selected_with: None,
            places,
            returns: false,
        });
    }
    if let (Some(problem), [_]) = (last_problem, named.as_slice()) {
        return Err(problem);
    }
    Err(missing_usdt(text, &format!("{provider}:{name}"), &named, has))
}

/// Explains that none of the files has a static tracepoint. `has` are those they have.
fn missing_usdt(text: &str, wanted: &str, files: &[PathBuf], mut has: Vec<String>) -> ProbeError {
    has.sort();
    has.dedup();
    let file = match files {
        [] => return form(text, "without a command and -p, name the file: FILE:PROVIDER:NAME"),
        [one] => one.display().to_string(),
        [first, ..] => format!("{} with the files it maps", first.display()),
    };
    has.truncate(12);
    let names = if has.is_empty() { "none".to_owned() } else { join_names(&has) };
    ProbeError::NoUsdt { file, wanted: wanted.to_owned(), has: format!("it has {names}") }
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

    fn nowhere() -> ProbeFiles<'static> {
        ProbeFiles { find: &|_| None, pids: &[] }
    }

    #[test]
    fn explains_invalid_probes() {
        let files = nowhere();
        let function = |text: &str| parse_function(text, &files).unwrap_err().to_string();
        let error = |result: Result<Probe, ProbeError>| result.unwrap_err().to_string();
        assert!(function("main").starts_with("main: give FILE:FUNCTION"));
        assert!(function("").contains("give FILE:FUNCTION"));
        assert_eq!(function("/none:main"), "/none: no such file, and no such program in PATH");
        assert!(function("/:main").contains("not a program"));
        assert!(error(parse_kernel_function("a b c d e f g h i j")).contains("C variables"));
        assert!(error(parse_kernel_function("../x")).contains("a function of the kernel"));
        assert!(error(find_usdt("x", &[], &files)).contains("PROVIDER:NAME"));
        assert!(error(find_usdt("a:b", &[], &files)).contains("name the file"));
        let nine = format!("f {}", "%sp ".repeat(9));
        assert!(error(parse_kernel_function(&nine)).contains("at most 8"));
    }

    #[test]
    fn finds_functions_of_programs_and_of_the_kernel() {
        let own = std::env::current_exe().unwrap();
        let text = format!("{}:main x=%sp", own.display());
        let probes = parse_function(&text, &nowhere()).unwrap();
        assert_eq!(probes.len(), 1);
        assert!(probes[0].returns);
        assert_eq!(probes[0].places[0].arguments[0].name, "x");
        let probe = parse_kernel_function("vfs_read+4").unwrap();
        assert_eq!(
            probe.places[0].location,
            ProbeLocation::Kernel { function: c"vfs_read".into(), offset: 4 }
        );
    }
}
