//! Single samples, for exports and graphs that sum them up themselves or keep each.

use std::borrow::Cow;
use std::io;

use serde::Serialize;
use tare_format::abi::bindings::{
    PERF_COUNT_SW_BPF_OUTPUT, PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK, PERF_TYPE_SOFTWARE,
};
use tare_format::file::features::{ARCH, CPUDESC, HOSTNAME, OSRELEASE};
use tare_format::file::{ClockData, Description, RecordedEvent};
use tare_format::ledger::Ledger;
use tare_format::printable;
use tare_profile::{EventId, FrameId, Profile, ProfileFrame, Row, Space, Weight};

/// A sample whose ids refer to a profile that is being filled.
#[derive(Clone, Copy, Debug)]
pub struct LocatedSample {
    /// The properties that rows distinguish.
    pub row: Row,
    /// Its weight.
    pub weight: Weight,
    /// Its time, in nanoseconds of the recording's clock.
    pub time_ns: Option<u64>,
    /// The task that its CPU switches to, in a sample of `sched:sched_switch`.
    pub switch: Option<CpuSwitch>,
}

/// A CPU switches to another task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuSwitch {
    /// The CPU.
    pub cpu: u32,
    /// The task's thread id; 0 for the idle task.
    pub tid: i32,
    /// The task's name, up to a NUL byte. Untrusted.
    pub comm: [u8; 16],
}

/// Takes samples in order of time.
pub trait SampleSink {
    /// Takes a sample whose ids are of this profile.
    ///
    /// # Errors
    /// Fails if the output can't be written.
    fn sample(&mut self, profile: &Profile, sample: &LocatedSample) -> io::Result<()>;
}

/// The unit of an event's weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Nanoseconds of a clock.
    Nanoseconds,
    /// Occurrences.
    #[default]
    Count,
}

impl Unit {
    fn from_event(event: &RecordedEvent) -> Self {
        let config = event.attr.config;
        let is_clock =
            [PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK].map(u64::from).contains(&config);
        let is_off_cpu = config == u64::from(PERF_COUNT_SW_BPF_OUTPUT)
            && event.name.as_deref() == Some(OFF_CPU_EVENT);
        let is_time = event.attr.kind == PERF_TYPE_SOFTWARE && (is_clock || is_off_cpu);
        if is_time { Self::Nanoseconds } else { Self::Count }
    }
}

/// A recording's machine, command line and event units. Texts are printable.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RecordingOrigin {
    /// `tare` and its version, for documents that it writes.
    pub tool: String,
    /// The recorder's command line.
    pub command_line: Vec<String>,
    /// The machine's name.
    pub hostname: Option<String>,
    /// The kernel's release.
    pub os_release: Option<String>,
    /// The architecture, as `uname -m` prints it.
    pub arch: Option<String>,
    /// The CPU's model.
    pub cpu: Option<String>,
    /// The unit of each event, in the recording's order.
    pub units: Vec<Unit>,
    /// The recording's clock and the time of day at one moment.
    #[serde(skip)]
    pub clock: Option<ClockData>,
}

/// The event of the time that tasks are not on a CPU, as perf calls it.
const OFF_CPU_EVENT: &[u8] = b"offcpu-time";

impl RecordingOrigin {
    /// Describes a recording.
    #[must_use]
    pub fn new(description: &Description) -> Self {
        let features = description.features();
        let text = |feature| features.text(feature).ok().map(|text| printable(text).into_owned());
        let words = features.cmdline().unwrap_or_default();
        Self {
            tool: concat!("tare ", env!("CARGO_PKG_VERSION")).to_owned(),
            command_line: words.into_iter().map(|word| printable(word).into_owned()).collect(),
            hostname: text(HOSTNAME),
            os_release: text(OSRELEASE),
            arch: text(ARCH),
            cpu: text(CPUDESC),
            units: description.events().iter().map(Unit::from_event).collect(),
            clock: features.clock_data().ok(),
        }
    }

    /// Returns the unit of an event's weights.
    #[must_use]
    pub fn unit(&self, profile: &Profile, event: EventId) -> Unit {
        let at = profile.events().position(|(id, _)| id == event);
        at.and_then(|at| self.units.get(at)).copied().unwrap_or_default()
    }

