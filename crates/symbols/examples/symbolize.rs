//! Prints the functions at addresses of a file, in the format of `llvm-symbolizer`: for each
//! address on standard input (hexadecimal, as linked) its functions, innermost first, each with its
//! source location; then an empty line.
//!
//! ```text
//! symbolize [--demangle] [--threads N] [--debug-dir FOLDER] FILE < addresses
//! ```

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write};
use std::num::{NonZeroUsize, ParseIntError};
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::mpsc::{channel, sync_channel};

use tare_symbols::{Dso, DsoAddress, DsoKind, DsoTable, ResolvedFrames, SymbolOptions, Symbolizer};

/// Addresses per block of formatted text.
const BLOCK: usize = 1 << 13;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = SymbolOptions { demangle: false, ..SymbolOptions::default() };
    let mut threads = NonZeroUsize::MIN;
    let mut file = None;
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
    // `File` reserves room for the whole file; `Stdin` doesn't.
    File::from(std::io::stdin().as_fd().try_clone_to_owned()?).read_to_string(&mut text)?;
    let place = |address| DsoAddress {
        dso,
        address: symbolizer.file_offset(&dsos, dso, address).unwrap_or(u64::MAX),
    };
    let addresses = parsed(&text, threads, place)?;
    let frames = symbolizer.frames(&dsos, &addresses, threads);
    write_frames(&frames, threads.get())?;
    // The end of the process frees all memory at once.
    std::mem::forget((frames, addresses, text));
    Ok(())
}

/// Parses a text of hexadecimal addresses with `threads` threads, and converts each with `place`.
fn parsed(
    text: &str,
    threads: NonZeroUsize,
    place: impl Fn(u64) -> DsoAddress + Copy + Send + Sync,
) -> Result<Vec<DsoAddress>, Box<dyn std::error::Error>> {
    let parse = move |text: &str| -> Result<Vec<DsoAddress>, ParseIntError> {
        // Enough room for addresses of three digits or more, each with a line end.
        let mut all = Vec::with_capacity(text.len() / 4);
        text.split_ascii_whitespace().try_for_each(|word| {
            let digits = word.strip_prefix("0x").unwrap_or(word);
            all.push(place(u64::from_str_radix(digits, 16)?));
            Ok(())
        })?;
        Ok(all)
    };
    std::thread::scope(|scope| {
        let mut parts = lines(text, threads.get()).into_iter();
        let own = parts.next().unwrap_or_default();
        let spawned: Vec<_> = parts.map(|part| scope.spawn(move || parse(part))).collect();
        let mut all = parse(own)?;
        for thread in spawned {
            all.extend(thread.join().map_err(|_| "a thread ended early")??);
        }
        Ok(all)
    })
}

/// Splits a text at line ends into this many parts; some may be empty.
fn lines(text: &str, parts: usize) -> Vec<&str> {
    let mut all = Vec::new();
    let mut rest = text;
    for left in (1..=parts).rev() {
        let at = rest.len() / left;
        let end = rest.as_bytes()[at..].iter().position(|byte| *byte == b'\n');
        let (part, behind) = rest.split_at(end.map_or(rest.len(), |end| at + end));
        all.push(part);
        rest = behind;
    }
    all
}

/// Writes the frames of all addresses. Each of N threads formats every Nth block: this one when it
/// writes the block, the others up to three blocks ahead. Written buffers are reused.
fn write_frames(frames: &ResolvedFrames<'_>, threads: usize) -> std::io::Result<()> {
    let places = |block: usize| block * BLOCK..((block + 1) * BLOCK).min(frames.len());
    let blocks = frames.len().div_ceil(BLOCK);
    let mut out = std::io::stdout().lock();
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|number| {
                let (texts, formatted) = sync_channel(2);
                let (back, written) = channel::<String>();
                scope.spawn(move || {
                    for block in (number..blocks).step_by(threads) {
                        let mut text = written.try_recv().unwrap_or_default();
                        format_frames(frames, places(block), &mut text);
                        if texts.send(text).is_err() {
                            break;
                        }
                    }
                });
                (formatted, back)
            })
            .collect();
        let mut own = String::new();
        for block in 0..blocks {
            let Some((formatted, back)) = (block % threads).checked_sub(1).map(|at| &others[at])
            else {
                format_frames(frames, places(block), &mut own);
                out.write_all(own.as_bytes())?;
                continue;
            };
            let text = formatted.recv().map_err(std::io::Error::other)?;
            out.write_all(text.as_bytes())?;
            // Sending fails if the thread has ended after its last block.
            let _ = back.send(text);
        }
        Ok(())
    })
}

/// Replaces a text by the frames of these addresses.
fn format_frames(frames: &ResolvedFrames<'_>, places: Range<usize>, text: &mut String) {
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
