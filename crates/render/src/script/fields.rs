//! The fields of a line by type of event: the defaults, and the changes by `-F`. Names and rules
//! are those of `perf-script(1)`.
#![allow(missing_docs)] // the names are perf's, and FIELDS lists them

use bitflags::bitflags;
use tare_format::abi::Attr;
use tare_format::abi::bindings::{
    PERF_SAMPLE_ADDR, PERF_SAMPLE_BRANCH_ANY, PERF_SAMPLE_BRANCH_STACK, PERF_SAMPLE_CALLCHAIN,
    PERF_SAMPLE_CGROUP, PERF_SAMPLE_CODE_PAGE_SIZE, PERF_SAMPLE_CPU, PERF_SAMPLE_DATA_PAGE_SIZE,
    PERF_SAMPLE_DATA_SRC, PERF_SAMPLE_IP, PERF_SAMPLE_PHYS_ADDR, PERF_SAMPLE_RAW,
    PERF_SAMPLE_REGS_INTR, PERF_SAMPLE_REGS_USER, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
    PERF_SAMPLE_WEIGHT, PERF_SAMPLE_WEIGHT_STRUCT, PERF_TYPE_BREAKPOINT, PERF_TYPE_HARDWARE,
    PERF_TYPE_HW_CACHE, PERF_TYPE_RAW, PERF_TYPE_SOFTWARE, PERF_TYPE_TRACEPOINT,
};
use tare_format::nearest::nearest_hint;

bitflags! {
    /// Fields of a line.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Fields: u64 {
        const COMM = 1;
        const TID = 1 << 1;
        const PID = 1 << 2;
        const TIME = 1 << 3;
        const CPU = 1 << 4;
        const EVENT = 1 << 5;
        const TRACE = 1 << 6;
        const IP = 1 << 7;
        const SYM = 1 << 8;
        const DSO = 1 << 9;
        const ADDR = 1 << 10;
        const SYMOFF = 1 << 11;
        const PERIOD = 1 << 12;
        const IREGS = 1 << 13;
        const UREGS = 1 << 14;
        const BRSTACK = 1 << 15;
        const BRSTACKSYM = 1 << 16;
        const DATA_SRC = 1 << 17;
        const WEIGHT = 1 << 18;
        const BPF_OUTPUT = 1 << 19;
        const PHYS_ADDR = 1 << 20;
        const MISC = 1 << 21;
        const CGROUP = 1 << 22;
        const DATA_PAGE_SIZE = 1 << 23;
        const CODE_PAGE_SIZE = 1 << 24;
        const TOD = 1 << 25;
        const SRCLINE = 1 << 26;
        const SRCCODE = 1 << 27;
        const FLAGS = 1 << 28;
        const INSN = 1 << 29;
        const INSNLEN = 1 << 30;
        const DISASM = 1 << 31;
        const BRSTACKOFF = 1 << 32;
        const BRSTACKINSN = 1 << 33;
        const BRSTACKINSNLEN = 1 << 34;
        const BRSTACKDISASM = 1 << 35;
        const INS_LAT = 1 << 36;
        const OF_TRACES = 1 << 37;
        const BLOCKS = 1 << 33 | 1 << 34 | 1 << 35;
        /// Lines and instructions, which need the recorded files.
        const OF_FILES = 1 << 26 | 1 << 27 | 1 << 29 | 1 << 30 | 1 << 31 | 1 << 33 | 1 << 34 | 1 << 35;
    }
}

