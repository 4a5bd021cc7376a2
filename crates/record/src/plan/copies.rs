//! How much of a user stack samples copy, if the recorder unwinds it.

use tare_kernel::host::Host;

use super::PlannedEvent;
use crate::options::Rings;
use crate::ring_memory::{LARGEST, lockable, share};

/// Bytes of the largest copy: the kernel stores its size in 16 bits.
pub(super) const LARGEST_COPY: u32 = 65_528;

/// Bytes of a copy if the event has no known rate: it may occur in bursts, of which a ring of 8 MiB
/// holds 800 samples. Enough for the deepest system calls of git.
const COPY_IN_BURSTS: u32 = 10 << 10;

/// Bytes of the smallest copy.
const SMALLEST_COPY: u32 = 1024;

/// Share of a second for which a ring is to hold the samples of all events, with their copies: the
/// recorder may have to wait that long for a CPU.
const HELD_PARTS: u64 = 10;

/// Makes the copies of these events so small that rings hold the samples of a tenth of a second.
/// The kernel takes the whole size in the ring, however shallow the stack is.
pub(super) fn fit(events: &mut [PlannedEvent], unwound: &[usize], rings: &Rings, host: &Host) {
    let cpus = host.online_cpus().map_or(1, |cpus| cpus.as_slice().len());
    let lockable = lockable(host).map_or(usize::MAX, |all| share(all, cpus));
    let wanted = rings.bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(LARGEST);
    let ring = wanted.min(lockable) as u64;
    let rates = unwound.iter().filter_map(|event| events[*event].samples_a_second());
    let samples = rates.sum::<u64>().div_ceil(HELD_PARTS).max(1);
    let held = u32::try_from(ring / samples).unwrap_or(u32::MAX).min(LARGEST_COPY);
    let held = held.max(SMALLEST_COPY) / 8 * 8;
    for event in unwound {
        let event = &mut events[*event];
        if event.event.sampling.stack_size.is_none() {
            let is_known = event.samples_a_second().is_some();
            event.attr.sample_stack_user = if is_known { held } else { held.min(COPY_IN_BURSTS) };
        }
    }
}
