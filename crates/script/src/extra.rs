//! The rarer fields of a sample, in perf's order.

use tare_format::record::{DataSource, Sample};
use tare_render::script::{Fields, decimal, hex, name, page_size, registers};
use tare_replay::{CpuMode, Machine};

use crate::address::AddressPrinter;

/// A line that is being printed, and the state that its fields need.
pub(crate) struct SampleLine<'a> {
    pub(crate) text: &'a mut Vec<u8>,
    pub(crate) machine: &'a mut Machine,
    pub(crate) addresses: &'a mut AddressPrinter,
    pub(crate) fields: Fields,
}

impl SampleLine<'_> {
    /// Adds the fields that stand before the address of the code. `misc` is the record's.
    pub(crate) fn add_fields_before_ip(
        &mut self,
        sample: &Sample<'_>,
        misc: u16,
        has_data_address: bool,
    ) {
        let fields = self.fields;
        if let Some(addr) = sample.head.addr.filter(|_| fields.contains(Fields::ADDR)) {
            hex(self.text, addr, 16);
            if has_data_address && fields.intersects(Fields::SYM | Fields::DSO) {
                self.add_data_symbol(sample, misc, addr);
            }
        }
        if let Some(source) = sample.data_src.filter(|_| fields.contains(Fields::DATA_SRC)) {
            let words = format!("{source:16x} {}", DataSource(source));
            // As in perf, the text is padded to the longest one so far.
            let width = self.addresses.data_source_width.max(words.len());
            self.addresses.data_source_width = width;
            self.text.extend_from_slice(format!("{words:<width$}").as_bytes());
        }
        if let Some(weight) = sample.weight {
            if fields.contains(Fields::WEIGHT) {
                decimal(self.text, weight, 16, b' ');
            }
            if fields.contains(Fields::INS_LAT) {
                decimal(self.text, sample.ins_lat.unwrap_or(0).into(), 16, b' ');
            }
        }
    }

    /// Adds the symbol of a data address. The kernel's code may access user memory.
    fn add_data_symbol(&mut self, sample: &Sample<'_>, misc: u16, addr: u64) {
        let pid = sample.head.pid.unwrap_or(-1);
        let mode = CpuMode::from_misc(misc);
        let other = if mode == CpuMode::Kernel { CpuMode::User } else { CpuMode::Kernel };
        let at = self
            .machine
            .dso_address(mode, pid, addr)
            .or_else(|| self.machine.dso_address(other, pid, addr));
        self.addresses.add_symbol(self.text, self.machine, at, false, self.fields);
    }

    /// Adds the registers.
    pub(crate) fn add_registers(&mut self, sample: &Sample<'_>) {
        let fields = self.fields;
        if let Some(values) = sample.regs_intr.as_ref().filter(|_| fields.contains(Fields::IREGS)) {
            registers(self.text, values);
        }
        if let Some(values) = sample.regs_user.as_ref().filter(|_| fields.contains(Fields::UREGS)) {
            registers(self.text, values);
        }
    }

    /// Adds the fields that stand last.
    pub(crate) fn add_last_fields(&mut self, sample: &Sample<'_>) {
        let fields = self.fields;
        if let Some(address) = sample.phys_addr.filter(|_| fields.contains(Fields::PHYS_ADDR)) {
            hex(self.text, address, 16);
        }
        for (size, field) in [
            (sample.data_page_size, Fields::DATA_PAGE_SIZE),
            (sample.code_page_size, Fields::CODE_PAGE_SIZE),
        ] {
            if let Some(size) = size.filter(|_| fields.contains(field)) {
                self.text.extend_from_slice(format!(" {}", page_size(size)).as_bytes());
            }
        }
        if let Some(cgroup) = sample.cgroup.filter(|_| fields.contains(Fields::CGROUP)) {
            self.text.push(b' ');
            name(self.text, self.machine.cgroup(cgroup).unwrap_or(b"unknown"));
        }
    }
}
