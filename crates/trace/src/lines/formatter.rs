//! Turns recorded calls into text: the tables of names, signatures and flags.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use tare_kernel::bpf::{Call, CallPlan, CopyRule, chunks};

use super::{LineOptions, PendingCall};
use crate::chosen::CallSelection;
use crate::flags::Flags;
use crate::invocation::{DescriptorInfo, Invocation};
use crate::names::{Abi, CallNames, Errno};
use crate::registers::ArgumentRegisters;
use crate::result::result;
use crate::signature::{ArgumentKind, Signatures};
use crate::text::{self, HexStrings};

/// Options for which calls are printed, and in what form.
#[derive(Debug)]
struct CallView {
    paths: BTreeSet<Vec<u8>>,
    hex: HexStrings,
    environments: bool,
    numbers: bool,
}

impl CallView {
    fn new(options: &LineOptions) -> Self {
        let forms = |path: &Vec<u8>| {
            let given = path.clone();
            let resolved = std::fs::canonicalize(OsStr::from_bytes(path)).ok();
            let resolved = resolved.map(|path| path.into_os_string().into_vec());
            resolved.into_iter().chain([given])
        };
        Self {
            paths: options.paths.iter().flat_map(forms).collect(),
            hex: options.hex,
            environments: options.environments,
            numbers: options.numbers,
        }
    }
}

/// The tables, and how arguments are printed.
#[derive(Debug)]
pub(super) struct CallFormatter {
    pub(super) names: CallNames,
    signatures: Signatures,
    pub(super) flags: Flags,
    pub(super) errnos: Errno,
    /// Bytes of strings and buffers to print.
    string: usize,
    descriptors: DescriptorInfo,
    view: CallView,
    /// Pointers are printed as addresses: no memory was copied.
    pub(super) only_pointers: bool,
}

impl CallFormatter {
    pub(super) fn new(options: &LineOptions) -> Self {
        Self {
            names: CallNames::default(),
            signatures: Signatures::default(),
            flags: Flags::default(),
            errnos: Errno::default(),
            string: options.string,
            descriptors: options.descriptors,
            view: CallView::new(options),
            only_pointers: false,
        }
    }

    /// Returns the memory that the tracer copies for each of these calls.
    pub(super) fn plans(&self, calls: &CallSelection) -> impl Iterator<Item = (Call, CallPlan)> {
        let string = u16::try_from(self.string).unwrap_or(u16::MAX);
        let descriptors = self.descriptors > DescriptorInfo::Number || !self.view.paths.is_empty();
        let numbers = (0..=Call::BEYOND)
            .flat_map(|number| [false, true].map(|compat| Call { number, compat }));
        numbers.filter(|call| calls.has_call(&self.names, *call)).map(move |call| {
            let plan = |name| {
                let mut plan = self.signatures.plan(name, call.compat, string, descriptors);
                for (rule, _) in plan.arguments.iter_mut().filter(|_| self.view.environments) {
                    if *rule == CopyRule::TextCount {
                        // One byte more tells whether the string goes on.
                        *rule = CopyRule::Texts(string.saturating_add(2).min(256));
                    }
                }
                plan
            };
            (call, self.names.find(call).map_or_else(CallPlan::default, plan))
        })
    }

