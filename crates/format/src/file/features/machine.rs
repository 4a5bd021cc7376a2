//! Features of the machine: CPUs, caches, memory, PMUs. The layouts are those that
//! `tools/perf/util/header.c` writes.

use super::{
    CACHE, CPU_PMU_CAPS, CPU_TOPOLOGY, FeatureError, Features, HYBRID_TOPOLOGY, MEM_TOPOLOGY,
    NRCPUS, NUMA_TOPOLOGY, PMU_CAPS, PMU_MAPPINGS, decode_list,
};
use crate::bytes::{Cursor, Words};
use crate::limits;

/// How the CPUs share sockets, dies and cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuTopology<'a> {
    /// CPUs of each socket, as lists such as `0-3`.
    pub sockets: Vec<&'a [u8]>,
    /// CPUs of each core, as lists.
    pub cores: Vec<&'a [u8]>,
    /// CPUs of each die, as lists; empty if not recorded.
    pub dies: Vec<&'a [u8]>,
    /// Where each CPU is, by number; empty if not recorded.
    pub cpus: Vec<CpuPlace>,
}

/// Socket, die and core of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuPlace {
    /// The core's number (`topology/core_id` in sysfs).
    pub core: u32,
    /// The socket's number (`topology/physical_package_id` in sysfs).
    pub socket: u32,
    /// The die's number, if recorded.
    pub die: Option<u32>,
}

/// A node of a machine with non-uniform memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumaNode<'a> {
    /// Its number.
    pub node: u32,
    /// Its memory in KiB.
    pub total_kib: u64,
    /// Free memory in KiB.
    pub free_kib: u64,
    /// Its CPUs, as a list.
    pub cpus: &'a [u8],
}

/// A cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache<'a> {
    /// 1 is the nearest to the CPU.
    pub level: u32,
    /// Bytes in a line.
    pub line_size: u32,
    /// Number of sets.
    pub sets: u32,
    /// Number of ways.
    pub ways: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: &'a [u8],
    /// For example `32K`.
    pub size: &'a [u8],
    /// The CPUs that share it, as a list.
    pub cpus: &'a [u8],
}

/// Memory blocks by node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryTopology<'a> {
    /// Bytes in a block.
    pub block_bytes: u64,
    /// The nodes.
    pub nodes: Vec<MemoryNode<'a>>,
}

/// The memory of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryNode<'a> {
    /// Its number.
    pub node: u64,
    /// One bit for each block of the machine up to the last of this node: set for the node's
    /// blocks.
    pub bitmap: Words<'a>,
}

impl MemoryNode<'_> {
    /// Returns the number of the node's blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.bitmap.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

/// A name and its value.
pub type NameValue<'a> = (&'a [u8], &'a [u8]);

/// Capabilities of a PMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmuCaps<'a> {
    /// The PMU.
    pub pmu: &'a [u8],
    /// Names and values.
    pub caps: Vec<NameValue<'a>>,
}

fn decode_pair<'a>(fields: &mut Cursor<'a>) -> Option<NameValue<'a>> {
    Some((fields.header_string()?, fields.header_string()?))
}

impl Features {
    /// Returns the highest number of a present CPU, plus 1, and the number of CPUs that were
    /// online.
    ///
    /// # Errors
    /// See [`FeatureError`].
    pub fn cpus(&self) -> Result<(u32, u32), FeatureError> {
        self.decode(NRCPUS, |fields| Some((fields.u32()?, fields.u32()?)))
    }

