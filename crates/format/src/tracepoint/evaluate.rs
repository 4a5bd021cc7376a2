//! Evaluates expressions on a record's bytes, to numbers and to texts.

use super::expression::{Expression, apply_binary, apply_unary, truncate_number};
use super::field::{Field, read_number};
use crate::bytes::{Endian, until_nul};

/// Looks up kernel addresses: symbols for `%pS`, and strings that a record only points to.
pub trait Names {
    /// Returns the name of the kernel symbol that contains an address, and the symbol's start.
    fn symbol(&mut self, address: u64) -> Option<(String, u64)>;

    /// Returns the constant string at a kernel address.
    fn text(&mut self, address: u64) -> Option<String>;
}

/// Finds nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNames;

impl Names for NoNames {
    fn symbol(&mut self, _address: u64) -> Option<(String, u64)> {
        None
    }

    fn text(&mut self, _address: u64) -> Option<String> {
        None
    }
}

/// A record's bytes and context.
pub(super) struct Raw<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) endian: Endian,
    pub(super) fields: &'a [Field],
    pub(super) names: &'a mut dyn Names,
}

impl Raw<'_> {
    pub(super) fn number(&self, expression: &Expression) -> u64 {
        match expression {
            Expression::Number(number) => *number,
            Expression::Field(field) => {
                self.fields.get(*field).map_or(0, |field| field.number(self.bytes, self.endian))
            }
            Expression::Cast(size, inner) => truncate_number(self.number(inner), *size),
            Expression::Unary("*", inner) => self.element(inner, 0),
            Expression::Unary(sign, inner) => apply_unary(sign, self.number(inner)).unwrap_or(0),
            Expression::Binary("&&", left, right) => {
                u64::from(self.number(left) != 0 && self.number(right) != 0)
            }
            Expression::Binary("||", left, right) => {
                u64::from(self.number(left) != 0 || self.number(right) != 0)
            }
            Expression::Binary(sign, left, right) => {
                apply_binary(sign, self.number(left), self.number(right))
            }
            Expression::Choice(condition, yes, no) => {
                self.number(if self.number(condition) != 0 { yes } else { no })
            }
            Expression::Element(array, index) => self.element(array, self.number(index)),
            Expression::DynamicLen(field) => self
                .fields
                .get(*field)
                .map_or(0, |field| field.place().range(self.bytes, self.endian).1 as u64),
            _ => 0,
        }
    }

    /// Returns an element of an array; 0 if there is no such element.
    fn element(&self, array: &Expression, index: u64) -> u64 {
        let (field, size) = match array {
            Expression::Field(field) => {
                (*field, self.fields.get(*field).map_or(1, Field::element_size))
            }
            Expression::Dynamic(field, size) => (*field, *size),
            _ => return 0,
        };
        let Some(field) = self.fields.get(field) else { return 0 };
        let bytes = field.bytes(self.bytes, self.endian);
        let at = usize::try_from(index).ok().and_then(|index| index.checked_mul(size));
        at.map_or(0, |at| read_number(bytes, at, size, self.endian))
    }

    /// Returns the bytes of a field that an expression names; none for other expressions.
    pub(super) fn buffer(&self, expression: &Expression) -> &[u8] {
        match expression {
            Expression::Field(field)
            | Expression::Dynamic(field, _)
            | Expression::Str(field)
            | Expression::Bitmask(field) => {
                self.fields.get(*field).map_or(&[], |field| field.bytes(self.bytes, self.endian))
            }
            Expression::Cast(_, inner) => self.buffer(inner),
            _ => &[],
        }
    }

    /// Appends the text for `%s`.
    pub(super) fn append_text(&mut self, expression: &Expression, out: &mut Vec<u8>) {
        match expression {
            Expression::Text(text) => out.extend_from_slice(text),
            Expression::Choice(condition, yes, no) => {
                self.append_text(if self.number(condition) != 0 { yes } else { no }, out);
            }
            Expression::Flags(value, between, pairs) => {
                append_flags(self.number(value), between, pairs, out);
            }
            Expression::Symbolic(value, pairs) => {
                let value = self.number(value);
                match pairs.iter().find(|(of, _)| of.cast_unsigned() == value) {
                    Some((_, name)) => out.extend_from_slice(name),
                    None => out.extend_from_slice(format!("0x{value:x}").as_bytes()),
                }
            }
            Expression::Hex(bytes, len, between) => {
                let len = usize::try_from(self.number(len)).unwrap_or(usize::MAX);
                let bytes = self.buffer(bytes);
                let digits: Vec<_> =
                    bytes.iter().take(len).map(|byte| format!("{byte:02x}")).collect();
                out.extend_from_slice(digits.join(between).as_bytes());
            }
            Expression::Array(array, len, size) => {
                self.append_array(array, self.number(len), self.number(size), out);
            }
            Expression::Bitmask(_) => append_bitmask(self.buffer(expression), self.endian, out),
            Expression::Field(field) => self.append_field_text(*field, out),
            Expression::Str(_) | Expression::Dynamic(..) => {
                out.extend_from_slice(until_nul(self.buffer(expression)));
            }
            _ => {
                let address = self.number(expression);
                out.extend_from_slice(format!("{address:x}").as_bytes());
            }
        }
    }

    fn append_array(&self, array: &Expression, len: u64, size: u64, out: &mut Vec<u8>) {
        let bytes = self.buffer(array);
        let size = usize::try_from(size).unwrap_or(1).clamp(1, 8);
        let elements = bytes.chunks_exact(size).take(usize::try_from(len).unwrap_or(usize::MAX));
        let texts: Vec<_> = elements
            .map(|element| format!("0x{:x}", read_number(element, 0, size, self.endian)))
            .collect();
        out.extend_from_slice(format!("{{{}}}", texts.join(",")).as_bytes());
    }

    /// Appends the text of a field: an array's own, or the text that a pointer of 8 bytes points
    /// to. If that text is unknown, appends the pointer in hexadecimal.
    fn append_field_text(&mut self, field: usize, out: &mut Vec<u8>) {
        let Some(field) = self.fields.get(field) else { return };
        if field.is_array || field.size != 8 {
            return out.extend_from_slice(until_nul(field.bytes(self.bytes, self.endian)));
        }
        let address = field.number(self.bytes, self.endian);
        match self.names.text(address) {
            Some(text) => out.extend_from_slice(text.as_bytes()),
            None => out.extend_from_slice(format!("{address:x}").as_bytes()),
        }
    }
}

