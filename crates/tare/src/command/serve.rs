//! `tare serve`: a web page on a store or a recording.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::process::Signal;
use tare_kernel::signals::Signals;
use tare_render::flame::Collector;
use tare_serve::{RecordedProfile, Server, Source};
use tare_tui::ProgressLine;

use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::serve::Serve;
use crate::command::output::write_to;
use crate::command::samples::{NeededParts, Read, replay};
use crate::exit::{Exit, say};

pub(crate) fn run(raw: raw::ServeArgs) -> Outcome {
    let serve = Serve::resolve(raw)?;
    let address = serve.options.address;
    let source = open(&serve)?;
    let signals = Signals::block()?;
    let server = Server::bind(serve.options, source)?;
    let link = server.link()?;
    write_to(Path::new("-"), |out| writeln!(out, "{link}").and_then(|()| out.flush()))?;
    if address.ip().is_loopback() {
        say("open this link in a browser of this machine; Ctrl-C ends");
    } else {
        say(&format!(
            "without TLS, {address} sends the token and all names in clear text: let a proxy on this machine provide TLS, and name it with --host"
        ));
    }
    loop {
        server.run(signals.as_fd())?;
        if let Some(signal) = signals.next()?.filter(|one| one.number != Signal::CHILD.as_raw()) {
            return Ok(Exit::from_signal(signal.number));
        }
    }
}

fn open(serve: &Serve) -> anyhow::Result<Source> {
    if let Some(store) = &serve.store {
        return Ok(Source::for_store(store)?);
    }
    let mut samples = Collector::default();
    let progress = ProgressLine::begin();
    let read = replay(&serve.samples, NeededParts::default(), &mut samples, &progress)?;
    let Read { profile, ledger, session: origin, .. } = read;
    let name = serve.samples.input.display().to_string();
    Ok(Source::for_recording(RecordedProfile { name, profile, ledger, origin }, samples))
}
