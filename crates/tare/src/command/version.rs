//! `tare version`.

use std::io::Write;

use crate::Outcome;
use crate::cli::raw::VersionArgs;
use crate::exit::Exit;

pub(crate) fn run(raw: &VersionArgs) -> Outcome {
    let mut out = std::io::stdout().lock();
    writeln!(out, "tare version {}", env!("CARGO_PKG_VERSION"))?;
    if raw.build_options || raw.verbose > 0 {
        let options = [
            ("tls", cfg!(feature = "tls"), "debug files by https"),
            ("parquet", cfg!(feature = "parquet"), "tare export --format parquet"),
            ("pprof", cfg!(feature = "pprof"), "tare export --format pprof"),
            ("static", cfg!(target_feature = "crt-static"), "needs no shared library"),
            ("optimized", !cfg!(debug_assertions), "a release build"),
        ];
        for (name, is_on, use_case) in options {
            let state = if is_on { "on " } else { "OFF" };
            writeln!(out, "{name:>22}: [ {state} ]  # {use_case}")?;
        }
    }
    Ok(Exit::Success)
}