    /// Returns the command line in one line.
    #[must_use]
    pub fn command(&self) -> String {
        self.command_line.join(" ")
    }
}

/// A recording that was read to its end.
#[derive(Clone, Copy, Debug)]
pub struct RecordingSummary<'a> {
    /// The tables that samples' ids refer to, and the losses.
    pub profile: &'a Profile,
    /// The ledger, if the recording has one.
    pub ledger: Option<&'a Ledger>,
    /// The machine, the command line and the units.
    pub session: &'a RecordingOrigin,
}

impl RecordingSummary<'_> {
    /// Returns the losses in words.
    #[must_use]
    pub fn loss_lines(&self) -> Vec<String> {
        crate::loss_lines(&self.profile.losses)
    }

    /// Returns the ledger in words; empty without one.
    #[must_use]
    pub fn ledger_lines(&self) -> Vec<String> {
        self.ledger.map(crate::ledger_lines).unwrap_or_default()
    }
}

/// The kind of a frame's code, which colours distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FrameKind {
    /// The kernel and its modules.
    Kernel,
    /// The program itself.
    Program,
    /// A shared library.
    Library,
    /// Generated by a just-in-time compiler.
    Jit,
    /// A function that the compiler inlined into its caller.
    Inlined,
    /// Code without a symbol.
    Unresolved,
    /// A thread's name, the root of its call chains; not code.
    Thread,
}

impl FrameKind {
    /// All of them, in the order of legends.
    pub const ALL: [Self; 7] = [
        Self::Kernel,
        Self::Program,
        Self::Library,
        Self::Jit,
        Self::Inlined,
        Self::Unresolved,
        Self::Thread,
    ];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Program => "program",
            Self::Library => "library",
            Self::Jit => "JIT",
            Self::Inlined => "inlined",
            Self::Unresolved => "no symbol",
            Self::Thread => "thread",
        }
    }

    fn from_frame(profile: &Profile, frame: &ProfileFrame) -> Self {
        if frame.is_inlined {
            return Self::Inlined;
        }
        let path = frame.dso.and_then(|dso| profile.dso(dso)).map(|dso| profile.string(dso.path));
        let path = path.unwrap_or_default();
        let base = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let is_perf_map = path.starts_with(b"/tmp/perf-") && path.ends_with(b".map");
        if matches!(frame.space, Space::Kernel | Space::GuestKernel | Space::Hypervisor) {
            Self::Kernel
        } else if frame.function.is_err() {
            Self::Unresolved
        } else if is_perf_map || base.starts_with(b"jitted-") {
            Self::Jit
        } else if base == b"[vdso]" || base.windows(3).any(|part| part == b".so") {
            Self::Library
        } else {
            Self::Program
        }
    }
}

/// A frame's name, file, kind and address. Names are as recorded: untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FrameText<'a> {
    /// The function; without a symbol the file in brackets, as in stackcollapse-perf.
    pub name: Cow<'a, str>,
    /// The short name of the file.
    pub dso: Option<Cow<'a, str>>,
    /// The kind of its code.
    pub kind: FrameKind,
    /// See [`ProfileFrame::address`].
    pub address: u64,
}

impl<'a> FrameText<'a> {
    /// Describes a frame of this profile.
    #[must_use]
    pub fn new(profile: &'a Profile, frame: FrameId) -> Self {
        let Some(frame) = profile.frame(frame) else {
            let name = Cow::Borrowed("[unknown]");
            let kind = FrameKind::Unresolved;
            return Self { name, dso: None, kind, address: 0 };
        };
        let dso = frame.dso.and_then(|dso| profile.dso(dso));
        let dso = dso.map(|dso| String::from_utf8_lossy(profile.string(dso.short)));
        let symbol = frame.function.ok().and_then(|symbol| profile.symbol(symbol));
        let name = match (symbol, &dso) {
            (Some(symbol), _) => String::from_utf8_lossy(profile.string(symbol.name)),
            (None, None) => Cow::Borrowed("[unknown]"),
            (None, Some(dso)) if dso.starts_with('[') => dso.clone(),
            (None, Some(dso)) => Cow::Owned(format!("[{dso}]")),
        };
        Self { name, dso, kind: FrameKind::from_frame(profile, &frame), address: frame.address }
    }
}
