//! Samples one by one, for what sums them up in its own way, or keeps each.

use std::borrow::Cow;
use std::io;

use serde::Serialize;
use tare_format::ledger::Ledger;
use tare_profile::{EventId, FrameId, Profile, ProfileFrame, Row, Space, Weight};

/// A sample, in the terms of a profile that is being filled.
#[derive(Clone, Copy, Debug)]
pub struct LocatedSample {
    /// What it has in common with others.
    pub row: Row,
    /// What it stands for.
    pub weight: Weight,
    /// When it was taken, in nanoseconds of the recording's clock.
    pub time_ns: Option<u64>,
    /// What its CPU goes on with, where it is of `sched:sched_switch`.
    pub switch: Option<CpuSwitch>,
}

/// A CPU gets another task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuSwitch {
    /// Which CPU.
    pub cpu: u32,
    /// The task's number; 0 is the idle task.
    pub tid: i32,
    /// Its name, up to a NUL byte. Untrusted.
    pub comm: [u8; 16],
}

/// What takes samples in order of time.
pub trait SampleSink {
    /// Takes a sample, whose ids are of this profile.
    ///
    /// # Errors
    /// Those of the output.
    fn sample(&mut self, profile: &Profile, sample: &LocatedSample) -> io::Result<()>;
}

/// What an event's weights are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Nanoseconds of a clock.
    Nanoseconds,
    /// Occurrences.
    #[default]
    Count,
}

/// What a recording says of the machine and of how it was made. Texts are printable.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RecordingOrigin {
    /// What wrote the document: `tare` and its version.
    pub tool: String,
    /// The recorder's command line.
    pub command_line: Vec<String>,
    /// The machine's name.
    pub hostname: Option<String>,
    /// The kernel's release.
    pub os_release: Option<String>,
    /// As `uname -m` has it.
    pub arch: Option<String>,
    /// What the CPU calls itself.
    pub cpu: Option<String>,
    /// Of each event, in the recording's order.
    pub units: Vec<Unit>,
}

impl RecordingOrigin {
    /// What weights of an event are.
    #[must_use]
    pub fn unit(&self, profile: &Profile, event: EventId) -> Unit {
        let at = profile.events().position(|(id, _)| id == event);
        at.and_then(|at| self.units.get(at)).copied().unwrap_or_default()
    }

    /// The command line in one line.
    #[must_use]
    pub fn command(&self) -> String {
        self.command_line.join(" ")
    }
}

/// A recording that was read to its end.
#[derive(Clone, Copy, Debug)]
pub struct RecordingSummary<'a> {
    /// The tables that samples' ids are of, and what is missing.
    pub profile: &'a Profile,
    /// What the recorder said about itself.
    pub ledger: Option<&'a Ledger>,
    /// The machine, and how it was recorded.
    pub session: &'a RecordingOrigin,
}

impl RecordingSummary<'_> {
    /// What is missing, in words.
    #[must_use]
    pub fn loss_lines(&self) -> Vec<String> {
        crate::loss_lines(&self.profile.losses)
    }

    /// What the recorder said about itself, in words.
    #[must_use]
    pub fn ledger_lines(&self) -> Vec<String> {
        self.ledger.map(crate::ledger_lines).unwrap_or_default()
    }
}

/// What kind of code a frame is, which is what colours tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FrameKind {
    /// The kernel and its modules.
    Kernel,
    /// The program itself.
    Program,
    /// A shared library.
    Library,
    /// Made by a just-in-time compiler.
    Jit,
    /// A function that the compiler put into its caller.
    Inlined,
    /// No name is known.
    Unresolved,
    /// No code: the name of a thread, below all that it ran.
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

    /// In words.
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

/// A frame as people read it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FrameText<'a> {
    /// The function; of code without a name the file in brackets, as stackcollapse-perf has it.
    pub name: Cow<'a, str>,
    /// The short name of the file.
    pub dso: Option<Cow<'a, str>>,
    /// What kind of code it is.
    pub kind: FrameKind,
    /// The first address of the function, else the address in the file, else in the address space.
    pub address: u64,
}

impl<'a> FrameText<'a> {
    /// A frame of this profile. Names are as recorded: untrusted.
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
        Self { name, dso, kind: FrameKind::from_frame(profile, frame), address: frame.address }
    }
}
