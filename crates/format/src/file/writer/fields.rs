//! Encodes the numbers, texts and lists of feature sections.

/// Strings are padded to a multiple of this many bytes (`NAME_ALIGN` in
/// `tools/perf/util/header.c`).
pub(super) const TEXT_ALIGN: usize = 64;

/// Encodes a number in four bytes. Counts of items in memory fit.
pub(super) fn encode_count(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_ne_bytes()
}

/// Appends a `struct perf_header_string`: the padded length, then the text padded with NUL.
pub(super) fn write_text(into: &mut Vec<u8>, value: &str) {
    let len = (value.len() + 1).next_multiple_of(TEXT_ALIGN);
    into.extend(encode_count(len));
    let end = into.len() + len;
    into.extend(value.as_bytes());
    into.resize(end, 0);
}

/// Appends a list: its length, then each item.
pub(super) fn write_list<T>(
    into: &mut Vec<u8>,
    items: &[T],
    mut item: impl FnMut(&mut Vec<u8>, &T),
) {
    into.extend(encode_count(items.len()));
    items.iter().for_each(|value| item(into, value));
}
