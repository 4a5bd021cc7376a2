//! Finds functions that keep step with the sampling period.
//!
//! If a program repeats itself with the sampling period of a clock, or a multiple of it, all samples
//! show the same part of its work. tare's recorder varies the period, so that samples pass through
//! all parts, and a function that keeps step shows: whether a sample lies in the function depends on
//! the phase of the sample's time within the requested period.
//!
//! ```text
//! block        256 samples of a thread in a row
//! x            1 for a sample in the function, otherwise 0
//! power(f)     |sum of (x - mean x) e^(2 pi i f t)|^2 over the block
//! in step      power(f) at f = 1 / period, or 2 / period, is larger than at each of the 10
//!              next-but-one frequencies on either side, in at least 5 of 6 blocks
//! ```
//!
//! Of a function that doesn't keep step, the 21 powers come from neighbouring frequencies, and any
//! may be the largest. 5 of 6 blocks agree by chance in 1 of 700,000 cases.

use std::collections::HashMap;
use std::f64::consts::TAU;

use tare_format::abi::bindings::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK, PERF_TYPE_SOFTWARE,
};
use tare_format::abi::{Attr, Sampling};
use tare_format::record::Sample;
use tare_profile::{FrameId, InStep, Profile, SymbolId, ThreadId};

use crate::replayed::Replayed;

/// Samples of a block.
const BLOCK: usize = 256;

/// Most blocks of a thread, spread over the recording.
const MOST_BLOCKS: usize = 16;

/// Fewest blocks of a thread that are judged.
const LEAST_BLOCKS: usize = 6;

/// Share of the blocks in which the power must be the largest.
const AGREEING: f64 = 0.8;

/// A block's longest time, as a multiple of the time of its samples: the thread runs little
/// otherwise.
const LONGEST: f64 = 4.0;

/// Distances of the compared frequencies, in multiples of the block's frequency resolution.
const DISTANCES: std::ops::RangeInclusive<i32> = 2..=11;

/// Smallest amplitude that matters: half of what the function's share could be off by.
const LEAST_AMPLITUDE: f64 = 0.05;

/// Threads with most samples, and functions of a thread with most samples, that are judged.
const THREADS: usize = 4;
const FUNCTIONS: usize = 3;

/// Samples kept, 16 bytes each.
const MOST_SAMPLES: usize = 1 << 17;

/// The time and place of a sample.
#[derive(Clone, Copy, Debug)]
struct StepSample {
    time_ns: u64,
    frame: FrameId,
}

/// Samples of clocks by thread, until there are [`MOST_SAMPLES`].
#[derive(Debug, Default)]
pub(super) struct StepSamples {
    /// The period of the first clock; samples of others are left out.
    period_ns: Option<u64>,
    by_thread: HashMap<ThreadId, Vec<StepSample>, foldhash::fast::RandomState>,
    number: usize,
}

impl StepSamples {
    /// Keeps a sample of a clock with its place in code. Leaves out idle CPUs.
    pub(super) fn add(
        &mut self,
        sample: &Replayed<'_, Sample<'_>>,
        thread: Option<ThreadId>,
        leaf: Option<FrameId>,
    ) {
        if self.number >= MOST_SAMPLES || sample.fields.head.tid.is_none_or(|tid| tid <= 0) {
            return;
        }
        let event = sample.event.and_then(|event| sample.description.events().get(event));
        let Some(period_ns) = event.and_then(|event| clock_period_ns(&event.attr)) else { return };
        let Some(thread) = thread else { return };
        let at = sample.time_ns.zip(leaf);
        let Some(step) = at.map(|(time_ns, frame)| StepSample { time_ns, frame }) else { return };
        if *self.period_ns.get_or_insert(period_ns) == period_ns {
            self.number += 1;
            self.by_thread.entry(thread).or_default().push(step);
        }
    }

