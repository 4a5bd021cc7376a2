//! Field offsets of the tracepoints of a recording, or of opened events.

use tare_format::Endian;
use tare_format::abi::bindings::PERF_TYPE_TRACEPOINT;
use tare_format::file::{Description, features};
use tare_format::tracepoint::{Format, TracingData};

/// The position of a field in a tracepoint's raw data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldBytes {
    offset: usize,
    size: usize,
    /// See [`tare_format::tracepoint::Field::dynamic_base`].
    dynamic_base: Option<usize>,
}

impl FieldBytes {
    /// Finds a field by name.
    pub(crate) fn find(name: &str, format: &Format) -> Option<Self> {
        let field = format.fields.iter().find(|field| field.name == name)?;
        let dynamic_base = field.dynamic_base();
        Some(Self { offset: field.offset, size: field.size, dynamic_base })
    }

    fn bytes<'a>(&self, raw: &'a [u8]) -> &'a [u8] {
        let rest = raw.get(self.offset..).unwrap_or_default();
        &rest[..self.size.min(rest.len())]
    }

    /// Returns the field up to its NUL byte; of a dynamic one (`__data_loc`), the text that it
    /// refers to.
    pub(crate) fn text<'a>(&self, raw: &'a [u8], endian: Endian) -> &'a [u8] {
        let mut bytes = self.bytes(raw);
        if let Some(base) = self.dynamic_base {
            let word = self.number(raw, endian).cast_unsigned();
            let rest = raw.get(base.saturating_add((word & 0xffff) as usize)..).unwrap_or_default();
            bytes = &rest[..rest.len().min((word >> 16) as usize)];
        }
        &bytes[..bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len())]
    }

    /// Reads a field of four bytes, or the lower half of one of eight; 0 for other sizes.
    pub(crate) fn number(&self, raw: &[u8], endian: Endian) -> i32 {
        let word = match *self.bytes(raw) {
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
        match *self.bytes(raw) {
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
        let text = FieldBytes { offset: 8, size: 4, dynamic_base: Some(0) };
        let mut raw = vec![0; 12];
        raw[8..].copy_from_slice(&(16_u32 | 5 << 16).to_le_bytes());
        raw.extend_from_slice(b"....comm\0.");
        assert_eq!(text.text(&raw, Endian::Little), b"comm");
        let relative = FieldBytes { dynamic_base: Some(12), ..text };
        assert_eq!(relative.text(&raw, Endian::Little), b"", "beyond the record");
        let inline = FieldBytes { offset: 16, size: 4, dynamic_base: None };
        assert_eq!(inline.text(&raw, Endian::Little), b"comm");
    }
}
