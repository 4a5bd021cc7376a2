//! The arguments of prctl(2), which depend on its option.

use crate::invocation::Invocation;
use crate::structs::{self, StructBytes, pointer};
use crate::text;

/// Formats an argument after the option; `None` if the option doesn't have it. Numbers of options
/// are those of `include/uapi/linux/prctl.h`.
pub(crate) fn argument(call: &Invocation<'_>, at: usize) -> Option<String> {
    let value = call.values[at];
    let low = value & 0xffff_ffff;
    let option = call.values[0] & 0xffff_ffff;
    let named = |table: &str| Some(call.flags.number(table, low));
    match (option, at) {
        // PR_GET_* whose value is the result, and PR_TASK_PERF_EVENTS_*.
        (3 | 7 | 13 | 21 | 27 | 30 | 31 | 32, _) => None,
        // PR_SET_PDEATHSIG
        (1, 1) => Some(structs::signal(call.flags, u32::try_from(low).unwrap_or(0))),
        // PR_GET_PDEATHSIG, PR_GET_TSC, and other PR_GET_* that write an int.
        (2 | 5 | 9 | 11 | 19 | 25 | 37, 1) => Some(written(call, option)),
        // PR_SET_DUMPABLE
        (4, 1) => named("suiddump"),
        // PR_SET_KEEPCAPS, PR_SET_TIMERSLACK, PR_SET_CHILD_SUBREAPER
        (8 | 29 | 36, 1) => Some(value.to_string()),
        // PR_SET_NAME, PR_GET_NAME
        (15, 1) => Some(string(call.bytes(1), value)),
        (16, 1) => Some(string(call.bytes_after(1).filter(|_| !call.has_failed()), value)),
        // PR_SET_SECCOMP
        (22, 1) => named("seccompmode"),
        (22, 2) => (call.values[1] == 2).then(|| pointer(value)),
        // PR_CAPBSET_READ, PR_CAPBSET_DROP
        (23 | 24, 1) => named("cap"),
        // PR_SET_TSC
        (26, 1) => named("prtsc"),
        // PR_SET_SECUREBITS
        (28, 1) => Some(call.flags.flags("secbit", low)),
        // PR_MCE_KILL
        (33, 1) => named("mcekill"),
        (33, 2) if call.values[1] == 1 => named("mcekillpolicy"),
        // PR_SET_MM
        (35, 1) => named("prsetmm"),
        (35, 2) => Some(pointer(value)),
        // PR_SET_NO_NEW_PRIVS, PR_SET_THP_DISABLE
        (38 | 41, 1) => Some(value.to_string()),
        // PR_GET_TID_ADDRESS
        (40, 1) => Some(pointer(value)),
        // PR_CAP_AMBIENT
        (47, 1) => named("capambient"),
        (47, 2) if call.values[1] != 4 => named("cap"),
        // PR_GET_SPECULATION_CTRL, PR_SET_SPECULATION_CTRL
        (52 | 53, 1) => named("prspec"),
        (53, 2) => Some(call.flags.flags("prspecmode", value)),
        // PR_SET_VMA
        (0x5356_4d41, 1) => named("prsetvma"),
        (0x5356_4d41, 2) => Some(pointer(value)),
        (0x5356_4d41, 3) => Some(value.to_string()),
        (0x5356_4d41, 4) => Some(string(call.bytes(4), value)),
        // PR_SET_PTRACER
        (0x5961_6d61, 1) if low == 0xffff_ffff => Some("PR_SET_PTRACER_ANY".to_owned()),
        (0x5961_6d61, 1) => Some(StructBytes(&value.to_ne_bytes()).int(0).to_string()),
        (1 | 2 | 4 | 5 | 8 | 9 | 11 | 15 | 16 | 19 | 22..=26 | 28 | 29, _)
        | (36 | 37 | 40 | 52 | 53 | 0x5961_6d61, _) => None,
        _ if value == 0 => Some("0".to_owned()),
        _ => Some(format!("{value:#x}")),
    }
}

/// Formats the number that the call wrote.
fn written(call: &Invocation<'_>, option: u64) -> String {
    let bytes = call.bytes_after(1).filter(|_| !call.has_failed());
    let Some(bytes) = bytes else { return pointer(call.values[1]) };
    // The bytes end at the first that is 0.
    let mut all = [0; 4];
    let length = bytes.len().min(all.len());
    all[..length].copy_from_slice(&bytes[..length]);
    let number = StructBytes(&all).word(0);
    let text = match option {
        2 => structs::signal(call.flags, number),
        25 => call.flags.number("prtsc", number.into()),
        _ => number.to_string(),
    };
    format!("[{text}]")
}

fn string(bytes: Option<&[u8]>, address: u64) -> String {
    bytes.map_or_else(|| pointer(address), |bytes| text::string(bytes, 79))
}
