//! A profiler as a child process. It is attached to the loop, and switched on and off over
//! `--control`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::FdFlags;
use rustix::process::Signal;
use tare_kernel::child::{ChildCommand, FileLimit, RunningChild, WaitingChild};
use tare_kernel::host::Host;
use tare_kernel::signals::Signals;
use tare_kernel::{procfs, schedule};
use tare_measure::overhead::interference::{Switch, SwitchError};
use tare_measure::overhead::plan::CallGraph;
use tare_measure::overhead::rates;

use crate::cli::resolved::overhead::Profiler;

/// Longest time for a profiler to answer: perf reads all of /proc first.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest wait for a profiler's exit: after `stop`, and again after SIGINT.
const EXIT_LIMIT: Duration = Duration::from_secs(10);

/// Values of the placeholders in a profiler's command line.
#[derive(Debug)]
pub(super) struct Placeholders<'a> {
    pub(super) rate: u64,
    pub(super) event: &'a str,
    pub(super) tid: i32,
    pub(super) cpu: u32,
    pub(super) call_graph: CallGraph,
}

/// A running profiler.
#[derive(Debug)]
pub(super) struct Attached {
    name: String,
    child: RunningChild,
    orders: Option<File>,
    answers: OwnedFd,
}

/// Returns the profiler's name in tables.
pub(super) fn name(profiler: &Profiler) -> String {
    match profiler {
        Profiler::Perf => "perf".to_owned(),
        Profiler::Tare => "tare".to_owned(),
        Profiler::Other(words) => words.first().map_or_else(String::new, |word| base_name(word)),
    }
}

fn base_name(word: &OsStr) -> String {
    std::path::Path::new(word).file_name().unwrap_or(word).to_string_lossy().into_owned()
}

/// The profiler's command line, with placeholders replaced.
fn words(
    profiler: &Profiler,
    placeholders: &Placeholders<'_>,
    control: &str,
) -> anyhow::Result<Vec<OsString>> {
    let own;
    let template: Vec<OsString> = match profiler {
        Profiler::Other(words) => words.clone(),
        Profiler::Perf | Profiler::Tare => {
            let mut words: Vec<&OsStr> = if *profiler == Profiler::Perf {
                // perf 6.1 waits a second at its end to find BPF programs.
                ["perf", "record", "--no-bpf-event"].map(OsStr::new).to_vec()
            } else {
                own = std::env::current_exe().context("cannot find this binary")?;
                vec![own.as_os_str(), OsStr::new("record")]
            };
            let rest = [
                "-q",
                "-D",
                "-1",
                "--control",
                "{control}",
                "-F",
                "{rate}",
                "-e",
                "{event}",
                "-t",
                "{tid}",
                "-o",
                "/dev/null",
            ];
            words.extend(rest.map(OsStr::new));
            match placeholders.call_graph {
                CallGraph::None => {}
                CallGraph::Fp => words.push(OsStr::new("-g")),
                CallGraph::Dwarf => words.extend(["--call-graph", "dwarf"].map(OsStr::new)),
                CallGraph::Auto => words.extend(["--call-graph", "auto"].map(OsStr::new)),
            }
            words.into_iter().map(OsStr::to_owned).collect()
        }
    };
    let rate = placeholders.rate.to_string();
    let tid = placeholders.tid.to_string();
    let cpu = placeholders.cpu.to_string();
    let filling = [
        ("{rate}", rate.as_str()),
        ("{event}", placeholders.event),
        ("{tid}", &tid),
        ("{cpu}", &cpu),
        ("{control}", control),
    ];
    Ok(template
        .into_iter()
        .map(|word| {
            filling.iter().fold(word, |word, (placeholder, with)| fill(&word, placeholder, with))
        })
        .collect())
}

fn fill(word: &OsStr, placeholder: &str, with: &str) -> OsString {
    let mut filled = Vec::new();
    let mut rest = word.as_bytes();
    while let Some(at) =
        rest.windows(placeholder.len()).position(|window| window == placeholder.as_bytes())
    {
        filled.extend_from_slice(&rest[..at]);
        filled.extend_from_slice(with.as_bytes());
        rest = &rest[at + placeholder.len()..];
    }
    filled.extend_from_slice(rest);
    OsString::from_vec(filled)
}