/// Each field: its name, its bit, the `sample_type` bits of which it needs one (0: no bit), and
/// their name in messages.
const FIELDS: [(&str, Fields, u32, &str); 43] = [
    ("comm", Fields::COMM, 0, ""),
    ("tid", Fields::TID, PERF_SAMPLE_TID, "TID"),
    ("pid", Fields::PID, PERF_SAMPLE_TID, "TID"),
    ("time", Fields::TIME, PERF_SAMPLE_TIME, "TIME"),
    ("cpu", Fields::CPU, PERF_SAMPLE_CPU, "CPU"),
    ("event", Fields::EVENT, 0, ""),
    ("trace", Fields::TRACE, PERF_SAMPLE_RAW, "RAW"),
    ("ip", Fields::IP, PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN, "IP"),
    ("sym", Fields::SYM, 0, ""),
    ("dso", Fields::DSO, 0, ""),
    ("srcline", Fields::SRCLINE, PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN, "IP"),
    ("srccode", Fields::SRCCODE, PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN, "IP"),
    ("flags", Fields::FLAGS, 0, ""),
    ("insn", Fields::INSN, PERF_SAMPLE_IP, "IP"),
    ("insnlen", Fields::INSNLEN, PERF_SAMPLE_IP, "IP"),
    ("disasm", Fields::DISASM, PERF_SAMPLE_IP, "IP"),
    ("addr", Fields::ADDR, PERF_SAMPLE_ADDR, "ADDR"),
    ("symoff", Fields::SYMOFF, 0, ""),
    ("period", Fields::PERIOD, 0, ""),
    ("iregs", Fields::IREGS, PERF_SAMPLE_REGS_INTR, "IREGS"),
    ("uregs", Fields::UREGS, PERF_SAMPLE_REGS_USER, "UREGS"),
    ("brstack", Fields::BRSTACK, PERF_SAMPLE_BRANCH_STACK, "BRANCH_STACK"),
    ("brstacksym", Fields::BRSTACKSYM, PERF_SAMPLE_BRANCH_STACK, "BRANCH_STACK"),
    ("brstackoff", Fields::BRSTACKOFF, PERF_SAMPLE_BRANCH_STACK, "BRANCH_STACK"),
    ("brstackinsn", Fields::BRSTACKINSN, PERF_SAMPLE_BRANCH_STACK, "BRANCH_STACK"),
    ("brstackinsnlen", Fields::BRSTACKINSNLEN, PERF_SAMPLE_BRANCH_STACK, "BRANCH_STACK"),
    ("brstackdisasm", Fields::BRSTACKDISASM, PERF_SAMPLE_BRANCH_STACK, "BRANCH_STACK"),
    ("data_src", Fields::DATA_SRC, PERF_SAMPLE_DATA_SRC, "DATA_SRC"),
    ("weight", Fields::WEIGHT, PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT, "WEIGHT"),
    ("ins_lat", Fields::INS_LAT, PERF_SAMPLE_WEIGHT_STRUCT, "WEIGHT_STRUCT"),
    ("bpf-output", Fields::BPF_OUTPUT, PERF_SAMPLE_RAW, "RAW"),
    ("phys_addr", Fields::PHYS_ADDR, PERF_SAMPLE_PHYS_ADDR, "PHYS_ADDR"),
    ("misc", Fields::MISC, 0, ""),
    ("cgroup", Fields::CGROUP, PERF_SAMPLE_CGROUP, "CGROUP"),
    ("data_page_size", Fields::DATA_PAGE_SIZE, PERF_SAMPLE_DATA_PAGE_SIZE, "DATA_PAGE_SIZE"),
    ("code_page_size", Fields::CODE_PAGE_SIZE, PERF_SAMPLE_CODE_PAGE_SIZE, "CODE_PAGE_SIZE"),
    ("tod", Fields::TOD, PERF_SAMPLE_TIME, "TIME"),
    ("metric", Fields::OF_TRACES, 0, ""),
    ("callindent", Fields::OF_TRACES, 0, ""),
    ("synth", Fields::OF_TRACES, 0, ""),
    ("ipc", Fields::OF_TRACES, 0, ""),
    ("machine_pid", Fields::OF_TRACES, 0, ""),
    ("vcpu", Fields::OF_TRACES, 0, ""),
];

/// Returns the names of the fields that can be printed.
pub fn field_names() -> impl Iterator<Item = &'static str> {
    FIELDS.iter().filter(|(_, field, ..)| *field != Fields::OF_TRACES).map(|(name, ..)| *name)
}

/// The types of events with separate fields; the last stands for all other types.
const TYPES: [(&str, u32); 7] = [
    ("hw", PERF_TYPE_HARDWARE),
    ("sw", PERF_TYPE_SOFTWARE),
    ("trace", PERF_TYPE_TRACEPOINT),
    ("hw-cache", PERF_TYPE_HW_CACHE),
    ("raw", PERF_TYPE_RAW),
    ("break", PERF_TYPE_BREAKPOINT),
    ("other", u32::MAX),
];

const TRACE: usize = 2;

fn type_index(kind: u32) -> usize {
    TYPES.iter().position(|(_, known)| *known == kind).unwrap_or(TYPES.len() - 1)
}

/// The fields of each type of event.
#[derive(Clone, Debug)]
pub struct Selection {
    fields: [Fields; TYPES.len()],
    /// Fields that the user named for all types: it is an error if samples don't have most of them.
    asked: [Fields; TYPES.len()],
    is_set: [bool; TYPES.len()],
}

impl Default for Selection {
    fn default() -> Self {
        let line = Fields::COMM | Fields::TID | Fields::CPU | Fields::TIME | Fields::EVENT;
        let place = Fields::IP | Fields::SYM | Fields::SYMOFF | Fields::DSO | Fields::PERIOD;
        let fields = std::array::from_fn(|at| match TYPES[at].0 {
            "trace" => line | Fields::TRACE,
            "sw" => line | place | Fields::BPF_OUTPUT,
            "raw" => {
                line | place
                    | Fields::ADDR
                    | Fields::DATA_SRC
                    | Fields::WEIGHT
                    | Fields::PHYS_ADDR
                    | Fields::DATA_PAGE_SIZE
                    | Fields::CODE_PAGE_SIZE
                    | Fields::INS_LAT
            }
            _ => line | place,
        });
        Self { fields, asked: [Fields::empty(); TYPES.len()], is_set: [false; TYPES.len()] }
    }
}

