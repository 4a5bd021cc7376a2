//! Reads or measures cycles per second, to turn a sampling frequency into a period of cycles.

use std::hint::black_box;
use std::time::{Duration, Instant};

use tare_format::abi::bindings::{PERF_COUNT_HW_CPU_CYCLES, PERF_TYPE_HARDWARE};
use tare_format::abi::{Attr, Flags, ReadFormat, Reading};
use tare_kernel::host::Host;
use tare_kernel::open::{EventTarget, Kernel};

const TIMES: ReadFormat = ReadFormat::TOTAL_TIME_ENABLED.union(ReadFormat::TOTAL_TIME_RUNNING);

/// Length of a counted loop, and number of runs. The fastest run is used, since a hypervisor may
/// interrupt the others.
const COUNTED: Duration = Duration::from_micros(500);
const RUNS: usize = 3;

/// Returns the CPUs' highest rated speed if the kernel controls it (`cpufreq/cpuinfo_max_freq`,
/// kHz), otherwise the measured current speed, as on virtual machines, which report none. Returns
/// `None` if this user can't count cycles, or if none are counted.
pub(super) fn cycles_per_second(host: &Host, kernel: &dyn Kernel) -> Option<u64> {
    let cpus = host.online_cpus().unwrap_or_default();
    let khz = |cpu: &u32| {
        host.read(format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq"))
            .ok()?
            .parse::<u64>()
            .ok()
    };
    let built_for =
        cpus.as_slice().iter().filter_map(khz).max().map(|khz| khz.saturating_mul(1000));
    built_for.or_else(|| (0..RUNS).filter_map(|_| count_cycles(kernel)).max()).filter(|&hz| hz > 0)
}

fn count_cycles(kernel: &dyn Kernel) -> Option<u64> {
    let flags = Flags::EXCLUDE_KERNEL | Flags::EXCLUDE_HV;
    let attr = Attr {
        kind: PERF_TYPE_HARDWARE,
        config: PERF_COUNT_HW_CPU_CYCLES.into(),
        read_format: TIMES,
        flags,
        ..Attr::default()
    };
    let event = kernel.open(&attr, EventTarget::Task(0), None).ok()?;
    let begin = Instant::now();
    while begin.elapsed() < COUNTED {
        for number in 0..10_000_u32 {
            black_box(number);
        }
    }
    let mut bytes = [0; 24];
    let len = event.read(&mut bytes).ok()?;
    let count = *Reading::decode(bytes.get(..len)?, TIMES).ok()?.counts.first()?;
    let a_second =
        (u128::from(count.value()) * 1_000_000_000).checked_div(count.running_ns().into())?;
    u64::try_from(a_second).ok()
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;
    use tare_kernel::fake::{Scripted, ScriptedAnswer};

    use super::*;

    #[test]
    fn the_rated_speed_is_used_or_else_cycles_are_counted() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::at(root.path());
        let of = |answer| cycles_per_second(&host, &Scripted::new().rule(|_, _| true, answer));
        assert_eq!(of(ScriptedAnswer::Count(1_500_000, 600_000, 500_000)), Some(3_000_000_000));
        assert_eq!(of(ScriptedAnswer::Refuse(Errno::NOENT)), None);
        assert_eq!(of(ScriptedAnswer::Count(0, 5, 5)), None, "a counter that stands still");
        for (file, text) in [("online", "0-1"), ("cpu1/cpufreq/cpuinfo_max_freq", "2400000\n")] {
            let file = root.path().join("sys/devices/system/cpu").join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        assert_eq!(of(ScriptedAnswer::Refuse(Errno::NOENT)), Some(2_400_000_000));
    }
}
