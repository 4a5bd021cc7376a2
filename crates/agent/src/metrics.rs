//! The agent's figures as OpenMetrics text, served by HTTP.

use std::fmt::{self, Write as _};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::push::PushTotals;
use crate::writer::WriteTotals;

/// How long a client may take to send its request or to read a part of the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of a request that are read.
const REQUEST_BYTES: usize = 8 << 10;

/// Type of the text.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The figures since the agent's start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentFigures {
    /// Version of the agent.
    pub version: String,
    /// Name of the host.
    pub host: String,
    /// What was written into the store.
    pub written: WriteTotals,
    /// Samples that the kernel or the agent lost.
    pub lost_samples: u64,
    /// The agent's own CPU time in microseconds.
    pub own_cpu_us: u64,
    /// Time for sampling in the kernel, in microseconds.
    pub kernel_us: u64,
    /// The sampling rate at the end of the last window, in Hz.
    pub rate_hz: u64,
    /// What targets were sent.
    pub push: Vec<PushTotals>,
}

/// A family of metrics that is being written.
struct MetricWriter<'a> {
    out: &'a mut String,
    name: &'static str,
    suffix: &'static str,
}

impl<'a> MetricWriter<'a> {
    fn begin(out: &'a mut String, kind: &str, name: &'static str, help: &str) -> Self {
        let suffix = if kind == "counter" { "_total" } else { "" };
        let _ = writeln!(out, "# TYPE {name} {kind}\n# HELP {name} {help}");
        Self { out, name, suffix }
    }

    fn value(&mut self, value: impl fmt::Display) {
        let Self { out, name, suffix } = self;
        let _ = writeln!(out, "{name}{suffix} {value}");
    }

    fn target_value(&mut self, target: &str, value: u64) {
        let Self { out, name, suffix } = self;
        let _ = writeln!(out, "{name}{suffix}{{target=\"{}\"}} {value}", escaped(target));
    }
}

/// Escapes a label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A number of a target.
type TargetNumber = fn(&PushTotals) -> u64;

/// The figures of targets: kind, name, help and number.
const TARGET_METRICS: [(&str, &str, &str, TargetNumber); 7] = [
    ("counter", "tare_push_windows", "Windows that the target has accepted.", |of| of.windows),
    ("counter", "tare_push_samples", "Samples that the target has accepted.", |of| of.samples),
    ("counter", "tare_push_bytes", "Bytes of accepted requests.", |of| of.bytes),
    ("gauge", "tare_push_waiting_windows", "Windows that wait.", |of| of.waiting_windows),
    ("gauge", "tare_push_waiting_bytes", "Bytes that wait.", |of| of.waiting_bytes),
    ("counter", "tare_push_dropped_windows", "Windows with a dropped part.", |of| {
        of.dropped_windows
    }),
    ("counter", "tare_push_dropped_samples", "Samples that were dropped.", |of| of.dropped_samples),
];

impl AgentFigures {
    /// Returns the figures as OpenMetrics text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        let [version, host] = [&self.version, &self.host].map(|text| escaped(text));
        let _ = writeln!(out, "# TYPE tare_agent info\n# HELP tare_agent The agent.");
        let _ = writeln!(out, "tare_agent_info{{version=\"{version}\",host=\"{host}\"}} 1");
        let written = &self.written;
        for (name, help, value) in [
            ("tare_windows", "Windows in the store.", written.windows),
            ("tare_samples", "Samples in the store.", written.samples),
            ("tare_written_bytes", "Bytes written into the store.", written.bytes),
            ("tare_lost_samples", "Samples that were lost while recording.", self.lost_samples),
            ("tare_dropped_windows", "Windows that weren't written.", written.dropped_windows),
            ("tare_dropped_samples", "Samples that weren't written.", written.dropped_samples),
            ("tare_removed_windows", "Windows beyond the store's limits.", written.removed_windows),
        ] {
            MetricWriter::begin(&mut out, "counter", name, help).value(value);
        }
        for (name, help, us) in [
            ("tare_cpu_seconds", "CPU time of the agent.", self.own_cpu_us),
            ("tare_kernel_seconds", "Time for sampling in the kernel.", self.kernel_us),
        ] {
            MetricWriter::begin(&mut out, "counter", name, help).value(us as f64 * 1e-6);
        }
        MetricWriter::begin(&mut out, "gauge", "tare_sampling_hertz", "The sampling rate.")
            .value(self.rate_hz);
        for (kind, name, help, number) in TARGET_METRICS {
            if !self.push.is_empty() {
                let mut family = MetricWriter::begin(&mut out, kind, name, help);
                self.push
                    .iter()
                    .for_each(|target| family.target_value(&target.url, number(target)));
            }
        }
        out.push_str("# EOF\n");
        out
    }
}

