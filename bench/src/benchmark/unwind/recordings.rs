//! Three recordings of programs, and their copied stacks as values in time order.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;
use tare_format::file::{Entry, Reader};
use tare_format::record::{Mmap, Record, Sample, kind};
use tare_symbols::{Dso, DsoKind, DsoTable, Mapping, Registers};

use crate::benchmark::symbols::programs;
use crate::benchmark::zstd;
use crate::run::succeed;
use crate::scratch::Scratch;

/// `PROT_EXEC` of `mmap(2)`.
const PROT_EXEC: u32 = 4;

/// Limit on the stacks used of a recording: 8 KiB each.
const MAX_STACKS: usize = 20_000;

/// A recording with copied stacks of the default size.
pub(super) struct StackRecording {
    pub(super) name: &'static str,
    file: PathBuf,
}

/// Records a C++ program, a build, and a large binary with debug info.
///
/// # Errors
/// Fails if a compiler or the recorder fails.
pub(super) fn record_all(scratch: &Scratch<'_>) -> anyhow::Result<Vec<StackRecording>> {
    let path = |path: &Path| path.display().to_string();
    let cpp = path(&programs::cpp(scratch.folder())?);
    let sources: Vec<String> = zstd::sources()?.iter().map(|source| path(source)).collect();
    let build = format!(
        "printf '%s\\n' {} | xargs -P 2 -n 1 c++ -x c -O2 -c -o /dev/null",
        sources.join(" ")
    );
    let tare = path(&debug_tare()?);
    let large = path(&scratch.path("read.data"));
    let options = ["record", "-q", "-F", "20000", "-g", "-o", &large, "--"];
    let shell = ["sh", "-c", "for n in $(seq 200); do date; expr $n + 1; done"];
    let recorder = scratch.setting.tare();
    let words = [&[recorder.as_str()], &options[..], &shell].concat();
    succeed(&words.into_iter().map(str::to_owned).collect::<Vec<_>>())?;
    let report = format!("for n in 1 2 3 4; do {tare} report --no-cache --inline -i {large}; done");
    let commands = [
        ("C++ program", [cpp.as_str(), "400"].map(str::to_owned).to_vec()),
        ("build", ["sh", "-c", &build].map(str::to_owned).to_vec()),
        ("debug build of tare", ["sh", "-c", &report].map(str::to_owned).to_vec()),
    ];
    commands.into_iter().map(|(name, command)| record(scratch, name, command)).collect()
}

fn record(
    scratch: &Scratch<'_>,
    name: &'static str,
    command: Vec<String>,
) -> anyhow::Result<StackRecording> {
    let file = scratch.path(&format!("{}.data", name.replace(' ', "-")));
    let output = file.display().to_string();
    let options = ["record", "-q", "-F", "4000", "-e", "cpu-clock:u", "--call-graph", "dwarf"];
    let mut words = vec![scratch.setting.tare()];
    words.extend(options.into_iter().chain(["-o", &output, "--"]).map(str::to_owned));
    words.extend(command);
    succeed(&words)?;
    Ok(StackRecording { name, file })
}

/// Builds tare without optimization and with all debug info. The first build takes minutes.
fn debug_tare() -> anyhow::Result<PathBuf> {
    let line = "env CARGO_PROFILE_DEV_DEBUG=full cargo build --quiet -p tare-perf --features full \
                --target-dir target/full-debug --message-format json-render-diagnostics";
    let done = succeed(&line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>())?;
    let messages = done.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs = messages.filter(|message| message["target"]["name"] == "tare");
    let program = programs.find_map(|message| Some(message["executable"].as_str()?.to_owned()));
    Ok(PathBuf::from(program.context("cargo names no program")?))
}

/// Input of an unwinder: a recording's files, changes of address spaces, and stacks.
#[derive(Default)]
pub(super) struct RecordedStacks {
    pub(super) dsos: DsoTable,
    /// In time order.
    pub(super) changes: Vec<Change>,
    pub(super) stacks: usize,
}

/// A change of an address space, or a stack to unwind.
pub(super) enum Change {
    Execve { pid: i32 },
    Fork { parent: i32, child: i32 },
    Map { pid: i32, mapping: Mapping, code: Option<PathBuf> },
    Stack(Box<CopiedStack>),
}

/// Registers, and a copy of the stack.
pub(super) struct CopiedStack {
    pub(super) pid: i32,
    pub(super) registers: Registers,
    pub(super) copy: Vec<u8>,
}

impl RecordedStacks {
    /// Reads a recording, and keeps the first [`MAX_STACKS`] stacks.
    ///
    /// # Errors
    /// Fails if the file can't be opened or is damaged.
    pub(super) fn read(recording: &StackRecording) -> anyhow::Result<Self> {
        let mut all = Self::default();
        let mut timed = Vec::new();
        let mut reader = Reader::open(File::open(&recording.file)?)?;
        while let Some(entry) = reader.next_record()? {
            let time_ns = entry.description.lookup().time_ns(&entry.record).unwrap_or(0);
            if let Some(change) = all.change(&entry) {
                timed.push((time_ns, change));
            }
        }
        timed.sort_by_key(|(time_ns, _)| *time_ns);
        for (_, change) in timed {
            let is_stack = matches!(change, Change::Stack(_));
            if !is_stack || all.stacks < MAX_STACKS {
                all.stacks += usize::from(is_stack);
                all.changes.push(change);
            }
        }
        Ok(all)
    }

    fn change(&mut self, entry: &Entry<'_>) -> Option<Change> {
        if entry.record.kind == kind::PERF_RECORD_SAMPLE {
            let layout = entry.description.lookup().layout_of(&entry.record)?;
            return copied_stack(&Sample::decode(&entry.record, layout).ok()?)
                .map(|stack| Change::Stack(Box::new(stack)));
        }
        match entry.record.decode().ok()? {
            Record::Comm(comm) if comm.is_exec => Some(Change::Execve { pid: comm.pid }),
            Record::Fork(task) if task.pid != task.ppid => {
                Some(Change::Fork { parent: task.ppid, child: task.pid })
            }
            Record::Mmap(mmap) => self.map(&mmap),
            _ => None,
        }
    }

    fn map(&mut self, mmap: &Mmap<'_>) -> Option<Change> {
        let kind = match mmap.path {
            b"[vdso]" => DsoKind::Vdso,
            path if path.starts_with(b"/") && !path.starts_with(b"//") => DsoKind::Elf,
            _ => DsoKind::Anonymous,
        };
        let path = PathBuf::from(String::from_utf8_lossy(mmap.path).into_owned());
        let code = (kind == DsoKind::Elf && mmap.prot & PROT_EXEC != 0).then_some(path);
        let dso = self.dsos.intern(Dso { kind, name: mmap.path.to_vec(), build_id: None })?;
        let end = mmap.start.checked_add(mmap.len)?;
        let mapping = Mapping { start: mmap.start, end, pgoff: mmap.pgoff, dso, is_code: true };
        Some(Change::Map { pid: mmap.pid, mapping, code })
    }
}

/// Converts a sample's registers and stack, of x86-64; `None` if the sample lacks them.
fn copied_stack(sample: &Sample<'_>) -> Option<CopiedStack> {
    let recorded = sample.regs_user?;
    let stack = sample.stack_user?;
    // AX, DX, CX, BX, SI, DI, BP, SP, R8 to R15
    let general = [0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23]
        .map(|number| recorded.get(number).unwrap_or(0));
    Some(CopiedStack {
        pid: sample.head.pid?,
        registers: Registers::X86_64 { ip: recorded.get(8)?, general },
        copy: stack.bytes.to_vec(),
    })
}
