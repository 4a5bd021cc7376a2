//! Measures what a probed call costs, with the same programs on comparable functions: of this
//! process, with a first instruction of the same kind, or of the kernel.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use rustix::process::getppid;

use super::ProbePlan;
use super::attach::ProbeLocation;
use super::own::FirstInstruction;
use crate::host::Host;
use crate::procfs;

/// The kernel's function of getppid(2), which does next to nothing.
const GETPPID: &std::ffi::CStr =
    if cfg!(target_arch = "aarch64") { c"__arm64_sys_getppid" } else { c"__x64_sys_getppid" };

/// The cost of a probed call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbeCost {
    /// Added to the caller's time, in nanoseconds.
    pub call_ns: f64,
    /// Measured duration of an empty function in nanoseconds: each call's measured duration is too
    /// long by this. `None` if the probes measure no durations.
    pub empty_ns: Option<f64>,
}

/// Calls per batch.
const CALLS: u32 = 500;
/// Batches per measurement, of which the median counts.
const BATCHES: usize = 5;

/// Kinds of probed functions, each with its own cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FunctionKind {
    Program(FirstInstruction),
    Kernel,
}

impl FunctionKind {
    /// Returns the kinds of the places, each with whether the returns of any are probed.
    pub(super) fn list(places: &[ProbePlan]) -> BTreeMap<Self, bool> {
        let mut kinds = BTreeMap::new();
        for place in places {
            *kinds.entry(Self::classify(&place.location)).or_default() |= place.returns;
        }
        kinds
    }

    /// Classifies a place. An instruction that can't be read counts as stepped, like most.
    fn classify(location: &ProbeLocation) -> Self {
        let ProbeLocation::File { path, offset, .. } = location else { return Self::Kernel };
        let mut code = [0; FirstInstruction::BYTES];
        // Attaching reports files that can't be read.
        let _ = File::open(OsStr::from_bytes(path.to_bytes()))
            .and_then(|file| file.read_exact_at(&mut code, *offset));
        Self::Program(FirstInstruction::classify(code))
    }

    /// Returns the place of the comparable function.
    pub(super) fn location(self, host: &Host) -> Option<ProbeLocation> {
        let Self::Program(first) = self else {
            return Some(ProbeLocation::Kernel { function: GETPPID.into(), offset: 0 });
        };
        let address = first.address();
        let mut text = Vec::new();
        procfs::read_mappings(host, i32::try_from(std::process::id()).ok()?, &mut text).ok()?;
        let offset = procfs::mappings(&text)
            .find(|mapping| (mapping.start..mapping.end).contains(&address))
            .map(|mapping| address - mapping.start + mapping.offset)?;
        Some(ProbeLocation::File { path: CString::from(c"/proc/self/exe"), offset, semaphore: 0 })
    }

    /// Returns the nanoseconds of a call of the comparable function: the median of the batches.
    pub(super) fn ns_per_call(self) -> f64 {
        let mut batches: Vec<f64> = (0..BATCHES)
            .map(|_| {
                let began = Instant::now();
                for _ in 0..CALLS {
                    self.call();
                }
                began.elapsed().as_nanos() as f64 / f64::from(CALLS)
            })
            .collect();
        batches.sort_by(f64::total_cmp);
        batches[BATCHES / 2]
    }

    fn call(self) {
        match self {
            Self::Program(first) => first.call(),
            Self::Kernel => drop(std::hint::black_box(getppid())),
        }
    }
}
