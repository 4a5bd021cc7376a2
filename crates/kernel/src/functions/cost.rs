//! What a call costs that is looked at: the same programs on a function of our own.

use std::ffi::CString;
use std::hint::black_box;
use std::time::Instant;

use super::attach::ProbeLocation;
use crate::host::Host;
use crate::procfs;

/// What looking at a call of a function costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbeCost {
    /// What it adds to the caller's time, in nanoseconds.
    pub call_ns: f64,
    /// How long a function that does nothing seems to take, in nanoseconds: what is seen of each
    /// call's duration is longer by so much.
    pub empty_ns: f64,
}

/// So many calls are timed together, so often.
const CALLS: u32 = 500;
const BATCHES: usize = 5;

/// The function that is called.
#[inline(never)]
extern "C" fn nothing(number: u64) -> u64 {
    black_box(number)
}

/// Where in the file of this process that function lies.
pub(super) fn own_function(host: &Host) -> Option<ProbeLocation> {
    let address = (nothing as extern "C" fn(u64) -> u64 as *const ()).addr() as u64;
    let mut text = Vec::new();
    procfs::read_mappings(host, i32::try_from(std::process::id()).ok()?, &mut text).ok()?;
    let offset = procfs::mappings(&text)
        .find(|mapping| (mapping.start..mapping.end).contains(&address))
        .map(|mapping| address - mapping.start + mapping.offset)?;
    Some(ProbeLocation::File { path: CString::from(c"/proc/self/exe"), offset, semaphore: 0 })
}

/// Nanoseconds that a call takes: the median of a few batches.
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
