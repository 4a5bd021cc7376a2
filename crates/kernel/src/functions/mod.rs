//! Probes on functions and on instructions: `bpf/probes.bpf.c`.

mod attach;
mod cost;
mod own;
mod records;
mod registers;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;

use aya::Pod;
use aya::maps::{Array, MapData, PerCpuArray};

pub use attach::ProbeLocation;
use attach::{AttachedProgram, attach};
use cost::FunctionKind;
pub use cost::ProbeCost;
pub use records::{ArgumentValue, CopiedStack, ProbeCall};
pub use registers::Register;

use crate::bpf::object::{self, LoadedObject, ObjectLoader};
use crate::bpf::{BpfError, FollowedTasks, RecordRing, follow_own};
use crate::histogram::Distribution;
use crate::host::Host;

/// Most arguments of a probe.
pub const ARGUMENTS: usize = 8;
/// Most memory loads of an argument, including that of the string it ends at.
pub const LOADS: usize = 4;
/// Most of each place's slowest calls that are reported.
pub const MOST_SLOWEST: u32 = 32;

/// The first value from which an argument is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentBase {
    /// A number.
    Constant(u64),
    /// A register at the probed place.
    Register(Register),
    /// The function's return value.
    Returned,
}

/// A memory load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Added to the address.
    pub offset: i64,
    /// Whether the memory is the program's, not the kernel's.
    pub in_user_memory: bool,
}

/// How an argument is read: the first load from the address in the base, each other one from the
/// address that the load before it gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Where the value starts from.
    pub base: ArgumentBase,
    /// At most [`LOADS`], one fewer with `text`.
    pub loads: Vec<Load>,
    /// Bytes of the last load, unless a string follows: 1, 2, 4 or 8. The others have 8.
    pub size: u8,
    /// The load of a string at the end.
    pub text: Option<Load>,
    /// Whether memory is read at the return, from the base at the call.
    pub at_return: bool,
}

/// A probed place, and the arguments that are read there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbePlan {
    /// Its name in messages.
    pub name: String,
    /// The place.
    pub location: ProbeLocation,
    /// Whether it is a function's entry, so that calls have a duration.
    pub returns: bool,
    /// At most [`ARGUMENTS`].
    pub arguments: Vec<Argument>,
    /// Whether each call of at least `min_duration_ns` is a record.
    pub records_each: bool,
    /// Shortest call that is a record, in nanoseconds.
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
    at_return: u8,
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

// SAFETY: only integers and no padding, so any bytes are a valid value.
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
        let at_return = u8::from(argument.at_return);
        let mut raw =
            Self { constant, at, base, size: argument.size, at_return, ..Self::default() };
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
            each: u8::from(place.records_each),
            has_texts: u8::from(place.arguments.iter().any(|argument| argument.text.is_some())),
            count: u8::try_from(place.arguments.len()).unwrap_or(u8::MAX),
            ..Self::default()
        };
        for (into, argument) in raw.arguments.iter_mut().zip(&place.arguments) {
            *into = RawArgument::new(argument);
        }
        raw
    }
}

/// The sums of one place.
#[derive(Clone, Debug, Default)]
pub struct PlaceSums {
    /// Number of calls, or of passes.
    pub calls: u64,
    /// Number of calls that have returned. The others still run, ended without a return, or are
    /// nested deeper than the kernel follows (64 in a thread); of passes, always 0.
    pub returned: u64,
    /// Total time of the returned calls in nanoseconds.
    pub total_ns: u64,
    /// The longest call in nanoseconds.
    pub max_ns: u64,
    /// Their durations.
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

    /// Adds the sums of another place.
    pub fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.returned += other.returned;
        self.total_ns += other.total_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.durations.add(&other.durations);
    }
}

/// Attached probes. Dropping it detaches and unloads them.
pub struct Probes {
    attached: Vec<AttachedProgram>,
    programs: LoadedObject,
    ring: RecordRing,
    sums: PerCpuArray<MapData, RawSums>,
    /// Number of places; the map of sums has more behind them, for calls of [`ComparedFunction`]s.
    places: u32,
    /// Comparable functions, taken by [`Probes::cost`].
    compared: Vec<ComparedFunction>,
}

impl std::fmt::Debug for Probes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probes").field("attached", &self.attached).finish_non_exhaustive()
    }
}

/// A probed function that this process calls to measure the cost of a probe.
struct ComparedFunction {
    _attached: Vec<AttachedProgram>,
    kind: FunctionKind,
    /// Index of its sums.
    place: u32,
    /// Nanoseconds of a call without the probe.
    bare_ns: f64,
}

/// Why places can't be probed.
#[derive(Debug, thiserror::Error)]
pub enum ProbesError {
    /// The programs can't be loaded or read.
    #[error("{0}")]
    Bpf(#[from] BpfError),
    /// The kernel refuses the probe, or lacks probes of its kind.
    #[error("{error}")]
    Attach {
        /// Index of the place.
        place: usize,
        /// The kernel's error.
        error: io::Error,
    },
}

/// Fills the table of the probes: those of the places, then those of the compared functions, whose
/// calls are never reported.
fn fill_table<'a>(
    mut table: Array<MapData, RawProbe>,
    places: &[ProbePlan],
    compared: impl Iterator<Item = &'a FunctionKind>,
) -> Result<(), BpfError> {
    let compared = compared.map(|kind| RawProbe {
        min_ns: u64::MAX,
        in_kernel: u8::from(*kind == FunctionKind::Kernel),
        ..RawProbe::default()
    });
    for (number, probe) in (0..).zip(places.iter().map(RawProbe::new).chain(compared)) {
        table.set(number, probe, 0)?;
    }
    Ok(())
}

