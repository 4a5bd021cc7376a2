//! What processes execute.

/// A program of its own for one process of four, none of which has a file.
pub(crate) fn mostly_one(number: u64) -> String {
    let folder = if number.is_multiple_of(4) { format!("build-{number}/") } else { String::new() };
    format!("/nonexistent/{folder}program")
}