    /// Returns how the CPUs share sockets, dies and cores.
    ///
    /// # Errors
    /// See [`FeatureError`].
    pub fn cpu_topology(&self) -> Result<CpuTopology<'_>, FeatureError> {
        let cpus = self.cpus().map_or(0, |(available, _)| available);
        self.decode(CPU_TOPOLOGY, |fields| {
            let sockets = decode_list(fields, Cursor::header_string)?;
            let cores = decode_list(fields, Cursor::header_string)?;
            let mut topology = CpuTopology { sockets, cores, dies: Vec::new(), cpus: Vec::new() };
            if fields.rest().is_empty() || cpus > limits::LIST_ITEMS {
                return Some(topology);
            }
            let place =
                |_| Some(CpuPlace { core: fields.u32()?, socket: fields.u32()?, die: None });
            topology.cpus = (0..cpus).map(place).collect::<Option<_>>()?;
            if fields.rest().len() >= 4 {
                topology.dies = decode_list(fields, Cursor::header_string)?;
                topology.cpus.iter_mut().for_each(|cpu| cpu.die = fields.u32());
            }
            Some(topology)
        })
    }

    /// Returns the memory nodes.
    ///
    /// # Errors
    /// See [`FeatureError`].
    pub fn numa_topology(&self) -> Result<Vec<NumaNode<'_>>, FeatureError> {
        self.decode(NUMA_TOPOLOGY, |fields| {
            decode_list(fields, |fields| {
                Some(NumaNode {
                    node: fields.u32()?,
                    total_kib: fields.u64()?,
                    free_kib: fields.u64()?,
                    cpus: fields.header_string()?,
                })
            })
        })
    }

    /// Returns the type (`perf_event_attr.type`) and name of each PMU.
    ///
    /// # Errors
    /// See [`FeatureError`].
    pub fn pmu_mappings(&self) -> Result<Vec<(u32, &[u8])>, FeatureError> {
        self.decode(PMU_MAPPINGS, |fields| {
            decode_list(fields, |fields| Some((fields.u32()?, fields.header_string()?)))
        })
    }

    /// Returns the capabilities of the CPUs' PMU, if all have the same: names and values.
    ///
    /// # Errors
    /// See [`FeatureError`].
    pub fn cpu_pmu_caps(&self) -> Result<Vec<NameValue<'_>>, FeatureError> {
        self.decode(CPU_PMU_CAPS, |fields| decode_list(fields, decode_pair))
    }

    /// Returns the capabilities of the other PMUs.
    ///
    /// # Errors
    /// See [`FeatureError`].
    pub fn pmu_caps(&self) -> Result<Vec<PmuCaps<'_>>, FeatureError> {
        self.decode(PMU_CAPS, |fields| {
            decode_list(fields, |fields| {
                let caps = decode_list(fields, decode_pair)?;
                Some(PmuCaps { pmu: fields.header_string()?, caps })
            })
        })
    }

    /// Returns the PMU of each kind of core, and its CPUs as a list.
    ///
    /// # Errors
    /// See [`FeatureError`].
    pub fn hybrid_topology(&self) -> Result<Vec<NameValue<'_>>, FeatureError> {
        self.decode(HYBRID_TOPOLOGY, |fields| decode_list(fields, decode_pair))
    }

    /// Returns the caches.
    ///
    /// # Errors
    /// See [`FeatureError`]. A version other than 1 is malformed.
    pub fn caches(&self) -> Result<Vec<Cache<'_>>, FeatureError> {
        self.decode(CACHE, |fields| {
            fields.u32().filter(|version| *version == 1)?;
            decode_list(fields, |fields| {
                Some(Cache {
                    level: fields.u32()?,
                    line_size: fields.u32()?,
                    sets: fields.u32()?,
                    ways: fields.u32()?,
                    kind: fields.header_string()?,
                    size: fields.header_string()?,
                    cpus: fields.header_string()?,
                })
            })
        })
    }

    /// Returns which memory blocks belong to which node.
    ///
    /// # Errors
    /// See [`FeatureError`]. A version other than 1 is malformed.
    pub fn memory_topology(&self) -> Result<MemoryTopology<'_>, FeatureError> {
        self.decode(MEM_TOPOLOGY, |fields| {
            fields.u64().filter(|version| *version == 1)?;
            let block_bytes = fields.u64()?;
            let count = fields.u64().filter(|count| *count <= limits::LIST_ITEMS.into())?;
            let node = |_| {
                // The number of bits is stored twice: for the node, and as the size of the bitmap.
                let node = fields.u64()?;
                let _bits = fields.u64()?;
                let bits = fields.u64()?;
                Some(MemoryNode { node, bitmap: fields.words(bits.div_ceil(64))? })
            };
            Some(MemoryTopology {
                block_bytes,
                nodes: (0..count).map(node).collect::<Option<_>>()?,
            })
        })
    }
}
