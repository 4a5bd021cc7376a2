//! Prints a live profile as text or JSON.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use tare_profile::{Profile, SampleStore, Selection, Term};
use tare_render::{LiveFigures, TableView, live_json, live_line};
use tare_replay::{Live, SampleSink};

use super::feed::Feed;
use crate::cli::resolved::top::{Top, TopForm};

/// Lines of a screen that aren't rows of the table.
const OTHER_LINES: usize = 10;

/// Moves the cursor to the top, and clears the screen and the scrollback.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// Prints the profile of the last seconds.
pub(super) struct LivePrinter {
    view: TableView,
    terms: Vec<Term>,
    is_json: bool,
    is_screen: bool,
    span: Duration,
    has_printed: bool,
    result: io::Result<()>,
}

impl LivePrinter {
    /// `view` returns how the profile is shown, for the number of rows that fit; `None` for all.
    pub(super) fn new(top: &Top, view: impl FnOnce(Option<usize>) -> TableView) -> Self {
        let is_json = top.form == TopForm::Json;
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
        let is_screen = !is_json && io::stdout().is_terminal();
        let rows = size.filter(|_| is_screen).map(|size| usize::from(size.ws_row));
        Self {
            view: view(rows.map(|rows| rows.saturating_sub(OTHER_LINES).max(1))),
            terms: top.terms.clone(),
            is_json,
            is_screen,
            span: top.pace.span(),
            has_printed: false,
            result: Ok(()),
        }
    }

    /// Prints the samples of the last `span`. Returns `false` if they can't be written.
    pub(super) fn print(&mut self, feed: &Feed, figures: &LiveFigures) -> bool {
        self.has_printed = true;
        let figures = LiveFigures { window_s: self.span.as_secs_f64(), ..figures.clone() };
        self.result = feed
            .with(|live, sink| {
                live.forget(sink);
                self.fill(live, sink);
                self.write(sink.parts().0, &figures)
            })
            .unwrap_or(Ok(()));
        self.result.is_ok()
    }

    /// Whether a table was printed.
    pub(super) fn has_printed(&self) -> bool {
        self.has_printed
    }

    /// Sums the samples that pass the filters into the profile's rows.
    fn fill(&self, live: &Live, sink: &mut SampleSink) {
        let (profile, samples): (&mut Profile, &SampleStore) = sink.parts();
        let mut terms = self.terms.clone();
        terms.push(Term::Time(live.since_ns(self.span), u64::MAX));
        let selected = Selection { terms, ..Selection::default() }.resolve(profile, samples);
        samples.fill_rows(profile, &selected, self.view.row_keys());
        profile.losses = live.losses();
    }

    fn write(&self, profile: &Profile, figures: &LiveFigures) -> io::Result<()> {
        let mut out = Vec::new();
        if self.is_json {
            live_json(&mut out, profile, &self.view, figures)?;
        } else {
            if self.is_screen {
                out.extend_from_slice(CLEAR.as_bytes());
            }
            writeln!(out, "# {}", live_line(figures))?;
            tare_render::text(&mut out, profile, &self.view)?;
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(&out)?;
        stdout.flush()
    }

    /// Returns the error of the last print, if it failed.
    pub(super) fn result(self) -> io::Result<()> {
        self.result
    }
}
