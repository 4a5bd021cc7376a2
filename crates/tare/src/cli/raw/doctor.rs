/// Arguments of `tare doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every item is ok, limited, missing or unknown. For a shortcoming, doctor says what it costs and what
lifts it: a command ($), or a setting elsewhere (>). It changes nothing itself, and needs no rights.

Examples:
  tare doctor                                  what this machine and user can do
  sudo tare doctor                             the same for root: what rights would bring
  tare doctor --json | jq -r .verdict          one sentence
  tare doctor --json | jq .abilities.hardware  whether cycles and instructions can be counted")]
pub struct DoctorArgs {
    /// Print one versioned JSON document.
    #[arg(long)]
    pub json: bool,
}
