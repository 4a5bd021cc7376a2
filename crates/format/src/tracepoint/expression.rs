//! The expressions of `print fmt`, and the effect of their operators.

/// An expression over the fields of a record.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    Number(u64),
    Text(Vec<u8>),
    /// A field, by its index.
    Field(usize),
    /// A number truncated to this many bytes.
    Cast(usize, Box<Expression>),
    Unary(&'static str, Box<Expression>),
    Binary(&'static str, Box<Expression>, Box<Expression>),
    Choice(Box<Expression>, Box<Expression>, Box<Expression>),
    /// An element of an array: array, index.
    Element(Box<Expression>, Box<Expression>),
    /// The text of a dynamic field, by the field's index.
    Str(usize),
    /// The bytes of a dynamic field: index of the field, bytes per element.
    Dynamic(usize, usize),
    /// Length of a dynamic field in bytes.
    DynamicLen(usize),
    Bitmask(usize),
    Flags(Box<Expression>, Vec<u8>, Vec<(i64, Vec<u8>)>),
    Symbolic(Box<Expression>, Vec<(i64, Vec<u8>)>),
    /// Bytes in hexadecimal: buffer, number of bytes, separator.
    Hex(Box<Expression>, Box<Expression>, &'static str),
    /// A printed array: array, number of elements, bytes per element.
    Array(Box<Expression>, Box<Expression>, Box<Expression>),
}

/// Evaluates an expression without a record; `None` if it needs one, or isn't a number.
pub(super) fn evaluate_constant(expression: &Expression) -> Option<u64> {
    match expression {
        Expression::Number(number) => Some(*number),
        Expression::Cast(size, inner) => {
            evaluate_constant(inner).map(|value| truncate_number(value, *size))
        }
        Expression::Unary(sign, inner) => apply_unary(sign, evaluate_constant(inner)?),
        Expression::Binary(sign, left, right) => {
            Some(apply_binary(sign, evaluate_constant(left)?, evaluate_constant(right)?))
        }
        Expression::Choice(condition, yes, no) => {
            evaluate_constant(if evaluate_constant(condition)? != 0 { yes } else { no })
        }
        _ => None,
    }
}

/// Truncates a number to its lowest `size` bytes.
pub(super) fn truncate_number(value: u64, size: usize) -> u64 {
    if size >= 8 { value } else { value & ((1 << (8 * size)) - 1) }
}

pub(super) fn apply_unary(sign: &str, value: u64) -> Option<u64> {
    match sign {
        "!" => Some(u64::from(value == 0)),
        "~" => Some(!value),
        "-" => Some(value.wrapping_neg()),
        _ => None,
    }
}

/// Applies an operator to unsigned numbers, like libtraceevent. Dividing by 0 gives 0.
pub(super) fn apply_binary(sign: &str, left: u64, right: u64) -> u64 {
    match sign {
        "||" => u64::from(left != 0 || right != 0),
        "&&" => u64::from(left != 0 && right != 0),
        "|" => left | right,
        "^" => left ^ right,
        "&" => left & right,
        "==" => u64::from(left == right),
        "!=" => u64::from(left != right),
        "<" => u64::from(left < right),
        ">" => u64::from(left > right),
        "<=" => u64::from(left <= right),
        ">=" => u64::from(left >= right),
        "<<" => u32::try_from(right).ok().and_then(|right| left.checked_shl(right)).unwrap_or(0),
        ">>" => u32::try_from(right).ok().and_then(|right| left.checked_shr(right)).unwrap_or(0),
        "+" => left.wrapping_add(right),
        "-" => left.wrapping_sub(right),
        "*" => left.wrapping_mul(right),
        "/" => left.checked_div(right).unwrap_or(0),
        _ => left.checked_rem(right).unwrap_or(0),
    }
}
