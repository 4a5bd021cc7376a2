//! The rarer fields of a sample, in perf's order.

use tare_format::record::{DataSource, Sample};

use super::chain::Chains;
use super::code::Code;
use super::line;
use tare_render::script::{self, Fields, page_size};
use tare_replay::{CpuMode, Machine, Replayed};

/// Fields that stand before the address of the code.
pub(super) fn before_ip(
    text: &mut Vec<u8>,
    machine: &mut Machine,
    chains: &mut Chains,
    sample: &Replayed<'_, Sample<'_>>,
    fields: Fields,
    has_data_address: bool,
) {
    let misc = sample.raw.misc;
    let sample = sample.fields;
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
        let words = format!("{source:16x} {}", DataSource(source));
        // As in perf, what comes next begins where it did before.
        chains.data_source_width = chains.data_source_width.max(words.len());
        text.extend_from_slice(format!("{words:<0$}", chains.data_source_width).as_bytes());
    }
    if let Some(weight) = sample.weight {
        if fields.contains(Fields::WEIGHT) {
            line::decimal(text, weight, 16, b' ');
        }
        if fields.contains(Fields::INS_LAT) {
            line::decimal(text, sample.ins_lat.unwrap_or(0).into(), 16, b' ');
        }
    }
}

/// Fields that stand behind it.
pub(super) fn behind_ip(
    text: &mut Vec<u8>,
    machine: &mut Machine,
    chains: &mut Chains,
    code: &mut Code,
    sample: &Sample<'_>,
    fields: Fields,
) {
    if let Some(registers) = sample.regs_intr.as_ref().filter(|_| fields.contains(Fields::IREGS)) {
        script::registers(text, registers);
    }
    if let Some(registers) = sample.regs_user.as_ref().filter(|_| fields.contains(Fields::UREGS)) {
        script::registers(text, registers);
    }
    code.branches(text, machine, chains, sample, fields);
    code.add(text, machine, chains, sample, fields);
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
