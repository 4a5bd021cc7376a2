//! `tare agent`: profiles the whole machine continuously, into a store.
//!
//! The recorder runs on this thread; another one unwinds stacks and fills windows
//! (`tare_agent::Feed`), a third writes them. `session` is a recording with one configuration;
//! `place` is the store with what a killed agent left in it; `status` shows what was written.

mod place;
mod session;
mod status;

use tare_kernel::file_window::catch_bus_errors;
use tare_kernel::host::Host;
use tare_kernel::signals::Signals;

use self::session::{AgentSession, SessionEnd};
use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::agent::AgentOptions;
use crate::exit::{Exit, say};

pub(crate) fn run(raw: &raw::AgentArgs) -> Outcome {
    let host = Host::default();
    let options = AgentOptions::resolve(raw, &host)?;
    if raw.check {
        return status::print_config(&options, raw.json.json);
    }
    if raw.status {
        return status::print(options.config.folder(), raw.json.json);
    }
    serve(raw, options, &host)
}

/// Records until a signal or the timeout ends the agent. SIGHUP begins again with the options that
/// the file has then.
fn serve(raw: &raw::AgentArgs, mut options: AgentOptions, host: &Host) -> Outcome {
    let signals = Signals::block()?;
    catch_bus_errors();
    loop {
        let place = place::open(&options, host)?;
        let session = AgentSession::start(&options, host, place, &signals)?;
        match session.run()? {
            SessionEnd::Reload => match AgentOptions::resolve(raw, host) {
                Ok(changed) => options = changed,
                Err(error) => say(&format!("{error}; the earlier options stay")),
            },
            SessionEnd::Signal(_) | SessionEnd::Timeout => return Ok(Exit::Success),
            SessionEnd::Stopped => return Ok(Exit::Failure),
        }
    }
}
