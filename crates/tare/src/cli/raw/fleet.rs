use super::{EntryArgs, JsonArgs, ResultFileArgs, StoreArgs, TimeoutArgs, VersusStoreArgs};

/// Arguments of `tare fleet`.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("store", |arg| arg.help("The store [default: /var/lib/tare]")),
    mut_arg("since", |arg| arg.requires(clap::builder::Resettable::Reset)),
    mut_arg("until", |arg| arg.requires(clap::builder::Resettable::Reset)),
    mut_arg("conditions", |arg| arg.requires(clap::builder::Resettable::Reset)),
    mut_arg("versus_where", |arg| arg.requires(clap::builder::Resettable::Reset)),
    mut_arg("versus_since", |arg| arg.requires(clap::builder::Resettable::Reset)),
    mut_arg("versus_until", |arg| arg.requires(clap::builder::Resettable::Reset)),
    mut_arg("versus_store", |arg| arg.hide(true)),
    mut_arg("timeout", |arg| arg.help("Give up after MS milliseconds, and stop the engine")),
    after_help = "\
Questions:
  top       the services, hosts, functions, … with the most weight
  losses    hosts that lost samples, exceed the budget, have broken stacks or fell silent
  nameless  binaries whose functions have no names, and what would name them
  search    functions that match PATTERN: callers, CPU cores, costs
  flame     call chains, by service or another label: a tree, or a page with -o NAME.html
  diff      groups whose share differs between two sets of samples, A and B
  regressions  services that use more CPU time in their newest version, or in B
  sql       what SQL says: a select statement on the tables samples, frames and segments
  ddl       the SQL that defines the store's tables in an engine

Examples:
  tare fleet top --since 1h                       CPU by service
  tare fleet top --by function --total --where service=api
  tare fleet losses --since 1d                    hosts with a problem
  tare fleet regressions --since 1d               each service's newest version
  tare fleet search 'json.*parse' --cost-per-core-hour 0.04
  tare fleet flame --where service=api -o api.html
  tare fleet sql 'select distinct service, image from samples' --engine duckdb --since 1h
  tare fleet top --by host --show-sql             its SQL, on the tables of:
  tare fleet ddl")]
pub struct FleetArgs {
    /// What to ask
    pub question: FleetQuestion,

    /// Of `search`: a regular expression that matches a part of a function's name; of `sql`: a select
    /// statement on the tables of `ddl`
    #[arg(value_name = "PATTERN|SQL")]
    pub text: Option<String>,

    /// The samples.
    #[command(flatten)]
    pub stored: StoreArgs,

    /// B's samples.
    #[command(flatten)]
    pub versus: VersusStoreArgs,

    /// Only samples of this event
    #[arg(long, value_name = "EVENT")]
    pub event: Option<String>,

    /// Of `top`, `diff` and `flame`: sum by service, version, host, container, function, module, reason,
    /// process, thread, unit, namespace, pod, owner or image
    #[arg(long, value_name = "LABEL", default_value = "service", help_heading = "Question")]
    pub by: String,

    /// Of `top` and `diff`: add the weight below functions or modules
    #[arg(long, help_heading = "Question")]
    pub total: bool,

    /// Number of rows.
    #[command(flatten, next_help_heading = "Question")]
    pub entries: EntryArgs,

    /// Of `losses`: all hosts, not only those with a problem
    #[arg(long, help_heading = "Question")]
    pub all_hosts: bool,

    /// Of `losses`: list hosts where profiling costs more than this share of all CPUs' time
    #[arg(long, value_name = "PERCENT", default_value = "0.5%", help_heading = "Question")]
    pub budget: String,

    /// Of `search`: add what a function costs in a month
    #[arg(long, value_name = "MONEY", help_heading = "Question")]
    pub cost_per_core_hour: Option<f64>,

    /// Engine that answers: built-in, duckdb[=PROGRAM] (its command line or a Python with the package),
    /// clickhouse=URL, spark=SERVER or trino=URL
    #[arg(long, value_name = "ENGINE", default_value = "built-in", help_heading = "Engine")]
    pub engine: String,

    /// Print the SQL of the question on the tables of ddl, and exit
    #[arg(long, help_heading = "Engine")]
    pub show_sql: bool,

    /// Threads of the engine [default: built-in 2, others their own]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024), help_heading = "Engine")]
    pub threads: Option<u64>,

    /// Memory that an engine on this machine may use, such as 512M
    #[arg(long, value_name = "SIZE", help_heading = "Engine")]
    pub memory: Option<String>,

    /// User of a server
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub user: Option<String>,

    /// File with the user's password [env: TARE_FLEET_PASSWORD]
    #[arg(long, value_name = "FILE", help_heading = "Engine")]
    pub password_file: Option<std::path::PathBuf>,

    /// File with a token for a server, in place of a password [env: TARE_FLEET_TOKEN]
    #[arg(long, value_name = "FILE", conflicts_with = "password_file", help_heading = "Engine")]
    pub token_file: Option<std::path::PathBuf>,

    /// PEM file of the authorities that a server's certificate is checked by [default: the machine's]
    #[arg(long, value_name = "FILE", help_heading = "Engine")]
    pub ca_file: Option<std::path::PathBuf>,

    /// End.
    #[command(flatten, next_help_heading = "Engine")]
    pub end: TimeoutArgs,

    /// JSON.
    #[command(flatten, next_help_heading = "Output")]
    pub json: JsonArgs,

    /// Print comma-separated values
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub csv: bool,

    /// Destination.
    #[command(flatten)]
    pub result: ResultFileArgs,
}

/// A question of `tare fleet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FleetQuestion {
    /// Groups with the most weight
    Top,
    /// Hosts with a problem
    Losses,
    /// Binaries without names
    Nameless,
    /// Functions by pattern
    Search,
    /// Call chains
    Flame,
    /// Groups that differ between two sets of samples
    Diff,
    /// Services that use more CPU time
    Regressions,
    /// A select statement
    Sql,
    /// Statements that define the store's tables in an engine
    Ddl,
}
