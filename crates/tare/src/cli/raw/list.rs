/// Arguments of `tare list`.
#[derive(Debug, clap::Args)]
pub struct List {
    /// Print one versioned JSON document.
    #[arg(long)]
    pub json: bool,
}
