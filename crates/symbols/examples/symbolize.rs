//! Names of addresses in a file, as `llvm-symbolizer` and `addr2line` print them: for each address
//! of standard input (hexadecimal, the file's own) its functions, the innermost first, each with
//! its place in the source, and an empty line.
//!
//! ```text
//! symbolize [--demangle] [--threads N] [--debug-dir FOLDER] FILE < addresses
//! ```

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;

use tare_symbols::{Dso, DsoAddress, DsoKind, DsoTable, Frames, SymbolOptions, Symbolizer};

/// Addresses whose frames are made text at a time.
const BLOCK: usize = 1 << 12;

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
    let mut out = std::io::stdout().lock();
    let mut texts = vec![String::new(); threads.get()];
    for from in (0..frames.len()).step_by(BLOCK * threads.get()) {
        // Each thread formats a block, and they are written one after the other.
        std::thread::scope(|scope| {
            let mut parts = texts.iter_mut().enumerate().map(|(number, text)| {
                let start = (from + number * BLOCK).min(frames.len());
                (text, start..(start + BLOCK).min(frames.len()))
            });
            let own = parts.next();
            for (text, places) in parts {
                let frames = &frames;
                scope.spawn(move || format_frames(frames, places, text));
            }
            own.into_iter().for_each(|(text, places)| format_frames(&frames, places, text));
        });
        texts.iter().try_for_each(|text| out.write_all(text.as_bytes()))?;
    }
    Ok(())
}

/// The frames of addresses, as text.
fn format_frames(frames: &Frames<'_>, places: Range<usize>, text: &mut String) {
    text.clear();
    for place in places {
        for frame in frames.get(place) {
            text.push_str(frame.name.unwrap_or("??"));
            let (file, line, column) =
                frame.location.map_or(("??", 0, 0), |at| (at.file, at.line, at.column));
            text.push('\n');
            text.push_str(file);
            // Writing to a string can't fail.
            let _ = writeln!(text, ":{line}:{column}");
        }
        text.push('\n');
    }
}
