//! Rounds of a comparison: each runs every compared command once.

use super::definition::options;

/// Default of `--min-runs`, unless the metrics need more or `--max-runs` allows fewer.
pub const MIN_ROUNDS: usize = 10;

options! {
    /// Number of rounds, for `stat --vs` and `overhead --with`, the options in the group
    /// `compared`.
    #[derive(Clone, Debug, clap::Args)]
    pub struct RoundArgs {
        /// Uncounted rounds before the first counted one; a round runs each command once
        #[arg(long, value_name = "N", requires = "compared", default_value_t = 1)]
        pub warmup: usize,

        /// Fewest rounds [default: 10, or as many as the metrics need]
        #[arg(long, value_name = "N", requires = "compared")]
        pub min_runs: Option<usize>,

        /// Most rounds
        #[arg(long, value_name = "N", requires = "compared", default_value_t = 10_000)]
        pub max_runs: usize,

        /// Start no round after this time, once --min-runs is reached
        #[arg(long, value_name = "SECONDS", requires = "compared", default_value_t = 60.0)]
        pub max_time: f64,

        /// Smallest relevant difference in percent; rounds continue until the time is known to half
        /// of it
        #[arg(long, value_name = "PERCENT", requires = "compared", default_value = "1%")]
        pub min_effect: String,

        /// Use runs with a nonzero exit status too
        #[arg(long, requires = "compared")]
        pub ignore_failure: bool,

        // `stat` requires --vs with it, which only clap checks: `value_parser` leaves it to clap.
        /// Seed for the order of measurements [default: random]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64))]
        pub seed: Option<u64>,
    }
}
