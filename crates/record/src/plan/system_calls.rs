//! Plans the BPF programs that write the samples of system calls, with the contents that perf
//! events would have written.

use rustix::time::ClockId;
use tare_events::Sources;
use tare_kernel::bpf::BpfError;
use tare_kernel::call_samples::{CallSamples, CallSamplesPlan};
use tare_kernel::host::Host;

use super::PlannedEvent;
use crate::describe::memory_kib;
use crate::options::{Begin, Keep, RecorderOptions, Target};
use crate::warning::Warning;

const SYSTEM: &str = "raw_syscalls";

/// Largest default bytes of a ring buffer. Programs handle a call in a third of the time of perf
/// events, so records come faster.
const MOST_RING_BYTES: u64 = 32 << 20;

/// Smallest default bytes, even if all ring buffers together then exceed [`SHARE_OF_MEMORY`].
const LEAST_RING_BYTES: u64 = 8 << 20;

/// Limit on all ring buffers: one part in this many of the machine's memory.
const SHARE_OF_MEMORY: u64 = 64;

/// Loads the programs if requested, and if the other options allow it. If loading fails, a warning
/// states the reason.
pub(super) fn load(
    options: &RecorderOptions,
    host: &Host,
    sources: &Sources,
    warnings: &mut Vec<Warning>,
) -> Option<CallSamples> {
    let fits = options.begin == Begin::AtOnce
        && !options.may_pause
        && !options.include_self
        && options.rings.keep != Keep::WhatFits
        && options.sampling.clock == Some(ClockId::Monotonic as i32);
    if !options.calls_by_programs || !fits {
        return None;
    }
    let loaded = programs(options, host, sources);
    loaded.map_err(|why| warnings.push(Warning::CallsByEvents { why })).ok()
}

fn programs(
    options: &RecorderOptions,
    host: &Host,
    sources: &Sources,
) -> Result<CallSamples, String> {
    if !host.has_initial_pids() {
        return Err("process ids are those of a container here".to_owned());
    }
    let tracefs = sources.tracefs().map_err(|error| error.to_string())?;
    for (event, field, expected) in CallSamples::FIELDS {
        let place = tracefs.field_place(SYSTEM, event, field).map_err(|error| error.to_string())?;
        if place != expected {
            return Err(format!("the field {field} of {SYSTEM}:{event} lies elsewhere here"));
        }
    }
    let id = |event| {
        let id = tracefs.id(SYSTEM, event).map_err(|error| error.to_string())?;
        u32::try_from(id).map_err(|error| error.to_string())
    };
    let cpus = host.online_cpus().map_err(|error| error.to_string())?;
    let ring_bytes = options
        .rings
        .bytes
        .unwrap_or_else(|| ring_bytes(memory_kib(host).unwrap_or(0), cpus.as_slice().len() as u64));
    let plan = CallSamplesPlan {
        all_tasks: matches!(options.target, Target::Cpus(_) | Target::Cgroups { .. }),
        tracepoints: [id("sys_enter")?, id("sys_exit")?],
        ring_bytes: usize::try_from(ring_bytes).unwrap_or(usize::MAX),
        possible: &host.possible_cpus().unwrap_or_else(|_| cpus.clone()),
        cpus: &cpus,
    };
    CallSamples::load(&plan).map_err(|error| match error {
        BpfError::NotPermitted(_) => {
            format!("{} (CAP_BPF with CAP_PERFMON allows them)", error.first_line())
        }
        _ => error.first_line(),
    })
}

/// Returns the bytes of each of `rings` ring buffers.
fn ring_bytes(memory_kib: u64, rings: u64) -> u64 {
    let all = memory_kib.saturating_mul(1024) / SHARE_OF_MEMORY;
    let each = (all / rings.max(1)).clamp(LEAST_RING_BYTES, MOST_RING_BYTES);
    1 << each.ilog2()
}

/// Marks an event whose samples the programs write.
pub(super) fn leave_to_programs(event: &mut PlannedEvent) {
    event.by_programs = true;
    event.attr.sample_type = CallSamples::SAMPLE_TYPE;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_buffers_take_a_part_of_the_memory() {
        let gib = 1 << 20;
        assert_eq!(ring_bytes(16 * gib, 2), 32 << 20);
        assert_eq!(ring_bytes(4 * gib, 3), 16 << 20);
        assert_eq!(ring_bytes(gib, 128), 8 << 20);
        assert_eq!(ring_bytes(0, 0), 8 << 20);
    }
}
