//! Prints the table of docs/internals/forks.md that compares starting periods.
//!
//! Run it with `cargo run --release -p tare-measure --example forks`.
#![allow(clippy::print_stdout)]

mod simulation;

use simulation::{POLICIES, Setting, simulate};

fn main() {
    println!(
        "| Hz | CPUs | events | children start | interrupts a second of CPU | events cloned a fork | CPU time unseen | tasks unseen |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (rate, cpus, events) in [
        (1000.0, 1, 1),
        (1000.0, 8, 1),
        (1000.0, 256, 1),
        (4000.0, 1, 1),
        (4000.0, 8, 5),
        (4000.0, 256, 5),
    ] {
        for policy in POLICIES {
            let outcome = simulate(&Setting { policy, cpus, events, rate, tasks: 20_000, seed: 1 });
            let unseen = 100.0 * outcome.unseen;
            let tasks = 100.0 * outcome.tasks_unseen;
            println!(
                "| {rate} | {cpus} | {events} | {policy:?} | {:.0} | {:.0} | {unseen:.1}% | {tasks:.1}% |",
                outcome.interrupts, outcome.cloned
            );
        }
    }
}
