//! Names and sizes of the machine.

use tare_format::file::writer::Feature;
use tare_kernel::host::{CpuList, Host};

/// The identification of the first CPU of an arm64 machine.
const MIDR: &str = "/sys/devices/system/cpu/cpu0/regs/identification/midr_el1";

pub(super) fn features(host: &Host) -> Vec<Feature> {
    let text = |path: &str| host.read(path).ok().filter(|text| !text.is_empty());
    let cpuinfo = host.first_cpu();
    let found = [
        text("/proc/sys/kernel/hostname").map(Feature::Hostname),
        text("/proc/sys/kernel/osrelease").map(Feature::OsRelease),
        Some(Feature::Arch(arch(host))),
        cpus(host),
        description(&cpuinfo).map(Feature::CpuDescription),
        cpuid(&cpuinfo).or_else(|| text(MIDR)).map(Feature::CpuId),
        memory_kib(host).map(Feature::TotalMemoryKib),
    ];
    found.into_iter().flatten().collect()
}

/// Returns the machine's name as `uname -m` does. Kernels before 6.1 have no file with it.
fn arch(host: &Host) -> String {
    let from_uname = || rustix::system::uname().machine().to_string_lossy().into_owned();
    host.read("/proc/sys/kernel/arch").unwrap_or_else(|_| from_uname())
}

/// Reads a list of CPUs below `/sys/devices/system/cpu`.
pub(super) fn cpu_list(host: &Host, name: &str) -> Option<CpuList> {
    host.read(format!("/sys/devices/system/cpu/{name}")).ok()?.parse().ok()
}

/// Returns the highest number of a present CPU, plus 1.
pub(super) fn present_cpus(host: &Host) -> Option<u32> {
    let present = cpu_list(host, "present")?;
    present.as_slice().last().map(|last| last + 1)
}

fn cpus(host: &Host) -> Option<Feature> {
    let online = u32::try_from(cpu_list(host, "online")?.as_slice().len()).ok()?;
    Some(Feature::CpuCount { available: present_cpus(host)?, online })
}

/// Returns the value of the first line of `/proc/cpuinfo` with this key.
fn value<'a>(cpuinfo: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    pairs
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim())
        .filter(|value| !value.is_empty())
}

/// Returns the CPU's description. The key depends on the architecture: x86 and most others, 32-bit
/// arm, s390, powerpc, riscv.
fn description(cpuinfo: &str) -> Option<String> {
    let keys = ["model name", "Processor", "vendor_id", "cpu", "uarch"];
    keys.iter()
        .find_map(|key| value(cpuinfo, key))
        .map(|name| name.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns vendor, family, model and stepping of x86.
fn cpuid(cpuinfo: &str) -> Option<String> {
    let parts = ["vendor_id", "cpu family", "model", "stepping"].map(|key| value(cpuinfo, key));
    let parts: Option<Vec<_>> = parts.into_iter().collect();
    parts.map(|parts| parts.join(","))
}

pub(crate) fn memory_kib(host: &Host) -> Option<u64> {
    let meminfo = host.read("/proc/meminfo").ok()?;
    kib(&meminfo, "MemTotal:")
}

/// Returns the number in `MemTotal:   24731708 kB`, whatever precedes the name.
pub(super) fn kib(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.split_once(name))?;
    line.1.trim().split(' ').next()?.parse().ok()
}