    /// Combines a call with its result and the memory copied at its return; without `returned`, the
    /// call is still in progress.
    pub(super) fn invocation<'a>(
        &'a self,
        pending: &'a PendingCall,
        name: &'a str,
        returned: Option<(i64, &'a [u8])>,
    ) -> Invocation<'a> {
        let known = self.names.find(pending.call);
        let registers = ArgumentRegisters::for_call(Abi::for_call(pending.call), name);
        let mut values = registers.values(pending.values);
        if name == "mmap2" {
            // The register has the offset in units of 4 KiB.
            values[5] <<= 12;
        }
        Invocation {
            name,
            kinds: known.and_then(|name| self.signatures.get(name, pending.call.compat)),
            values,
            registers,
            entered: &pending.memory,
            returned,
            string: self.string,
            flags: &self.flags,
            descriptors: self.descriptors,
            only_pointers: self.only_pointers,
        }
    }

    /// Formats the arguments of a call.
    pub(super) fn arguments(&self, pending: &PendingCall, invocation: &Invocation<'_>) -> String {
        if invocation.name == "restart_syscall" {
            let call = pending.resumed.as_deref().unwrap_or("system call");
            return format!("<... resuming interrupted {call} ...>");
        }
        let arguments = invocation.arguments();
        match self.view.hex {
            HexStrings::Nothing => arguments,
            which => text::in_hex(&arguments, which),
        }
    }

    /// Formats the number that stands before a call's name, if it is printed.
    pub(super) fn number(&self, call: Call) -> String {
        if self.view.numbers { format!("[{:4}] ", call.number) } else { String::new() }
    }

    /// Whether the call names one of the selected paths or a descriptor of it, or no path is
    /// selected.
    pub(super) fn names_path(&self, invocation: &Invocation<'_>) -> bool {
        if self.view.paths.is_empty() {
            return true;
        }
        let kinds = invocation.kinds.unwrap_or_default().iter().enumerate();
        let paths = kinds.filter(|(_, kind)| matches!(kind, ArgumentKind::Word("path")));
        let mut paths = paths.filter_map(|(at, _)| invocation.bytes(at));
        let selected = &self.view.paths;
        if paths.any(|path| selected.contains(path.strip_suffix(&[0]).unwrap_or(path))) {
            return true;
        }
        let with_files = Invocation { descriptors: DescriptorInfo::Path, ..*invocation };
        let text = format!("{} {}", with_files.arguments(), result(&with_files, &self.errnos));
        selected.iter().any(|path| text.contains(&format!("<{}>", text::path(path))))
    }

    /// Counts the arguments that are pointers for certain but whose memory could be read neither at
    /// the call nor at its return.
    pub(super) fn count_unreadable(&self, pending: &PendingCall, at_return: &[u8]) -> usize {
        let name = self.names.find(pending.call).unwrap_or_default();
        let kinds = self.signatures.get(name, pending.call.compat).unwrap_or_default();
        let registers = ArgumentRegisters::for_call(Abi::for_call(pending.call), name);
        let arguments = |payload: &[u8], is_readable: bool| -> HashSet<u8> {
            let chunks = chunks(payload).filter(|chunk| chunk.bytes.is_some() == is_readable);
            chunks.map(|chunk| chunk.argument).collect()
        };
        let unread = arguments(&pending.memory, false);
        let is_pointer = |at: &&u8| {
            let argument = registers.argument(usize::from(**at));
            kinds.get(argument).is_some_and(|kind| kind.is_pointer())
        };
        unread.difference(&arguments(at_return, true)).filter(is_pointer).count()
    }
}

#[cfg(test)]
mod tests {
    use tare_kernel::bpf::CallBeginning;

    use super::*;
    use crate::chosen::SignalSelection;
    use crate::lines::LineStamps;

    fn formatter() -> CallFormatter {
        CallFormatter::new(&LineOptions {
            calls: CallSelection::default(),
            string: 32,
            durations: false,
            failures: false,
            min_duration_ns: 0,
            json: false,
            descriptors: DescriptorInfo::Number,
            signals: SignalSelection::default(),
            stamps: LineStamps::default(),
            paths: Vec::new(),
            hex: HexStrings::Nothing,
            environments: false,
            numbers: false,
        })
    }

    fn pending(formatter: &CallFormatter, name: &str, memory: &[u8]) -> PendingCall {
        let mut calls = formatter.names.calls();
        let call = calls.find(|(call, known)| *known == name && !call.compat).unwrap().0;
        PendingCall {
            call,
            values: [3, 0x1000, 5, 0, 0, 0],
            memory: memory.to_vec(),
            process: 0,
            time_ns: 0,
            beginning: CallBeginning::Seen,
            prefix: false,
            written: None,
            resumed: None,
        }
    }

    /// A chunk of argument 1; without `text`, its memory couldn't be read.
    fn chunk(text: Option<&[u8]>) -> Vec<u8> {
        let bytes = text.unwrap_or_default();
        let mut chunk = u32::try_from(bytes.len()).unwrap().to_ne_bytes().to_vec();
        chunk.extend([1, if text.is_some() { 0 } else { 0x80 }, 0, 0]);
        chunk.extend_from_slice(bytes);
        chunk.resize(chunk.len().next_multiple_of(8), 0);
        chunk
    }

    #[test]
    fn prints_pointers_without_memory_as_addresses() {
        let mut formatter = formatter();
        let read = pending(&formatter, "write", &chunk(Some(b"hello")));
        let arguments = formatter.invocation(&read, "write", None).arguments();
        assert_eq!(arguments, "3, \"hello\", 5");
        formatter.only_pointers = true;
        let unread = pending(&formatter, "write", &[]);
        let arguments = formatter.invocation(&unread, "write", None).arguments();
        assert_eq!(arguments, "3, 0x1000, 5");
    }

    #[test]
    fn counts_memory_that_was_never_readable() {
        let formatter = formatter();
        let unread = pending(&formatter, "openat", &chunk(None));
        assert_eq!(formatter.count_unreadable(&unread, &[]), 1);
        assert_eq!(formatter.count_unreadable(&unread, &chunk(Some(b"/etc"))), 0);
        let read = pending(&formatter, "openat", &chunk(Some(b"/etc")));
        assert_eq!(formatter.count_unreadable(&read, &chunk(None)), 0);
    }
}