impl Probes {
    /// Loads and attaches the programs. `slowest` is the number of slowest calls of each place that
    /// are reported with their stacks; `ring_bytes` is a power of two and at least a page.
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
        let kinds = FunctionKind::list(places);
        let entries = count.saturating_add(u32::try_from(kinds.len()).unwrap_or(u32::MAX));
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
        fill_table(loaded.take_map("probes")?, places, kinds.keys())?;
        let ring = RecordRing::take(&mut loaded)?;
        let sums = loaded.take_map("sums")?;
        loaded.start(follow)?;
        let mut probes = Self {
            attached: Vec::new(),
            programs: loaded,
            ring,
            sums,
            places: count,
            compared: Vec::new(),
        };
        for (number, place) in places.iter().enumerate() {
            let attached = probes.attach(&place.location, place.returns, number as u64, host);
            let attached =
                attached.map_err(|error| ProbesError::Attach { place: number, error })?;
            probes.attached.extend(attached);
        }
        // Attached early, because the capabilities may be given up later.
        probes.compare(kinds, host);
        Ok(probes)
    }

    /// Probes the functions with which the probed ones are compared.
    fn compare(&mut self, kinds: BTreeMap<FunctionKind, bool>, host: &Host) {
        for (place, (kind, returns)) in (self.places..).zip(kinds) {
            let bare_ns = kind.ns_per_call();
            let attached = kind
                .location(host)
                .map(|location| self.attach(&location, returns, place.into(), host));
            // Without it the cost isn't measured.
            if let Some(Ok(attached)) = attached {
                let compared = ComparedFunction { _attached: attached, kind, place, bare_ns };
                self.compared.push(compared);
            }
        }
    }

    /// Attaches the programs to a place. The program at the return comes first, so that each
    /// counted call has a return.
    fn attach(
        &self,
        location: &ProbeLocation,
        returns: bool,
        cookie: u64,
        host: &Host,
    ) -> io::Result<Vec<AttachedProgram>> {
        let names: &[(&str, bool)] =
            if returns { &[("leave", true), ("enter", false)] } else { &[("hit", false)] };
        let attached = |&(name, of_return): &(&str, bool)| {
            let program = self.programs.file_of(name).map_err(io::Error::other)?;
            attach(program, location, of_return, cookie, host)
        };
        names.iter().map(attached).collect()
    }

    /// Returns the descriptor to wait for: the record of one of the slowest calls wakes the reader,
    /// and each record while more than an eighth of the ring buffer is full. Records can be drained
    /// before that.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.ring.file()
    }

    /// Hands over pending records in the order of their writing, as the bytes for
    /// [`ProbeCall::parse`]: at most 10,000, or all after [`Self::stop`].
    ///
    /// # Errors
    /// Returns the first error of `each`.
    pub fn drain<E>(&mut self, each: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        self.ring.drain(!self.attached.is_empty(), each).map(drop)
    }

    /// Detaches the probes; records and sums remain readable. The probe on a return goes after the
    /// one on its entry, so that each counted call has a return.
    pub fn stop(&mut self) {
        while let Some(last) = self.attached.pop() {
            drop(last);
        }
    }

    /// Returns the sums of each place.
    ///
    /// # Errors
    /// Fails if a map can't be read.
    pub fn read(&self) -> Result<Vec<PlaceSums>, BpfError> {
        (0..self.places).map(|place| self.sums_of(place)).collect()
    }

    fn sums_of(&self, place: u32) -> Result<PlaceSums, BpfError> {
        let mut sums = PlaceSums::default();
        self.sums.get(&place, 0)?.iter().for_each(|cpu| sums.add(cpu));
        Ok(sums)
    }

    /// Returns how many records the ring buffer had no room for so far.
    ///
    /// # Errors
    /// Fails if a map can't be read.
    pub fn missing(&self) -> Result<u64, BpfError> {
        self.ring.missing()
    }

    /// Measures the cost of the programs on functions that are comparable with the probed ones,
    /// which takes some milliseconds. To be called once, after [`Probes::stop`]. One for each kind
    /// of functions; none if it can't be measured.
    pub fn cost(&mut self) -> Vec<ProbeCost> {
        let follows = self.programs.storage("tasks").is_ok_and(|tasks| follow_own(tasks).is_ok());
        let compared = std::mem::take(&mut self.compared);
        let measure = |function: &ComparedFunction| {
            let probed_ns = function.kind.ns_per_call();
            let sums = self.sums_of(function.place).ok().filter(|sums| sums.calls > 0)?;
            let empty_ns = (sums.returned > 0).then(|| sums.durations.quantile(0.5));
            Some(ProbeCost { call_ns: (probed_ns - function.bare_ns).max(0.0), empty_ns })
        };
        compared.iter().filter(|_| follows).filter_map(measure).collect()
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
