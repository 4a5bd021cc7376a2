//! `--control`: enable, disable, ping and stop, from the program under test or from a script.

use std::fs::OpenOptions;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;
pub(crate) use tare_format::control::Order;
use tare_format::control::{NoOrder, Orders};

use crate::exit::{Refusal, say};

/// The two ends of a conversation: lines come in, `ack` goes out after each.
#[derive(Debug)]
pub(crate) struct Control {
    commands: OwnedFd,
    ack: Option<OwnedFd>,
    lines: Orders,
}

impl Control {
    /// Opens `fd:CTL[,ACK]` (descriptors that tare was started with) or `fifo:CTL[,ACK]` (named
    /// pipes).
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
                // Opened for both, so that neither side has to wait for the other to open its end.
                let file = OpenOptions::new().read(true).write(true).open(name);
                file.map(OwnedFd::from)
                    .map_err(|error| refuse(format!("{name}: {error} (make it with mkfifo)")))
            }
            other => Err(refuse(format!("'{other}' is neither fd nor fifo"))),
        };
        let control = Self {
            commands: open(commands)?,
            ack: ack.map(open).transpose()?,
            lines: Orders::default(),
        };
        let flags = rustix::fs::fcntl_getfl(&control.commands)
            .map_err(|error| refuse(error.to_string()))?;
        rustix::fs::fcntl_setfl(&control.commands, flags | OFlags::NONBLOCK)
            .map_err(|error| refuse(error.to_string()))?;
        Ok(control)
    }

    /// The orders that have arrived. An unknown line is named on stderr and not answered.
    pub(crate) fn orders(&mut self) -> (Vec<Order>, ControlEnd) {
        let mut bytes = [0; 256];
        let mut orders = Vec::new();
        loop {
            match rustix::io::read(&self.commands, &mut bytes) {
                Ok(0) => return (orders, ControlEnd::Yes),
                Ok(len) => {
                    orders.extend(self.lines.push(&bytes[..len]).into_iter().filter_map(known));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return (orders, ControlEnd::No),
                Err(error) => {
                    say(&format!("--control: {error}"));
                    return (orders, ControlEnd::Yes);
                }
            }
        }
    }

    /// Says that an order was carried out.
    pub(crate) fn acknowledge(&self) {
        if let Some(ack) = &self.ack {
            // Nobody may be reading any more; that must not end the measurement.
            let _ = rustix::io::retry_on_intr(|| rustix::io::write(ack, b"ack\n"));
        }
    }
}

/// Whether the other side closed the control file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlEnd {
    /// Nothing more will come.
    Yes,
    /// It is open.
    No,
}

/// An order; what is none is named on stderr.
fn known(line: Result<Order, NoOrder>) -> Option<Order> {
    match line {
        Ok(order) => return Some(order),
        Err(NoOrder::Unknown(unknown)) => {
            say(&format!("--control: '{unknown}' is none of enable, disable, ping, stop"));
        }
        Err(NoOrder::TooLong) => say("--control: a line of more than 64 characters is no command"),
    }
    None
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.commands.as_fd()
    }
}
