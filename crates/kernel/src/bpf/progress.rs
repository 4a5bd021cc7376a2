//! The calls in progress of the followed tasks: `bpf/progress.h`.

use super::error::BpfError;
use super::follow::Call;
use super::object::LoadedObject;
use super::user_memory::UserMemory;

/// The iterator program that lists the calls.
const LIST: &str = "list_calls";
/// Bytes of `struct progress`.
const SIZE: usize = 72;

/// A call that a thread is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallInProgress {
    /// The thread, in the initial pid namespace.
    pub tid: u32,
    /// Its process.
    pub process: u32,
    /// The call.
    pub call: Call,
    /// Its arguments.
    pub values: [u64; 6],
    /// Its beginning in nanoseconds of `CLOCK_MONOTONIC`; `None` if it began before the trace.
    pub start_ns: Option<u64>,
}

impl CallInProgress {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let long = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        Some(Self {
            tid: word(8)?,
            process: word(12)?,
            call: Call::from_slot(word(16)?),
            values: std::array::from_fn(|at| long(24 + 8 * at).unwrap_or_default()),
            start_ns: long(0).filter(|start_ns| *start_ns > 0),
        })
    }

    /// Opens the memory of the thread's process. In another pid namespace the id may be another
    /// thread's, so the thread that `/proc` shows must be in this very call.
    pub(super) fn open_memory(&self) -> Option<UserMemory> {
        let folder = format!("/proc/{}", self.tid);
        let text = std::fs::read_to_string(format!("{folder}/syscall")).ok()?;
        let mut words = text.split_ascii_whitespace();
        let is_call = words.next()? == self.call.number.to_string();
        let arguments = words.take(6).map(|word| word.trim_start_matches("0x"));
        let arguments = arguments.map(|word| u64::from_str_radix(word, 16).ok());
        let is_it = is_call && arguments.eq(self.values.iter().map(|value| Some(*value)));
        let tid = self.tid.cast_signed();
        is_it.then(|| UserMemory::open(tid, self.call.compat)).flatten()
    }
}

/// Loads the program. Without it, for example on a kernel without its helpers, no call in progress
/// is listed.
pub(super) fn load(programs: &mut LoadedObject) {
    let _ = programs.load_task_iterator(LIST);
}

/// Lists the calls in progress; none if the program isn't loaded.
///
/// # Errors
/// Fails if the kernel can't visit its tasks.
pub(super) fn list(programs: &mut LoadedObject) -> Result<Vec<CallInProgress>, BpfError> {
    if !programs.is_loaded(LIST) {
        return Ok(Vec::new());
    }
    let bytes = programs.visit_tasks(LIST)?;
    Ok(bytes.chunks_exact(SIZE).filter_map(CallInProgress::parse).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_parsed_and_truncated_ones_rejected() {
        let mut bytes = vec![0; SIZE];
        (bytes[8], bytes[12], bytes[16], bytes[24]) = (7, 6, 3, 9);
        let call = CallInProgress::parse(&bytes).unwrap();
        assert_eq!((call.tid, call.process, call.call.number, call.values[0]), (7, 6, 3, 9));
        assert_eq!(call.start_ns, None);
        assert_eq!(CallInProgress::parse(&bytes[..19]), None);
    }
}
