/// Arguments of `tare stat`.
#[derive(Debug, clap::Args)]
pub struct Stat {
    /// The command to count, and its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<std::ffi::OsString>,
}