impl Selection {
    /// Applies one `-F`.
    ///
    /// # Errors
    /// Fails with a message if the option is invalid.
    pub fn change(&mut self, typed: &str) -> Result<(), String> {
        let (kinds, list) = match typed.split_once(':') {
            None => (0..TYPES.len(), typed),
            Some((name, list)) => {
                let at = TYPES.iter().position(|(known, _)| *known == name);
                let at = at.ok_or_else(|| {
                    format!("-F: there is no type of event '{name}' (hw, sw, trace, raw, break)")
                })?;
                (at..at + 1, list)
            }
        };
        if list.is_empty() && kinds.len() > 1 {
            return Err(
                "-F: no field is left (`-F TYPE:` leaves out the events of one type)".to_owned()
            );
        }
        let changes =
            list.contains(['+', '-']) && list.split(',').any(|word| word.starts_with(['+', '-']));
        for kind in kinds.clone().filter(|_| !changes) {
            self.fields[kind] = Fields::empty();
            self.asked[kind] = Fields::empty();
            self.is_set[kind] = true;
        }
        for word in list.split(',').filter(|word| !word.is_empty()) {
            let (sign, name) = match word.split_at(1) {
                (sign @ ("+" | "-"), name) => (sign, name),
                _ if changes => {
                    return Err("-F: fields with and without + or - can't be mixed".to_owned());
                }
                _ => ("", word),
            };
            let field =
                FIELDS.iter().find(|(known, ..)| *known == name).map(|(_, field, ..)| *field);
            let field = field.ok_or_else(|| {
                let known = FIELDS.map(|(name, ..)| name);
                match nearest_hint(name, known) {
                    hint if !hint.is_empty() => format!("-F: there is no field '{name}'{hint}"),
                    _ => format!("-F: there is no field '{name}' ({})", known.join(",")),
                }
            })?;
            if name == "metric" && sign != "-" {
                return Err(
                    "-F metric: samples have no metrics; to count them: tare stat -I 1000 -e cycles,instructions"
                        .to_owned(),
                );
            }
            for kind in kinds.clone().filter(|kind| field != Fields::TRACE || *kind == TRACE) {
                self.fields[kind].set(field, sign != "-");
                self.asked[kind].set(field, sign != "-" && kinds.len() > 1);
                self.is_set[kind] = true;
            }
        }
        Ok(())
    }

    /// Whether the user named this field.
    #[must_use]
    pub fn has_asked(&self, field: Fields) -> bool {
        self.fields
            .iter()
            .zip(self.is_set)
            .any(|(fields, is_set)| is_set && fields.intersects(field))
    }

    /// Removes fields that the samples of a recording don't have. The first event of each type
    /// decides, as in perf.
    ///
    /// # Errors
    /// Fails with a message if the user named a field for all types that the samples don't have, or
    /// one that describes an address without naming an address.
    pub fn fit(&mut self, events: &[(Attr, String)]) -> Result<(), String> {
        for (kind, (fields, asked)) in self.fields.iter_mut().zip(&self.asked).enumerate() {
            let Some((attr, name)) = events.iter().find(|(attr, _)| type_index(attr.kind) == kind)
            else {
                continue;
            };
            let is_whole = |(attr, _): &(Attr, String)| {
                attr.branch_sample_type & u64::from(PERF_SAMPLE_BRANCH_ANY) != 0
            };
            if asked.intersects(Fields::BLOCKS) && !events.iter().any(is_whole) {
                return Err(format!(
                    "the samples of {name} don't have all branches, so -F brstackinsn can't be printed (record them: -b)"
                ));
            }
            for (field_name, field, needed, called) in &FIELDS {
                if *needed == 0
                    || !fields.contains(*field)
                    || attr.sample_type & u64::from(*needed) != 0
                {
                    continue;
                }
                if asked.contains(*field)
                    && !matches!(*field, Fields::CPU | Fields::TRACE | Fields::BPF_OUTPUT)
                {
                    return Err(format!(
                        "the samples of {name} have no {called}, so -F {field_name} can't be printed"
                    ));
                }
                fields.remove(*field);
            }
            refuse_without_address(*fields, *asked)?;
        }
        let has_chain = |(attr, _): &(Attr, String)| {
            attr.kind == PERF_TYPE_TRACEPOINT
                && attr.sample_type & u64::from(PERF_SAMPLE_CALLCHAIN) != 0
        };
        if !self.is_set[TRACE] && events.iter().any(has_chain) {
            self.fields[TRACE] |= Fields::IP | Fields::SYM | Fields::SYMOFF | Fields::DSO;
        }
        Ok(())
    }