/// Appends the names of set bits, and the other bits in hexadecimal.
fn append_flags(mut value: u64, between: &[u8], pairs: &[(i64, Vec<u8>)], out: &mut Vec<u8>) {
    let mut is_first = true;
    let mut add = |text: &[u8], out: &mut Vec<u8>| {
        out.extend_from_slice(if is_first { b"" } else { between });
        out.extend_from_slice(text);
        is_first = false;
    };
    for (mask, name) in pairs {
        let bits = mask.cast_unsigned();
        if value == 0 && *mask < 0 {
            return add(name, out);
        }
        if *mask > 0 && value & bits == bits {
            add(name, out);
            value &= !bits;
        }
    }
    if value != 0 {
        add(format!("0x{value:x}").as_bytes(), out);
    }
}

/// Appends a bitmask in groups of eight hexadecimal digits, the highest first, separated by commas.
fn append_bitmask(bytes: &[u8], endian: Endian, out: &mut Vec<u8>) {
    let mut words: Vec<_> =
        bytes.chunks(8).map(|word| read_number(word, 0, word.len(), endian)).collect();
    words.reverse();
    let groups = words
        .iter()
        .flat_map(|word| [word >> 32, word & 0xffff_ffff])
        .map(|group| format!("{group:08x}"));
    out.extend_from_slice(groups.collect::<Vec<_>>().join(",").as_bytes());
}
