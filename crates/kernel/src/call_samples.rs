//! Each system call as the samples that perf events on `raw_syscalls:sys_enter` and `sys_exit` would
//! write, in ring buffers laid out like theirs: `bpf/samples.bpf.c`.

use std::os::fd::{AsFd, BorrowedFd};

use aya::maps::{Array, Map, MapData, RingBuf};
use aya::Pod;
use rustix::io::Errno;
use rustix::param::page_size;

use crate::bpf::object::{self, LoadedObject, ObjectLoader};
use crate::bpf::{BpfError, FollowedTasks};
use crate::host::CpuList;
use crate::ring::Ring;

/// Bytes of `struct chunk`, which ring buffers are made of.
const CHUNK: usize = 1 << 16;

/// `struct cpu`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct RawCpu {
    control: u32,
    busy: u32,
    mask: u64,
    told: u64,
    pending: u64,
    lost: [u64; 2],
    unused: [u64; 10],
}

// SAFETY: integers alone, and no padding: any bytes are a value.
#[allow(unsafe_code)]
unsafe impl Pod for RawCpu {}

/// What is written.
#[derive(Clone, Copy, Debug)]
pub struct CallSamplesPlan<'a> {
    /// Everybody's calls but this process's.
    pub all_tasks: bool,
    /// The numbers of the tracepoints `raw_syscalls:sys_enter` and `sys_exit`.
    pub tracepoints: [u32; 2],
    /// Bytes of a ring buffer's data; at least 64 KiB are taken, and a power of two.
    pub ring_bytes: usize,
    /// The CPUs that have one. What happens on others is lost, and counted.
    pub cpus: &'a CpuList,
    /// All that there may be.
    pub possible: &'a CpuList,
}

/// A CPU's ring buffer in the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RingPlace {
    cpu: u32,
    /// The chunk whose last page is the control page; the data follow.
    control: u32,
    /// Of the data.
    bytes: usize,
}

/// The ring buffers one behind the other, and how many chunks that takes.
fn places(cpus: &CpuList, bytes: usize) -> Option<(Vec<RingPlace>, u32)> {
    let chunks = u32::try_from(bytes / CHUNK).ok()?;
    let mut next = 0_u32;
    let place = |cpu| {
        let control = next;
        next = next.checked_add(1)?.checked_add(chunks)?;
        Some(RingPlace { cpu, control, bytes })
    };
    let places = cpus.iter().map(place).collect::<Option<_>>()?;
    Some((places, next))
}

/// Programs that write a sample at the begin and at the end of each system call. Dropped, they are
/// gone; ring buffers that were mapped stay.
pub struct CallSamples {
    /// `None` when stopped.
    programs: Option<LoadedObject>,
    rings: MapData,
    cpus: Array<MapData, RawCpu>,
    wakes: RingBuf<MapData>,
    places: Vec<RingPlace>,
}

impl std::fmt::Debug for CallSamples {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallSamples").field("places", &self.places).finish_non_exhaustive()
    }
}

impl CallSamples {
    /// The fields of the samples, as in [`tare_format::abi::Attr::sample_type`]: the id, the task, the
    /// time by `CLOCK_MONOTONIC`, the CPU, and raw data.
    pub const SAMPLE_TYPE: u64 = {
        use tare_format::abi::bindings as abi;
        (abi::PERF_SAMPLE_IDENTIFIER
            | abi::PERF_SAMPLE_TID
            | abi::PERF_SAMPLE_TIME
            | abi::PERF_SAMPLE_CPU
            | abi::PERF_SAMPLE_RAW) as u64
    };

    /// Where the tracepoints' fields lie in raw data: tracepoint, field, its first byte, and how many it
    /// has.
    pub const FIELDS: [(&'static str, &'static str, (usize, usize)); 6] = [
        ("sys_enter", "common_type", (0, 2)),
        ("sys_enter", "common_pid", (4, 4)),
        ("sys_enter", "id", (8, 8)),
        ("sys_enter", "args", (16, 48)),
        ("sys_exit", "id", (8, 8)),
        ("sys_exit", "ret", (16, 8)),
    ];

    /// The ids of the samples of `sys_enter` and `sys_exit`: the kernel counts those of its events up
    /// from 1.
    pub const IDS: [u64; 2] = [1 << 61, (1 << 61) + 1];