    /// Returns the fields for a type of event (`PERF_TYPE_*`).
    pub fn fields_for(&self, kind: u32) -> Fields {
        self.fields[type_index(kind)]
    }
}

/// Refuses fields that describe an address where no address is printed, as perf does.
fn refuse_without_address(fields: Fields, asked: Fields) -> Result<(), String> {
    let describing = [
        (Fields::SYM, Fields::IP | Fields::ADDR),
        (Fields::SYMOFF, Fields::IP | Fields::ADDR),
        (Fields::DSO, Fields::IP | Fields::ADDR | Fields::BRSTACK | Fields::BRSTACKOFF),
        (Fields::SRCLINE, Fields::IP),
        (Fields::SRCCODE, Fields::IP),
    ];
    for (field, addresses) in describing {
        if asked.contains(field) && fields.contains(field) && !fields.intersects(addresses) {
            let name = FIELDS.iter().find(|known| known.1 == field).map_or("", |known| known.0);
            return Err(format!("-F {name} describes an address: name one too (-F ip,{name})"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(typed: &str) -> Selection {
        let mut selection = Selection::default();
        selection.change(typed).unwrap();
        selection
    }

    #[test]
    fn lists_replace_fields_and_signs_change_them() {
        assert_eq!(
            changed("comm,time").fields_for(PERF_TYPE_SOFTWARE),
            Fields::COMM | Fields::TIME
        );
        assert_eq!(
            changed("trace:comm").fields_for(PERF_TYPE_SOFTWARE),
            Selection::default().fields_for(PERF_TYPE_SOFTWARE)
        );
        assert_eq!(changed("trace:comm").fields_for(PERF_TYPE_TRACEPOINT), Fields::COMM);
        let more = changed("+pid,-cpu").fields_for(PERF_TYPE_HARDWARE);
        assert!(more.contains(Fields::PID | Fields::COMM) && !more.contains(Fields::CPU));
        assert!(changed("sw:").fields_for(PERF_TYPE_SOFTWARE).is_empty());
        assert!(!changed("comm,trace").fields_for(PERF_TYPE_SOFTWARE).contains(Fields::TRACE));
    }

    #[test]
    fn refuses_invalid_options() {
        for typed in ["", "nonsense", "+pid,comm", "comm,+pid", "hw2:comm", "+metric"] {
            assert!(Selection::default().change(typed).is_err(), "{typed}");
        }
    }

    /// Fields that are documented as accepted and empty, or that belong to other types of events.
    const EMPTY: [&str; 7] =
        ["trace", "bpf-output", "callindent", "synth", "ipc", "machine_pid", "vcpu"];

    #[test]
    fn every_field_is_printed_or_refused() {
        let attr = Attr {
            kind: PERF_TYPE_SOFTWARE,
            sample_type: (PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME).into(),
            ..Attr::default()
        };
        let events = [(attr, "cpu-clock".to_owned())];
        let is_left_out = |name: &str| EMPTY.contains(&name) || name == "metric";
        for (name, field, ..) in FIELDS.iter().filter(|(name, ..)| !is_left_out(name)) {
            let mut selection = changed(&format!("comm,{name}"));
            let fits = selection.fit(&events).is_ok();
            let needs_address = ["sym", "dso", "symoff", "srcline", "srccode"].contains(name);
            assert!(!(fits && needs_address), "{name} describes no address");
            let is_printed = selection.fields_for(PERF_TYPE_SOFTWARE).contains(*field);
            // perf leaves the CPU out, too.
            assert!(!fits || is_printed || *name == "cpu", "{name} is accepted and ignored");
            let with_address = changed(&format!("ip,{name}")).fit(&events).is_ok();
            assert!(with_address || !needs_address, "{name}");
        }
    }

    #[test]
    fn removes_or_refuses_fields_that_samples_lack() {
        let attr = Attr {
            kind: PERF_TYPE_SOFTWARE,
            sample_type: (PERF_SAMPLE_IP | PERF_SAMPLE_TID).into(),
            ..Attr::default()
        };
        let events = [(attr, "cpu-clock".to_owned())];
        let mut selection = Selection::default();
        selection.fit(&events).unwrap();
        assert_eq!(
            selection.fields_for(PERF_TYPE_SOFTWARE),
            Fields::COMM
                | Fields::TID
                | Fields::EVENT
                | Fields::IP
                | Fields::SYM
                | Fields::SYMOFF
                | Fields::DSO
                | Fields::PERIOD
        );
        assert!(changed("comm,time").fit(&events).is_err());
    }
}