impl Attached {
    /// Starts a profiler, switched off, and waits until it is ready.
    pub(super) fn start(
        profiler: &Profiler,
        placeholders: &Placeholders<'_>,
        signals: &Signals,
    ) -> anyhow::Result<Self> {
        let pipe = || {
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
                .context("no pipe for a profiler")
        };
        let (childs_orders, orders) = pipe()?;
        let (answers, childs_answers) = pipe()?;
        for end in [&childs_orders, &childs_answers] {
            rustix::io::fcntl_setfd(end, FdFlags::empty())?;
        }
        let control = format!("fd:{},{}", childs_orders.as_raw_fd(), childs_answers.as_raw_fd());
        let words = words(profiler, placeholders, &control)?;
        let name = name(profiler);
        let null = || {
            File::options()
                .read(true)
                .write(true)
                .open("/dev/null")
                .map(OwnedFd::from)
                .context("/dev/null")
        };
        let command = ChildCommand::find(&words, std::env::var_os("PATH").as_deref())?
            .with_standard_files([Some(null()?), Some(null()?), None]);
        // The profiler's work on the loop's CPU is part of its cost, and other programs' work
        // isn't: the profiler's priority is above the loop's, which is above theirs.
        let ahead = schedule::above_real_time();
        let waiting = WaitingChild::fork(&command, signals, &FileLimit::now())?;
        drop(ahead);
        let child = waiting.start().with_context(|| format!("cannot start '{name}'"))?;
        let mut attached = Self { name, child, orders: Some(File::from(orders)), answers };
        drop((childs_orders, childs_answers));
        attached.order("ping").map_err(|error| anyhow::anyhow!("{error}"))?;
        Ok(attached)
    }

    /// Sends an order and waits for the answer.
    fn order(&mut self, order: &str) -> Result<(), SwitchError> {
        let failed =
            |name: &str, why: &str| SwitchError::Profiler(format!("profiler '{name}' {why}"));
        let written = self
            .orders
            .as_ref()
            .map(|orders| rustix::io::write(orders, format!("{order}\n").as_bytes()));
        if !matches!(written, Some(Ok(_))) {
            return Err(failed(
                &self.name,
                &format!("exited before '{order}'; its output above says why"),
            ));
        }
        let mut bytes = [0; 64];
        let patience =
            Timespec { tv_sec: i64::try_from(PATIENCE.as_secs()).unwrap_or(1), tv_nsec: 0 };
        let ready = rustix::io::retry_on_intr(|| {
            poll(&mut [PollFd::new(&self.answers, PollFlags::IN)], Some(&patience))
        });
        match ready {
            Ok(1) => {}
            _ => {
                return Err(failed(
                    &self.name,
                    &format!("did not answer '{order}' in {} s", PATIENCE.as_secs()),
                ));
            }
        }
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.answers, &mut bytes)) {
            Ok(read) if read > 0 => Ok(()),
            _ => Err(failed(
                &self.name,
                &format!("exited instead of answering '{order}'; its output above says why"),
            )),
        }
    }
}

impl Switch for Attached {
    fn on(&mut self) -> Result<(), SwitchError> {
        self.order("enable")
    }

    fn off(&mut self) -> Result<(), SwitchError> {
        self.order("disable")
    }
}

impl rates::Profiler for Attached {
    fn cpu_ns(&mut self) -> u64 {
        let host = Host::default();
        let pid = self.child.pid();
        let of = |tid: i32| -> Option<u64> {
            host.read(format!("/proc/{pid}/task/{tid}/schedstat"))
                .ok()?
                .split(' ')
                .next()?
                .parse()
                .ok()
        };
        procfs::threads(&host, pid).unwrap_or_default().into_iter().filter_map(of).sum()
    }
}

impl Attached {
    fn ends_within(&mut self, patience: Duration) -> bool {
        let began = std::time::Instant::now();
        while began.elapsed() < patience {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = self.orders.as_ref().map(|orders| rustix::io::write(orders, b"stop\n"));
        self.orders = None;
        for signal in [Signal::INT, Signal::KILL] {
            if self.ends_within(EXIT_LIMIT) {
                return;
            }
            self.child.signal(signal.as_raw());
        }
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placeholders() -> Placeholders<'static> {
        Placeholders { rate: 99, event: "cpu-clock", tid: 7, cpu: 1, call_graph: CallGraph::Fp }
    }

    #[test]
    fn placeholders_are_replaced_anywhere_in_a_word() {
        let other = Profiler::Other(
            ["p", "--at={cpu}:{tid}", "{rate}{rate}", "{control}", "{none}"]
                .map(OsString::from)
                .to_vec(),
        );
        assert_eq!(
            words(&other, &placeholders(), "fd:3,4").unwrap(),
            ["p", "--at=1:7", "9999", "fd:3,4", "{none}"]
        );
        assert_eq!(name(&Profiler::Other(vec!["/a/b/c".into()])), "c");
    }

    #[test]
    fn perf_attaches_to_the_loop_and_starts_switched_off() {
        let words = words(&Profiler::Perf, &placeholders(), "fd:3,4").unwrap();
        let line = words.join(OsStr::new(" ")).into_string().unwrap();
        assert_eq!(
            line,
            "perf record --no-bpf-event -q -D -1 --control fd:3,4 -F 99 -e cpu-clock -t 7 -o /dev/null -g"
        );
    }
}
