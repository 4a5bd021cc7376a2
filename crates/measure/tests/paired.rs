//! Tests the claims of docs/internals/statistics.md, with fewer trials than its tables.
//!
//! `cargo run --release -p tare-measure --example paired` prints the tables.

#[path = "../examples/paired/simulation.rs"]
mod simulation;

use simulation::{designs, false_alarms, found_at_detectable, series, verdicts};

#[test]
fn pairs_find_a_difference_that_blocks_hide() {
    let equal = designs(1.0, 100);
    let planted = designs(1.03, 100);
    assert!(equal.blocks > 0.3, "drift between blocks looks like a difference: {}", equal.blocks);
    assert!(equal.paired < 0.12, "{}", equal.paired);
    assert!(planted.paired > 0.85, "{}", planted.paired);
    assert!(planted.paired > planted.unpaired, "{} {}", planted.paired, planted.unpaired);
}

#[test]
fn false_alarms_come_from_many_metrics_and_from_stopping_on_significance() {
    let alarms = false_alarms(60);
    assert!(alarms.one < 0.12, "{}", alarms.one);
    assert!(alarms.any > 0.2, "{}", alarms.any);
    assert!(alarms.any_holm < 0.12, "{}", alarms.any_holm);
    assert!(alarms.until_significant > 0.2, "{}", alarms.until_significant);
    assert!(alarms.until_sequential < 0.05, "{}", alarms.until_sequential);
    assert!(alarms.until_narrow < 0.12, "{}", alarms.until_narrow);
}

#[test]
fn equal_commands_pass_and_three_percent_are_found() {
    let equal = verdicts(1.0, 4);
    assert!(equal.none > 0.9 && equal.wrong < 0.1, "{} {}", equal.none, equal.wrong);
    assert!(verdicts(1.03, 4).slower > 0.9);
}

#[test]
fn the_smallest_detectable_ratio_is_found_in_most_comparisons() {
    let (ratio, found) = found_at_detectable(40, 20);
    assert!(1.01 < ratio && ratio < 1.1, "{ratio}");
    assert!((0.5..0.99).contains(&found), "{found}");
}

#[test]
fn series_of_equal_commands_pass_and_five_percent_are_found() {
    assert_eq!(series(5, 1.0, 0.01, 5, 4).wrong, 0.0);
    let planted = series(3, 1.05, 0.02, 20, 4);
    assert!(planted.slower > 0.7 && planted.wrong == 0.0, "{planted:?}");
}
