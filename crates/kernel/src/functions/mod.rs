//! Calls of functions and places that are passed: `bpf/probes.bpf.c`.

mod attach;
mod cost;
mod records;
mod registers;

use std::io;
use std::os::fd::BorrowedFd;

use aya::maps::{Array, MapData, PerCpuArray};
use aya::Pod;

pub use attach::ProbeLocation;
use attach::{Attached, attach};
pub use cost::ProbeCost;
pub use records::{ArgumentValue, CopiedStack, ProbeCall};
pub use registers::Register;

use crate::bpf::object::{self, LoadedObject, ObjectLoader};
use crate::bpf::{BpfError, FollowedTasks, RecordRing, follow_own};
use crate::histogram::Distribution;
use crate::host::Host;

/// How many arguments a probe has at most.
pub const ARGUMENTS: usize = 8;
/// How many loads an argument takes at most, the string that it ends at included.
pub const LOADS: usize = 4;
/// How many of the slowest calls are told at most.
pub const MOST_SLOWEST: u32 = 32;

/// What an argument begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentBase {
    /// A number.
    Constant(u64),
    /// A register when the function is called.
    Register(Register),
    /// What the function returned.
    Returned,
}

/// Memory that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// What is added to the address before.
    pub offset: i64,
    /// It is a program's memory, and not the kernel's.
    pub in_user_memory: bool,
}

/// How an argument is read: from the base, each load from the address that was found before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The begin.
    pub base: ArgumentBase,
    /// At most [`LOADS`], fewer by one with `text`.
    pub loads: Vec<Load>,
    /// How many bytes the last load has: 1, 2, 4 or 8.
    pub size: u8,
    /// A string lies there at last.
    pub text: Option<Load>,
}

/// A place, and what is read there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbePlan {
    /// What it is called in messages.
    pub name: String,
    /// Where.
    pub location: ProbeLocation,
    /// It is a function, which returns: its calls have a duration.
    pub returns: bool,
    /// At most [`ARGUMENTS`].
    pub arguments: Vec<Argument>,
    /// Each call is a record.
    pub each: bool,
    /// Calls that took less are no records, in nanoseconds.
    pub min_duration_ns: u64,
}

/// `struct argument`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct RawArgument {
    constant: u64,
    offsets: [i64; LOADS],
    at: u16,
    base: u8,
    loads: u8,
    size: u8,
    is_text: u8,
    user_loads: u8,
    unused: u8,
}

/// `struct probe`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct RawProbe {
    min_ns: u64,
    in_kernel: u8,
    each: u8,
    has_texts: u8,
    count: u8,
    unused: u32,
    arguments: [RawArgument; ARGUMENTS],
}

/// `struct sums`.
#[derive(Clone, Copy)]
#[repr(C)]
struct RawSums {
    calls: u64,
    returned: u64,
    total_ns: u64,
    max_ns: u64,
    histogram: Distribution,
}

