//! Kills agents at random moments while short processes run: no segment is unreadable, each agent loses one window
//! at most, and gaps cover the time that is missing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use serde::Serialize;
use serde_json::json;

use super::agent;
use super::segments::{self, StoredSegment};
use crate::background::{BackgroundLoad, RunningProgram};
use crate::report::{Bound, Estimate, Finding, Report};
use crate::scratch::Scratch;
use crate::setting::Setting;

/// Length of a window.
const WINDOW_US: i64 = 10_000_000;

/// Times an agent may live, in seconds.
const LIVES: std::ops::Range<f64> = 0.5..13.0;

/// An agent that was killed, except for the last one, which ended by itself.
#[derive(Clone, Copy, Debug, Serialize)]
struct Life {
    start_us: i64,
    end_us: i64,
}

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let store = scratch.path("store");
    let load = BackgroundLoad::start("while :; do /bin/true; sleep 0.02; done")?;
    let start = || RunningProgram::start(&mut agent(&setting.tare, &store, &[]));
    let mut lives = Vec::new();
    for _ in 0..setting.rounds.unwrap_or(300) {
        let start_us = now_us()?;
        let killed = start()?;
        let seconds = LIVES.start + (LIVES.end - LIVES.start) * fastrand::f64();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        drop(killed);
        lives.push(Life { start_us, end_us: now_us()? });
    }
    let start_us = now_us()?;
    let last = start()?;
    std::thread::sleep(Duration::from_secs(12));
    last.stop()?;
    lives.push(Life { start_us, end_us: now_us()? });
    drop(load);
    let read = segments::read(&store)?;
    let windows: u64 = read.segments.iter().filter(|one| !one.is_gap).map(|one| one.samples).sum();
    let lost_us: Vec<i64> =
        lives.iter().map(|life| missing(*life, &read.segments, false)).collect();
    let uncovered_us: Vec<i64> =
        lives.windows(2).map(|pair| uncovered(pair, &read.segments)).collect();
    let gaps = read.segments.iter().filter(|segment| segment.is_gap).count();
    let most = |times: &[i64]| times.iter().copied().max().unwrap_or(0) as f64 / 1e6;
    let finding = |what: &str, value, most| Finding {
        what: what.to_owned(),
        measured: Estimate::exact(value),
        bound: Bound::AtMost(most),
    };
    let findings = vec![
        finding(
            "samples in rows, less those of windows",
            (read.samples_in_rows as f64 - windows as f64).abs(),
            0.0,
        ),
        // A window is written up to three seconds after its end.
        finding("time of an agent in no window, the most of any, s", most(&lost_us), 13.0),
        finding("time in neither window nor gap, the most of any, s", most(&uncovered_us), 1.0),
    ];
    let killed = lives.len() - 1;
    let table = vec![format!(
        "{killed} killed; {} windows with {windows} samples, {gaps} gaps",
        read.segments.len() - gaps
    )];
    let raw = json!({ "lives": lives, "segments": read.segments, "window_us": WINDOW_US });
    Ok(Report { table, findings, raw })
}

/// Microseconds of a life that are in no window, or in neither window nor gap.
fn missing(life: Life, segments: &[StoredSegment], gaps_count: bool) -> i64 {
    let covered: i64 = segments
        .iter()
        .filter(|segment| gaps_count || !segment.is_gap)
        .map(|segment| {
            (segment.end_us.min(life.end_us) - segment.start_us.max(life.start_us)).max(0)
        })
        .sum();
    life.end_us - life.start_us - covered
}

/// Microseconds between the start of an agent and that of the next one that neither a window nor a
/// gap covers.
fn uncovered(pair: &[Life], segments: &[StoredSegment]) -> i64 {
    let [killed, next] = pair else { return 0 };
    missing(Life { start_us: killed.start_us, end_us: next.start_us }, segments, true)
}

/// Microseconds since 1970, as in segments.
fn now_us() -> anyhow::Result<i64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    Ok(i64::try_from(now.as_micros())?)
}
