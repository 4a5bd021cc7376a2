//! Which CPUs share sockets, dies, cores and caches.

use std::collections::BTreeSet;

use tare_format::file::writer::{Cache, CpuPlace, CpuTopology, Feature};
use tare_kernel::host::{CpuList, Host};

use super::machine::present_cpus;

pub(super) fn features(host: &Host) -> Vec<Feature> {
    let Some(cpus) = present_cpus(host) else { return Vec::new() };
    let mut features = vec![Feature::CpuTopology(topology(host, cpus))];
    let caches = caches(host, cpus);
    if !caches.is_empty() {
        features.push(Feature::Caches(caches));
    }
    features
}

fn topology(host: &Host, cpus: u32) -> CpuTopology {
    let read = |cpu: u32, file: &str| {
        host.read(format!("/sys/devices/system/cpu/cpu{cpu}/topology/{file}")).ok()
    };
    // File names since Linux 5.3, and before.
    let lists = |names: [&str; 2]| {
        let mut known = Vec::new();
        let mut covered = BTreeSet::<u32>::new();
        for cpu in 0..cpus {
            if covered.contains(&cpu) {
                continue;
            }
            let Some(list) = names.iter().find_map(|name| read(cpu, name)) else { continue };
            covered.extend(list.parse::<CpuList>().unwrap_or_default().as_slice());
            known.push(list);
        }
        known
    };
    let dies = lists(["die_cpus_list", "die_cpus_list"]);
    let place = |cpu: u32| {
        let folder = host.attributes(&format!("/sys/devices/system/cpu/cpu{cpu}/topology")).ok();
        // An offline CPU has no numbers; perf writes -1.
        let id = |file: &str| {
            let text = folder.as_ref().and_then(|folder| folder.read(file).ok());
            text.and_then(|text| text.parse::<i32>().ok()).unwrap_or(-1).cast_unsigned()
        };
        CpuPlace {
            core: id("core_id"),
            socket: id("physical_package_id"),
            die: if dies.is_empty() { 0 } else { id("die_id") },
        }
    };
    CpuTopology {
        sockets: lists(["package_cpus_list", "core_siblings_list"]),
        cores: lists(["core_cpus_list", "thread_siblings_list"]),
        cpus: (0..cpus).map(place).collect(),
        dies,
    }
}

/// Returns every cache once, the nearest first. A CPU that shares an already known cache at this
/// position is not read again.
fn caches(host: &Host, cpus: u32) -> Vec<Cache> {
    let mut known: Vec<(u32, CpuList, Cache)> = Vec::new();
    for cpu in 0..cpus {
        for index in 0.. {
            if known.iter().any(|(at, shared, _)| *at == index && shared.contains(cpu)) {
                continue;
            }
            let Some((shared, cache)) = cache(host, cpu, index) else { break };
            known.push((index, shared, cache));
        }
    }
    let mut caches: Vec<_> = known.into_iter().map(|(_, _, cache)| cache).collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

fn cache(host: &Host, cpu: u32, index: u32) -> Option<(CpuList, Cache)> {
    let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
    let folder = host.attributes(&folder).ok()?;
    let read = |file: &str| folder.read(file).ok();
    let number = |file: &str| read(file).and_then(|text| text.parse().ok());
    let cpus = read("shared_cpu_list")?;
    let cache = Cache {
        level: number("level")?,
        line_size: number("coherency_line_size").unwrap_or(0),
        sets: number("number_of_sets").unwrap_or(0),
        ways: number("ways_of_associativity").unwrap_or(0),
        kind: read("type")?,
        size: read("size").unwrap_or_default(),
        cpus: cpus.clone(),
    };
    // Only a list that contains the CPU itself is trusted.
    let shared = cpus.parse::<CpuList>().ok().filter(|list| list.contains(cpu));
    Some((shared.unwrap_or_else(|| [cpu].into_iter().collect()), cache))
}
