//! Encodes facts about CPUs, caches and memory. The layouts are those that
//! `tools/perf/util/header.c` reads.

use super::fields::{write_list, write_text};

/// Capabilities of a PMU: names and values.
pub type Caps = Vec<(String, String)>;

/// How the machine's CPUs share sockets, dies and cores. A text is a list of CPUs such as `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuTopology {
    /// The CPUs of each socket.
    pub sockets: Vec<String>,
    /// The CPUs of each core.
    pub cores: Vec<String>,
    /// The CPUs of each die; empty if sockets aren't divided into dies.
    pub dies: Vec<String>,
    /// Core, socket and die of each CPU up to the highest present one, by number.
    pub cpus: Vec<CpuPlace>,
}

/// Core, socket and die of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuPlace {
    /// The core's number.
    pub core: u32,
    /// The socket's number.
    pub socket: u32,
    /// The die's number.
    pub die: u32,
}

/// A node of a machine with non-uniform memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaNode {
    /// Its number.
    pub node: u32,
    /// Its memory in KiB.
    pub total_kib: u64,
    /// Free memory in KiB.
    pub free_kib: u64,
    /// Its CPUs, as a list such as `0-3,8`.
    pub cpus: String,
}

/// A cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    /// 1 is the nearest to the CPU.
    pub level: u32,
    /// Bytes in a line.
    pub line_size: u32,
    /// Number of sets.
    pub sets: u32,
    /// Number of ways.
    pub ways: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// For example `32K`.
    pub size: String,
    /// The CPUs that share it, as a list.
    pub cpus: String,
}

/// Which memory belongs to which node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryTopology {
    /// Bytes in a block.
    pub block_bytes: u64,
    /// The nodes, each with the numbers of its blocks.
    pub nodes: Vec<(u64, Vec<u32>)>,
}

pub(super) fn write_cpu_topology(into: &mut Vec<u8>, topology: &CpuTopology) {
    write_list(into, &topology.sockets, |into, cpus| write_text(into, cpus));
    write_list(into, &topology.cores, |into, cpus| write_text(into, cpus));
    for cpu in &topology.cpus {
        into.extend([cpu.core, cpu.socket].map(u32::to_ne_bytes).as_flattened());
    }
    // Written even if empty: perf takes any bytes after the CPUs for the dies, also the padding of
    // a record.
    write_list(into, &topology.dies, |into, cpus| write_text(into, cpus));
    into.extend(topology.cpus.iter().flat_map(|cpu| cpu.die.to_ne_bytes()));
}

pub(super) fn write_numa_node(into: &mut Vec<u8>, node: &NumaNode) {
    into.extend(node.node.to_ne_bytes());
    into.extend([node.total_kib, node.free_kib].map(u64::to_ne_bytes).as_flattened());
    write_text(into, &node.cpus);
}

pub(super) fn write_caches(into: &mut Vec<u8>, caches: &[Cache]) {
    let version = 1_u32;
    into.extend(version.to_ne_bytes());
    write_list(into, caches, |into, cache| {
        into.extend(
            [cache.level, cache.line_size, cache.sets, cache.ways]
                .map(u32::to_ne_bytes)
                .as_flattened(),
        );
        [&cache.kind, &cache.size, &cache.cpus]
            .into_iter()
            .for_each(|value| write_text(into, value));
    });
}

pub(super) fn write_pair(into: &mut Vec<u8>, entry: &(String, String)) {
    let (name, value) = entry;
    write_text(into, name);
    write_text(into, value);
}

pub(super) fn write_memory_topology(into: &mut Vec<u8>, memory: &MemoryTopology) {
    let version = 1;
    into.extend(
        [version, memory.block_bytes, memory.nodes.len() as u64]
            .map(u64::to_ne_bytes)
            .as_flattened(),
    );
    for (node, blocks) in &memory.nodes {
        let bits = blocks.iter().max().map_or(0, |last| u64::from(*last) + 1);
        let mut words = vec![0_u64; usize::try_from(bits.div_ceil(64)).unwrap_or(0)];
        for block in blocks {
            words[*block as usize / 64] |= 1 << (block % 64);
        }
        // The number of bits is stored twice: for the node, and as the size of the bitmap.
        into.extend([*node, bits, bits].map(u64::to_ne_bytes).as_flattened());
        into.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    }
}
