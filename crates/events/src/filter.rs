//! `--filter`: a condition over the fields of tracepoints.

use std::ffi::CString;

use tare_kernel::tracefs::TracefsError;

use super::nearest::{list, nearest};
use super::{EventGroup, Sources};

/// What a filter can speak of besides the fields of a tracepoint (`kernel/trace/trace_events.c`,
/// generic fields).
const GENERIC_FIELDS: [&str; 6] = ["CPU", "cpu", "COMM", "comm", "STACKTRACE", "stacktrace"];

/// Why a filter can't be attached.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// There is no event before it, or one that is no tracepoint.
    #[error("--filter belongs after -e SYSTEM:EVENT: {0}")]
    NotATracepoint(String),
    /// It is empty or holds a NUL.
    #[error("--filter: a condition belongs here, like 'prev_pid == 0'")]
    Empty,
    /// The tracepoint has no such field.
    #[error("--filter: {event} has no field '{field}'{}", if nearest.is_empty() { String::new() } else { format!("; nearest: {}", list(nearest)) })]
    UnknownField {
        /// The tracepoint.
        event: String,
        /// What was typed.
        field: String,
        /// Fields that look alike.
        nearest: Vec<String>,
    },
    /// The tracepoint's fields can't be looked up.
    #[error("--filter: {0}")]
    Tracefs(#[from] TracefsError),
}

/// Attaches a filter to the events of the `-e` before it, all of which must be tracepoints that
/// have the fields it names. A second filter narrows the first.
///
/// # Errors
/// See [`FilterError`]. The rest of a filter's grammar is the kernel's to judge.
pub fn set_filter(
    groups: &mut [EventGroup],
    filter: &str,
    sources: &Sources,
) -> Result<(), FilterError> {
    if filter.trim().is_empty() || CString::new(filter).is_err() {
        return Err(FilterError::Empty);
    }
    let fields = fields_named(filter);
    let mut events: Vec<_> = groups.iter_mut().flat_map(|group| &mut group.events).collect();
    if events.is_empty() {
        return Err(FilterError::NotATracepoint("there is no event before it".to_owned()));
    }
    for event in &events {
        let Some(tracepoint) = &event.tracepoint else {
            return Err(FilterError::NotATracepoint(format!("{} is no tracepoint", event.name)));
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

/// The names on the left of a comparison: `prev_comm` in `prev_comm ~ "a*" && !(x)`.
fn fields_named(filter: &str) -> Vec<&str> {
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
            if is_field && compares(after.trim_start()) {
                // What follows a dot says how the field is read: filename.ustring
                fields.push(name.split('.').next().unwrap_or(name));
            }
            rest = after;
        } else {
            rest = &rest[first.len_utf8()..];
        }
    }
    fields
}

/// Whether the text begins with an operator that compares: `&` does, `&&` joins.
fn compares(text: &str) -> bool {
    ["==", "!=", "<", ">", "~"].iter().any(|operator| text.starts_with(operator))
        || text.starts_with('&') && !text.starts_with("&&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_on_the_left() {
        assert_eq!(
            fields_named("prev_pid==0 && (next_comm ~ \"a == b*\" || !(flags & 4))"),
            ["prev_pid", "next_comm", "flags"]
        );
        assert_eq!(
            fields_named("filename.ustring ~ 'x' && call_site.function == vfs_read && a"),
            ["filename", "call_site"]
        );
        assert!(fields_named("\"unclosed == 1").is_empty());
    }
}