// SAFETY: integers alone, and no padding: any bytes are a value.
#[allow(unsafe_code)]
unsafe impl Pod for RawProbe {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Pod for RawSums {}

impl RawArgument {
    fn new(argument: &Argument) -> Self {
        let (base, constant, at) = match argument.base {
            ArgumentBase::Constant(number) => (0, number, 0),
            ArgumentBase::Register(register) => (1, 0, register.offset()),
            ArgumentBase::Returned => (2, 0, Register::returned().offset()),
        };
        let mut raw = Self { constant, at, base, size: argument.size, ..Self::default() };
        let most = LOADS - usize::from(argument.text.is_some());
        for (number, load) in argument.loads.iter().take(most).enumerate() {
            raw.offsets[number] = load.offset;
            raw.user_loads |= u8::from(load.in_user_memory) << number;
            raw.loads += 1;
        }
        if let Some(text) = argument.text {
            raw.is_text = 1;
            raw.offsets[LOADS - 1] = text.offset;
            raw.user_loads |= u8::from(text.in_user_memory) << (LOADS - 1);
        }
        raw
    }
}

impl RawProbe {
    fn new(place: &ProbePlan) -> Self {
        let mut raw = Self {
            min_ns: place.min_duration_ns,
            in_kernel: u8::from(matches!(place.location, ProbeLocation::Kernel { .. })),
            each: u8::from(place.each),
            has_texts: u8::from(place.arguments.iter().any(|argument| argument.text.is_some())),
            count: u8::try_from(place.arguments.len()).unwrap_or(u8::MAX),
            ..Self::default()
        };
        for (into, argument) in raw.arguments.iter_mut().zip(&place.arguments) {
            *into = RawArgument::new(argument);
        }
        // What isn't there begins with nothing, and is read as the number 0.
        raw
    }
}

/// The sums of a place.
#[derive(Clone, Debug, Default)]
pub struct PlaceSums {
    /// How often it was called or passed.
    pub calls: u64,
    /// How many of the calls have returned: the others go on, ended without a return, or are
    /// nested deeper than the kernel follows (64 in a thread).
    pub returned: u64,
    /// How long those took that returned, in nanoseconds.
    pub total_ns: u64,
    /// How long the longest took, in nanoseconds.
    pub max_ns: u64,
    /// How long they took, by buckets.
    pub durations: Box<Distribution>,
}

impl PlaceSums {
    fn add(&mut self, raw: &RawSums) {
        self.calls += raw.calls;
        self.returned += raw.returned;
        self.total_ns += raw.total_ns;
        self.max_ns = self.max_ns.max(raw.max_ns);
        self.durations.add(&raw.histogram);
    }

    /// Adds those of another place.
    pub fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.returned += other.returned;
        self.total_ns += other.total_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.durations.add(&other.durations);
    }
}

/// Programs on functions. Dropped, they are gone.
pub struct Probes {
    attached: Vec<Attached>,
    programs: LoadedObject,
    ring: RecordRing,
    sums: PerCpuArray<MapData, RawSums>,
    /// How many places; the sums have one more, for calls of our own.
    places: u32,
    /// A function of this process, looked at too, and how long it takes without, in nanoseconds.
    own: Option<(Vec<Attached>, f64)>,
}

impl std::fmt::Debug for Probes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probes").field("attached", &self.attached).finish_non_exhaustive()
    }
}

/// Why places can't be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ProbesError {
    /// The programs can't be loaded or asked.
    #[error("{0}")]
    Bpf(#[from] BpfError),
    /// The kernel takes no probe there.
    #[error("{error}")]
    Attach {
        /// Which of the places.
        place: usize,
        /// What the kernel said.
        error: io::Error,
    },
}

impl Probes {
    /// Loads the programs and begins. `slowest` is how many of the slowest calls of each place are
    /// told, with their stacks; `ring_bytes` is a power of two and at least a page.
    ///
    /// # Errors
    /// See [`ProbesError`].
    pub fn start(
        places: &[ProbePlan],
        follow: &FollowedTasks,
        slowest: u32,
        ring_bytes: u32,
        host: &Host,
    ) -> Result<Self, ProbesError> {
        let count = u32::try_from(places.len()).unwrap_or(u32::MAX);
        let entries = count.saturating_add(1);
        let programs = ["sched_process_fork", "sched_process_exec"];
        let mut loaded = ObjectLoader::new(object::PROBES, &programs)
            .follow(follow)
            .record_ring(ring_bytes)
            .constant("slowest_count", slowest.min(MOST_SLOWEST))
            .map_size("probes", entries)
            .map_size("sums", entries)
            .map_size("slowest", entries)
            .load()?;
        for name in ["hit", "enter", "leave"] {
            loaded.load_probe(name)?;
        }
        let mut table: Array<_, RawProbe> = loaded.take_map("probes")?;
        let own = RawProbe { min_ns: u64::MAX, ..RawProbe::default() };
        for (number, probe) in (0..).zip(places.iter().map(RawProbe::new).chain([own])) {
            table.set(number, probe, 0).map_err(BpfError::from)?;
        }
        let ring = RecordRing::take(&mut loaded)?;
        let sums = loaded.take_map("sums")?;
        loaded.start(follow)?;
        let mut probes =
            Self { attached: Vec::new(), programs: loaded, ring, sums, places: count, own: None };
        for (number, place) in places.iter().enumerate() {
            let attached = probes.attach(&place.location, place.returns, number as u64, host);
            let attached =
                attached.map_err(|error| ProbesError::Attach { place: number, error })?;
            probes.attached.extend(attached);
        }
        // Now, as capabilities may be given up before it is needed.
        probes.own = cost::own_function(host).and_then(|location| {
            let bare_ns = cost::ns_per_call();
            Some((probes.attach(&location, true, count.into(), host).ok()?, bare_ns))
        });
        Ok(probes)
    }

