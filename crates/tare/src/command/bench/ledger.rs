//! What the machine did while a series ran, and which machine it is.

use tare_kernel::host::Host;

/// The machine's state when a series began.
#[derive(Debug)]
pub(super) struct Ledger {
    began: MachineState,
}

/// What the kernel says about the machine at a moment; `None`: it doesn't say.
#[derive(Clone, Copy, Debug, Default)]
struct MachineState {
    /// All CPU time, and the part that the hypervisor took, in ticks.
    ticks: Option<[u64; 2]>,
    /// The load average of the last minute.
    load: Option<f64>,
    /// Mean clock of the CPUs in GHz.
    clock: Option<f64>,
    /// Thermal throttling events of all CPUs.
    throttles: Option<u64>,
}

impl MachineState {
    fn read(host: &Host) -> Self {
        let cpus = host.online_cpus().map(|cpus| cpus.as_slice().to_vec()).unwrap_or_default();
        let of_cpus = |file: &str| -> Vec<u64> {
            let value = |cpu: &u32| {
                host.read(format!("/sys/devices/system/cpu/cpu{cpu}/{file}"))
                    .ok()?
                    .trim()
                    .parse()
                    .ok()
            };
            cpus.iter().filter_map(value).collect()
        };
        let clocks = of_cpus("cpufreq/scaling_cur_freq");
        let throttles = of_cpus("thermal_throttle/core_throttle_count");
        let sum = |values: &[u64]| (!values.is_empty()).then(|| values.iter().sum::<u64>());
        Self {
            ticks: host.read("/proc/stat").ok().and_then(|text| ticks(&text)),
            load: host
                .read("/proc/loadavg")
                .ok()
                .and_then(|text| text.split(' ').next()?.parse().ok()),
            clock: sum(&clocks).map(|sum| sum as f64 / clocks.len() as f64 / 1e6),
            throttles: sum(&throttles),
        }
    }
}

/// All ticks, and the stolen ones, from the first line of `/proc/stat`: user, nice, system, idle,
/// iowait, irq, softirq, steal (proc_stat(5)).
fn ticks(text: &str) -> Option<[u64; 2]> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> =
        line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    Some([fields.iter().sum(), *fields.get(7)?])
}

impl Ledger {
    /// Notes the state at the beginning.
    pub(super) fn begin(host: &Host) -> Self {
        Self { began: MachineState::read(host) }
    }

    /// What happened since, in sentences.
    pub(super) fn end(&self, host: &Host) -> Vec<String> {
        describe(&self.began, &MachineState::read(host))
    }
}

fn describe(began: &MachineState, ended: &MachineState) -> Vec<String> {
    let mut sentences = Vec::new();
    if let (Some(before), Some(after)) = (began.load, ended.load) {
        sentences.push(format!("Load average {before:.2} before, {after:.2} after."));
    }
    if let (Some(before), Some(after)) = (began.ticks, ended.ticks) {
        let all = after[0].saturating_sub(before[0]);
        let stolen = after[1].saturating_sub(before[1]);
        if stolen > 0 && all > 0 {
            let share = stolen as f64 / all as f64 * 100.0;
            sentences.push(format!("The hypervisor took {share:.1}% of the CPUs' time."));
        }
    }
    if let (Some(before), Some(after)) = (began.clock, ended.clock) {
        sentences.push(format!("CPU clock {before:.2} GHz before, {after:.2} GHz after."));
    }
    if let (Some(before), Some(after)) = (began.throttles, ended.throttles) {
        let times = after.saturating_sub(before);
        if times > 0 {
            sentences.push(format!("CPUs were throttled by heat {times} times."));
        }
    }
    sentences
}

/// Identifies the machine: name, CPU model, number of CPUs.
pub(super) fn machine(host: &Host) -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let model = host.first_cpu();
    let cpus = host.online_cpus().map_or(0, |cpus| cpus.as_slice().len());
    format!("{name}, {}, {cpus} CPUs", cpu_model(&model))
}

/// The model in a section of `/proc/cpuinfo`.
fn cpu_model(section: &str) -> &str {
    let model = section.lines().find_map(|line| line.strip_prefix("model name"));
    model.and_then(|rest| rest.split_once(':')).map_or("unknown CPU", |(_, model)| model.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_tell_load_steal_clock_and_throttling() {
        let began = MachineState {
            ticks: ticks("cpu  10 0 10 70 0 0 0 10 0 0\ncpu0 1"),
            load: Some(0.5),
            clock: Some(3.0),
            throttles: Some(1),
        };
        let ended = MachineState {
            ticks: ticks("cpu  60 0 10 70 0 0 0 60 0 0\n"),
            load: Some(1.0),
            clock: Some(2.0),
            throttles: Some(4),
        };
        assert_eq!(
            describe(&began, &ended),
            [
                "Load average 0.50 before, 1.00 after.",
                "The hypervisor took 50.0% of the CPUs' time.",
                "CPU clock 3.00 GHz before, 2.00 GHz after.",
                "CPUs were throttled by heat 3 times.",
            ]
        );
        assert!(describe(&MachineState::default(), &ended).is_empty());
        assert_eq!(ticks("intr 5"), None);
    }
}
