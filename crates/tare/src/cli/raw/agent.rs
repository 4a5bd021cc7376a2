use std::net::SocketAddr;
use std::path::PathBuf;

use super::{EventListArgs, JsonArgs, TimeoutArgs};

/// Arguments of `tare agent`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Options on the command line win over the file. SIGHUP reads the file again, SIGTERM and SIGINT write
the open window and end the agent.

Examples:
  tare agent                                  the whole machine, into /var/lib/tare
  tare agent --check --config agent.toml      is the configuration valid?
  tare agent --store profiles --window 10s    into a folder of yours, a segment every ten seconds
  tare agent --off-cpu --label-env version=APP_VERSION
                                              off-CPU time too, and versions from the environment
  tare agent --status                         what the running agent has written, and its cost")]
pub struct AgentArgs {
    /// Read options from FILE [default: /etc/tare/agent.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Check the options and the file, print them, and exit
    #[arg(long, conflicts_with = "status")]
    pub check: bool,

    /// Show what the agent of this store has written, and what it cost
    #[arg(long)]
    pub status: bool,

    /// JSON.
    #[command(flatten)]
    pub json: JsonArgs,

    /// Events to sample.
    #[command(flatten, next_help_heading = "Sampling")]
    pub events: EventListArgs,

    /// Sampling frequency in Hz, per event and CPU [default: 19]
    #[arg(short = 'F', long = "freq", value_name = "HZ", value_parser = clap::value_parser!(u64).range(1..))]
    pub frequency: Option<u64>,

    /// Record off-CPU time too
    #[arg(long)]
    pub off_cpu: bool,

    /// Limit the cost of sampling and of the agent to this share of all CPUs' time, by lowering the
    /// rate [default: 0.5%]
    #[arg(long, value_name = "PERCENT")]
    pub max_overhead: Option<String>,

    /// Lowest rate to which --max-overhead reduces sampling [default: 1]
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u64).range(1..))]
    pub min_rate: Option<u64>,

    /// Only tasks in and below this cgroup
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<String>,

    /// Keep the address of each instruction, for `tare annotate`
    #[arg(long)]
    pub keep_addresses: bool,

    /// Make a label of an environment variable; several add up. The labels `service` and `version`
    /// replace tare's own
    #[arg(long, value_name = "[LABEL=]VARIABLE", help_heading = "Labels")]
    pub label_env: Vec<String>,

    /// Make a label of command lines, which may hold secrets
    #[arg(long, help_heading = "Labels")]
    pub label_command_line: bool,

    /// Name of this host in the store [default: its host name]
    #[arg(long, value_name = "NAME", help_heading = "Labels")]
    pub host: Option<String>,

    /// Folder of the store, or s3://BUCKET/PREFIX [default: /var/lib/tare]
    #[arg(long, value_name = "DIR", help_heading = "Store")]
    pub store: Option<PathBuf>,

    /// Folder in which windows wait for a bucket [default: /var/lib/tare/spool]
    #[arg(long, value_name = "DIR", help_heading = "Store")]
    pub spool: Option<PathBuf>,

    /// Drop the oldest windows when those that wait are larger than SIZE [default: 1G]
    #[arg(long, value_name = "SIZE", help_heading = "Store")]
    pub spool_size: Option<String>,

    /// Length of a window, 10s to 10min [default: 60s]
    #[arg(long, value_name = "TIME", help_heading = "Store")]
    pub window: Option<String>,

    /// Delete windows older than TIME, such as 30d
    #[arg(long, value_name = "TIME", help_heading = "Store")]
    pub max_age: Option<String>,

    /// Delete the oldest windows when the store is larger than SIZE, such as 10G
    #[arg(long, value_name = "SIZE", help_heading = "Store")]
    pub max_size: Option<String>,

    /// Send windows to URL too, such as otlp+http://HOST:4318; several add up
    #[arg(long, value_name = "URL", help_heading = "Other systems")]
    pub push: Vec<String>,

    /// Serve the agent's figures as OpenMetrics at http://ADDRESS/metrics, such as 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS", help_heading = "Other systems")]
    pub metrics: Option<SocketAddr>,

    /// Let --metrics have an address that other machines reach
    #[arg(long, help_heading = "Other systems")]
    pub metrics_public: bool,

    /// End.
    #[command(flatten)]
    pub end: TimeoutArgs,
}
