//! Memory of a live replay, measured in a separate process.
#![allow(clippy::unwrap_used, reason = "all of this file is tests")]

#[path = "../examples/live_memory/played.rs"]
mod played;
#[path = "../examples/live_memory/programs.rs"]
mod programs;

/// Plays a part of `./x bench top-memory`, with the same density of processes.
#[test]
fn memory_stays_flat_over_many_short_processes() {
    let played = played::play(300_000, 1754, programs::mostly_one).unwrap();
    let grown = |before: u64, after: u64| after.saturating_sub(before);
    // Ten seconds of two CPUs at 99 Hz.
    assert!((1800..=2000).contains(&played.shown), "{played}");
    assert!(grown(played.warm.resident, played.end.resident) <= 1 << 20, "{played}");
    assert!(grown(played.warm.peak, played.end.peak) <= 1 << 20, "{played}");
}
