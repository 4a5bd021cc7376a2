//! Tests the claims of docs/internals/forks.md about the ways to follow forks.
//!
//! `cargo run --release -p tare-measure --example forks` prints the document's table.

#[path = "../examples/forks/simulation.rs"]
mod simulation;

use simulation::{POLICIES, Policy, Setting, draw_lifetime_ns, simulate};

fn setting(policy: Policy, cpus: usize, rate: f64) -> Setting {
    Setting { policy, cpus, events: 1, rate, tasks: 4_000, seed: 7 }
}

/// Half of the tasks run for less than 0.5 ms, and the longest 1% use more than a fifth of the
/// time.
#[test]
fn lifetimes_have_a_heavy_tail() {
    let mut rng = fastrand::Rng::with_seed(3);
    let mut lives: Vec<f64> = (0..10_000).map(|_| draw_lifetime_ns(&mut rng)).collect();
    lives.sort_by(f64::total_cmp);
    let all: f64 = lives.iter().sum();
    let longest: f64 = lives[9_900..].iter().sum();
    assert!(lives[5_000] < 0.5e6 && longest > 0.2 * all, "{} {}", lives[5_000], longest / all);
}

#[test]
fn per_cpu_events_sample_all_time_at_the_requested_rate() {
    for cpus in [1, 8, 256] {
        let outcome = simulate(&setting(Policy::PerCpu, cpus, 1000.0));
        assert!(
            outcome.unseen < 0.05 && (900.0..1001.0).contains(&outcome.interrupts),
            "{cpus}: {outcome:?}"
        );
        assert_eq!(outcome.cloned, 0.0);
    }
}

#[test]
fn inherited_events_are_cloned_for_each_cpu_and_lose_the_end_of_each_child() {
    for policy in POLICIES.into_iter().filter(|policy| *policy != Policy::PerCpu) {
        let small = simulate(&setting(policy, 1, 1000.0));
        let large = simulate(&Setting { events: 5, ..setting(policy, 256, 1000.0) });
        assert_eq!((small.cloned, large.cloned), (1.0, 1280.0));
        assert!(small.unseen > 0.1, "{policy:?}: {small:?}");
    }
}

#[test]
fn period_1_interrupts_more_and_a_stale_or_average_period_samples_fewer_tasks() {
    let at = |policy, rate| simulate(&setting(policy, 1, rate));
    let one = at(Policy::One, 4000.0);
    let stale = at(Policy::Stale, 4000.0);
    let average = at(Policy::Average, 4000.0);
    let per_cpu = at(Policy::PerCpu, 4000.0);
    assert!(one.interrupts > 1.5 * per_cpu.interrupts, "{one:?} {per_cpu:?}");
    assert!(one.tasks_unseen == 0.0 && stale.tasks_unseen > 0.1, "{stale:?}");
    assert!(average.interrupts < one.interrupts && average.unseen > per_cpu.unseen, "{average:?}");
}
