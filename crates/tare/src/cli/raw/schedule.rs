//! Start and end of a measurement.

use std::time::Duration;

use super::definition::options;

options! {
    /// End of a measurement, for `stat`, `record`, `top`, `trace`, `sched` and `lock`.
    #[derive(Clone, Debug, clap::Args)]
    #[command(next_help_heading = "Schedule")]
    pub struct TimeoutArgs {
        /// Stop after MS milliseconds; a command that tare started gets SIGTERM
        #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
        pub timeout: Option<u64>,
    }
}

impl TimeoutArgs {
    /// Returns the time after which the measurement ends.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        self.timeout.map(Duration::from_millis)
    }
}

options! {
    /// Start of a measurement, and control from outside, for `stat` and `record`.
    #[derive(Clone, Debug, clap::Args)]
    #[command(next_help_heading = "Schedule")]
    pub struct ControlArgs {
        /// Start MS milliseconds after the command (-1: when --control enables the events)
        #[arg(short = 'D', long, value_name = "MS", allow_negative_numbers = true)]
        pub delay: Option<String>,

        /// Read enable, disable, ping and stop from a descriptor or FIFO, and answer "ack":
        /// `fd:CTL[,ACK]` or `fifo:CTL[,ACK]`
        #[arg(long, value_name = "WHERE")]
        pub control: Option<String>,
    }
}
