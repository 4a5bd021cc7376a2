//! Formats of weights and changes.

use crate::samples::Unit;

/// Formats an amount with three or four digits and its unit: `161.2 ms`, `1.34 M`.
#[must_use]
pub fn amount(value: f64, unit: Unit) -> String {
    let scales: &[(f64, &str)] = match unit {
        Unit::Nanoseconds => &[(1e9, " s"), (1e6, " ms"), (1e3, " us"), (1.0, " ns")],
        Unit::Count => &[(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " K"), (1.0, "")],
    };
    let size = value.abs();
    let fitting = scales.iter().find(|(scale, _)| size >= *scale);
    let (scale, name) = fitting.or(scales.last()).copied().unwrap_or((1.0, ""));
    let scaled = value / scale;
    match scaled.abs() {
        0.0 => "0".to_owned(),
        large if large >= 100.0 => format!("{scaled:.1}{name}"),
        middle if middle >= 0.01 => format!("{scaled:.2}{name}"),
        _ => format!("{scaled:.1e}{name}"),
    }
}

/// Formats a share or a change in percent, with its sign; `new` if it is infinite.
pub(super) fn signed_percent(share: f64) -> String {
    if share.is_finite() { format!("{:+.2}%", 100.0 * share) } else { "new".to_owned() }
}

/// Formats the bounds of an interval in percent.
pub(super) fn bounds(low: f64, high: f64) -> String {
    format!("[{:+.2}, {:+.2}]", 100.0 * low, 100.0 * high)
}
