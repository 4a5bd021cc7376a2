//! The terminal: taken over, given back, whatever happens.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::Rect;
use rustix::process::Signal;
use rustix::termios::tcgetwinsize;

/// Whether the terminal is taken over. The panic hook has nothing else to ask.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// A picture is mostly written by one system call.
const WRITTEN: usize = 1 << 15;

/// A terminal that is taken over as long as this lives.
///
/// It is no `ratatui::Terminal`: that one opens `/dev/tty` for each picture to ask for its size, and
/// writes it in pieces of 1 KiB.
pub(super) struct Screen {
    backend: CrosstermBackend<BufWriter<Stdout>>,
    /// The picture that the terminal has; of no cells where nobody knows what it has.
    shown: Buffer,
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
        let writer = BufWriter::with_capacity(WRITTEN, io::stdout());
        Ok(Self { backend: CrosstermBackend::new(writer), shown: Buffer::default() })
    }

    /// How large it is.
    pub(super) fn area(&self) -> Rect {
        let size = tcgetwinsize(io::stdout()).ok();
        let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
        size.map_or(Rect::new(0, 0, 80, 24), |size| Rect::new(0, 0, size.ws_col, size.ws_row))
    }

    /// Shows a picture, of which it writes what has changed.
    pub(super) fn show(&mut self, picture: Buffer) -> io::Result<()> {
        if self.shown.area != picture.area {
            self.backend.clear()?;
            self.shown = Buffer::empty(picture.area);
        }
        let mut changes = self.shown.diff_iter(&picture).peekable();
        if changes.peek().is_some() {
            self.backend.draw(changes)?;
            Backend::flush(&mut self.backend)?;
        }
        self.shown = picture;
        Ok(())
    }

    /// Gives the terminal back, stops as Ctrl-Z does, and takes it over again when it goes on.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        give_back();
        // Others of the group stop too, as where the terminal had sent it. This process holds the
        // signal back, and going on takes it away.
        let _ = rustix::process::kill_current_process_group(Signal::TSTP);
        tare_kernel::signals::stop();
        self.shown = Buffer::default();
        take_over()
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
    execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture, Hide)
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
