//! `--filter`: a condition on the fields of tracepoints.

use std::ffi::CString;

use tare_format::nearest::{join_names, nearest};
use tare_kernel::tracefs::TracefsError;

use super::{EventGroup, Sources};

/// Fields that a filter can test on every tracepoint (`kernel/trace/trace_events.c`, generic
/// fields).
const GENERIC_FIELDS: [&str; 6] = ["CPU", "cpu", "COMM", "comm", "STACKTRACE", "stacktrace"];

/// Why a filter can't be attached.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// No event precedes the filter, or one that isn't a tracepoint.
    #[error("--filter belongs after -e SYSTEM:EVENT: {0}")]
    NotATracepoint(String),
    /// The filter is empty or contains a NUL byte.
    #[error("--filter: expected a condition, like 'prev_pid == 0'")]
    Empty,
    /// The tracepoint has no such field.
    #[error("--filter: {event} has no field '{field}'{}", if nearest.is_empty() { String::new() } else { format!("; nearest: {}", join_names(nearest)) })]
    UnknownField {
        /// The tracepoint.
        event: String,
        /// The field as typed.
        field: String,
        /// Fields that look similar, the most similar first.
        nearest: Vec<String>,
    },
    /// The tracepoint's fields can't be looked up.
    #[error("--filter: {0}")]
    Tracefs(#[from] TracefsError),
}

/// Attaches a filter to the events of the preceding `-e`. All of them must be tracepoints that have
/// the filter's fields. A second filter is joined to the first with `&&`.
///
/// # Errors
/// See [`FilterError`]. Only fields are checked here; the kernel checks the rest of the grammar
/// when the event is opened.
pub fn set_filter(
    groups: &mut [EventGroup],
    filter: &str,
    sources: &Sources,
) -> Result<(), FilterError> {
    if filter.trim().is_empty() || CString::new(filter).is_err() {
        return Err(FilterError::Empty);
    }
    let fields = find_fields(filter);
    let mut events: Vec<_> = groups.iter_mut().flat_map(|group| &mut group.events).collect();
    if events.is_empty() {
        return Err(FilterError::NotATracepoint("there is no event before it".to_owned()));
    }
    for event in &events {
        let Some(tracepoint) = &event.tracepoint else {
            return Err(FilterError::NotATracepoint(format!("{} isn't a tracepoint", event.name)));
        };
        let known = sources.tracefs()?.fields(&tracepoint.system, &tracepoint.name)?;
        let unknown = fields.iter().find(|field| {
            !known.iter().any(|one| one == **field) && !GENERIC_FIELDS.contains(field)
        });
        if let Some(field) = unknown {
            let nearest = nearest(field, known.iter().map(String::as_str).chain(GENERIC_FIELDS));
            return Err(FilterError::UnknownField {
                event: event.name.clone(),
                field: (*field).to_owned(),
                nearest,
            });
        }
    }
    for event in &mut events {
        event.filter = Some(match event.filter.take() {
            Some(before) => format!("({before}) && ({filter})"),
            None => filter.to_owned(),
        });
    }
    Ok(())
}

/// Finds the names on the left of comparisons: `prev_comm` in `prev_comm ~ "a*" && !(x)`.
fn find_fields(filter: &str) -> Vec<&str> {
    let mut fields = Vec::new();
    let mut rest = filter;
    while let Some(first) = rest.chars().next() {
        let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        if first == '"' || first == '\'' {
            let inside = &rest[1..];
            rest = inside.find(first).map_or("", |end| &inside[end + 1..]);
        } else if is_name(first) {
            let (name, after) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
            let is_field = first.is_alphabetic() || first == '_';
            if is_field && is_comparison(after.trim_start()) {
                // A suffix after a dot tells the kernel how to read the field: filename.ustring
                fields.push(name.split('.').next().unwrap_or(name));
            }
            rest = after;
        } else {
            rest = &rest[first.len_utf8()..];
        }
    }
    fields
}

/// Whether the text begins with a comparison. `&` tests bits; `&&` joins conditions.
fn is_comparison(text: &str) -> bool {
    ["==", "!=", "<", ">", "~"].iter().any(|operator| text.starts_with(operator))
        || text.starts_with('&') && !text.starts_with("&&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_fields_on_the_left_of_comparisons() {
        assert_eq!(
            find_fields("prev_pid==0 && (next_comm ~ \"a == b*\" || !(flags & 4))"),
            ["prev_pid", "next_comm", "flags"]
        );
        assert_eq!(
            find_fields("filename.ustring ~ 'x' && call_site.function == vfs_read && a"),
            ["filename", "call_site"]
        );
        assert!(find_fields("\"unclosed == 1").is_empty());
    }
}
