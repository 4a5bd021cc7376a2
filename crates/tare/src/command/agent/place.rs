//! The agent's place on the machine, with messages for the user.

pub(super) use tare_agent::{
    AGENT_FOLDER as FOLDER, AgentLocks, AgentPlace, STATUS_FILE as STATUS, segment_info,
};
use tare_kernel::host::Host;

use crate::cli::resolved::agent::AgentOptions;
use crate::exit::{Exit, Refusal, say};

/// Opens the store, completes what a killed agent left, and writes the gap that it left.
pub(super) fn open(options: &AgentOptions, host: &Host) -> Result<AgentPlace, Refusal> {
    let info = segment_info(&options.config, host, env!("CARGO_PKG_VERSION"));
    let notice = |notice: tare_agent::PlaceNotice| say(&notice.to_string());
    AgentPlace::open(&options.config, info, options.lock_folder.as_deref(), notice)
        .map_err(|error| Refusal { exit: Exit::Failure, message: error.to_string() })
}
