//! `tare kallsyms`: where symbols of the kernel lie.

use std::io::Write;

use anyhow::Context;
use serde_json::{Value, json};
use tare_format::printable;

use crate::Outcome;
use crate::cli::raw::Kallsyms;
use crate::exit::{Exit, Refusal};

/// A line of `/proc/kallsyms`.
struct Line<'a> {
    address: u64,
    name: &'a str,
    module: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let (_, name) = (words.next()?, words.next()?);
        let module = words.next().and_then(|word| word.strip_prefix('[')?.strip_suffix(']'));
        Some(Self { address, name, module })
    }
}

pub(crate) fn run(raw: &Kallsyms) -> Outcome {
    let path = &raw.kallsyms;
    let text = std::fs::read(path).with_context(|| format!("{}", path.display()))?;
    let text = String::from_utf8_lossy(&text);
    let mut lines: Vec<Line<'_>> = text.lines().filter_map(Line::parse).collect();
    if lines.iter().all(|line| line.address == 0) {
        let message = format!(
            "{}: it shows no addresses (they are root's to see: sudo, or sysctl kernel.kptr_restrict=0)",
            path.display()
        );
        return Err(Refusal { exit: Exit::Failure, message }.into());
    }
    lines.sort_by_key(|line| line.address);
    let mut out = std::io::stdout().lock();
    let mut found = Vec::new();
    for symbol in &raw.symbols {
        let places: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].name == symbol).collect();
        if places.is_empty() && !raw.json {
            writeln!(out, "{}: not found", printable(symbol.as_bytes()))?;
        }
        for at in places {
            let Line { address, name, module } = lines[at];
            let end = lines[at..].iter().map(|line| line.address).find(|next| *next > address);
            let end = end.unwrap_or(address);
            if raw.json {
                found.push(document(name, module, (address, end)));
                continue;
            }
            let (name, module) = (printable(name.as_bytes()), module.unwrap_or("[kernel]"));
            let dso = if module == "[kernel]" { "[kernel.kallsyms]" } else { module };
            let range = format!("{address:#x}-{end:#x}");
            writeln!(
                out,
                "{name}: {} {} {range} ({range})",
                printable(module.as_bytes()),
                printable(dso.as_bytes())
            )?;
        }
    }
    if raw.json {
        let document = json!({ "version": 1, "symbols": found });
        tare_render::json_line(&mut out, &document)?;
    }
    Ok(Exit::Success)
}

fn document(name: &str, module: Option<&str>, (address, end): (u64, u64)) -> Value {
    let (address, end) = (format!("{address:#x}"), format!("{end:#x}"));
    json!({ "name": name, "module": module, "address": address, "end": end })
}
