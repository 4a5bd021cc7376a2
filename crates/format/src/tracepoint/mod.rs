//! Decodes the raw bytes of tracepoints by their descriptions in tracefs
//! (`events/SYSTEM/EVENT/format`).
//!
//! ```text
//! format text -> Format: fields, and the expression tree of `print fmt`
//! Format + raw bytes -> text, as perf prints it
//! ```
//! Texts and bytes come from a recording and are untrusted: tokens, fields, nesting and widths are
//! limited. Source of the grammar: the kernel's `Documentation/trace/events.rst` and
//! `include/trace/stages/`.

mod data;
mod evaluate;
mod expression;
mod field;
mod lexer;
mod parser;
mod printf;

pub use data::{TracingData, TracingDataError};
pub use evaluate::{Names, NoNames};
pub use field::{Field, FieldPlace};

use crate::bytes::Endian;
use printf::Directive;

/// A tracepoint's description.
#[derive(Clone, Debug)]
pub struct Format {
    /// The event's name.
    pub name: String,
    /// `perf_event_attr.config`, and the field `common_type` of each sample.
    pub id: u64,
    /// The fields, beginning with those common to all tracepoints.
    pub fields: Vec<Field>,
    /// `None` if `print fmt` is missing or wasn't understood. The fields are then printed one by
    /// one.
    print: Option<Vec<Directive>>,
}

impl Format {
    /// Parses a format description; `None` if its name or its id is missing or malformed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
        let fields: Vec<_> = text.lines().filter_map(Field::parse).take(field::MOST).collect();
        let print =
            line("print fmt: ").and_then(|expression| parser::parse_print(expression, &fields));
        Some(Self {
            name: line("name: ")?.trim().to_owned(),
            id: line("ID: ")?.trim().parse().ok()?,
            fields,
            print,
        })
    }

    /// Whether the expression `print fmt` was understood.
    #[must_use]
    pub fn has_print(&self) -> bool {
        self.print.is_some()
    }

    /// Appends a sample's raw data as text. The text is untrusted.
    pub fn print(&self, raw: &[u8], endian: Endian, names: &mut dyn Names, out: &mut Vec<u8>) {
        let mut bytes = evaluate::Raw { bytes: raw, endian, fields: &self.fields, names };
        match &self.print {
            Some(directives) => printf::print(directives, &mut bytes, out),
            None => {
                out.extend_from_slice(b"[FAILED TO PARSE]");
                self.print_fields(raw, endian, out);
            }
        }
    }

    /// Appends the tracepoint's own fields, each as ` name=value`. The text is untrusted.
    pub fn print_fields(&self, raw: &[u8], endian: Endian, out: &mut Vec<u8>) {
        let own = self.fields.iter().filter(|field| !field.is_common());
        own.for_each(|field| field.print(raw, endian, out));
    }
}

#[cfg(test)]
mod tests;
