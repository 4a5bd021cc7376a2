//! Encodes feature sections.

use perf_event_open_sys::bindings::{PERF_RECORD_MISC_KERNEL, PERF_RECORD_MISC_USER};

use super::fields::{TEXT_ALIGN, encode_count, write_list, write_text};
use super::machine::{self, Cache, Caps, CpuTopology, MemoryTopology, NumaNode};
use super::{EventDescription, set_attr_sizes, stream};
use crate::file::features;
use crate::record::kind;

/// The bit of `misc` that marks a build id with a length (`tools/lib/perf/include/perf/event.h`).
const MISC_BUILD_ID_SIZE: u16 = 1 << 15;

/// A fact about the machine or the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Feature {
    /// The build ids of files that samples can lie in.
    BuildIds(Vec<BuildId>),
    /// `uname -n`.
    Hostname(String),
    /// `uname -r`.
    OsRelease(String),
    /// The recorder's version.
    Version(String),
    /// `uname -m`.
    Arch(String),
    /// Number of CPUs. The format's document has the two numbers in the other order; perf writes
    /// and reads them like this.
    CpuCount {
        /// The highest number of a present CPU, plus 1.
        available: u32,
        /// Number of CPUs that were online.
        online: u32,
    },
    /// The CPU's name.
    CpuDescription(String),
    /// The CPU's exact type; on x86 vendor, family, model and stepping, with commas.
    CpuId(String),
    /// Memory in KiB. The format's document says bytes; perf writes and reads KiB.
    TotalMemoryKib(u64),
    /// The recorder's command line, by argument.
    CommandLine(Vec<String>),
    /// How CPUs share sockets, dies and cores.
    CpuTopology(CpuTopology),
    /// The memory nodes.
    NumaTopology(Vec<NumaNode>),
    /// Samples hold branches. The section is empty.
    BranchStack,
    /// The groups of more than one event.
    Groups(Vec<Group>),
    /// The caches.
    Caches(Vec<Cache>),
    /// Which memory blocks belong to which node.
    MemoryTopology(MemoryTopology),
    /// Capabilities of the CPUs' PMU: names and values.
    CpuPmuCaps(Caps),
    /// Capabilities of other PMUs, with the PMU's name.
    PmuCaps(Vec<(String, Caps)>),
    /// The PMUs of each kind of core, and their CPUs as a list such as `0-3,8`.
    HybridTopology(Vec<(String, String)>),
    /// Types of PMUs (`perf_event_attr.type`) and their names.
    PmuMappings(Vec<(u32, String)>),
    /// Times of the first and the last sample, in nanoseconds of the recording's clock.
    SampleTime {
        /// Time of the first sample.
        first_ns: u64,
        /// Time of the last sample.
        last_ns: u64,
    },
    /// The resolution of the time stamps' clock, in nanoseconds.
    ClockResolutionNs(u64),
    /// The recording's clock relative to the time of day.
    Clock(Clock),
    /// Records are compressed with zstd.
    Compression {
        /// The compression level.
        level: u32,
        /// Bytes of records per compressed byte, rounded; at least 1.
        ratio: u32,
        /// Maximum number of bytes that a compressed record decompresses to.
        block_bytes: u32,
    },
}

/// The build id of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildId {
    /// Whether the file is the kernel or one of its modules.
    pub kernel: bool,
    /// The build id; bytes beyond 20 are dropped.
    pub id: Vec<u8>,
    /// The file's path, or `[kernel.kallsyms]`.
    pub path: String,
}

/// A group of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name; empty if it has none.
    pub name: String,
    /// The leader's index among the events.
    pub leader: u32,
    /// Number of events, the leader included.
    pub members: u32,
}

/// Two clocks, read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// `CLOCK_*` of the time stamps.
    pub clockid: u32,
    /// The time of day, in nanoseconds since 1970.
    pub wall_clock_ns: u64,
    /// The time stamps' clock, in nanoseconds.
    pub clock_ns: u64,
}

impl Feature {
    /// Returns the bit of the section.
    #[must_use]
    pub fn number(&self) -> u32 {
        match self {
            Self::BuildIds(_) => features::BUILD_ID,
            Self::Hostname(_) => features::HOSTNAME,
            Self::OsRelease(_) => features::OSRELEASE,
            Self::Version(_) => features::VERSION,
            Self::Arch(_) => features::ARCH,
            Self::CpuCount { .. } => features::NRCPUS,
            Self::CpuDescription(_) => features::CPUDESC,
            Self::CpuId(_) => features::CPUID,
            Self::TotalMemoryKib(_) => features::TOTAL_MEM,
            Self::CommandLine(_) => features::CMDLINE,
            Self::CpuTopology(_) => features::CPU_TOPOLOGY,
            Self::NumaTopology(_) => features::NUMA_TOPOLOGY,
            Self::BranchStack => features::BRANCH_STACK,
            Self::Groups(_) => features::GROUP_DESC,
            Self::Caches(_) => features::CACHE,
            Self::MemoryTopology(_) => features::MEM_TOPOLOGY,
            Self::CpuPmuCaps(_) => features::CPU_PMU_CAPS,
            Self::PmuCaps(_) => features::PMU_CAPS,
            Self::HybridTopology(_) => features::HYBRID_TOPOLOGY,
            Self::PmuMappings(_) => features::PMU_MAPPINGS,
            Self::SampleTime { .. } => features::SAMPLE_TIME,
            Self::ClockResolutionNs(_) => features::CLOCKID,
            Self::Clock(_) => features::CLOCK_DATA,
            Self::Compression { .. } => features::COMPRESSED,
        }
    }

