//! Prints the tables of docs/internals/statistics.md.
//!
//! Run it with `cargo run --release -p tare-measure --example paired`; `-- series N` simulates only
//! N series of `tare bench` of each kind.
#![allow(clippy::print_stdout)]

mod simulation;

use simulation::{designs, false_alarms, found_at_detectable, series, verdicts};

const TRIALS: u64 = 1000;
/// Fewer than `TRIALS`: each judges eleven metrics over hundreds of pairs.
const COMPARISONS: u64 = 300;

fn main() {
    let percent = |share: f64| format!("{:.1}%", 100.0 * share);
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some("series") {
        let trials = args.next().and_then(|number| number.parse().ok()).unwrap_or(TRIALS);
        return print_series(percent, trials);
    }
    println!("30 runs of each command, {TRIALS} trials: p < 0.05\n");
    println!("| method | equal commands | B takes 3% more |\n|---|---|---|");
    let equal = designs(1.0, TRIALS);
    let planted = designs(1.03, TRIALS);
    for (method, equal, planted) in [
        ("all runs of A, then all of B; Mann-Whitney", equal.blocks, planted.blocks),
        ("pairs in random order; Mann-Whitney", equal.unpaired, planted.unpaired),
        ("pairs in random order; signed-rank", equal.paired, planted.paired),
    ] {
        println!("| {method} | {} | {} |", percent(equal), percent(planted));
    }

    println!("\nEqual commands, {TRIALS} trials: p < 0.05\n\n| tested | false alarms |\n|---|---|");
    let alarms = false_alarms(TRIALS);
    println!("| time, 30 pairs | {} |", percent(alarms.one));
    println!("| any of 11 metrics, 30 pairs | {} |", percent(alarms.any));
    println!("| any of 11 metrics, 30 pairs, Holm | {} |", percent(alarms.any_holm));
    println!(
        "| time, stopping at the first p < 0.05, tested every 5 pairs up to 200 | {} |",
        percent(alarms.until_significant)
    );
    println!(
        "| time, stopping at the first sequential p < 0.01, tested after every pair up to 200 | {} |",
        percent(alarms.until_sequential)
    );
    println!(
        "| time, stopping when its interval is narrow enough | {} |",
        percent(alarms.until_narrow)
    );

    println!("\nAll rules together, {COMPARISONS} comparisons each\n");
    println!(
        "| B / A in time | no difference in time | slower | any wrong verdict | any metric undecided | interval contains the ratio | pairs |"
    );
    println!("|---|---|---|---|---|---|---|");
    for ratio in [1.0, 1.005, 1.01, 1.02, 1.03] {
        let v = verdicts(ratio, COMPARISONS);
        let shares = [v.none, v.slower, v.wrong, v.undecided, v.covered].map(percent).join(" | ");
        println!("| {ratio} | {shares} | {:.0} |", v.pairs);
    }

    println!(
        "\nSimulating the ratio that the judge reports as detectable in 80%, {COMPARISONS} comparisons each\n"
    );
    println!("| pairs | smallest detectable ratio | found |\n|---|---|---|");
    for pairs in [15, 30, 100] {
        let (ratio, found) = found_at_detectable(pairs, COMPARISONS);
        println!("| {pairs} | {ratio:.4} | {} |", percent(found));
    }
    print_series(percent, TRIALS);
}

/// Prints the table of series of `tare bench`.
fn print_series(percent: impl Fn(f64) -> String, trials: u64) {
    println!("\nSeries of `tare bench`, {trials} each\n");
    println!(
        "| commands | the last takes | --min-effect | --max-time | any false difference | last one slower | rounds |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (commands, ratio, min_effect, max_time) in
        [(5, 1.0, 0.01, 20), (2, 1.03, 0.01, 60), (2, 1.01, 0.005, 180)]
    {
        let shares = series(commands, ratio, min_effect, max_time, trials);
        println!(
            "| {commands} | {ratio} | {}% | {max_time} s | {} | {} | {:.0} |",
            min_effect * 100.0,
            percent(shares.wrong),
            percent(shares.slower),
            shares.rounds
        );
    }
}