    /// Returns the function that most clearly keeps step with the sampling period, if one does.
    pub(super) fn find(&self, profile: &Profile) -> Option<InStep> {
        let period_ns = self.period_ns?;
        let mut threads: Vec<_> = self.by_thread.iter().collect();
        threads.retain(|(_, samples)| samples.len() >= LEAST_BLOCKS * BLOCK);
        threads.sort_by_key(|(thread, samples)| (std::cmp::Reverse(samples.len()), **thread));
        let of_thread = |(thread, samples): &(&ThreadId, &Vec<StepSample>)| {
            let functions: Vec<_> =
                samples.iter().map(|sample| function(profile, sample.frame)).collect();
            let times: Vec<_> = samples.iter().map(|sample| sample.time_ns).collect();
            let (function, amplitude) = find_function(&times, &functions, period_ns)?;
            Some((**thread, function, amplitude))
        };
        let found = threads.iter().take(THREADS).filter_map(of_thread);
        let (thread, function, _) = found.max_by(|left, right| left.2.total_cmp(&right.2))?;
        let name = |id| String::from_utf8_lossy(profile.string(id)).into_owned();
        Some(InStep {
            function: name(profile.symbol(function)?.name),
            command: profile.last_name(thread).map(name).unwrap_or_default(),
            tid: profile.thread(thread)?.tid,
            period_ns,
        })
    }
}

/// Returns the period of an event that is one of the kernel's clocks.
fn clock_period_ns(attr: &Attr) -> Option<u64> {
    let clocks = [PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK];
    let is_clock = attr.kind == PERF_TYPE_SOFTWARE
        && clocks.into_iter().any(|clock| attr.config == u64::from(clock));
    let period_ns = match attr.sampling {
        Sampling::Frequency(hz) => 1_000_000_000_u64.checked_div(hz)?,
        Sampling::Period(period_ns) => period_ns,
        Sampling::None => 0,
    };
    (is_clock && period_ns > 0).then_some(period_ns)
}

fn function(profile: &Profile, frame: FrameId) -> Option<SymbolId> {
    profile.frame(frame)?.function.ok()
}

/// Returns the function of a thread that most clearly keeps step, with its amplitude.
fn find_function(
    times: &[u64],
    functions: &[Option<SymbolId>],
    period_ns: u64,
) -> Option<(SymbolId, f64)> {
    let mut counts: HashMap<SymbolId, usize, foldhash::fast::RandomState> = HashMap::default();
    functions.iter().flatten().for_each(|function| *counts.entry(*function).or_default() += 1);
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(function, count)| (std::cmp::Reverse(*count), *function));
    let judged = |function: SymbolId| {
        let marks: Vec<_> = functions.iter().map(|other| *other == Some(function)).collect();
        let amplitude = |harmonic: f64| amplitude_in_step(times, &marks, period_ns, harmonic);
        let amplitude = [1.0, 2.0].into_iter().filter_map(amplitude).reduce(f64::max)?;
        Some((function, amplitude))
    };
    let found = counts.into_iter().take(FUNCTIONS).filter_map(|(function, _)| judged(function));
    found.max_by(|left, right| left.1.total_cmp(&right.1))
}

/// Returns the mean amplitude of marks at a multiple of the sampling frequency, if they keep step
/// with it.
fn amplitude_in_step(times: &[u64], marks: &[bool], period_ns: u64, harmonic: f64) -> Option<f64> {
    let frequency = harmonic / period_ns as f64;
    let blocks = times.chunks_exact(BLOCK).zip(marks.chunks_exact(BLOCK));
    let longest = LONGEST * BLOCK as f64 * period_ns as f64;
    let is_dense = |(times, _): &(&[u64], &[bool])| span_ns(times) <= longest;
    let blocks: Vec<_> = blocks.filter(is_dense).collect();
    if blocks.len() < LEAST_BLOCKS {
        return None;
    }
    let step = blocks.len().div_ceil(MOST_BLOCKS);
    let blocks: Vec<_> = blocks.into_iter().step_by(step).collect();
    let judged: Vec<_> =
        blocks.iter().map(|(times, marks)| peak_amplitude(times, marks, frequency)).collect();
    let peaks: Vec<_> = judged.iter().flatten().collect();
    let amplitude = peaks.iter().copied().sum::<f64>() / peaks.len() as f64;
    let is_in_step = peaks.len() >= LEAST_BLOCKS - 1
        && peaks.len() as f64 >= AGREEING * judged.len() as f64
        && amplitude >= LEAST_AMPLITUDE;
    is_in_step.then_some(amplitude)
}

