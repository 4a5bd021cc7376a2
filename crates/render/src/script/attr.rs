//! An event's attributes on one line, as in `perf evlist -v`.

use std::fmt::Write;

use tare_format::abi::bindings as abi;
use tare_format::abi::{Attr, Flags, ReadFormat, Sampling};

/// Bits of `sample_type` in perf's order.
const SAMPLE_TYPES: [(u32, &str); 24] = [
    (abi::PERF_SAMPLE_IP, "IP"),
    (abi::PERF_SAMPLE_TID, "TID"),
    (abi::PERF_SAMPLE_TIME, "TIME"),
    (abi::PERF_SAMPLE_ADDR, "ADDR"),
    (abi::PERF_SAMPLE_READ, "READ"),
    (abi::PERF_SAMPLE_CALLCHAIN, "CALLCHAIN"),
    (abi::PERF_SAMPLE_ID, "ID"),
    (abi::PERF_SAMPLE_CPU, "CPU"),
    (abi::PERF_SAMPLE_PERIOD, "PERIOD"),
    (abi::PERF_SAMPLE_STREAM_ID, "STREAM_ID"),
    (abi::PERF_SAMPLE_RAW, "RAW"),
    (abi::PERF_SAMPLE_BRANCH_STACK, "BRANCH_STACK"),
    (abi::PERF_SAMPLE_REGS_USER, "REGS_USER"),
    (abi::PERF_SAMPLE_STACK_USER, "STACK_USER"),
    (abi::PERF_SAMPLE_IDENTIFIER, "IDENTIFIER"),
    (abi::PERF_SAMPLE_REGS_INTR, "REGS_INTR"),
    (abi::PERF_SAMPLE_DATA_SRC, "DATA_SRC"),
    (abi::PERF_SAMPLE_WEIGHT, "WEIGHT"),
    (abi::PERF_SAMPLE_PHYS_ADDR, "PHYS_ADDR"),
    (abi::PERF_SAMPLE_AUX, "AUX"),
    (abi::PERF_SAMPLE_CGROUP, "CGROUP"),
    (abi::PERF_SAMPLE_DATA_PAGE_SIZE, "DATA_PAGE_SIZE"),
    (abi::PERF_SAMPLE_CODE_PAGE_SIZE, "CODE_PAGE_SIZE"),
    (abi::PERF_SAMPLE_WEIGHT_STRUCT, "WEIGHT_STRUCT"),
];

/// Bits of `read_format` in perf's order.
const READ_FORMATS: [(ReadFormat, &str); 5] = [
    (ReadFormat::TOTAL_TIME_ENABLED, "TOTAL_TIME_ENABLED"),
    (ReadFormat::TOTAL_TIME_RUNNING, "TOTAL_TIME_RUNNING"),
    (ReadFormat::ID, "ID"),
    (ReadFormat::GROUP, "GROUP"),
    (ReadFormat::LOST, "LOST"),
];

/// One-bit fields before `freq`, in the kernel's order.
const BEFORE_FREQ: [Flags; 10] = [
    Flags::DISABLED,
    Flags::INHERIT,
    Flags::PINNED,
    Flags::EXCLUSIVE,
    Flags::EXCLUDE_USER,
    Flags::EXCLUDE_KERNEL,
    Flags::EXCLUDE_HV,
    Flags::EXCLUDE_IDLE,
    Flags::MMAP,
    Flags::COMM,
];

/// One-bit fields between `freq` and `precise_ip`.
const BEFORE_PRECISE: [Flags; 4] =
    [Flags::INHERIT_STAT, Flags::ENABLE_ON_EXEC, Flags::TASK, Flags::WATERMARK];

/// Formats attributes as `type: 1, config: 0x2, { sample_period, sample_freq }: 4000, …`; zeros are
/// left out.
#[must_use]
pub fn attr_line(attr: &Attr) -> String {
    let mut words = vec![format!("type: {}", attr.kind)];
    let hex = |words: &mut Vec<String>, name: &str, value: u64| {
        words.extend((value != 0).then(|| format!("{name}: {value:#x}")));
    };
    let decimal = |words: &mut Vec<String>, name: &str, value: u64| {
        words.extend((value != 0).then(|| format!("{name}: {value}")));
    };
    // Also 0, as since perf 6.12: it names the event.
    words.push(format!("config: {:#x}", attr.config));
    let rate = match attr.sampling {
        Sampling::None => 0,
        Sampling::Period(rate) | Sampling::Frequency(rate) => rate,
    };
    decimal(&mut words, "{ sample_period, sample_freq }", rate);
    let bits = SAMPLE_TYPES.iter().filter(|(bit, _)| attr.sample_type & u64::from(*bit) != 0);
    add_names(&mut words, "sample_type", bits.map(|(_, name)| *name));
    let bits = READ_FORMATS.iter().filter(|(bit, _)| attr.read_format.contains(*bit));
    add_names(&mut words, "read_format", bits.map(|(_, name)| *name));
    let flags = |words: &mut Vec<String>, shown: Flags| {
        let names = (attr.flags & shown).iter_names();
        words.extend(names.map(|(name, _)| format!("{}: 1", name.to_lowercase())));
    };
    let mut first = Flags::empty();
    let mut second = Flags::empty();
    BEFORE_FREQ.iter().for_each(|flag| first |= *flag);
    BEFORE_PRECISE.iter().for_each(|flag| second |= *flag);
    flags(&mut words, first);
    words.extend(matches!(attr.sampling, Sampling::Frequency(_)).then(|| "freq: 1".to_owned()));
    flags(&mut words, second);
    decimal(&mut words, "precise_ip", attr.precise_ip.into());
    flags(&mut words, !(first | second));
    decimal(&mut words, "{ wakeup_events, wakeup_watermark }", attr.wakeup.into());
    decimal(&mut words, "bp_type", attr.bp_type.into());
    hex(&mut words, "{ bp_addr, config1 }", attr.config1);
    hex(&mut words, "{ bp_len, config2 }", attr.config2);
    hex(&mut words, "branch_sample_type", attr.branch_sample_type);
    hex(&mut words, "sample_regs_user", attr.sample_regs_user);
    decimal(&mut words, "sample_stack_user", attr.sample_stack_user.into());
    if attr.flags.contains(Flags::USE_CLOCKID) {
        words.push(format!("clockid: {}", attr.clockid));
    }
    hex(&mut words, "sample_regs_intr", attr.sample_regs_intr);
    decimal(&mut words, "aux_watermark", attr.aux_watermark.into());
    decimal(&mut words, "sample_max_stack", attr.sample_max_stack.into());
    decimal(&mut words, "aux_sample_size", attr.aux_sample_size.into());
    hex(&mut words, "sig_data", attr.sig_data);
    words.join(", ")
}

fn add_names<'a>(words: &mut Vec<String>, title: &str, names: impl Iterator<Item = &'a str>) {
    let mut text = String::new();
    for name in names {
        // Writing to a string can't fail.
        let _ = write!(text, "{}{name}", if text.is_empty() { "" } else { "|" });
    }
    words.extend((!text.is_empty()).then(|| format!("{title}: {text}")));
}
