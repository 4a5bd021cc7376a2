//! Field offsets of the tracepoints of a recording, or of opened events.

use tare_format::Endian;
use tare_format::abi::bindings::PERF_TYPE_TRACEPOINT;
use tare_format::file::{Description, features};
use tare_format::tracepoint::{FieldPlace, Format, TracingData};

/// Reads a field of a tracepoint's raw data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldBytes(FieldPlace);

impl FieldBytes {
    /// Finds a field by name.
    pub(crate) fn find(name: &str, format: &Format) -> Option<Self> {
        let field = format.fields.iter().find(|field| field.name == name)?;
        Some(Self(field.place()))
    }

    /// Returns the field up to its NUL byte; of a dynamic one (`__data_loc`), the text that it
    /// refers to.
    pub(crate) fn text<'a>(&self, raw: &'a [u8], endian: Endian) -> &'a [u8] {
        let bytes = self.0.bytes(raw, endian);
        &bytes[..bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len())]
    }

    /// Reads a field of four bytes, or the lower half of one of eight; 0 for other sizes.
    pub(crate) fn number(&self, raw: &[u8], endian: Endian) -> i32 {
        let word = match *self.0.bytes(raw, endian) {
            [a, b, c, d] => endian.u32([a, b, c, d]),
            [a, b, c, d, e, f, g, h] => {
                u32::try_from(endian.u64([a, b, c, d, e, f, g, h]) & 0xffff_ffff).unwrap_or(0)
            }
            _ => 0,
        };
        word.cast_signed()
    }

    /// Reads a field of eight bytes, or of four; 0 for other sizes.
    pub(crate) fn long(&self, raw: &[u8], endian: Endian) -> u64 {
        match *self.0.bytes(raw, endian) {
            [a, b, c, d, e, f, g, h] => endian.u64([a, b, c, d, e, f, g, h]),
            _ => self.number(raw, endian).cast_unsigned().into(),
        }
    }
}

/// The fields that a caller reads, by event number.
#[derive(Debug)]
pub(crate) struct EventFields<F> {
    fields: Vec<Option<F>>,
    endian: Option<Endian>,
    /// Ids of the tracepoints so far: of two events with one id, the first counts.
    seen: Vec<u64>,
}

impl<F> Default for EventFields<F> {
    fn default() -> Self {
        Self { fields: Vec::new(), endian: None, seen: Vec::new() }
    }
}

impl<F> EventFields<F> {
    /// Adds the events that are new in the description. `select` returns the fields to read of a
    /// tracepoint named `system:name`.
    pub(crate) fn learn(
        &mut self,
        description: &Description,
        select: impl Fn(&str, &Format) -> Option<F>,
    ) {
        if self.fields.len() == description.events().len() && !self.fields.is_empty() {
            return;
        }
        let section = description.features().section(features::TRACING_DATA);
        let Some(data) = section.and_then(|section| TracingData::parse(section).ok()) else {
            return;
        };
        self.endian = Some(data.endian);
        for event in description.events().iter().skip(self.fields.len()) {
            let id = event.attr.config;
            let is_tracepoint = event.attr.kind == PERF_TYPE_TRACEPOINT;
            let is_new = is_tracepoint && !self.seen.contains(&id);
            let fields = || select(&data.name(id)?, data.format(id)?);
            let fields = is_new.then(fields).flatten();
            self.seen.extend(Some(id).filter(|_| is_tracepoint));
            self.fields.push(fields);
        }
    }

    /// Adds an opened event, with the next number.
    pub(crate) fn push(&mut self, fields: Option<F>) {
        self.endian = Some(Endian::NATIVE);
        self.fields.push(fields);
    }

    /// Whether `fits` holds for the fields of any event.
    pub(crate) fn has_any(&self, fits: impl Fn(&F) -> bool) -> bool {
        self.fields.iter().flatten().any(fits)
    }

    /// Returns the fields of an event, and the byte order.
    pub(crate) fn get(&self, event: usize) -> Option<(&F, Endian)> {
        self.fields.get(event)?.as_ref().zip(self.endian)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_text_is_where_its_field_refers_to() {
        let field = |declaration: &str| {
            let format = "name: moved\nID: 1\nformat:\n";
            let line = format!("\tfield:{declaration}\tsigned:0;\n\nprint fmt: \"\"\n");
            let format = Format::parse(&format!("{format}{line}")).unwrap();
            FieldBytes::find("comm", &format).unwrap()
        };
        let text = field("__data_loc char[] comm;\toffset:8;\tsize:4;");
        let mut raw = vec![0; 12];
        raw[8..].copy_from_slice(&(16_u32 | 5 << 16).to_le_bytes());
        raw.extend_from_slice(b"....comm\0.");
        assert_eq!(text.text(&raw, Endian::Little), b"comm");
        let relative = field("__rel_loc char[] comm;\toffset:8;\tsize:4;");
        assert_eq!(relative.text(&raw, Endian::Little), b"", "beyond the record");
        let inline = field("char comm[4];\toffset:16;\tsize:4;");
        assert_eq!(inline.text(&raw, Endian::Little), b"comm");
    }
}
