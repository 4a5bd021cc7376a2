//! Lists the places that break a rule of STYLE.md: `cargo run -p tare-tidy -- [--count] [FOLDER]`.
#![allow(clippy::print_stdout, reason = "a program")]

use tare_tidy::{files, rules};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let only_count = args.first().is_some_and(|arg| arg == "--count");
    if only_count {
        args.remove(0);
    }
    let folder = args.pop().unwrap_or_default();
    for rule in rules::check(&files()?)? {
        let below = rule.findings.iter().filter(|finding| finding.path.starts_with(&folder));
        let findings: Vec<_> = below.collect();
        println!("{}: {}", rule.name, findings.len());
        for finding in findings.iter().filter(|_| !only_count) {
            println!("  {finding}");
        }
    }
    Ok(())
}
