//! Takes over the terminal and restores it whatever happens.

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

/// Whether the terminal is taken over. A static, because the panic hook can't access [`Screen`].
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Buffer size in bytes, so that most pictures take one write.
const BUFFER_BYTES: usize = 1 << 15;

/// The terminal, taken over while this lives.
///
/// A `ratatui::Terminal` would open `/dev/tty` for each picture to ask for its size, and write it
/// in pieces of 1 KiB.
pub(super) struct Screen {
    backend: CrosstermBackend<BufWriter<Stdout>>,
    /// The picture on the terminal; empty if it is unknown.
    shown: Buffer,
}

impl Screen {
    /// Takes over the terminal, and makes panics restore it before they print.
    pub(super) fn take() -> io::Result<Self> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
        }));
        take_over()?;
        let writer = BufWriter::with_capacity(BUFFER_BYTES, io::stdout());
        Ok(Self { backend: CrosstermBackend::new(writer), shown: Buffer::default() })
    }

    /// Returns the terminal's area; 80 x 24 if its size is unknown.
    pub(super) fn area(&self) -> Rect {
        let size = tcgetwinsize(io::stdout()).ok();
        let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
        size.map_or(Rect::new(0, 0, 80, 24), |size| Rect::new(0, 0, size.ws_col, size.ws_row))
    }

    /// Shows a picture, writing only the cells that changed.
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

    /// Restores the terminal, stops the process as Ctrl-Z does, and takes the terminal over again
    /// afterwards.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        give_back();
        // The whole process group stops, as if the terminal had sent the signal. This process
        // blocks the signal, so it stops itself with SIGSTOP; SIGCONT discards the pending SIGTSTP.
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

/// Restores the terminal if it is taken over. Errors are ignored: the terminal may be gone.
fn give_back() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        let mut out = io::stdout();
        let _ = execute!(out, DisableMouseCapture, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
        let _ = out.flush();
    }
}
