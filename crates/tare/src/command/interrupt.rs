//! What a signal that ends tare means for the command.

use std::io;

use rustix::process::Signal;
use tare_kernel::child::RunningChild;
use tare_kernel::signals::Signals;

/// Looks at the signals that arrived, and notes the last one that is to end tare. What a terminal sends (Ctrl-C) reaches the command
/// by itself; what was sent to tare alone is passed on, once. Returns whether the user insisted: it was not the first.
pub(crate) fn pass_on(signals: &Signals, child: Option<&RunningChild>, interrupted: &mut Option<i32>) -> io::Result<bool> {
    let mut insisted = false;
    while let Some(signal) = signals.next()? {
        if signal.number == Signal::CHILD.as_raw() {
            continue;
        }
        let first = interrupted.replace(signal.number).is_none();
        insisted |= !first;
        let by_terminal = signal.from_kernel && signal.number == Signal::INT.as_raw();
        if let Some(child) = child.filter(|_| first && !by_terminal) {
            child.signal(signal.number);
        }
    }
    Ok(insisted)
}
