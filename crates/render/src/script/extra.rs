//! Rarer fields of samples as text.

use tare_format::abi::Attr;
use tare_format::abi::bindings::{
    PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_PAGE_FAULTS_MAJ, PERF_COUNT_SW_PAGE_FAULTS_MIN,
    PERF_TYPE_SOFTWARE,
};
use tare_format::record::{Branch, Registers};

/// Whether the address in an event's samples is that of accessed memory, as for page faults.
#[must_use]
pub fn has_data_address(attr: &Attr) -> bool {
    let faults =
        [PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_PAGE_FAULTS_MIN, PERF_COUNT_SW_PAGE_FAULTS_MAJ];
    attr.kind == PERF_TYPE_SOFTWARE && faults.iter().any(|fault| u64::from(*fault) == attr.config)
}

/// Formats a branch's flags and cycles, as in `perf script -F brstack`.
#[must_use]
pub fn branch_flags(branch: &Branch) -> String {
    let prediction = if branch.mispredicted {
        'M'
    } else if branch.predicted {
        'P'
    } else {
        '-'
    };
    let transaction = if branch.in_transaction { 'X' } else { '-' };
    let abort = if branch.abort { 'A' } else { '-' };
    format!("/{prediction}/{transaction}/{abort}/{}/{} ", branch.cycles, branch_type(branch))
}

/// Returns perf's name of a branch's type; empty if the type wasn't recorded.
fn branch_type(branch: &Branch) -> &'static str {
    const NAMES: [&str; 15] = [
        "",
        "COND",
        "UNCOND",
        "IND",
        "CALL",
        "IND_CALL",
        "RET",
        "SYSCALL",
        "SYSRET",
        "COND_CALL",
        "COND_RET",
        "ERET",
        "IRQ",
        "SERROR",
        "NO_TX",
    ];
    const NEW: [&str; 8] = [
        "FAULT_ALGN",
        "FAULT_DATA",
        "FAULT_INST",
        "ARCH_1",
        "ARCH_2",
        "ARCH_3",
        "ARCH_4",
        "ARCH_5",
    ];
    let extended = NEW.get(usize::from(branch.new_type)).copied().unwrap_or_default();
    NAMES.get(usize::from(branch.branch_type)).copied().unwrap_or(extended)
}

/// Formats a page's size, such as `4K`; 0 means unknown.
#[must_use]
pub fn page_size(bytes: u64) -> String {
    match bytes {
        0 => "N/A".to_owned(),
        bytes if bytes % (1 << 30) == 0 => format!("{}G", bytes >> 30),
        bytes if bytes % (1 << 20) == 0 => format!("{}M", bytes >> 20),
        bytes if bytes % (1 << 10) == 0 => format!("{}K", bytes >> 10),
        bytes => format!("{bytes}B"),
    }
}

/// Names of the x86 registers by number (`arch/x86/include/uapi/asm/perf_regs.h`).
const X86: [&str; 24] = [
    "AX", "BX", "CX", "DX", "SI", "DI", "BP", "SP", "IP", "FLAGS", "CS", "SS", "DS", "ES", "FS",
    "GS", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15",
];

/// Appends the registers of a sample.
pub fn registers(text: &mut Vec<u8>, registers: &Registers<'_>) {
    text.extend_from_slice(format!(" ABI:{} ", registers.abi).as_bytes());
    let numbers = (0..64_usize).filter(|number| registers.mask >> number & 1 == 1);
    for (number, value) in numbers.zip(registers.values.iter()) {
        let name = if cfg!(target_arch = "x86_64") { X86.get(number).copied() } else { None };
        let name = name.map_or_else(|| format!("r{number}"), str::to_owned);
        text.extend_from_slice(format!("{name:>5}:0x{value:x} ").as_bytes());
    }
}
