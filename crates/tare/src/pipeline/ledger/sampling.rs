//! What sampling cost those who were sampled: samples times the cost of one, and the recorder's own
//! CPU time.

use serde::{Deserialize, Serialize};
use tare_measure::overhead::Estimate;

use super::Ledger;

/// What one sample of an event takes from the program that it interrupts.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct SampleCost {
    /// Microseconds.
    pub us: Estimate,
    /// How many times that a sample costs that interrupts the kernel, where its functions are
    /// looked up for a call chain.
    #[serde(default = "once")]
    pub in_kernel: f64,
    /// Whether `tare overhead` measured it on the host that recorded; else it is an estimate.
    pub calibrated: bool,
    /// Where it comes from, as part of a sentence.
    pub source: String,
    /// When it was measured, in seconds since 1970.
    pub time: Option<u64>,
}

/// For ledgers that don't tell.
fn once() -> f64 {
    1.0
}

impl SampleCost {
    /// Microseconds that samples took together, so many of which interrupted the kernel.
    pub(crate) fn of(&self, samples: f64, in_kernel: f64) -> Estimate {
        self.us.times(samples + (self.in_kernel - 1.0) * in_kernel)
    }
}

/// Whose CPU time a share is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ShareOf {
    /// What the command and its children used.
    Command,
    /// The time of the CPUs that were recorded, busy or not.
    Cpus,
    /// Of tasks whose CPU time is not known.
    #[default]
    Tasks,
}

/// What sampling cost, start-up and end of the recorder apart.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct SamplingCost {
    /// Nanoseconds that samples took: those in the recording, and those that found no room.
    pub samples_ns: Estimate,
    /// The recorder's CPU time while it recorded.
    pub recorder_ns: u64,
    /// Both, as a share of `cpu_ns`; `None` where that is not known.
    pub share: Option<Estimate>,
    /// Whose CPU time that is.
    pub of: ShareOf,
    /// That CPU time.
    pub cpu_ns: Option<u64>,
    /// Whether all of it goes by what was measured on the host.
    pub calibrated: bool,
}

impl SamplingCost {
    /// What this recording's samples cost, of so many CPUs or of a command; `None` where no event's
    /// cost is known.
    pub(crate) fn new(ledger: &Ledger, of: ShareOf, cpus: usize) -> Option<Self> {
        let known =
            || ledger.events.iter().filter_map(|event| Some((event, event.sample_cost.as_ref()?)));
        known().next()?;
        let mut samples_ns = Estimate::exact(0.0);
        for (event, cost) in known() {
            // Those that found no room are taken to be like the others.
            let all = event.samples.saturating_add(event.lost.unwrap_or(0)) as f64;
            let ns = cost.of(all, all * in_kernel(event)).times(1e3);
            samples_ns = Estimate {
                value: samples_ns.value + ns.value,
                low: samples_ns.low + ns.low,
                high: samples_ns.high + ns.high,
            };
        }
        let cpu_ns = match of {
            ShareOf::Command => ledger
                .command
                .as_ref()
                .map(|command| command.user_ns.saturating_add(command.system_ns)),
            ShareOf::Cpus => Some(ledger.recorded_ns.saturating_mul(cpus as u64)),
            ShareOf::Tasks => None,
        };
        let recorder_ns = ledger.cost.recording_cpu_ns;
        let share = cpu_ns.filter(|&cpu_ns| cpu_ns > 0).map(|cpu_ns| {
            let of = |ns: f64| (ns.max(0.0) + recorder_ns as f64) / cpu_ns as f64;
            Estimate {
                value: of(samples_ns.value),
                low: of(samples_ns.low),
                high: of(samples_ns.high),
            }
        });
        Some(Self {
            samples_ns,
            recorder_ns,
            share,
            of,
            cpu_ns,
            calibrated: known().all(|(_, cost)| cost.calibrated),
        })
    }
}

/// The share of samples that interrupted the kernel.
fn in_kernel(event: &super::Event) -> f64 {
    event.in_kernel as f64 / event.samples.max(1) as f64
}

