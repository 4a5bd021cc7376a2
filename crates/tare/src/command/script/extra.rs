//! The rarer fields of a sample, in perf's order.

use tare_format::abi::Attr;
use tare_format::abi::bindings::{
    PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_PAGE_FAULTS_MAJ, PERF_COUNT_SW_PAGE_FAULTS_MIN,
    PERF_TYPE_SOFTWARE,
};
use tare_format::record::{Branch, Branches, Registers, Sample};

use super::chain::Chains;
use super::line;
use crate::cli::resolved::script_fields::Fields;
use tare_replay::{CpuMode, Machine};

/// Where samples of an event have their own address: page faults have that of the memory.
pub(super) fn has_data_address(attr: &Attr) -> bool {
    let faults =
        [PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_PAGE_FAULTS_MIN, PERF_COUNT_SW_PAGE_FAULTS_MAJ];
    attr.kind == PERF_TYPE_SOFTWARE && faults.iter().any(|fault| u64::from(*fault) == attr.config)
}

/// Fields that stand before the address of the code.
pub(super) fn before_ip(
    text: &mut Vec<u8>,
    (machine, chains): (&mut Machine, &mut Chains),
    sample: &Sample<'_>,
    misc: u16,
    (fields, has_data_address): (Fields, bool),
) {
    if let Some(addr) = sample.head.addr.filter(|_| fields.contains(Fields::ADDR)) {
        line::hex(text, addr, 16);
        if has_data_address && fields.intersects(Fields::SYM | Fields::DSO) {
            let pid = sample.head.pid.unwrap_or(-1);
            let other = if CpuMode::of_misc(misc) == CpuMode::Kernel {
                CpuMode::User
            } else {
                CpuMode::Kernel
            };
            let at = machine
                .dso_address(CpuMode::of_misc(misc), pid, addr)
                .or_else(|| machine.dso_address(other, pid, addr));
            chains.symbol(text, machine, at, fields);
        }
    }
    if let Some(source) = sample.data_src.filter(|_| fields.contains(Fields::DATA_SRC)) {
        line::hex(text, source, 16);
    }
    if let Some(weight) = sample.weight.filter(|_| fields.contains(Fields::WEIGHT)) {
        line::decimal(text, weight, 16, b' ');
    }
}

/// Fields that stand behind it.
pub(super) fn behind_ip(
    text: &mut Vec<u8>,
    (machine, chains): (&mut Machine, &mut Chains),
    sample: &Sample<'_>,
    fields: Fields,
) {
    if let Some(registers) = sample.regs_intr.as_ref().filter(|_| fields.contains(Fields::IREGS)) {
        self::registers(text, registers);
    }
    if let Some(registers) = sample.regs_user.as_ref().filter(|_| fields.contains(Fields::UREGS)) {
        self::registers(text, registers);
    }
    for branch in sample.branches.iter().flat_map(Branches::iter) {
        if fields.contains(Fields::BRSTACK) {
            text.extend_from_slice(
                format!(" 0x{:x}/0x{:x}{} ", branch.from, branch.to, flags(&branch)).as_bytes(),
            );
        } else if fields.contains(Fields::BRSTACKSYM) {
            for (address, end) in [(branch.from, "/"), (branch.to, "")] {
                // Which half of the address space it is tells user from kernel.
                let mode = if address >> 63 == 1 { CpuMode::Kernel } else { CpuMode::User };
                let at = machine.dso_address(mode, sample.head.pid.unwrap_or(-1), address);
                chains.symbol(text, machine, at, Fields::SYM | Fields::SYMOFF);
                text.extend_from_slice(end.as_bytes());
            }
            text.extend_from_slice(format!("{} ", flags(&branch)).as_bytes());
        }
    }
    if let Some(address) = sample.phys_addr.filter(|_| fields.contains(Fields::PHYS_ADDR)) {
        line::hex(text, address, 16);
    }
    for (size, field) in [
        (sample.data_page_size, Fields::DATA_PAGE_SIZE),
        (sample.code_page_size, Fields::CODE_PAGE_SIZE),
    ] {
        if let Some(size) = size.filter(|_| fields.contains(field)) {
            text.extend_from_slice(format!(" {}", page_size(size)).as_bytes());
        }
    }
    if let Some(cgroup) = sample.cgroup.filter(|_| fields.contains(Fields::CGROUP)) {
        text.push(b' ');
        line::name(text, machine.cgroup(cgroup).unwrap_or(b"unknown"));
    }
}

fn flags(branch: &Branch) -> String {
    let prediction = if branch.mispredicted {
        'M'
    } else if branch.predicted {
        'P'
    } else {
        '-'
    };
    let transaction = if branch.in_transaction { 'X' } else { '-' };
    let abort = if branch.abort { 'A' } else { '-' };
    format!("/{prediction}/{transaction}/{abort}/{}", branch.cycles)
}

fn page_size(bytes: u64) -> String {
    match bytes {
        0 => "N/A".to_owned(),
        bytes if bytes % (1 << 30) == 0 => format!("{}G", bytes >> 30),
        bytes if bytes % (1 << 20) == 0 => format!("{}M", bytes >> 20),
        bytes if bytes % (1 << 10) == 0 => format!("{}K", bytes >> 10),
        bytes => format!("{bytes}B"),
    }
}

/// The registers of x86 by number (`arch/x86/include/uapi/asm/perf_regs.h`).
const X86: [&str; 24] = [
    "AX", "BX", "CX", "DX", "SI", "DI", "BP", "SP", "IP", "FLAGS", "CS", "SS", "DS", "ES", "FS",
    "GS", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15",
];

fn registers(text: &mut Vec<u8>, registers: &Registers<'_>) {
    text.extend_from_slice(format!(" ABI:{} ", registers.abi).as_bytes());
    let numbers = (0..64_usize).filter(|number| registers.mask >> number & 1 == 1);
    for (number, value) in numbers.zip(registers.values.iter()) {
        let name = if cfg!(target_arch = "x86_64") { X86.get(number).copied() } else { None };
        let name = name.map_or_else(|| format!("r{number}"), str::to_owned);
        text.extend_from_slice(format!("{name:>5}:0x{value:x} ").as_bytes());
    }
}
