use super::JsonArgs;

/// Arguments of `tare doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every item is ok, limited, missing or unknown. For each limit, doctor prints its effect and the
remedy: a command ($), or a setting elsewhere (>). It changes nothing and needs no privileges.

Examples:
  tare doctor                                  abilities of this machine and user
  sudo tare doctor                             abilities of root
  tare doctor --json | jq -r .verdict          one sentence
  tare doctor --json | jq .abilities.hardware  cycles and instructions")]
pub struct DoctorArgs {
    /// JSON.
    #[command(flatten)]
    pub json: JsonArgs,
}
