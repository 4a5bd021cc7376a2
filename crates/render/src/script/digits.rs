//! Fast formatting of numbers and names: `tare script` spends most of its time on formatting.

use tare_format::printable;

/// Appends a number, padded with `fill` to `width` on the left.
pub fn decimal(text: &mut Vec<u8>, mut number: u64, width: usize, fill: u8) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    padded(text, &digits[at..], width, fill);
}

/// Appends a number that can be negative, padded with spaces.
pub fn signed(text: &mut Vec<u8>, number: i32, width: usize) {
    if number < 0 {
        padded(text, number.to_string().as_bytes(), width, b' ');
    } else {
        decimal(text, number.unsigned_abs().into(), width, b' ');
    }
}

/// Appends a number in hexadecimal digits, padded with spaces.
pub fn hex(text: &mut Vec<u8>, number: u64, width: usize) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let len = (64 - number.leading_zeros()).div_ceil(4).max(1);
    let mut digits = [0; 16];
    for (at, digit) in digits.iter_mut().take(len as usize).enumerate() {
        *digit = DIGITS[(number >> (4 * (len as usize - 1 - at)) & 15) as usize];
    }
    padded(text, &digits[..len as usize], width, b' ');
}

/// Appends bytes, padded with `fill` to `width` on the left.
pub fn padded(text: &mut Vec<u8>, bytes: &[u8], width: usize, fill: u8) {
    text.extend(std::iter::repeat_n(fill, width.saturating_sub(bytes.len())));
    text.extend_from_slice(bytes);
}

/// Appends an untrusted name, made [`printable`]; bytes that aren't UTF-8 become `\xNN`.
pub fn name(text: &mut Vec<u8>, name: &[u8]) {
    if name.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return text.extend_from_slice(name);
    }
    for chunk in name.utf8_chunks() {
        text.extend_from_slice(printable(chunk.valid()).as_bytes());
        for byte in chunk.invalid() {
            text.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        }
    }
}

/// Appends a line of a source file, made printable except for its tabs.
pub fn name_with_tabs(text: &mut Vec<u8>, line: &[u8]) {
    for (at, part) in line.split(|byte| *byte == b'\t').enumerate() {
        if at > 0 {
            text.push(b'\t');
        }
        name(text, part);
    }
}

/// Appends a name, padded with spaces to `width` on the left.
pub fn padded_name(text: &mut Vec<u8>, bytes: &[u8], width: usize) {
    text.extend(std::iter::repeat_n(b' ', width.saturating_sub(bytes.len())));
    name(text, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut text = Vec::new();
        write(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn formats_numbers_as_the_standard_library_does() {
        for number in [0, 7, 10, 99, 4096, 1 << 40, u64::MAX] {
            assert_eq!(text(|text| decimal(text, number, 12, b' ')), format!("{number:12}"));
            assert_eq!(text(|text| decimal(text, number, 6, b'0')), format!("{number:06}"));
            assert_eq!(text(|text| hex(text, number, 16)), format!("{number:16x}"));
        }
        assert_eq!(text(|text| signed(text, -1, 5)), "   -1");
    }

    #[test]
    fn escapes_names() {
        assert_eq!(
            text(|text| name(text, "a b\u{1b}[31m\n\u{9b}é".as_bytes())),
            "a b\\u{1b}[31m\\u{a}\\u{9b}é"
        );
        assert_eq!(text(|text| name(text, b"\x9bx")), "\\x9bx");
        let reordered = text(|text| name(text, "a\u{202e}b\u{feff}".as_bytes()));
        assert_eq!(reordered, "a\\u{202e}b\\u{feff}");
    }
}
