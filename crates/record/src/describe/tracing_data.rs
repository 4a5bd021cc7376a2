//! The formats of the recorded tracepoints, for readers on other machines.
//!
//! ```text
//! 23 8 68 "tracing" "0.6\0" | endian u8 | bytes of a long u8 | bytes of a page u32
//! "header_page\0" size u64, text | "header_event\0" size u64, text
//! formats of ftrace: count u32, (size u64, text) ...
//! systems: count u32, ("sched\0", count u32, (size u64, text) ...) ...
//! symbols: size u32, text | printk formats: size u32, text | names of processes: size u64, text
//! ```
//! Source: `Documentation/trace-cmd/trace-cmd.dat.v6.5.txt` of trace-cmd, which has the same
//! beginning, and `tools/perf/util/trace-event-read.c`.

use std::collections::BTreeMap;

use tare_format::Endian;
use tare_kernel::host::Host;
use tare_kernel::tracefs::{Tracefs, TracefsError};

const MAGIC: [u8; 10] = *b"\x17\x08\x44tracing";
const VERSION: &[u8] = b"0.6\0";

/// The system whose formats are listed separately.
const FTRACE: &str = "ftrace";

/// Returns the data from which readers decode these tracepoints, named by system and event; `None`
/// without tracepoints. A repeated tracepoint is described once.
///
/// # Errors
/// See [`TracefsError`]. Missing printk formats or process names are no error: they are optional.
pub fn tracing_data<'a>(
    host: &Host,
    tracepoints: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Option<Vec<u8>>, TracefsError> {
    let mut systems = BTreeMap::<&str, BTreeMap<&str, Vec<u8>>>::new();
    let mut tracefs = None;
    for (system, event) in tracepoints {
        let tracefs = match &tracefs {
            Some(found) => found,
            None => tracefs.insert(Tracefs::find(host)?),
        };
        let formats = systems.entry(system).or_default();
        if !formats.contains_key(event) {
            formats.insert(event, tracefs.format(system, event)?);
        }
    }
    let Some(tracefs) = tracefs else { return Ok(None) };
    let mut into = beginning();
    for name in ["header_page", "header_event"] {
        text(&mut into, name);
        long_text(&mut into, &tracefs.file(&format!("events/{name}"))?);
    }
    formats(&mut into, &systems.remove(FTRACE).unwrap_or_default());
    into.extend(number(systems.len()));
    for (system, events) in &systems {
        text(&mut into, system);
        formats(&mut into, events);
    }
    // The kernel's symbols. perf writes none either, and finds them by itself.
    into.extend(number(0));
    let printk_formats = tracefs.file("printk_formats").unwrap_or_default();
    into.extend(number(printk_formats.len()));
    into.extend(printk_formats);
    long_text(&mut into, &tracefs.file("saved_cmdlines").unwrap_or_default());
    Ok(Some(into))
}

fn beginning() -> Vec<u8> {
    let mut into = [&MAGIC[..], VERSION].concat();
    into.push(u8::from(Endian::NATIVE == Endian::Big));
    // At most 8.
    into.push(u8::try_from(size_of::<usize>()).unwrap_or(8));
    into.extend(number(rustix::param::page_size()));
    into
}

fn formats(into: &mut Vec<u8>, formats: &BTreeMap<&str, Vec<u8>>) {
    into.extend(number(formats.len()));
    formats.values().for_each(|format| long_text(into, format));
}

/// Encodes a size or a count. The kernel's files of this kind are far below 4 GiB.
fn number(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_ne_bytes()
}

fn text(into: &mut Vec<u8>, text: &str) {
    into.extend(text.as_bytes());
    into.push(0);
}

fn long_text(into: &mut Vec<u8>, text: &[u8]) {
    into.extend((text.len() as u64).to_ne_bytes());
    into.extend(text);
}