/// Answers requests for `/metrics`, on a thread of its own.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    figures: Arc<Mutex<AgentFigures>>,
    is_ending: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl MetricsServer {
    /// Listens.
    ///
    /// # Errors
    /// Fails if the address is in use or no thread can be started.
    pub fn start(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let figures = Arc::<Mutex<AgentFigures>>::default();
        let is_ending = Arc::new(AtomicBool::new(false));
        let ending = Arc::clone(&is_ending);
        let shared = Arc::clone(&figures);
        let thread = std::thread::Builder::new().name("tare-metrics".to_owned());
        let thread = thread.spawn(move || serve(&listener, &ending, &shared))?;
        Ok(Self { address, figures, is_ending, thread })
    }

    /// Returns where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the figures.
    pub fn set(&self, figures: AgentFigures) {
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner) = figures;
    }

    /// Closes the address, and ends the thread after the answer under way.
    pub fn finish(self) {
        self.is_ending.store(true, Ordering::Release);
        // Wakes the thread. If it can't be connected, the thread has ended.
        if TcpStream::connect_timeout(&self.address, PATIENCE).is_ok() {
            // A thread that panicked answers no more.
            let _ = self.thread.join();
        }
    }
}

fn serve(listener: &TcpListener, is_ending: &AtomicBool, figures: &Mutex<AgentFigures>) {
    for client in listener.incoming() {
        if is_ending.load(Ordering::Acquire) {
            return;
        }
        match client {
            // A client that goes away has no use for the rest.
            Ok(client) => _ = answer(client, figures),
            // Too many open files: there may be fewer later.
            Err(_) => std::thread::sleep(PATIENCE),
        }
    }
}

fn answer(mut client: TcpStream, figures: &Mutex<AgentFigures>) -> io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let length = client.read(&mut buffer)?;
        if length == 0 || request.len() > REQUEST_BYTES {
            return Ok(());
        }
        request.extend_from_slice(&buffer[..length]);
    }
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let target =
        line.strip_prefix(b"GET ").and_then(|rest| rest.split(|byte| *byte == b' ').next());
    let [status, content_type, body] = match target {
        Some(b"/metrics") => {
            let figures = figures.lock().unwrap_or_else(PoisonError::into_inner).clone();
            ["200 OK", CONTENT_TYPE, &figures.text()].map(str::to_owned)
        }
        Some(_) => ["404 Not Found", "text/plain", "see /metrics\n"].map(str::to_owned),
        None => ["405 Method Not Allowed", "text/plain", ""].map(str::to_owned),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes())?;
    client.write_all(body.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_labels_are_escaped() {
        let url = "otlp+http://a\\b\"\n".to_owned();
        let push = vec![PushTotals { url, samples: 7, ..PushTotals::default() }];
        let text = AgentFigures { push, ..AgentFigures::default() }.text();
        let line = "tare_push_samples_total{target=\"otlp+http://a\\\\b\\\"\\n\"} 7\n";
        assert!(text.contains(line), "{text}");
        assert!(text.ends_with("\n# EOF\n"));
    }
}
