//! `tare kallsyms`: looks up kernel symbols.

use std::io::Write;

use anyhow::Context;
use rustix::process::geteuid;
use serde_json::{Value, json};
use tare_format::printable;
use tare_symbols::KallsymsLine;

use crate::Outcome;
use crate::cli::raw::KallsymsArgs;
use crate::exit::{Exit, Refusal};

pub(crate) fn run(raw: &KallsymsArgs) -> Outcome {
    let path = &raw.kallsyms;
    let text = std::fs::read(path).with_context(|| format!("{}", path.display()))?;
    let mut lines: Vec<_> =
        text.split(|byte| *byte == b'\n').filter_map(KallsymsLine::parse).collect();
    if lines.iter().all(|line| line.address == 0) {
        let message = format!(
            "{}: all addresses are hidden; {}`sudo sysctl kernel.kptr_restrict=0`",
            path.display(),
            if geteuid().is_root() { "" } else { "run tare as root, or " }
        );
        return Err(Refusal { exit: Exit::Failure, message }.into());
    }
    lines.sort_by_key(|line| line.address);
    let mut out = std::io::stdout().lock();
    let mut found = Vec::new();
    for symbol in &raw.symbols {
        let places: Vec<usize> =
            (0..lines.len()).filter(|at| lines[*at].name == symbol.as_bytes()).collect();
        if places.is_empty() && !raw.json.json {
            writeln!(out, "{}: not found", printable(symbol.as_bytes()))?;
        }
        for at in places {
            let KallsymsLine { address, name, module, .. } = lines[at];
            let end = lines[at..].iter().map(|line| line.address).find(|next| *next > address);
            let end = end.unwrap_or(address);
            if raw.json.json {
                found.push(document(name, module, address, end));
                continue;
            }
            let name = printable(name);
            let dso = module.unwrap_or(b"[kernel.kallsyms]");
            let module = module.unwrap_or(b"[kernel]");
            let range = format!("{address:#x}-{end:#x}");
            writeln!(out, "{name}: {} {} {range} ({range})", printable(module), printable(dso))?;
        }
    }
    if raw.json.json {
        let document = json!({ "version": 1, "symbols": found });
        tare_render::json_line(&mut out, &document)?;
    }
    Ok(Exit::Success)
}

fn document(name: &[u8], module: Option<&[u8]>, address: u64, end: u64) -> Value {
    let address = format!("{address:#x}");
    let end = format!("{end:#x}");
    let name = String::from_utf8_lossy(name);
    let module = module.map(String::from_utf8_lossy);
    json!({ "name": name, "module": module, "address": address, "end": end })
}
