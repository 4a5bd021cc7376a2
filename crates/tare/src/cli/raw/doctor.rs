/// Arguments of `tare doctor`.
#[derive(Debug, clap::Args)]
pub struct Doctor {
    /// Print one versioned JSON document.
    #[arg(long)]
    pub json: bool,
}
