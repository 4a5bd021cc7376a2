//! The section `TRACING_DATA`: descriptions of tracepoints, and the kernel's names and constant
//! strings by address.
//!
//! ```text
//! 17 08 44 "tracing" | version \0 | byte order u8 | long size u8 | page size u32
//! "header_page" \0, size u64, text | "header_event" \0, size u64, text
//! count u32, (size u64, text) of ftrace | systems u32, (name \0, count u32, (size u64, text)...)
//! kallsyms: size u32, text | printk formats: size u32, text
//! from version 0.6 on: names of threads: size u64, text
//! ```
//! Source: `tools/perf/util/trace-event-info.c`, and `trace-cmd.dat.v6(5)`.

use std::collections::HashMap;

use super::Format;
use crate::bytes::{Cursor, Endian, until_nul};

/// Limit of tracepoint descriptions in a recording.
const MOST: usize = 1 << 14;

/// Why the section can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TracingDataError {
    /// It doesn't start with the magic number of tracing data, or its byte order is invalid.
    #[error("the tracing data doesn't start with its magic number")]
    NoTracingData,
    /// The section is truncated.
    #[error("the tracing data is truncated")]
    Cut,
}

/// The contents of the section that printing records needs: descriptions and constant strings.
#[derive(Clone, Debug)]
pub struct TracingData {
    formats: HashMap<u64, (String, Format)>,
    printk: HashMap<u64, String>,
    /// The byte order of raw samples.
    pub endian: Endian,
    /// Why the rest of the section could not be read.
    pub error: Option<TracingDataError>,
}

impl TracingData {
    /// Parses the section as far as possible.
    ///
    /// # Errors
    /// Fails with [`TracingDataError::NoTracingData`].
    pub fn parse(section: &[u8]) -> Result<Self, TracingDataError> {
        let rest =
            section.strip_prefix(b"\x17\x08\x44tracing").ok_or(TracingDataError::NoTracingData)?;
        let version = until_nul(rest);
        let endian = match rest.get(version.len() + 1) {
            Some(0) => Endian::Little,
            Some(1) => Endian::Big,
            _ => return Err(TracingDataError::NoTracingData),
        };
        let mut data =
            Self { formats: HashMap::new(), printk: HashMap::new(), endian, error: None };
        let mut fields = Cursor::new(rest.get(version.len() + 2..).unwrap_or_default(), endian);
        data.error = data.read(&mut fields).is_none().then_some(TracingDataError::Cut);
        Ok(data)
    }

    fn read(&mut self, fields: &mut Cursor<'_>) -> Option<()> {
        let _long_size = fields.u8()?;
        let _page_size = fields.u32()?;
        for _header in 0..2 {
            text_to_nul(fields)?;
            let size = fields.u64()?;
            fields.take(size)?;
        }
        let ftrace = fields.u32()?;
        self.read_formats(fields, ftrace, "ftrace")?;
        let systems = fields.u32()?;
        for _system in 0..systems {
            let name = String::from_utf8_lossy(text_to_nul(fields)?).into_owned();
            let count = fields.u32()?;
            self.read_formats(fields, count, &name)?;
        }
        let kallsyms = fields.u32()?;
        fields.take(kallsyms.into())?;
        let size = fields.u32()?;
        let printk = String::from_utf8_lossy(fields.take(size.into())?);
        self.printk = printk.lines().filter_map(printk_line).collect();
        Some(())
    }

    fn read_formats(&mut self, fields: &mut Cursor<'_>, count: u32, system: &str) -> Option<()> {
        for _format in 0..count {
            let size = fields.u64()?;
            let text = String::from_utf8_lossy(fields.take(size)?);
            if let Some(format) = Format::parse(&text).filter(|_| self.formats.len() < MOST) {
                self.formats.insert(format.id, (system.to_owned(), format));
            }
        }
        Some(())
    }

    /// Returns the description of a tracepoint by its id (`perf_event_attr.config`).
    #[must_use]
    pub fn format(&self, id: u64) -> Option<&Format> {
        self.formats.get(&id).map(|(_, format)| format)
    }

    /// Returns the name of a tracepoint by its id: `system:event`.
    #[must_use]
    pub fn name(&self, id: u64) -> Option<String> {
        self.formats.get(&id).map(|(system, format)| format!("{system}:{}", format.name))
    }

    /// Returns the constant string at an address of the recorded kernel.
    #[must_use]
    pub fn printk(&self, address: u64) -> Option<&str> {
        self.printk.get(&address).map(String::as_str)
    }
}

fn text_to_nul<'a>(fields: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let text = fields.text();
    fields.take(text.len() as u64 + 1)?;
    Some(text)
}

/// Parses `0xffffffff82a1b2c3 : "text\n"`.
fn printk_line(line: &str) -> Option<(u64, String)> {
    let (address, text) = line.split_once(" : ")?;
    let address = u64::from_str_radix(address.trim().trim_start_matches("0x"), 16).ok()?;
    let text = text.trim().strip_prefix('"')?.strip_suffix('"')?;
    Some((address, text.trim_end_matches("\\n").to_owned()))
}
