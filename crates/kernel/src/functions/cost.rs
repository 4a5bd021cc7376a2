//! Measures what a probed call costs, with the same programs on a function of this process.

use std::ffi::CString;
use std::hint::black_box;
use std::time::Instant;

use super::attach::ProbeLocation;
use crate::host::Host;
use crate::procfs;

/// The cost of a probed call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbeCost {
    /// Added to the caller's time, in nanoseconds.
    pub call_ns: f64,
    /// Measured duration of an empty function in nanoseconds: each call's measured duration is too
    /// long by this.
    pub empty_ns: f64,
}

/// Calls per batch.
const CALLS: u32 = 500;
/// Number of batches.
const BATCHES: usize = 5;

/// The probed function.
#[inline(never)]
extern "C" fn nothing(number: u64) -> u64 {
    black_box(number)
}

/// Returns the place of [`nothing`] in this process's file.
pub(super) fn own_function(host: &Host) -> Option<ProbeLocation> {
    let address = (nothing as extern "C" fn(u64) -> u64 as *const ()).addr() as u64;
    let mut text = Vec::new();
    procfs::read_mappings(host, i32::try_from(std::process::id()).ok()?, &mut text).ok()?;
    let offset = procfs::mappings(&text)
        .find(|mapping| (mapping.start..mapping.end).contains(&address))
        .map(|mapping| address - mapping.start + mapping.offset)?;
    Some(ProbeLocation::File { path: CString::from(c"/proc/self/exe"), offset, semaphore: 0 })
}

/// Returns the nanoseconds of a call: the median of the batches.
pub(super) fn ns_per_call() -> f64 {
    let mut batches: Vec<f64> = (0..BATCHES)
        .map(|_| {
            let began = Instant::now();
            for number in 0..CALLS {
                black_box(nothing(number.into()));
            }
            began.elapsed().as_nanos() as f64 / f64::from(CALLS)
        })
        .collect();
    batches.sort_by(f64::total_cmp);
    batches[BATCHES / 2]
}
