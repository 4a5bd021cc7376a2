//! Names of addresses in a file, as `llvm-symbolizer` and `addr2line` print them: for each address
//! of standard input (hexadecimal, the file's own) its functions, the innermost first, each with
//! its place in the source, and an empty line.
//!
//! ```text
//! symbolize [--demangle] [--threads N] [--debug-dir FOLDER] FILE < addresses
//! ```

use std::io::{BufWriter, Read, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use tare_symbols::{Dso, DsoAddress, DsoKind, DsoTable, SymbolOptions, Symbolizer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = SymbolOptions { demangle: false, ..SymbolOptions::default() };
    let (mut threads, mut file) = (NonZeroUsize::MIN, None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or("an option wants a value");
        match arg.as_str() {
            "--demangle" => options.demangle = true,
            "--threads" => threads = value()?.parse()?,
            "--debug-dir" => options.debug_dirs.push(PathBuf::from(value()?)),
            _ => file = Some(std::fs::canonicalize(arg)?),
        }
    }
    let file = file.ok_or("name a file")?;
    let mut dsos = DsoTable::default();
    let name = file.into_os_string().into_encoded_bytes();
    let dso = dsos.intern(Dso { kind: DsoKind::Elf, name, build_id: None });
    let dso = dso.ok_or("one file is not too many")?;
    let symbolizer = Symbolizer::new(options);
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let mut addresses = Vec::new();
    for word in text.split_ascii_whitespace() {
        let address = u64::from_str_radix(word.trim_start_matches("0x"), 16)?;
        let address = symbolizer.file_offset(&dsos, dso, address).unwrap_or(u64::MAX);
        addresses.push(DsoAddress { dso, address });
    }
    let frames = symbolizer.frames(&dsos, &addresses, threads);
    let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    for place in 0..frames.len() {
        for frame in frames.get(place) {
            let name = frame.name.unwrap_or("??");
            match frame.location {
                Some(at) => writeln!(out, "{name}\n{}:{}:{}", at.file, at.line, at.column)?,
                None => writeln!(out, "{name}\n??:0:0")?,
            }
        }
        writeln!(out)?;
    }
    Ok(out.flush()?)
}