    /// Encodes the section.
    #[must_use]
    pub fn content(&self) -> Vec<u8> {
        let mut into = Vec::new();
        match self {
            Self::BuildIds(ids) => ids.iter().for_each(|id| write_build_id(&mut into, id)),
            Self::Hostname(value)
            | Self::OsRelease(value)
            | Self::Version(value)
            | Self::Arch(value)
            | Self::CpuDescription(value)
            | Self::CpuId(value) => write_text(&mut into, value),
            Self::CpuCount { available, online } => {
                into.extend([available, online].map(|number| number.to_ne_bytes()).as_flattened());
            }
            Self::TotalMemoryKib(number) | Self::ClockResolutionNs(number) => {
                into.extend(number.to_ne_bytes());
            }
            Self::CommandLine(arguments) => {
                write_list(&mut into, arguments, |into, argument| write_text(into, argument));
            }
            Self::CpuTopology(topology) => machine::write_cpu_topology(&mut into, topology),
            Self::NumaTopology(nodes) => write_list(&mut into, nodes, machine::write_numa_node),
            Self::BranchStack => {}
            Self::Groups(groups) => write_list(&mut into, groups, write_group),
            Self::Caches(caches) => machine::write_caches(&mut into, caches),
            Self::MemoryTopology(memory) => machine::write_memory_topology(&mut into, memory),
            Self::CpuPmuCaps(caps) => write_list(&mut into, caps, machine::write_pair),
            Self::PmuCaps(pmus) => write_list(&mut into, pmus, |into, (name, caps)| {
                write_list(into, caps, machine::write_pair);
                write_text(into, name);
            }),
            Self::HybridTopology(pmus) => write_list(&mut into, pmus, machine::write_pair),
            Self::PmuMappings(pmus) => write_list(&mut into, pmus, |into, (kind, name)| {
                into.extend(kind.to_ne_bytes());
                write_text(into, name);
            }),
            Self::SampleTime { first_ns, last_ns } => {
                into.extend([first_ns, last_ns].map(|ns| ns.to_ne_bytes()).as_flattened());
            }
            Self::Compression { level, ratio, block_bytes } => {
                // The section's version, then PERF_COMP_ZSTD of `tools/perf/util/compress.h`.
                let version = 0_u32;
                let zstd = 1_u32;
                into.extend(
                    [version, zstd, *level, *ratio, *block_bytes]
                        .map(u32::to_ne_bytes)
                        .as_flattened(),
                );
            }
            Self::Clock(clock) => {
                let version = 1_u32;
                into.extend([version, clock.clockid].map(u32::to_ne_bytes).as_flattened());
                into.extend(
                    [clock.wall_clock_ns, clock.clock_ns].map(u64::to_ne_bytes).as_flattened(),
                );
            }
        }
        into
    }
}

/// Encodes the section `EVENT_DESC`: all events.
pub(super) fn encode_event_descriptions(events: &[EventDescription], attr_size: usize) -> Vec<u8> {
    let mut into = Vec::new();
    into.extend(encode_count(events.len()));
    into.extend(encode_count(attr_size));
    for event in events {
        let mut attr = event.attr.to_bytes();
        set_attr_sizes(&mut attr[..attr_size], attr_size, 0);
        into.extend(&attr[..attr_size]);
        into.extend(encode_count(event.ids.len()));
        write_text(&mut into, &event.name);
        into.extend(event.ids.iter().flat_map(|id| id.to_ne_bytes()));
    }
    into
}

fn write_group(into: &mut Vec<u8>, group: &Group) {
    write_text(into, &group.name);
    into.extend([group.leader, group.members].map(u32::to_ne_bytes).as_flattened());
}

/// Encodes `struct build_id_event`, which is a record, both in the section and in a stream. A file
/// whose path doesn't fit is left out; real paths are shorter (`PATH_MAX`).
fn write_build_id(into: &mut Vec<u8>, file: &BuildId) {
    let host: i32 = -1;
    let len = file.id.len().min(20);
    let mut id = [0; 24];
    id[..len].copy_from_slice(&file.id[..len]);
    // At most 20.
    id[20] = u8::try_from(len).unwrap_or(0);
    let mut path = file.path.clone().into_bytes();
    path.resize((path.len() + 1).next_multiple_of(TEXT_ALIGN), 0);
    let misc = if file.kernel { PERF_RECORD_MISC_KERNEL } else { PERF_RECORD_MISC_USER };
    // Both bits are among the lower 16.
    let misc = u16::try_from(misc).unwrap_or(0) | MISC_BUILD_ID_SIZE;
    _ = stream::write_record(into, kind::HEADER_BUILD_ID, misc, &[&host.to_ne_bytes(), &id, &path]);
}