/// Returns the time from the first to the last sample of a block.
fn span_ns(times: &[u64]) -> f64 {
    let first = times.first().copied().unwrap_or(0);
    times.last().copied().unwrap_or(0).saturating_sub(first) as f64
}

/// Returns a block's amplitude at a frequency, if it is larger than at the frequencies around it.
fn peak_amplitude(times: &[u64], marks: &[bool], frequency: f64) -> Option<f64> {
    let at = amplitude(times, marks, frequency);
    let resolution = 1.0 / span_ns(times).max(1.0);
    let mut around = DISTANCES.flat_map(|distance| [-distance, distance]);
    let is_peak = at > 0.0
        && around.all(|distance| {
            amplitude(times, marks, frequency + f64::from(distance) * resolution) < at
        });
    is_peak.then_some(at)
}

/// Returns the amplitude of a frequency in the marks of a block.
fn amplitude(times: &[u64], marks: &[bool], frequency: f64) -> f64 {
    let number = marks.len() as f64;
    let mean = marks.iter().filter(|mark| **mark).count() as f64 / number;
    let first = times.first().copied().unwrap_or(0);
    let mut sum = [0.0, 0.0];
    for (time, mark) in times.iter().zip(marks) {
        let value = if *mark { 1.0 - mean } else { -mean };
        let (sin, cos) = (TAU * frequency * time.saturating_sub(first) as f64).sin_cos();
        sum[0] += value * cos;
        sum[1] += value * sin;
    }
    2.0 * sum[0].hypot(sum[1]) / number
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_NS: u64 = 1_000_000;

    /// Returns the times of samples whose period varies every 250 samples, as the recorder's does.
    fn sample_times(number: usize) -> Vec<u64> {
        let deviations = [1030, 970, 1053, 950, 1021, 980];
        let mut time = 0;
        let next = |nth: usize| {
            time += PERIOD_NS * deviations[nth / 250 % deviations.len()] / 1000;
            time
        };
        (0..number).map(next).collect()
    }

    fn in_step(times: &[u64], is_marked: impl FnMut(&u64) -> bool) -> bool {
        let marks: Vec<_> = times.iter().map(is_marked).collect();
        let step = |harmonic| amplitude_in_step(times, &marks, PERIOD_NS, harmonic).is_some();
        step(1.0) || step(2.0)
    }

    /// A small generator of numbers below 1.
    fn random(state: &mut u64) -> f64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (*state >> 11) as f64 / (1_u64 << 53) as f64
    }

    #[test]
    fn a_function_that_repeats_with_the_sampling_period_or_a_part_or_multiple_is_found() {
        let times = sample_times(3000);
        for period in [PERIOD_NS, PERIOD_NS / 2, 2 * PERIOD_NS, 5 * PERIOD_NS] {
            assert!(in_step(&times, |time| time % period < period * 3 / 10 + 100_000), "{period}");
        }
    }

    #[test]
    fn short_recordings_are_not_judged() {
        assert!(
            !in_step(&sample_times(BLOCK * LEAST_BLOCKS - 1), |time| time % PERIOD_NS < 300_000)
        );
    }

    #[test]
    fn other_programs_cause_no_alarm() {
        let times = sample_times(4000);
        let mut state = 1;
        for period in [370_000, 777_000, 1_230_000, 10_100_000, 3_000_000_000_u64] {
            assert!(!in_step(&times, |time| time % period < period * 3 / 10), "{period}");
        }
        for seed in 0..60 {
            // Phases of random lengths around a mean, as of a compiler or an interpreter.
            let mean_ns = 1e5 * 1.3_f64.powi(seed % 30);
            let mut phase = false;
            let mut until = 0.0;
            let is_marked = |time: &u64| {
                while until < *time as f64 {
                    until -= mean_ns * random(&mut state).max(1e-9).ln();
                    phase = !phase;
                }
                phase
            };
            assert!(!in_step(&times, is_marked), "{seed}");
        }
    }
}