/// The line that tells of it.
pub(super) fn line(ledger: &Ledger) -> Option<String> {
    let cost = ledger.sampling.as_ref()?;
    let amount = match cost.share {
        Some(share) => {
            let interval = if cost.calibrated {
                format!(" [{}, {}]", percent(share.low), percent(share.high))
            } else {
                String::new()
            };
            format!("{}%{interval}", percent(share.value))
        }
        None => format!("{:.1} ms", (cost.samples_ns.value + cost.recorder_ns as f64) / 1e6),
    };
    let of = match cost.of {
        ShareOf::Cpus => " of the recorded CPUs' time",
        _ if cost.share.is_some() => " of the target's CPU time",
        _ => "",
    };
    let one = |event: &super::Event| {
        let cost = event.sample_cost.as_ref()?;
        let share = in_kernel(event);
        let dearer = cost.in_kernel > 1.0 && share > 0.0;
        let more = if dearer {
            format!(", {} times that for the {:.0}% in the kernel", cost.in_kernel, 100.0 * share)
        } else {
            String::new()
        };
        Some(format!("{} {:.1} us a sample{more}, {}", event.name, cost.us.value, cost.source))
    };
    let costs: Vec<String> = ledger.events.iter().filter_map(one).collect();
    let recorder = format!("{:.1} ms of the recorder", cost.recorder_ns as f64 / 1e6);
    Some(format!(
        "sampling cost ≈ {amount}{of}, start-up apart: {recorder}, and samples ({})",
        costs.join("; ")
    ))
}

pub(super) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent < 0.1 { format!("{percent:.3}") } else { format!("{percent:.2}") }
}

#[cfg(test)]
mod tests {
    use super::super::{Command, Cost, Event, Recorder};
    use super::*;

    fn ledger(calibrated: bool) -> Ledger {
        let us = if calibrated {
            Estimate { value: 5.0, low: 4.0, high: 6.0 }
        } else {
            Estimate::exact(5.0)
        };
        let cost = SampleCost {
            us,
            in_kernel: 2.0,
            calibrated,
            source: if calibrated { "calibrated on h" } else { "an estimate" }.to_owned(),
            time: None,
        };
        Ledger {
            finished: true,
            events: vec![
                Event {
                    name: "cpu-clock".to_owned(),
                    samples: 900,
                    lost: Some(100),
                    sample_cost: Some(cost),
                    ..Event::default()
                },
                Event { name: "page-faults".to_owned(), samples: 7, ..Event::default() },
            ],
            recorded_ns: 2_000_000_000,
            cost: Cost { recording_cpu_ns: 5_000_000, ..Cost::default() },
            command: Some(Command { user_ns: 900_000_000, system_ns: 100_000_000 }),
            ..Ledger::of(Recorder::default())
        }
    }

    fn line_of(calibrated: bool, of: ShareOf) -> String {
        let mut ledger = ledger(calibrated);
        ledger.sampling = SamplingCost::new(&ledger, of, 2);
        line(&ledger).unwrap()
    }

    #[test]
    fn a_share_is_of_what_was_recorded_and_says_where_it_comes_from() {
        let command = "sampling cost ≈ 1.00% [0.90, 1.10] of the target's CPU time, start-up apart: 5.0 ms of the recorder, \
                       and samples (cpu-clock 5.0 us a sample, calibrated on h)";
        assert_eq!(line_of(true, ShareOf::Command), command);
        assert!(
            line_of(false, ShareOf::Cpus)
                .starts_with("sampling cost ≈ 0.25% of the recorded CPUs' time, ")
        );
        let tasks = line_of(false, ShareOf::Tasks);
        assert!(
            tasks.starts_with("sampling cost ≈ 10.0 ms, ") && tasks.contains("an estimate"),
            "{tasks}"
        );
    }

    #[test]
    fn samples_of_the_kernel_cost_more() {
        let mut ledger = ledger(false);
        ledger.events[0].in_kernel = 450;
        ledger.sampling = SamplingCost::new(&ledger, ShareOf::Command, 2);
        assert!(
            (ledger.sampling.as_ref().unwrap().samples_ns.value - 7_500_000.0).abs() < 1.0,
            "1,000 samples, 500 of which count twice"
        );
        assert!(line(&ledger).unwrap().contains(
            "cpu-clock 5.0 us a sample, 2 times that for the 50% in the kernel, an estimate"
        ));
    }

    #[test]
    fn events_of_unknown_cost_have_no_share() {
        let mut ledger = ledger(true);
        ledger.events.remove(0);
        assert_eq!(SamplingCost::new(&ledger, ShareOf::Command, 2), None);
    }
}
