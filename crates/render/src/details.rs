//! Columns of what samples say beside their thread, CPU and place in code.

use std::cmp::Ordering;
use std::fmt::{self, Write};

use tare_format::printable;
use tare_profile::{Detail, Entry, Profile, Value};

/// What stands above the column, in perf's words.
pub(crate) fn title(detail: Detail) -> &'static str {
    match detail {
        Detail::Parent => "Parent symbol",
        Detail::Cgroup => "Cgroup",
        Detail::CgroupId => "cgroup id (dev/inode)",
        Detail::Time => "Time",
        Detail::LocalWeight => "Local Weight",
        Detail::Weight => "Weight",
        Detail::LocalInsLat => "Local INSTR Latency",
        Detail::InsLat => "INSTR Latency",
        Detail::LocalPStageCyc => "Local Pipeline Stage Cycle",
        Detail::PStageCyc => "Pipeline Stage Cycle",
        Detail::DsoSize => "DSO size",
        Detail::SymbolSize => "Symbol size",
        Detail::CodeSymbol => "Code Symbol",
        Detail::DataCacheline => "Data Cacheline",
        Detail::AddressFrom => "Source Address",
        Detail::AddressTo => "Target Address",
        Detail::Socket => "Socket",
        Detail::Address => "Address",
        Detail::CodePageSize => "Code Page Size",
        Detail::DataPageSize => "Data Page Size",
        Detail::Transaction => "Transaction",
        Detail::PhysicalAddress => "Data Physical Address",
        Detail::DataSymbol => "Data Symbol",
        Detail::DataDso => "Data Object",
        Detail::Memory => "Memory access",
        Detail::Snoop => "Snoop",
        Detail::Tlb => "TLB access",
        Detail::Locked => "Locked",
        Detail::Blocked => "Blocked",
        Detail::SymbolFrom => "Source Symbol",
        Detail::SymbolTo => "Target Symbol",
        Detail::DsoFrom => "Source Shared Object",
        Detail::DsoTo => "Target Shared Object",
        Detail::Mispredict => "Branch Mispredicted",
        Detail::InTransaction => "Branch in transaction",
        Detail::Abort => "Transaction abort",
        Detail::Cycles => "Basic Block Cycles",
    }
}

/// The least width of the column, in perf's layout; figures that stand at the right are `Err`.
pub(crate) fn least_width(detail: Detail) -> Result<usize, usize> {
    match detail {
        Detail::DsoSize | Detail::SymbolSize => Err(0),
        Detail::Memory => Ok(24),
        Detail::Tlb => Ok(22),
        Detail::Snoop | Detail::LocalWeight | Detail::Weight => Ok(12),
        Detail::Blocked => Ok(10),
        Detail::InsLat | Detail::LocalInsLat => Ok(13),
        Detail::Locked => Ok(6),
        _ => Ok(0),
    }
}

/// What stands for a detail that was not recorded.
fn absent(detail: Detail) -> &'static str {
    match detail {
        Detail::Parent => "[other]",
        Detail::CgroupId => "0/0x0",
        Detail::LocalWeight
        | Detail::Weight
        | Detail::LocalInsLat
        | Detail::InsLat
        | Detail::LocalPStageCyc
        | Detail::PStageCyc => "0",
        Detail::DsoSize | Detail::SymbolSize => "unknown",
        Detail::Socket => "-001",
        Detail::Transaction => "",
        Detail::DsoFrom | Detail::DsoTo | Detail::DataDso => "[unknown]",
        Detail::SymbolFrom
        | Detail::SymbolTo
        | Detail::AddressFrom
        | Detail::AddressTo
        | Detail::CodeSymbol
        | Detail::DataSymbol
        | Detail::DataCacheline => "[.] [unknown]",
        Detail::Cycles => "-",
        _ => "N/A",
    }
}

/// Writes what stands in the column for an entry.
pub(crate) fn cell(
    out: &mut impl Write,
    detail: Detail,
    profile: &Profile,
    entry: &Entry,
) -> fmt::Result {
    match profile.detail(entry.details, detail) {
        Value::None => out.write_str(absent(detail)),
        Value::Text(text) => out.write_str(&printable(profile.string(text))),
        Value::Number(number) => match detail {
            Detail::Weight | Detail::InsLat | Detail::PStageCyc => {
                write!(out, "{}", number.saturating_mul(entry.own.samples))
            }
            Detail::Socket => write!(out, "{number:03}"),
            Detail::Address => write!(out, "{number:#x}"),
            Detail::PhysicalAddress => write!(out, "[.] {number:#018x}"),
            Detail::CodePageSize | Detail::DataPageSize => page_size(out, number),
            _ => write!(out, "{number}"),
        },
    }
}

/// What comes first of two: figures by size, texts by letters, what is absent first.
pub(crate) fn compare(detail: Detail, profile: &Profile, left: &Entry, right: &Entry) -> Ordering {
    let value = |entry: &Entry| match profile.detail(entry.details, detail) {
        Value::None => (0, &[][..]),
        Value::Number(number) => (number.saturating_add(1), &[][..]),
        Value::Text(text) => (u64::MAX, profile.string(text)),
    };
    value(left).cmp(&value(right))
}

/// `4K`; 0 is not known.
fn page_size(out: &mut impl Write, bytes: u64) -> fmt::Result {
    match bytes {
        0 => out.write_str("N/A"),
        bytes if bytes % (1 << 30) == 0 => write!(out, "{}G", bytes >> 30),
        bytes if bytes % (1 << 20) == 0 => write!(out, "{}M", bytes >> 20),
        bytes if bytes % (1 << 10) == 0 => write!(out, "{}K", bytes >> 10),
        bytes => write!(out, "{bytes}B"),
    }
}
