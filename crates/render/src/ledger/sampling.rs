//! The overhead of sampling for the sampled tasks.

use tare_format::ledger::{Ledger, LedgerEvent, ShareOf, UnwoundChains};

use crate::plural::count;

/// Formats the overhead and the time that it is a share of.
pub(super) fn amount(ledger: &Ledger) -> Option<String> {
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
        ShareOf::Command if cost.share.is_some() => " of the command's CPU time",
        _ if cost.share.is_some() => " of the target's CPU time",
        _ => " of CPU time",
    };
    Some(format!("{amount}{of}"))
}

/// Returns the line of details.
pub(super) fn line(ledger: &Ledger) -> Option<String> {
    let cost = ledger.sampling.as_ref()?;
    let one = |event: &LedgerEvent| {
        let cost = event.sample_cost.as_ref()?;
        let share = event.share_in_kernel();
        let dearer = cost.in_kernel > 1.0 && share > 0.0;
        let more = if dearer {
            format!(" ({} times that for the {:.0}% in the kernel)", cost.in_kernel, 100.0 * share)
        } else {
            String::new()
        };
        Some(format!("{} {:.1} us per sample{more}, {}", event.name, cost.us.value, cost.source))
    };
    let mut costs: Vec<String> = ledger.events.iter().filter_map(one).collect();
    let copied = ledger.unwound.as_ref().filter(|unwound| unwound.copies > 0);
    costs.extend(copied.map(|UnwoundChains { copies, copies_ns, .. }| {
        format!("{} copied in {:.1} ms", count(*copies, "deep stack"), *copies_ns as f64 / 1e6)
    }));
    let recorder = format!("recorder {:.1} ms", cost.recorder_ns as f64 / 1e6);
    Some(format!("overhead without start and exit: {recorder}; {}", costs.join("; ")))
}

pub(super) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent < 0.1 { format!("{percent:.3}") } else { format!("{percent:.2}") }
}

#[cfg(test)]
mod tests {
    use tare_format::ledger::{Command, Cost, Estimate, Recorder, SampleCost, SamplingCost};

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
            origin: None,
            exact: calibrated,
            source: if calibrated { "calibrated on h" } else { "an estimate" }.to_owned(),
            time: None,
        };
        Ledger {
            finished: true,
            events: vec![
                LedgerEvent {
                    name: "cpu-clock".to_owned(),
                    samples: 900,
                    lost: Some(100),
                    sample_cost: Some(cost),
                    ..LedgerEvent::default()
                },
                LedgerEvent {
                    name: "page-faults".to_owned(),
                    samples: 7,
                    ..LedgerEvent::default()
                },
            ],
            recorded_ns: 2_000_000_000,
            cost: Cost { recording_cpu_ns: 5_000_000, ..Cost::default() },
            command: Some(Command { user_ns: 900_000_000, system_ns: 100_000_000 }),
            ..Ledger::new(Recorder::default())
        }
    }

    fn line_of(calibrated: bool, of: ShareOf) -> String {
        let mut ledger = ledger(calibrated);
        ledger.sampling = SamplingCost::new(&ledger, of, 2);
        line(&ledger).unwrap()
    }

    #[test]
    fn a_share_names_its_base_and_its_source() {
        let amount_of = |calibrated, of| {
            let mut ledger = ledger(calibrated);
            ledger.sampling = SamplingCost::new(&ledger, of, 2);
            amount(&ledger).unwrap()
        };
        let share = "1.00% [0.90, 1.10] of the command's CPU time";
        assert_eq!(amount_of(true, ShareOf::Command), share);
        assert_eq!(amount_of(false, ShareOf::Cpus), "0.25% of the recorded CPUs' time");
        assert_eq!(amount_of(false, ShareOf::Tasks), "10.0 ms of CPU time");
        let command = "overhead without start and exit: recorder 5.0 ms; cpu-clock 5.0 us per sample, calibrated on h";
        assert_eq!(line_of(true, ShareOf::Command), command);
        assert!(line_of(false, ShareOf::Tasks).contains("an estimate"));
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
            "cpu-clock 5.0 us per sample (2 times that for the 50% in the kernel), an estimate"
        ));
    }

    #[test]
    fn copies_of_deep_stacks_are_part_of_the_cost() {
        let mut ledger = ledger(false);
        let copies = UnwoundChains { copies: 20, copies_ns: 1_000_000, ..UnwoundChains::default() };
        ledger.unwound = Some(copies);
        ledger.sampling = SamplingCost::new(&ledger, ShareOf::Command, 2);
        let samples_ns = ledger.sampling.as_ref().unwrap().samples_ns;
        assert!((samples_ns.value - 6_000_000.0).abs() < 1.0, "{samples_ns:?}");
        assert!(line(&ledger).unwrap().ends_with("; 20 deep stacks copied in 1.0 ms"));
    }

    #[test]
    fn events_of_unknown_cost_have_no_share() {
        let mut ledger = ledger(true);
        ledger.events.remove(0);
        assert_eq!(SamplingCost::new(&ledger, ShareOf::Command, 2), None);
    }
}
