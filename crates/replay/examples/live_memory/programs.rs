//! The programs of played processes.

/// Returns a program without a file. Every fourth process has its own; the others share one.
pub(crate) fn mostly_one(number: u64) -> String {
    let folder = if number.is_multiple_of(4) { format!("build-{number}/") } else { String::new() };
    format!("/nonexistent/{folder}program")
}
