//! `tare version`.

use std::io::Write;

use serde_json::json;

use crate::Outcome;
use crate::cli::raw::VersionArgs;
use crate::exit::Exit;

/// Version of the JSON document.
const DOCUMENT_VERSION: u32 = 1;

/// The build options: name, whether this build has it, and its use.
const OPTIONS: [(&str, bool, &str); 7] = [
    ("tls", cfg!(feature = "tls"), "debug files by https"),
    ("parquet", cfg!(feature = "parquet"), "tare export --format parquet"),
    ("pprof", cfg!(feature = "pprof"), "tare export --format pprof"),
    ("agent", cfg!(feature = "agent"), "tare agent, store and fleet"),
    ("push", cfg!(feature = "push"), "tare agent --push"),
    ("static", cfg!(target_feature = "crt-static"), "needs no shared library"),
    ("optimized", !cfg!(debug_assertions), "a release build"),
];

pub(crate) fn run(raw: &VersionArgs) -> Outcome {
    let mut out = std::io::stdout().lock();
    if raw.json.json {
        let options = OPTIONS.map(|(name, is_on, _)| (name.to_owned(), json!(is_on)));
        let document = json!({
            "version": DOCUMENT_VERSION,
            "tare": env!("CARGO_PKG_VERSION"),
            "architecture": std::env::consts::ARCH,
            "options": serde_json::Map::from_iter(options),
        });
        writeln!(out, "{document:#}")?;
        return Ok(Exit::Success);
    }
    writeln!(out, "tare version {}", env!("CARGO_PKG_VERSION"))?;
    if raw.build_options || raw.verbose > 0 {
        for (name, is_on, use_case) in OPTIONS {
            let state = if is_on { "on " } else { "OFF" };
            writeln!(out, "{name:>22}: [ {state} ]  # {use_case}")?;
        }
    }
    Ok(Exit::Success)
}