    /// The return comes first, so that each call that is counted has one.
    fn attach(
        &self,
        location: &ProbeLocation,
        returns: bool,
        cookie: u64,
        host: &Host,
    ) -> io::Result<Vec<Attached>> {
        let names: &[(&str, bool)] =
            if returns { &[("leave", true), ("enter", false)] } else { &[("hit", false)] };
        let attached = |&(name, of_return): &(&str, bool)| {
            let program = self.programs.probe(name).map_err(io::Error::other)?;
            attach(program, location, of_return, cookie, host)
        };
        names.iter().map(attached).collect()
    }

    /// What becomes readable when one of the slowest calls has returned, or an eighth of the ring
    /// buffer is full. Less than that is there to be read without.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.ring.file()
    }

    /// Hands over the bytes of records that wait, in the order in which they were written: at most
    /// 10,000, as others may come as fast as these are read. Returns how many there were.
    ///
    /// # Errors
    /// The first of `each`.
    pub fn drain<E>(&mut self, each: impl FnMut(&[u8]) -> Result<(), E>) -> Result<usize, E> {
        self.ring.drain(each)
    }

    /// Ends the looking: what was written and summed up stays.
    pub fn stop(&mut self) {
        self.attached.clear();
    }

    /// The sums of each place.
    ///
    /// # Errors
    /// The kernel's own.
    pub fn read(&self) -> Result<Vec<PlaceSums>, BpfError> {
        (0..self.places).map(|place| self.sums_of(place)).collect()
    }

    fn sums_of(&self, place: u32) -> Result<PlaceSums, BpfError> {
        let mut sums = PlaceSums::default();
        self.sums.get(&place, 0)?.iter().for_each(|of_cpu| sums.add(of_cpu));
        Ok(sums)
    }

    /// How many records found no room in the ring buffer until now.
    ///
    /// # Errors
    /// The kernel's own.
    pub fn missing(&self) -> Result<u64, BpfError> {
        self.ring.missing()
    }

    /// What the programs cost on a function of this process: a few milliseconds of measuring. To
    /// be called once, after [`Probes::stop`]. `None` where it can't be found out.
    pub fn cost(&mut self) -> Option<ProbeCost> {
        let (_attached, bare_ns) = self.own.take()?;
        follow_own(self.programs.storage("tasks").ok()?).ok()?;
        let looked_at_ns = cost::ns_per_call();
        let sums = self.sums_of(self.places).ok().filter(|sums| sums.returned > 0)?;
        let empty_ns = sums.durations.quantile(0.5);
        Some(ProbeCost { call_ns: (looked_at_ns - bare_ns).max(0.0), empty_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_those_of_the_program() {
        assert_eq!((size_of::<RawArgument>(), size_of::<RawProbe>()), (48, 16 + 48 * ARGUMENTS));
        assert_eq!(size_of::<RawSums>(), 32 + 8 * 1152);
    }
}
