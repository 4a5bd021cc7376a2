//! The terminal: taken over, given back, whatever happens.

use std::io::{self, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::Rect;
use rustix::process::Signal;

/// Whether the terminal is taken over. The panic hook has nothing else to ask.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// A terminal that is taken over as long as this lives.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal over, and has panics give it back before they say anything.
    pub(super) fn take() -> io::Result<Self> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
        }));
        take_over()?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()));
        if terminal.is_err() {
            give_back();
        }
        Ok(Self { terminal: terminal? })
    }

    /// How large it is.
    pub(super) fn area(&self) -> Rect {
        self.terminal
            .size()
            .map_or(Rect::new(0, 0, 80, 24), |size| Rect::new(0, 0, size.width, size.height))
    }

    /// Shows a picture of its size. What doesn't fit is cut.
    pub(super) fn show(&mut self, picture: &Buffer) -> io::Result<()> {
        self.terminal.draw(|frame| {
            let to = frame.buffer_mut();
            let both = to.area.intersection(picture.area);
            for at in both.positions() {
                to[at] = picture[at].clone();
            }
        })?;
        Ok(())
    }

    /// Gives the terminal back, stops as Ctrl-Z does, and takes it over again when it goes on.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        give_back();
        // Others of the group stop too, as where the terminal had sent it. This process holds the
        // signal back, and going on takes it away.
        let _ = rustix::process::kill_current_process_group(Signal::TSTP);
        tare_kernel::signals::stop();
        take_over()?;
        // `Terminal::clear` would ask the terminal where its cursor is, and wait for the answer behind
        // whoever reads keys.
        self.terminal.resize(self.area())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn take_over() -> io::Result<()> {
    enable_raw_mode()?;
    IS_TAKEN.store(true, Ordering::SeqCst);
    execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture)
}

/// Puts the terminal back as it was, once. It may be gone.
fn give_back() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        let mut out = io::stdout();
        let _ = execute!(out, DisableMouseCapture, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
        let _ = out.flush();
    }
}
