//! `tare top`: what runs now, as it goes on.
//!
//! The recorder runs on this thread and hands its records to a replay in the same process. `feed` is
//! the way between them, `session` waits and measures what watching costs, `text` prints.

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
use tare_render::View;
use tare_replay::LiveOptions;
use tare_tui::{LiveScreen, LiveShown, UiExit};

use self::feed::{Feed, ToFeed};
use self::session::{Session, SessionEnd, Shows};
use self::text::Printer;
use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::report::RecordingTraits;
use crate::cli::resolved::top::{Top, TopForm};
use crate::command::record::{sample_cost, wording};
use crate::command::{header, remedy};
use crate::exit::{Exit, Refusal, say};
use crate::terminal;

pub(crate) fn run(raw: &raw::TopArgs) -> Outcome {
    let host = Host::default();
    let top = Top::resolve(raw, &host)?;
    catch_bus_errors();
    let shown =
        if top.form == TopForm::Screen { on_screen(&top, &host) } else { as_text(&top, &host) };
    // There is no command whose status tells tare's own failures apart.
    shown.map_err(|error| match error.downcast::<Refusal>() {
        Ok(refusal) if refusal.exit == Exit::OwnFailure => {
            Refusal { exit: Exit::Failure, ..refusal }.into()
        }
        Ok(refusal) => refusal.into(),
        Err(error) => error,
    })
}

/// How the recorder's samples reach whoever shows them.
fn live(top: &Top) -> LiveOptions {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    LiveOptions {
        window: top.pace.window,
        symbols: top.symbols.clone(),
        left_out: (!top.options.include_self).then_some(own),
    }
}

/// Begins to record. Says what differs from what was asked for.
fn start(top: &Top, host: &Host, feed: &Feed) -> anyhow::Result<Recording> {
    let files = FileLimit::now();
    let recorder = plan(top, host)?.with_costs(sample_cost::known(host.clone()));
    for warning in &recorder.plan().warnings {
        say(&wording::warning(warning));
    }
    let output = Output::to_sink(Box::new(ToFeed(feed.clone())));
    let start = Start { output, command: None, gives_other_rights: false, files: Some(&files) };
    let recording = recorder.start(start).map_err(|error| match &error {
        RecordError::Open(open) if is_whole(open) => {
            own_processes(&remedy::for_open(open, host, &files)).into()
        }
        _ => wording::record_error(error, host, &files),
    })?;
    // Where a filter refuses it, they stay.
    let _ = keep_while_measuring(CapabilitySet::empty());
    Ok(recording)
}

/// Whether whole CPUs may not be sampled.
fn is_whole(error: &OpenError) -> bool {
    matches!(error, OpenError::NotPermitted { per_cpu: true, .. })
}

/// Adds what may be sampled all the same.
fn own_processes(refusal: &Refusal) -> Refusal {
    let own = "`tare top -p PID` shows your own processes without";
    Refusal { message: format!("{}; {own}", refusal.message), exit: refusal.exit }
}

/// The plan, without the usual budget where it can't be kept: of tasks, and of what is not sampled by
/// time.
fn plan(top: &Top, host: &Host) -> anyhow::Result<Recorder> {
    let backend = || Backend { host: host.clone(), ..Backend::default() };
    let planned = match Recorder::new(top.options.clone(), backend()) {
        Err(
            PlanError::BudgetOfTasks
            | PlanError::BudgetOfPeriod { .. }
            | PlanError::BudgetOfUnknown { .. },
        ) if top.has_usual_budget => {
            let mut options = top.options.clone();
            options.sampling.budget = None;
            Recorder::new(options, backend())
        }
        planned => planned,
    };
    let refused = |error: PlanError| {
        let refusal = wording::plan_error(&error, host);
        match error {
            PlanError::Open(open) if is_whole(&open) => own_processes(&refusal),
            _ => refusal,
        }
    };
    Ok(planned.map_err(refused)?)
}

/// What is shown of samples, of rows those that `fit`.
fn view(top: &Top, recording: &Recording, fit: Option<usize>) -> View {
    let has_callchains = recording.has_callchains();
    top.view(RecordingTraits { has_callchains, only_tracepoints: false }, fit)
}

fn on_screen(top: &Top, host: &Host) -> Outcome {
    let screen = LiveScreen::new(live(top), top.pace, top.shows_trace())?;
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
    let mut session = Session::new(top, recording, feed);
    let over = session.run(&mut Shows::Screen(&running));
    // The terminal is given back before anything is said.
    let ended = running.end();
    session.say_notices();
    match (over.map_err(|error| wording::record_error(error, host, &FileLimit::now()))?, ended?) {
        (_, UiExit::Signal(number)) => Ok(Exit::by_signal(number)),
        (over, _) => Ok(said(over)),
    }
}

fn as_text(top: &Top, host: &Host) -> Outcome {
    let signals = Signals::block()?;
    let feed = Feed::text(live(top), top.shows_trace());
    let recording = start(top, host, &feed)?;
    let mut printer = Printer::new(top, |fit| view(top, &recording, fit));
    let mut session = Session::new(top, recording, feed);
    let over = session.run(&mut Shows::Text(&signals, &mut printer));
    let over = over.map_err(|error| wording::record_error(error, host, &FileLimit::now()))?;
    session.say_notices();
    if over != SessionEnd::Unwritable && !matches!(over, SessionEnd::Signal(_)) {
        session.finish(&mut printer)?;
    }
    printer.result()?;
    Ok(said(over))
}

/// The end in the user's words.
fn said(over: SessionEnd) -> Exit {
    match over {
        SessionEnd::TargetsEnded => {
            say("what was sampled has ended");
            Exit::Success
        }
        SessionEnd::Signal(number) => Exit::by_signal(number),
        SessionEnd::Interface
        | SessionEnd::Timeout
        | SessionEnd::Stopped
        | SessionEnd::Unwritable => Exit::Success,
    }
}
