//! `--control`: enable, disable, ping and stop, from the program under test or from a script.

use std::fs::OpenOptions;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
pub(crate) use tare_format::control::Order;
use tare_format::control::{NoOrder, Orders};

use crate::exit::{Refusal, say};

/// A control file, from which lines are read, and the file that takes an `ack` for each order that
/// was carried out.
#[derive(Debug)]
pub(crate) struct Control {
    /// `None` once the other end is closed, or a read has failed.
    commands: Option<OwnedFd>,
    ack: Option<OwnedFd>,
    lines: Orders,
}

impl Control {
    /// Opens `fd:CTL[,ACK]` (inherited descriptors) or `fifo:CTL[,ACK]` (named pipes).
    ///
    /// # Errors
    /// Fails if the text has another form, or if a descriptor or pipe can't be opened.
    pub(crate) fn open(text: &str) -> Result<Self, Refusal> {
        let refuse = |why: String| Refusal::usage(format!("--control {text}: {why}"));
        let (kind, names) = text
            .split_once(':')
            .ok_or_else(|| refuse("write fd:CTL[,ACK] or fifo:CTL[,ACK]".to_owned()))?;
        let (commands, ack) =
            names.split_once(',').map_or((names, None), |(commands, ack)| (commands, Some(ack)));
        let open = |name: &str| match kind {
            "fd" => {
                let fd =
                    name.parse().map_err(|_| refuse(format!("'{name}' is not a descriptor")))?;
                tare_kernel::inherited_descriptor(fd)
                    .map_err(|error| refuse(format!("descriptor {fd}: {error}")))
            }
            "fifo" => {
                // Opened for reading and writing, because an open for one of them blocks until the
                // other end is open.
                let file = OpenOptions::new().read(true).write(true).open(name);
                file.map(OwnedFd::from)
                    .map_err(|error| refuse(format!("{name}: {error} (make it with mkfifo)")))
            }
            other => Err(refuse(format!("'{other}' is neither fd nor fifo"))),
        };
        let commands = open(commands)?;
        let ack = ack.map(open).transpose()?;
        let flags =
            rustix::fs::fcntl_getfl(&commands).map_err(|error| refuse(error.to_string()))?;
        rustix::fs::fcntl_setfl(&commands, flags | OFlags::NONBLOCK)
            .map_err(|error| refuse(error.to_string()))?;
        Ok(Self { commands: Some(commands), ack, lines: Orders::default() })
    }

    /// Reads the orders that have arrived. Unknown lines are named on stderr and not acknowledged.
    /// Closes the control file once its other end is closed: its end of file would wake each poll.
    pub(crate) fn read_orders(&mut self) -> Vec<Order> {
        let mut bytes = [0; 256];
        let mut orders = Vec::new();
        while let Some(commands) = &self.commands {
            match rustix::io::read(commands, &mut bytes) {
                Ok(0) => self.commands = None,
                Ok(len) => {
                    let lines = self.lines.push(&bytes[..len]);
                    orders.extend(lines.into_iter().filter_map(valid_order));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => {
                    say(&format!("--control: {error}; no more orders are read"));
                    self.commands = None;
                }
            }
        }
        orders
    }

    /// The descriptor to poll, as long as orders can arrive.
    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.commands.as_ref().map(AsFd::as_fd)
    }

    /// Writes `ack`, which confirms an order that was carried out.
    pub(crate) fn acknowledge(&self) {
        if let Some(ack) = &self.ack {
            // The reader may be gone, or not read: neither must end or stop the measurement.
            let mut ready = [PollFd::new(ack, PollFlags::OUT)];
            let is_ready = poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
            if is_ready == Ok(1) && ready[0].revents().contains(PollFlags::OUT) {
                let _ = rustix::io::retry_on_intr(|| rustix::io::write(ack, b"ack\n"));
            }
        }
    }
}

/// Returns the order, or reports an invalid line on stderr.
fn valid_order(line: Result<Order, NoOrder>) -> Option<Order> {
    match line {
        Ok(order) => return Some(order),
        Err(NoOrder::Unknown(unknown)) => {
            say(&format!(
                "--control: '{unknown}' is not an order: write enable, disable, ping or stop"
            ));
        }
        Err(NoOrder::TooLong) => {
            say(
                "--control: a line of more than 64 characters: write enable, disable, ping or stop",
            );
        }
    }
    None
}
