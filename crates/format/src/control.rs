//! Commands that a script or the measured program writes to the channel of `--control` (see
//! `perf-record(1)`).

/// Maximum length of a line in bytes, without the line feed or NUL that ends it.
const LONGEST_LINE: usize = 64;

/// A command on the control channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Enable the events.
    Enable,
    /// Disable the events.
    Disable,
    /// Acknowledge, and do nothing else.
    Ping,
    /// End the measurement.
    Stop,
}

/// Why a line isn't a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoOrder {
    /// The line's text isn't a command.
    Unknown(String),
    /// The line is longer than 64 bytes.
    TooLong,
}

/// Splits the channel's bytes into lines, and parses the lines. Between calls it holds at most one
/// incomplete line, shorter than 66 bytes.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    partial: Vec<u8>,
    /// Whether the rest of an overlong line is being skipped.
    skips: bool,
}

impl Orders {
    /// Appends bytes, and returns a command or an error for each line that they complete, and an
    /// error for a line that becomes too long. A line ends with a line feed or a NUL byte; blank
    /// lines are ignored.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Result<Order, NoOrder>> {
        let mut orders = Vec::new();
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | 0)) {
            let ends = piece.ends_with(b"\n") || piece.ends_with(&[0]);
            if !self.skips {
                self.partial.extend_from_slice(piece);
            }
            if self.partial.len() > LONGEST_LINE + 1 {
                self.partial.clear();
                self.skips = true;
                orders.push(Err(NoOrder::TooLong));
            }
            if ends {
                orders.extend(parse_order(&std::mem::take(&mut self.partial)));
                self.skips = false;
            }
        }
        orders
    }
}

fn parse_order(line: &[u8]) -> Option<Result<Order, NoOrder>> {
    let line = String::from_utf8_lossy(line);
    Some(match line.trim_matches(|c: char| c.is_whitespace() || c == '\0') {
        "" => return None,
        "enable" => Ok(Order::Enable),
        "disable" => Ok(Order::Disable),
        "ping" => Ok(Order::Ping),
        "stop" => Ok(Order::Stop),
        unknown => Err(NoOrder::Unknown(unknown.to_owned())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_commands_however_reads_divide_them() {
        let mut orders = Orders::default();
        assert_eq!(orders.push(b"ena"), []);
        assert_eq!(orders.push(b"ble\n\n ping \0st"), [Ok(Order::Enable), Ok(Order::Ping)]);
        assert_eq!(
            orders.push(b"op\nno\n"),
            [Ok(Order::Stop), Err(NoOrder::Unknown("no".to_owned()))]
        );
        assert_eq!(orders.push(&[b'x'; 70]), [Err(NoOrder::TooLong)]);
        assert_eq!(orders.push(b"stop"), []);
        assert_eq!(orders.push(b"stop\ndisable\n"), [Ok(Order::Disable)]);
    }
}
