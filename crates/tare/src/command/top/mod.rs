//! `tare top`: a live profile.
//!
//! The recorder runs on this thread and passes its records through `feed` to a replay in the same
//! process. `session` waits and measures tare's own cost; `text` prints.

mod feed;
mod session;
mod text;

use tare_events::OpenError;
use tare_kernel::capabilities::{CapabilitySet, keep_while_measuring};
use tare_kernel::child::FileLimit;
use tare_kernel::file_window::catch_bus_errors;
use tare_kernel::host::Host;
use tare_kernel::signals::Signals;
use tare_record::output::Output;
use tare_record::{Backend, PlanError, RecordError, Recorder, Recording, Start};
use tare_render::TableView;
use tare_replay::LiveOptions;
use tare_tui::{LiveScreen, LiveShown, UiExit};

use self::feed::{Feed, FeedSink};
use self::session::{LiveEnd, TopDisplay, TopSession};
use self::text::LivePrinter;
use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::report::RecordingTraits;
use crate::cli::resolved::top::{Top, TopForm};
use crate::command::record::{sample_cost, wording};
use crate::command::supervise::EndCause;
use crate::command::{header, remedy};
use crate::exit::{Exit, Refusal, say};
use crate::terminal;

pub(crate) fn run(raw: &raw::TopArgs) -> Outcome {
    let host = Host::default();
    let top = Top::resolve(raw, &host)?;
    catch_bus_errors();
    let outcome =
        if top.form == TopForm::Screen { on_screen(&top, &host) } else { as_text(&top, &host) };
    // Without a command there is no status to tell tare's own failures from (125): they exit with
    // 1.
    outcome.map_err(|error| match error.downcast::<Refusal>() {
        Ok(refusal) if refusal.exit == Exit::OwnFailure => {
            Refusal { exit: Exit::Failure, ..refusal }.into()
        }
        Ok(refusal) => refusal.into(),
        Err(error) => error,
    })
}

/// How the replay treats live records.
fn live_options(top: &Top) -> LiveOptions {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    LiveOptions {
        window: top.pace.window,
        symbols: top.symbols.clone(),
        left_out: (!top.options.include_self).then_some(own),
    }
}

/// Starts recording. Reports where the plan differs from the options.
fn start(top: &Top, host: &Host, feed: &Feed) -> anyhow::Result<Recording> {
    let files = FileLimit::now();
    let recorder = plan(top, host)?.with_costs(sample_cost::known(host.clone()));
    for warning in &recorder.plan().warnings {
        say(&wording::warning(warning));
    }
    let output = Output::to_sink(Box::new(FeedSink(feed.clone())));
    let start = Start { output, command: None, gives_other_rights: false, files: Some(&files) };
    let recording = recorder.start(start).map_err(|error| match &error {
        RecordError::Open(open) if is_cpu_wide_refused(open) => {
            suggest_own_processes(&remedy::for_open(open, host, &files)).into()
        }
        _ => wording::record_error(error, host, &files),
    })?;
    // A seccomp filter may refuse this call; tare then keeps its capabilities.
    let _ = keep_while_measuring(CapabilitySet::empty());
    Ok(recording)
}

/// Whether the user may not sample whole CPUs.
fn is_cpu_wide_refused(error: &OpenError) -> bool {
    matches!(error, OpenError::NotPermitted { per_cpu: true, .. })
}

/// Adds the command that works without these rights.
fn suggest_own_processes(refusal: &Refusal) -> Refusal {
    let own = "`tare top -p PID` shows your own processes without";
    Refusal { message: format!("{}; {own}", refusal.message), exit: refusal.exit }
}

/// Plans the recording. The default budget is dropped for tasks, for events with a period, and for
/// events whose samples' cost is unknown.
fn plan(top: &Top, host: &Host) -> anyhow::Result<Recorder> {
    let backend = || Backend { host: host.clone(), ..Backend::default() };
    let planned = match Recorder::new(top.options.clone(), backend()) {
        Err(error) if error.is_of_budget() && top.has_default_budget => {
            let mut options = top.options.clone();
            options.sampling.budget = None;
            Recorder::new(options, backend())
        }
        planned => planned,
    };
    let refused = |error: PlanError| {
        let refusal = wording::plan_error(&error, host);
        match error {
            PlanError::Open(open) if is_cpu_wide_refused(&open) => suggest_own_processes(&refusal),
            _ => refusal,
        }
    };
    Ok(planned.map_err(refused)?)
}

/// Returns how the profile is shown. `rows`: the number of rows that fit; `None` for all.
fn view(top: &Top, recording: &Recording, rows: Option<usize>) -> TableView {
    let has_callchains = recording.has_callchains();
    top.view(RecordingTraits { has_callchains, ..RecordingTraits::default() }, rows)
}

fn on_screen(top: &Top, host: &Host) -> Outcome {
    let screen = LiveScreen::new(live_options(top), top.pace, top.shows_trace())?;
    let feed = Feed::Screen(screen.feed());
    let recording = start(top, host, &feed)?;
    let shown = LiveShown {
        name: "SPACE pause".to_owned(),
        view: view(top, &recording, None),
        terms: top.terms.clone(),
        is_plain: terminal::is_plain(),
        header: header::lines,
    };
    let running = screen.start(shown)?;
    let mut session = TopSession::new(top, recording, feed, None)?;
    let end = session.run(&mut TopDisplay::Screen(&running), &|error| explain(error, host));
    // The terminal is restored before anything is printed.
    let closed = running.end();
    session.say_notices();
    let end = end?;
    match closed? {
        UiExit::Signal(number) => Ok(Exit::from_signal(number)),
        _ => Ok(exit(end)),
    }
}

fn as_text(top: &Top, host: &Host) -> Outcome {
    let signals = Signals::block()?;
    let feed = Feed::text(live_options(top), top.shows_trace());
    let recording = start(top, host, &feed)?;
    let mut printer = LivePrinter::new(top, |rows| view(top, &recording, rows));
    let mut session = TopSession::new(top, recording, feed, Some(&signals))?;
    let end = session.run(&mut TopDisplay::Text(&mut printer), &|error| explain(error, host))?;
    session.say_notices();
    // A signal ends the tables; before the first one, there is a last one.
    let is_enough = match end {
        LiveEnd::Unwritable => true,
        LiveEnd::Supervised(EndCause::Signal(_)) => printer.has_printed(),
        _ => false,
    };
    if !is_enough {
        session.finish(&mut printer)?;
    }
    printer.result()?;
    Ok(exit(end))
}

fn explain(error: RecordError, host: &Host) -> anyhow::Error {
    wording::record_error(error, host, &FileLimit::now())
}

fn exit(end: LiveEnd) -> Exit {
    match end {
        LiveEnd::TargetExit => {
            say("all sampled processes have exited");
            Exit::Success
        }
        LiveEnd::Supervised(EndCause::Signal(number)) => Exit::from_signal(number),
        _ => Exit::Success,
    }
}
