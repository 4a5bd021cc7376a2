//! `-D`: the raw and decoded records of a recording, as in `perf script -D`.

use std::io::{self, Write};

use tare_format::file::Entry;
use tare_format::record::{Layout, RawRecord, RecordHeader, Sample, kind};
use tare_format::{Endian, Words};

use super::record::record;

/// Bytes per line.
const LINE_BYTES: usize = 16;

/// Writes a record of the recording with this name.
///
/// # Errors
/// Fails if `out` can't be written.
pub fn dump(out: &mut dyn Write, entry: &Entry<'_>, name: &str) -> io::Result<()> {
    let Entry { offset, record: raw, description, .. } = entry;
    let size = RecordHeader::SIZE + raw.body.len();
    writeln!(out, "\n{offset:#x}@{name} [{size:#x}]: event: {}\n.", raw.kind)?;
    writeln!(out, ". ... raw event: size {size} bytes")?;
    write_bytes(out, raw)?;
    let lookup = description.lookup();
    let id = lookup.index_of(raw).and_then(|event| lookup.layouts().get(event));
    let id = id.map(|layout| layout.sample_id(raw)).unwrap_or_default();
    let time = lookup.time_ns(raw).map_or_else(|| "0".to_owned(), |ns| ns.to_string());
    let cpu = sample_cpu(raw, lookup.layout_of(raw)).or(id.cpu);
    let cpu = cpu.map(|cpu| format!("{cpu} ")).unwrap_or_default();
    write!(out, "\n{cpu}{time} {offset:#x} [{size:#x}]: ")?;
    if raw.kind == kind::PERF_RECORD_SAMPLE {
        return write_sample(out, raw, lookup.layout_of(raw));
    }
    let mut text = Vec::new();
    match raw.decode() {
        Ok(fields) => record(&mut text, raw, &fields),
        Err(error) => writeln!(text, "PERF_RECORD_{}: {error}", kind_name(raw.kind))?,
    }
    out.write_all(&text)
}

fn kind_name(kind: u32) -> &'static str {
    kind::name(kind).unwrap_or("UNKNOWN")
}

fn sample_cpu(raw: &RawRecord<'_>, layout: Option<&Layout>) -> Option<u32> {
    if raw.kind != kind::PERF_RECORD_SAMPLE {
        return None;
    }
    Sample::decode_front(raw, layout?).ok()?.head.cpu
}

/// Writes the record's bytes in hexadecimal and as letters.
fn write_bytes(out: &mut dyn Write, raw: &RawRecord<'_>) -> io::Result<()> {
    let size = u16::try_from(RecordHeader::SIZE + raw.body.len()).unwrap_or(u16::MAX);
    let mut all = RecordHeader { kind: raw.kind, misc: raw.misc, size }.encode().to_vec();
    if raw.endian != Endian::NATIVE {
        [0..4, 4..6, 6..8].into_iter().for_each(|field| all[field].reverse());
    }
    all.extend_from_slice(raw.body);
    for (number, line) in all.chunks(LINE_BYTES).enumerate() {
        let digits: String = line.iter().map(|byte| format!("{byte:02x} ")).collect();
        let letter = |byte: &u8| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '.' };
        let letters: String = line.iter().map(letter).collect();
        writeln!(out, ".  {:04x}:  {digits:<48} {letters:<16}", number * LINE_BYTES)?;
    }
    Ok(())
}

fn write_sample(
    out: &mut dyn Write,
    raw: &RawRecord<'_>,
    layout: Option<&Layout>,
) -> io::Result<()> {
    write!(out, "PERF_RECORD_SAMPLE(IP, {:#x}): ", raw.misc)?;
    let decoded = layout.map(|layout| Sample::decode(raw, layout));
    let Some(Ok(sample)) = decoded else {
        return writeln!(out, "the sample belongs to no event, or ends within its fields");
    };
    let head = &sample.head;
    let pid = head.pid.unwrap_or(-1);
    let tid = head.tid.unwrap_or(-1);
    let ip = head.ip.unwrap_or(0);
    let period = head.period.unwrap_or(0);
    let addr = head.addr.unwrap_or(0);
    writeln!(out, "{pid}/{tid}: {} period: {period} addr: {}", c_hex(ip), c_hex(addr))?;
    if let Some(chain) = sample.callchain {
        write_words(out, "FP chain", chain)?;
    }
    if let Some(branches) = &sample.branches {
        writeln!(out, "... branch stack: nr:{}", branches.iter().count())?;
        for (number, branch) in branches.iter().enumerate() {
            let from = branch.from;
            let to = branch.to;
            let cycles = branch.cycles;
            writeln!(out, "..... {number:2}: {from:016x} -> {to:016x} {cycles} cycles")?;
        }
    }
    if let Some(stack) = &sample.stack_user {
        writeln!(out, "... ustack: size {}, room {}", stack.bytes.len(), stack.room)?;
    }
    sample.weight.map_or(Ok(()), |weight| writeln!(out, "... weight: {weight}"))?;
    let source = sample.data_src;
    source.map_or(Ok(()), |source| writeln!(out, " . data_src: {}", c_hex(source)))
}

fn write_words(out: &mut dyn Write, title: &str, words: Words<'_>) -> io::Result<()> {
    writeln!(out, "... {title}: nr:{}", words.iter().count())?;
    for (number, word) in words.iter().enumerate() {
        writeln!(out, "..... {number:2}: {word:016x}")?;
    }
    Ok(())
}

/// Formats a number as C's `%#x` does, which prints 0 as `0`.
fn c_hex(number: u64) -> String {
    if number == 0 { "0".to_owned() } else { format!("{number:#x}") }
}
