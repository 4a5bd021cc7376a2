//! Lists what the rules of STYLE.md find, or counts it: `cargo run -p tare-tidy -- [--count] [FOLDER]`.
#![allow(clippy::print_stdout, reason = "a program")]

use tare_tidy::{files, functions, syntax};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let count = args.first().is_some_and(|arg| arg == "--count");
    if count {
        args.remove(0);
    }
    let folder = args.pop().unwrap_or_default();
    let files = files()?;
    let findings = syntax::check(&files)?;
    for (rule, found) in findings.rules() {
        let found: Vec<_> =
            found.iter().filter(|finding| finding.path.starts_with(&folder)).collect();
        println!("{rule}: {}", found.len());
        for finding in found.iter().filter(|_| !count) {
            println!("  {finding}");
        }
    }
    let rust =
        files.iter().filter(|file| file.path.ends_with(".rs") && file.path.starts_with(&folder));
    let mut long: Vec<String> = Vec::new();
    let mut longest = 0;
    for file in rust {
        for (name, line, lines) in functions(&file.text) {
            longest = longest.max(lines);
            if lines > 60 {
                long.push(format!("  {}:{line}: {name} has {lines} lines", file.path));
            }
        }
    }
    println!("functions over 60 lines: {} (longest: {longest})", long.len());
    for line in long {
        println!("{line}");
    }
    Ok(())
}
