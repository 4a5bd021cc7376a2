//! Names of addresses by the library `blazesym`, as `llvm-symbolizer` prints them:
//! `bench-blazesym FILE < addresses`.

use std::io::{BufWriter, Read, Write};

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Symbolized, Symbolizer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args_os().nth(1).ok_or("name a file")?;
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let address = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16);
    let addresses = text.split_ascii_whitespace().map(address).collect::<Result<Vec<_>, _>>()?;
    let symbolizer = Symbolizer::builder()
        .enable_code_info(true)
        .enable_inlined_fns(true)
        .enable_demangling(false)
        .build();
    let source = Source::Elf(Elf::new(&file));
    let found = symbolizer.symbolize(&source, Input::VirtOffset(&addresses))?;
    let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    for symbolized in found {
        if let Symbolized::Sym(symbol) = symbolized {
            for inlined in symbol.inlined.iter().rev() {
                frame(&mut out, &inlined.name, inlined.code_info.as_ref())?;
            }
            frame(&mut out, &symbol.name, symbol.code_info.as_deref())?;
        } else {
            frame(&mut out, "??", None)?;
        }
        writeln!(out)?;
    }
    Ok(out.flush()?)
}

fn frame(out: &mut impl Write, name: &str, at: Option<&CodeInfo<'_>>) -> std::io::Result<()> {
    match at {
        Some(at) => {
            let line = at.line.unwrap_or(0);
let column = at.column.unwrap_or(0);
            writeln!(out, "{name}\n{}:{line}:{column}", at.to_path().display())
        }
        None => writeln!(out, "{name}\n??:0:0"),
    }
}
