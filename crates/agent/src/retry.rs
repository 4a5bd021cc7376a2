//! Pauses between attempts.

use std::time::Duration;

/// First pause after a failure. Each further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause.
const LAST_PAUSE: Duration = Duration::from_secs(60);

/// Returns the time until the next attempt after failures in a row: between half and one and a half
/// of the pause, so that agents which failed together don't come back together.
pub(crate) fn pause_after(failures: u32) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(LAST_PAUSE).mul_f64(0.5 + fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute_and_vary() {
        for (failures, middle) in [(1, 1.0), (2, 2.0), (5, 16.0), (40, 60.0)] {
            let pauses = || (0..200).map(|_| pause_after(failures).as_secs_f64());
            assert!(pauses().all(|seconds| (middle * 0.5..middle * 1.5).contains(&seconds)));
            let [least, most] = [f64::min, f64::max].map(|pick| pauses().reduce(pick).unwrap());
            assert!(most - least > middle * 0.5, "{least} to {most}");
        }
    }
}
