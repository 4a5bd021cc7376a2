//! Lists what can be probed: functions and static tracepoints of a program's file, and functions of
//! the kernel.

use std::path::Path;

use serde::Serialize;
use tare_kernel::host::Host;
use tare_kernel::procfs;
use tare_symbols::FileFunction;

use super::{ProbeError, ProbeFiles, usdt};
use crate::functions::ProgramFile;
use crate::syntax::glob_matches;

/// A function or static tracepoint that can be probed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ProbePoint {
    /// The option of `tare trace` that probes it.
    pub option: &'static str,
    /// The option's value, without arguments.
    pub name: String,
}

/// Lists the points that a word selects: `FILE`, `FILE:PATTERN` or `kprobe:PATTERN`. `None` if the
/// word has another form. A pattern without `*`, `?` and `[` is a part of a name.
///
/// # Errors
/// Fails if the file can't be read, or isn't a program.
pub fn list_points(
    word: &str,
    files: &ProbeFiles<'_>,
) -> Result<Option<Vec<ProbePoint>>, ProbeError> {
    if let Some(pattern) = word.strip_prefix("kprobe:") {
        return Ok(Some(list_kernel_functions(pattern)));
    }
    if word.contains('/') && Path::new(word).is_file() {
        return list_file(word, "", files).map(Some);
    }
    match files.split(word)? {
        Some((file, pattern)) if Path::new(file).is_file() => {
            list_file(file, pattern, files).map(Some)
        }
        _ => Ok(None),
    }
}

fn is_selected(pattern: &str, name: &str) -> bool {
    if pattern.contains(['*', '?', '[']) {
        return glob_matches(pattern, name);
    }
    name.contains(pattern)
}

fn list_file(
    file: &str,
    pattern: &str,
    files: &ProbeFiles<'_>,
) -> Result<Vec<ProbePoint>, ProbeError> {
    let mut points = Vec::new();
    for path in files.find(file)? {
        let mut program = ProgramFile::open(&path)?;
        for name in program.functions()?.functions.iter().map(FileFunction::signature) {
            if is_selected(pattern, &name) {
                points.push(ProbePoint { option: "--probe", name: format!("{file}:{name}") });
            }
        }
        for one in usdt::read(&path)? {
            let name = format!("{}:{}", one.provider, one.name);
            if is_selected(pattern, &name) {
                points.push(ProbePoint { option: "--usdt", name: format!("{file}:{name}") });
            }
        }
    }
    points.sort();
    points.dedup();
    Ok(points)
}

fn list_kernel_functions(pattern: &str) -> Vec<ProbePoint> {
    let choose = |name: &[u8]| {
        let name = std::str::from_utf8(name).ok().filter(|name| is_selected(pattern, name))?;
        Some(ProbePoint { option: "--kprobe", name: name.to_owned() })
    };
    let found = procfs::kernel_functions(&Host::default(), choose);
    let mut points: Vec<_> = found.into_iter().map(|(_, point)| point).collect();
    points.sort();
    points.dedup();
    points
}