    /// Loads the programs. They run from [`Self::start`] on.
    ///
    /// # Errors
    /// See [`BpfError`].
    pub fn load(plan: &CallSamplesPlan<'_>) -> Result<Self, BpfError> {
        let page = page_size();
        let bytes = plan.ring_bytes.clamp(CHUNK, 1 << 30).next_power_of_two();
        let (places, chunks) = places(plan.cpus, bytes).ok_or(BpfError::Kernel(Errno::TOOBIG))?;
        let words = |bytes: usize| u32::try_from(bytes / 8).unwrap_or(0);
        let last = plan.possible.iter().chain(plan.cpus.iter()).max().unwrap_or(0);
        let programs = ["sched_process_fork", "sys_exit", "sys_enter"];
        let mut loaded = ObjectLoader::new(object::SAMPLES, &programs)
            .constant("all_tasks", plan.all_tasks.into())
            .constant("enter_type", plan.tracepoints[0])
            .constant("exit_type", plan.tracepoints[1])
            .constant("control_at", words(CHUNK.checked_sub(page).ok_or(Errno::INVAL)?))
            .map_size("rings", chunks)
            .map_size("cpus", last.saturating_add(1))
            .load()?;
        let mut cpus: Array<_, RawCpu> = loaded.take_map("cpus")?;
        for place in &places {
            let control = place.control;
            let mask = place.bytes as u64 - 1;
            cpus.set(place.cpu, RawCpu { control, mask, ..RawCpu::default() }, 0)?;
        }
        let Map::Array(rings) = loaded.take_untyped_map("rings")? else {
            return Err(BpfError::Kernel(Errno::INVAL));
        };
        let wakes = loaded.take_map("wakes")?;
        Ok(Self { programs: Some(loaded), rings, cpus, wakes, places })
    }

    /// The ring buffers with their CPUs: once, as each has one reader.
    ///
    /// # Errors
    /// The kernel's own, where they can't be mapped.
    pub fn rings(&self) -> Result<Vec<(u32, Ring)>, Errno> {
        let map = |place: &RingPlace| {
            let data = (u64::from(place.control) + 1) * CHUNK as u64;
            let ring = Ring::at(self.rings.fd().as_fd(), data - page_size() as u64, place.bytes)?;
            Ok((place.cpu, ring))
        };
        self.places.iter().map(map).collect()
    }

    /// Begins.
    ///
    /// # Errors
    /// See [`BpfError`].
    pub fn start(&mut self, follow: &FollowedTasks) -> Result<(), BpfError> {
        self.programs.as_mut().map_or(Ok(()), |programs| programs.start(follow))
    }

    /// Ends it for good. What was written stays.
    pub fn stop(&mut self) {
        self.programs = None;
    }

    /// What becomes readable when a quarter of a ring buffer came since it last did, until
    /// [`Self::clear_wakes`] is said.
    #[must_use]
    pub fn wakes(&self) -> BorrowedFd<'_> {
        self.wakes.as_fd()
    }

    /// The ring buffers are going to be read.
    pub fn clear_wakes(&mut self) {
        while self.wakes.next().is_some() {}
    }

    /// How many samples of `sys_enter` and of `sys_exit` found no room until now. Where there was room
    /// again, a `PERF_RECORD_LOST` in the ring buffer tells how many of both.
    ///
    /// # Errors
    /// The kernel's own.
    pub fn lost(&self) -> Result<[u64; 2], BpfError> {
        let mut lost = [0, 0];
        for cpu in self.cpus.iter() {
            let of_cpu = cpu?.lost;
            lost = [lost[0] + of_cpu[0], lost[1] + of_cpu[1]];
        }
        Ok(lost)
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use perf_event_open_sys::bindings::perf_event_mmap_page;

    use super::*;

    #[test]
    fn layouts_are_those_of_the_program() {
        assert_eq!((size_of::<RawCpu>(), offset_of!(RawCpu, lost)), (128, 32));
        // `DATA_HEAD`
        assert_eq!(offset_of!(perf_event_mmap_page, data_head), 1024);
        assert_eq!(offset_of!(perf_event_mmap_page, data_tail), 1032);
    }

    #[test]
    fn ring_buffers_follow_each_other() {
        let cpus = CpuList::from_iter([0, 3]);
        let place = |cpu, control| RingPlace { cpu, control, bytes: 2 * CHUNK };
        assert_eq!(places(&cpus, 2 * CHUNK), Some((vec![place(0, 0), place(3, 3)], 6)));
        assert_eq!(places(&cpus, usize::MAX), None);
    }
}
