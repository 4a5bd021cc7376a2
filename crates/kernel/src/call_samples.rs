//! System calls as the samples that perf events on `raw_syscalls:sys_enter` and `sys_exit` would
//! write, in ring buffers of the same layout: `bpf/samples.bpf.c`.

use std::os::fd::{AsFd, BorrowedFd};

use aya::Pod;
use aya::maps::{Array, Map, MapData, RingBuf};
use rustix::io::Errno;
use rustix::param::page_size;

use crate::bpf::object::{self, LoadedObject, ObjectLoader};
use crate::bpf::{BpfError, FollowedTasks};
use crate::host::CpuList;
use crate::ring::Ring;

/// Bytes of `struct chunk`, the unit of ring buffers.
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

// SAFETY: only integers and no padding, so any bytes are a valid value.
#[allow(unsafe_code)]
unsafe impl Pod for RawCpu {}

/// Which samples are written, and where.
#[derive(Clone, Copy, Debug)]
pub struct CallSamplesPlan<'a> {
    /// Whether all tasks but this process are followed.
    pub all_tasks: bool,
    /// The ids of the tracepoints `raw_syscalls:sys_enter` and `sys_exit`.
    pub tracepoints: [u32; 2],
    /// Bytes of data in a ring buffer, rounded up to a power of two; at least 64 KiB and at most
    /// 1 GiB.
    pub ring_bytes: usize,
    /// The CPUs with a ring buffer. Samples on others are lost, and counted.
    pub cpus: &'a CpuList,
    /// All possible CPUs.
    pub possible: &'a CpuList,
}

/// The place of a CPU's ring buffer in the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RingPlace {
    cpu: u32,
    /// The chunk whose last page is the control page; the data follow it.
    control: u32,
    /// Bytes of data.
    bytes: usize,
}

/// Places the ring buffers one after the other. Returns the places and the total number of chunks;
/// `None` if there are more than a `u32` can number.
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

/// Programs that write a sample at the beginning and end of each system call. Dropping it unloads
/// them; mapped ring buffers stay.
pub struct CallSamples {
    /// `None` after [`Self::stop`].
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
    /// The fields of the samples ([`tare_format::abi::Attr::sample_type`]): id, task, time by
    /// `CLOCK_MONOTONIC`, CPU, raw data.
    pub const SAMPLE_TYPE: u64 = {
        use tare_format::abi::bindings as abi;
        (abi::PERF_SAMPLE_IDENTIFIER
            | abi::PERF_SAMPLE_TID
            | abi::PERF_SAMPLE_TIME
            | abi::PERF_SAMPLE_CPU
            | abi::PERF_SAMPLE_RAW) as u64
    };

    /// The layout of the tracepoints' raw data: tracepoint, field, and the field's offset and size
    /// in bytes.
    pub const FIELDS: [(&'static str, &'static str, (usize, usize)); 6] = [
        ("sys_enter", "common_type", (0, 2)),
        ("sys_enter", "common_pid", (4, 4)),
        ("sys_enter", "id", (8, 8)),
        ("sys_enter", "args", (16, 48)),
        ("sys_exit", "id", (8, 8)),
        ("sys_exit", "ret", (16, 8)),
    ];

    /// The sample ids of `sys_enter` and `sys_exit`. They can't collide with the kernel's, which
    /// count up from 1.
    pub const IDS: [u64; 2] = [1 << 61, (1 << 61) + 1];

    /// Loads the programs. They run after [`Self::start`].
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

    /// Maps the ring buffers; to be called once, as each has one reader.
    ///
    /// # Errors
    /// Fails if a ring buffer can't be mapped.
    pub fn rings(&self) -> Result<Vec<(u32, Ring)>, Errno> {
        let map = |place: &RingPlace| {
            let data = (u64::from(place.control) + 1) * CHUNK as u64;
            let ring = Ring::at(self.rings.fd().as_fd(), data - page_size() as u64, place.bytes)?;
            Ok((place.cpu, ring))
        };
        self.places.iter().map(map).collect()
    }

    /// Marks the followed tasks and attaches the programs.
    ///
    /// # Errors
    /// See [`BpfError`].
    pub fn start(&mut self, follow: &FollowedTasks) -> Result<(), BpfError> {
        self.programs.as_mut().map_or(Ok(()), |programs| programs.start(follow))
    }

    /// Unloads the programs; written samples remain readable.
    pub fn stop(&mut self) {
        self.programs = None;
    }

    /// Returns the descriptor that becomes readable each time that another quarter of a ring buffer
    /// was filled, and stays so until [`Self::clear_wakes`].
    #[must_use]
    pub fn wakes(&self) -> BorrowedFd<'_> {
        self.wakes.as_fd()
    }

    /// Resets the wake-up; to be called before the ring buffers are read.
    pub fn clear_wakes(&mut self) {
        while self.wakes.next().is_some() {}
    }

    /// Returns how many samples of `sys_enter` and `sys_exit` were lost so far. If a ring buffer
    /// had no room, a `PERF_RECORD_LOST` reports the sum of both once there is room again.
    ///
    /// # Errors
    /// Fails if a map can't be read.
    pub fn lost(&self) -> Result<[u64; 2], BpfError> {
        let mut lost = [0, 0];
        for cpu in self.cpus.iter() {
            let [enter, exit] = cpu?.lost;
            lost = [lost[0] + enter, lost[1] + exit];
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
