//! Memory by NUMA node.

use tare_format::file::writer::{Feature, MemoryTopology, NumaNode};
use tare_kernel::host::{CpuList, Host};

use super::machine::kib;

const NODES: &str = "/sys/devices/system/node";

pub(super) fn features(host: &Host) -> Vec<Feature> {
    let online: CpuList = host
        .read(format!("{NODES}/online"))
        .ok()
        .and_then(|list| list.parse().ok())
        .unwrap_or_default();
    let nodes: Vec<_> =
        online.as_slice().iter().filter_map(|node| numa_node(host, *node)).collect();
    let mut features = Vec::new();
    if !nodes.is_empty() {
        features.push(Feature::NumaTopology(nodes));
    }
    features.extend(memory(host, &online).map(Feature::MemoryTopology));
    features
}

fn numa_node(host: &Host, node: u32) -> Option<NumaNode> {
    let meminfo = host.read(format!("{NODES}/node{node}/meminfo")).ok()?;
    let cpus = host.read(format!("{NODES}/node{node}/cpulist")).ok()?;
    Some(NumaNode {
        node,
        total_kib: kib(&meminfo, "MemTotal:")?,
        free_kib: kib(&meminfo, "MemFree:")?,
        cpus,
    })
}

/// Returns the memory blocks of each node; `None` if memory isn't hot-pluggable, so that there are
/// no blocks.
fn memory(host: &Host, nodes: &CpuList) -> Option<MemoryTopology> {
    let block_bytes = host.read("/sys/devices/system/memory/block_size_bytes").ok()?;
    let block_bytes = u64::from_str_radix(&block_bytes, 16).ok()?;
    let blocks = |node: u32| {
        let entries = std::fs::read_dir(host.path(&format!("{NODES}/node{node}"))).ok()?;
        let number = |name: &str| {
            name.strip_prefix("memory")?.parse().ok().filter(|number| *number < MAX_BLOCK)
        };
        let mut blocks: Vec<u32> =
            entries.filter_map(|entry| number(entry.ok()?.file_name().to_str()?)).collect();
        blocks.sort_unstable();
        Some((node.into(), blocks))
    };
    let nodes: Vec<_> = nodes
        .as_slice()
        .iter()
        .filter_map(|node| blocks(*node))
        .filter(|(_, blocks)| !blocks.is_empty())
        .collect();
    (!nodes.is_empty()).then_some(MemoryTopology { block_bytes, nodes })
}

/// Limit on block numbers, which sets the size of a bitmap: 64 TiB of memory in blocks of 128 MiB.
const MAX_BLOCK: u32 = 1 << 19;
