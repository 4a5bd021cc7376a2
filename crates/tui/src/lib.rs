//! Reports and comparisons on the whole of a terminal.
//!
//! ```text
//! recording --loader's thread--> Model <-- Query -- App <-- keys, mouse, signals --Input's threads
//!                                  \-------- what views show --> Buffer --> Screen
//! ```
//! The model knows no terminal, and the application draws into memory: both can be tested and used
//! without one.

mod app;
pub mod diff;
mod input;
mod keys;
mod list;
mod model;
mod paint;
mod terminal;
mod view;

use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::Signal;
use tare_format::file::Description;
use tare_profile::{Losses, Term};
use tare_replay::Recording;

use app::{App, Next, Settings};
use input::{Input, Message};
use model::{Model, Progress, Shared, Source};
use paint::Theme;
use terminal::Screen;

pub use keys::{Action, BINDINGS, Binding, View};

/// How often the screen changes while a recording is loaded.
const TICK: Duration = Duration::from_millis(100);

/// Of the time, how much may go into showing what isn't complete: one part of so many.
const SHOWING: u32 = 8;

/// What is to be shown, and how.
#[derive(Debug)]
pub struct Shown {
    /// The recording, at its front.
    pub recording: Recording,
    /// What it is called.
    pub name: String,
    /// Where symbols are looked for.
    pub symbols: tare_symbols::SymbolOptions,
    /// Places are told apart by the fields of tracepoints.
    pub trace: bool,
    /// Keep the recorder's own samples.
    pub include_self: bool,
    /// The table of functions.
    pub view: tare_render::View,
    /// Which samples are shown.
    pub terms: Vec<Term>,
    /// Without colours.
    pub is_plain: bool,
    /// Panics once something is shown: a test of what that leaves of the terminal.
    pub panics: bool,
    /// What a recording says of its machine and its events, in lines.
    pub header: fn(&Description) -> Vec<String>,
    /// Says what gives samples names that have none.
    pub mend: fn(&mut Losses, &tare_symbols::SymbolOptions),
}

/// How the interface ended.
#[derive(Debug)]
pub enum Ended {
    /// The user has seen enough.
    Quit,
    /// A signal ended it.
    Signal(i32),
    /// There was nothing to show: what is missing.
    NoSamples(Box<Losses>),
}

/// Shows a recording until the user has seen enough.
///
/// # Errors
/// The terminal can't be used.
pub fn run(shown: Shown) -> anyhow::Result<Ended> {
    let input = Input::new().context("signals can't be waited for")?;
    let Shown { recording, symbols, trace, include_self, panics, mend, .. } = shown;
    let source = Source { recording, symbols, trace, include_self, mend };
    let shared = Shared::new(Model::new(&source));
    let mut screen = Screen::take().context("the terminal can't be used (as text: --stdio)")?;
    input.start();
    let (filled, sender) = (shared.clone(), input.sender());
    std::thread::Builder::new().name("loader".to_owned()).spawn(move || {
        model::load(&filled, source);
        // Nobody waits for it any more where this fails.
        let _ = sender.send(Message::Loaded);
    })?;
    let settings = Settings {
        view: shown.view,
        terms: shown.terms,
        name: shown.name,
        theme: Theme { color: !shown.is_plain },
        header: shown.header,
    };
    Session { screen: &mut screen, input: &input, shared: &shared, panics }
        .go_on(App::new(settings))
}

/// What the interface needs of the outside.
struct Session<'a> {
    screen: &'a mut Screen,
    input: &'a Input,
    shared: &'a Shared,
    panics: bool,
}

impl Session<'_> {
    fn go_on(&mut self, mut app: App) -> anyhow::Result<Ended> {
        let mut refreshed = Instant::now();
        let mut cost = Duration::ZERO;
        let mut is_loading = true;
        loop {
            let mut model = self.shared.show();
            let was_loading = is_loading;
            is_loading = matches!(model.progress(), Progress::Loading(..));
            let is_due = was_loading && refreshed.elapsed() >= (cost * SHOWING).max(TICK * 2);
            let begun = Instant::now();
            app.refresh(&mut model, is_due || was_loading && !is_loading);
            if is_due {
                (cost, refreshed) = (begun.elapsed(), Instant::now());
            }
            if !is_loading && model.samples().is_empty() {
                return Ok(Ended::NoSamples(Box::new(model.losses().clone())));
            }
            let picture = app.picture(&mut model, self.screen.area());
            drop(model);
            self.screen.show(&picture).context("the terminal can't be written to")?;
            assert!(!self.panics, "this panic was asked for");
            if let Some(ended) = self.wait(&mut app, is_loading)? {
                return Ok(ended);
            }
        }
    }

    /// Waits until something happens, and takes in all that happened by then.
    fn wait(&mut self, app: &mut App, is_loading: bool) -> anyhow::Result<Option<Ended>> {
        let messages = self.input.messages();
        let mut next = if is_loading {
            match messages.recv_timeout(TICK) {
                Err(RecvTimeoutError::Timeout) => None,
                received => Some(received?),
            }
        } else {
            Some(messages.recv()?)
        };
        while let Some(message) = next {
            let stop = match message {
                Message::Terminal(event) => app.take(&mut self.shared.show(), &event),
                Message::Signal(number) if number == Signal::TSTP.as_raw() => Next::Suspend,
                Message::Signal(number) if is_ending(number) => {
                    return Ok(Some(Ended::Signal(number)));
                }
                Message::Gone => return Ok(Some(Ended::Signal(Signal::HUP.as_raw()))),
                Message::Signal(_) | Message::Loaded => Next::Show,
            };
            match stop {
                Next::Quit => return Ok(Some(Ended::Quit)),
                Next::Suspend => self.input.while_stopping(|| self.screen.suspend())?,
                Next::Show => {}
            }
            next = messages.try_recv().ok();
        }
        Ok(None)
    }
}

fn is_ending(signal: i32) -> bool {
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].iter().any(|one| one.as_raw() == signal)
}
