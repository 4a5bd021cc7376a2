//! The columns of a table: figures and sort keys.
//!
//! [`COLUMNS`] is the one list of them. Names that options accept, help texts, the table in
//! `docs/report.md`, headers, widths, cells and the order of rows all come from it. A new sort key
//! is a row here, a variant of [`Detail`] and the code in `tare-replay` that reads it from a
//! sample.

use std::cmp::Ordering;
use std::fmt::{self, Write};

use tare_format::nearest::nearest_hint;
use tare_format::printable;
use tare_profile::{
    BranchDetail, Detail, Entry, FrameId, FunctionKey, Profile, ProfileTable, SortKey, Space,
    StringId, Value, Weight, short_name,
};

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// The share of all samples' weight in the entry and its callees.
    Children,
    /// The share of all samples' weight in the entry itself.
    Overhead,
    /// The share of the time that passed, in the entry and its callees.
    LatencyChildren,
    /// The share of the time that passed, in the entry itself.
    Latency,
    /// The number of samples in the entry itself.
    Samples,
    /// The sum of these samples' periods.
    Period,
    /// The share of all samples' weight in the entry itself, within this address space.
    OverheadOf(Space),
    /// A sort key.
    Key(SortKey),
}

/// The samples that have a value for a column. Help texts are grouped by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnGroup {
    /// A figure: samples and their weight.
    Figure,
    /// A key that any sample can have.
    Sample,
    /// A key of sampled memory accesses.
    Memory,
    /// A key of branch records.
    Branch,
}

impl ColumnGroup {
    /// All groups, in the order of help texts, with their headings.
    const HEADINGS: [(Self, &'static str); 4] = [
        (Self::Figure, "Figures (-F)"),
        (Self::Sample, "Sort keys"),
        (Self::Memory, "Sort keys of memory accesses"),
        (Self::Branch, "Sort keys of branches (record -b)"),
    ];
}

/// The alignment and the least width of a column's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CellWidth {
    /// A name, aligned to the left.
    Name(usize),
    /// A figure, aligned to the right.
    Figure(usize),
}

/// The data that a cell is written from.
struct CellSource<'a> {
    info: &'static ColumnInfo,
    profile: &'a Profile,
    table: &'a ProfileTable,
    entry: &'a Entry,
}

type WriteCell = fn(&mut String, &CellSource<'_>) -> fmt::Result;
type CompareEntries = fn(Column, &Profile, &Entry, &Entry) -> Ordering;

/// A column: names, header, help, layout, text and order.
#[derive(Debug)]
pub struct ColumnInfo {
    /// The column.
    pub column: Column,
    /// Its names on the command line, which are perf's.
    pub names: &'static [&'static str],
    /// Its header, which is perf's.
    pub title: &'static str,
    /// Its contents, for help texts and the manual.
    pub help: &'static str,
    /// The samples that have a value for it.
    pub group: ColumnGroup,
    width: CellWidth,
    /// The text of a cell without a value.
    absent: &'static str,
    write: WriteCell,
    compare: CompareEntries,
}

impl ColumnInfo {
    const fn figure(
        column: Column,
        names: &'static [&'static str],
        title: &'static str,
        help: &'static str,
    ) -> Self {
        Self {
            column,
            names,
            title,
            help,
            group: ColumnGroup::Figure,
            width: Figure(8),
            absent: "",
            write: write_share,
            compare: by_own_weight,
        }
    }

    const fn key(
        key: SortKey,
        names: &'static [&'static str],
        title: &'static str,
        help: &'static str,
    ) -> Self {
        Self {
            column: Column::Key(key),
            group: ColumnGroup::Sample,
            width: Name(0),
            absent: UNKNOWN,
            ..Self::figure(Column::Key(key), names, title, help)
        }
    }

    const fn detail(
        detail: Detail,
        names: &'static [&'static str],
        title: &'static str,
        help: &'static str,
    ) -> Self {
        Self {
            absent: "N/A",
            write: write_number,
            compare: by_detail,
            ..Self::key(SortKey::Detail(detail), names, title, help)
        }
    }

    const fn memory(
        detail: Detail,
        names: &'static [&'static str],
        title: &'static str,
        help: &'static str,
    ) -> Self {
        Self { group: ColumnGroup::Memory, ..Self::detail(detail, names, title, help) }
    }

    const fn branch(
        detail: BranchDetail,
        names: &'static [&'static str],
        title: &'static str,
        help: &'static str,
    ) -> Self {
        let detail = Detail::Branch(detail);
        Self { group: ColumnGroup::Branch, ..Self::detail(detail, names, title, help) }
    }

    const fn width(self, width: CellWidth) -> Self {
        Self { width, ..self }
    }

    const fn absent(self, absent: &'static str) -> Self {
        Self { absent, ..self }
    }

    const fn write(self, write: WriteCell) -> Self {
        Self { write, ..self }
    }

    const fn compare(self, compare: CompareEntries) -> Self {
        Self { compare, ..self }
    }

    /// Compares two entries by this column: figures descend, keys ascend.
    pub(crate) fn compare_entries(
        &self,
        profile: &Profile,
        left: &Entry,
        right: &Entry,
    ) -> Ordering {
        (self.compare)(self.column, profile, left, right)
    }
}

const UNKNOWN: &str = "[unknown]";
const UNKNOWN_PLACE: &str = "[.] [unknown]";

use CellWidth::{Figure, Name};

/// All columns.
pub static COLUMNS: &[ColumnInfo] = &[
    ColumnInfo::figure(
        Column::Overhead,
        &["overhead"],
        "Overhead",
        "share of the weight, without callees",
    ),
    ColumnInfo::figure(
        Column::Children,
        &["overhead_children"],
        "Children",
        "share of the weight, with callees",
    )
    .compare(by_total_weight),
    ColumnInfo::figure(
        Column::Latency,
        &["latency"],
        "Latency",
        "share of the time that passed, without callees (record --latency)",
    )
    .compare(by_latency),
    ColumnInfo::figure(
        Column::LatencyChildren,
        &["latency_children"],
        "Latency",
        "share of the time that passed, with callees",
    )
    .compare(by_latency),
    ColumnInfo::figure(Column::Samples, &["sample"], "Samples", "number of samples")
        .width(Figure(12))
        .write(write_samples)
        .compare(by_samples),
    ColumnInfo::figure(Column::Period, &["period"], "Period", "sum of the samples' periods")
        .width(Figure(12))
        .write(write_period),
    ColumnInfo::key(
        SortKey::Comm,
        &["comm", "comm_nodigit"],
        "Command",
        "thread name; comm_nodigit replaces numbers by `<N>`",
    )
    .write(write_comm)
    .compare(by_comm),
    ColumnInfo::key(SortKey::Dso, &["dso"], "Shared Object", "file with the code")
        .write(write_dso)
        .compare(by_dso),
    ColumnInfo::key(SortKey::Symbol, &["sym", "symbol"], "Symbol", "function")
        .write(write_symbol)
        .compare(by_symbol),
    ColumnInfo::key(
        SortKey::Tid,
        &["pid", "tid"],
        "    Pid:Command",
        "thread id, with the thread's last name",
    )
    .write(write_tid)
    .compare(by_thread),
    ColumnInfo::key(SortKey::Tgid, &["tgid"], "   Tgid", "process id")
        .write(write_tgid)
        .compare(by_thread),
    ColumnInfo::key(SortKey::SrcLine, &["srcline"], "Source:Line", "source file and line")
        .absent("??:0")
        .write(write_source_line)
        .compare(by_source),
    ColumnInfo::key(SortKey::SrcFile, &["srcfile"], "Source File", "source file")
        .absent(".")
        .write(write_source_file)
        .compare(by_source),
    ColumnInfo::key(SortKey::Cpu, &["cpu"], "CPU", "CPU")
        .absent("-001")
        .write(write_cpu)
        .compare(by_cpu),
    ColumnInfo::key(SortKey::Event, &["event"], "Event", "event")
        .write(write_event)
        .compare(always_equal),
    ColumnInfo::key(
        SortKey::Trace,
        &["trace", "trace_fields"],
        "Trace output",
        "fields of a tracepoint",
    )
    .write(write_trace)
    .compare(by_trace),
    ColumnInfo::figure(
        Column::OverheadOf(Space::Kernel),
        &["overhead_sys"],
        "sys",
        "share of the weight, in the kernel",
    )
    .compare(by_space_weight),
    ColumnInfo::figure(
        Column::OverheadOf(Space::User),
        &["overhead_us"],
        "usr",
        "share of the weight, in programs",
    )
    .compare(by_space_weight),
    ColumnInfo::figure(
        Column::OverheadOf(Space::GuestKernel),
        &["overhead_guest_sys"],
        "guest sys",
        "share of the weight, in guests' kernels",
    )
    .width(Figure(9))
    .compare(by_space_weight),
    ColumnInfo::figure(
        Column::OverheadOf(Space::GuestUser),
        &["overhead_guest_us"],
        "guest usr",
        "share of the weight, in guests' programs",
    )
    .width(Figure(9))
    .compare(by_space_weight),
    ColumnInfo::detail(
        Detail::Parent,
        &["parent"],
        "Parent symbol",
        "innermost caller that the pattern of -p matches",
    )
    .absent("[other]"),
    ColumnInfo::detail(Detail::Cgroup, &["cgroup"], "Cgroup", "cgroup path"),
    ColumnInfo::detail(
        Detail::CgroupId,
        &["cgroup_id"],
        "cgroup id (dev/inode)",
        "device and inode of the cgroup namespace",
    )
    .absent("0/0x0"),
    ColumnInfo::detail(Detail::Time, &["time"], "Time", "time, in slices of --time-quantum"),
    ColumnInfo::detail(
        Detail::LocalWeight,
        &["local_weight"],
        "Local Weight",
        "cost of the access or transaction, per sample",
    )
    .width(Name(12))
    .absent("0"),
    ColumnInfo::detail(
        Detail::Weight,
        &["weight"],
        "Weight",
        "cost of the access or transaction, times the number of samples",
    )
    .width(Name(12))
    .absent("0")
    .write(write_times_samples),
    ColumnInfo::detail(
        Detail::LocalInsLat,
        &["local_ins_lat"],
        "Local INSTR Latency",
        "instruction latency in cycles, per sample",
    )
    .width(Name(13))
    .absent("0"),
    ColumnInfo::detail(
        Detail::InsLat,
        &["ins_lat"],
        "INSTR Latency",
        "instruction latency in cycles, times the number of samples",
    )
    .width(Name(13))
    .absent("0")
    .write(write_times_samples),
    ColumnInfo::detail(
        Detail::LocalPStageCyc,
        // perf 6.12 on x86 has the second name.
        &["local_p_stage_cyc", "local_retire_lat"],
        "Local Pipeline Stage Cycle",
        "cycles in a pipeline stage, per sample",
    )
    .absent("0"),
    ColumnInfo::detail(
        Detail::PStageCyc,
        &["p_stage_cyc", "retire_lat"],
        "Pipeline Stage Cycle",
        "cycles in a pipeline stage, times the number of samples",
    )
    .absent("0")
    .write(write_times_samples),
    ColumnInfo::detail(
        Detail::DsoSize,
        &["dso_size"],
        "DSO size",
        "size of the mapping with the code, in bytes",
    )
    .width(Figure(0))
    .absent("unknown"),
    ColumnInfo::detail(
        Detail::SymbolSize,
        &["symbol_size"],
        "Symbol size",
        "size of the function, in bytes",
    )
    .width(Figure(0))
    .absent("unknown"),
    ColumnInfo::detail(Detail::Socket, &["socket"], "Socket", "CPU socket")
        .absent("-001")
        .write(write_socket),
    ColumnInfo::detail(
        Detail::Parallelism,
        &["parallelism"],
        "Parallelism",
        "number of the recorded threads that ran (record --latency)",
    )
    .width(Figure(0)),
    ColumnInfo::detail(Detail::Address, &["addr"], "Address", "address of the instruction")
        .write(write_address),
    ColumnInfo::detail(
        Detail::CodePageSize,
        &["code_page_size"],
        "Code Page Size",
        "size of the page with the code",
    )
    .write(write_page_size),
    ColumnInfo::detail(
        Detail::Transaction,
        &["transaction"],
        "Transaction",
        "flags of the hardware transaction",
    )
    .absent(""),
    ColumnInfo::memory(Detail::Memory, &["mem"], "Memory access", "level of the memory hierarchy")
        .width(Name(24)),
    ColumnInfo::memory(Detail::Snoop, &["snoop"], "Snoop", "answer of the other caches")
        .width(Name(12)),
    ColumnInfo::memory(Detail::Tlb, &["tlb"], "TLB access", "where the address was translated")
        .width(Name(22)),
    ColumnInfo::memory(Detail::Locked, &["locked"], "Locked", "whether the access was locked")
        .width(Name(6)),
    ColumnInfo::memory(Detail::Blocked, &["blocked"], "Blocked", "why the access was delayed")
        .width(Name(10)),
    ColumnInfo::memory(
        Detail::CodeSymbol,
        &["symbol_iaddr"],
        "Code Symbol",
        "function that accessed memory",
    )
    .absent(UNKNOWN_PLACE),
    ColumnInfo::memory(
        Detail::DataSymbol,
        &["symbol_daddr"],
        "Data Symbol",
        "symbol of the accessed data",
    )
    .absent(UNKNOWN_PLACE),
    ColumnInfo::memory(Detail::DataDso, &["dso_daddr"], "Data Object", "file of the accessed data")
        .absent(UNKNOWN),
    ColumnInfo::memory(
        Detail::DataCacheline,
        &["dcacheline"],
        "Data Cacheline",
        "symbol at the start of the data's cache line",
    )
    .absent(UNKNOWN_PLACE),
    ColumnInfo::memory(
        Detail::PhysicalAddress,
        &["phys_daddr"],
        "Data Physical Address",
        "physical address of the data",
    )
    .write(write_physical_address),
    ColumnInfo::memory(
        Detail::DataPageSize,
        &["data_page_size"],
        "Data Page Size",
        "size of the page with the data",
    )
    .write(write_page_size),
    ColumnInfo::branch(
        BranchDetail::SymbolFrom,
        &["symbol_from", "sym_from"],
        "Source Symbol",
        "function that the branch left",
    )
    .absent(UNKNOWN_PLACE),
    ColumnInfo::branch(
        BranchDetail::SymbolTo,
        &["symbol_to", "sym_to"],
        "Target Symbol",
        "function that the branch entered",
    )
    .absent(UNKNOWN_PLACE),
    ColumnInfo::branch(
        BranchDetail::DsoFrom,
        &["dso_from"],
        "Source Shared Object",
        "file that the branch left",
    )
    .absent(UNKNOWN),
    ColumnInfo::branch(
        BranchDetail::DsoTo,
        &["dso_to"],
        "Target Shared Object",
        "file that the branch entered",
    )
    .absent(UNKNOWN),
    ColumnInfo::branch(
        BranchDetail::AddressFrom,
        &["addr_from"],
        "Source Address",
        "address of the branch",
    )
    .absent(UNKNOWN_PLACE),
    ColumnInfo::branch(
        BranchDetail::AddressTo,
        &["addr_to"],
        "Target Address",
        "address of the target",
    )
    .absent(UNKNOWN_PLACE),
    ColumnInfo::branch(
        BranchDetail::Mispredict,
        &["mispredict"],
        "Branch Mispredicted",
        "Y if the branch was mispredicted, N if predicted",
    ),
    ColumnInfo::branch(
        BranchDetail::InTransaction,
        &["in_tx"],
        "Branch in transaction",
        "T if the branch was in a transaction",
    ),
    ColumnInfo::branch(
        BranchDetail::Abort,
        &["abort"],
        "Transaction abort",
        "A if the branch aborted a transaction",
    ),
    ColumnInfo::branch(
        BranchDetail::Cycles,
        &["cycles", "local_cycles"],
        "Basic Block Cycles",
        "cycles since the previous branch",
    )
    .absent("-"),
];

/// perf's sort keys that tare lacks, each with the reason or the command to use instead.
const MISSING_KEYS: &[(&str, &str)] = &[
    ("type", "tare doesn't read data types"),
    ("typeoff", "tare doesn't read data types"),
    ("simd", "it needs Arm SPE traces, which tare doesn't decode"),
    ("srcline_from", "`tare script -F ip,brstackinsn,srccode` shows the lines of branches"),
    ("srcline_to", "`tare script -F ip,brstackinsn,srccode` shows the lines of branches"),
    ("ipc_null", "`tare script -F ip,brstackinsn` shows instructions by cycle"),
    ("ipc_lbr", "`tare script -F ip,brstackinsn` shows instructions by cycle"),
];

/// The sort keys by which recordings can be compared.
const COMPARABLE_KEYS: [SortKey; 3] = [SortKey::Comm, SortKey::Dso, SortKey::Symbol];

/// Returns the names and contents of all columns, by group, for `--help`.
#[must_use]
pub fn column_help() -> String {
    let mut help = String::new();
    for (group, heading) in ColumnGroup::HEADINGS {
        help += &format!("{}{heading}:\n", if help.is_empty() { "" } else { "\n" });
        for info in COLUMNS.iter().filter(|info| info.group == group) {
            let names = info.names.join(", ");
            // Names that are too long for their column have a line of their own.
            let gap = if names.len() > 19 { format!("\n{:22}", "") } else { " ".to_owned() };
            help += &format!("  {names:<19}{gap}{}\n", info.help);
        }
    }
    help.truncate(help.trim_end().len());
    help
}

impl Column {
    /// Finds a column by one of its names.
    ///
    /// # Errors
    /// Fails if there is no such column. The message names a similar one, lists all, or states why
    /// tare lacks this sort key of perf's.
    pub fn from_name(name: &str) -> Result<Self, String> {
        if let Some(info) = COLUMNS.iter().find(|info| info.names.contains(&name)) {
            return Ok(info.column);
        }
        if let Some((_, reason)) = MISSING_KEYS.iter().find(|(missing, _)| *missing == name) {
            return Err(format!("tare lacks perf's sort key {name}: {reason}"));
        }
        let names: Vec<_> = COLUMNS.iter().flat_map(|info| info.names).copied().collect();
        Err(match nearest_hint(name, &names) {
            hint if !hint.is_empty() => format!("there is no column or sort key '{name}'{hint}"),
            _ => {
                let names = names.join(", ");
                format!("there is no column or sort key '{name}': choose from {names}")
            }
        })
    }

    /// Returns its row of [`COLUMNS`].
    #[must_use]
    pub fn info(self) -> &'static ColumnInfo {
        let row = COLUMNS.iter().find(|info| info.column == self);
        // Hypervisors and unknown address spaces have no column of their own.
        row.unwrap_or(&COLUMNS[0])
    }

    /// Returns its header.
    #[must_use]
    pub fn title(self, has_children: bool) -> &'static str {
        match self {
            Self::Overhead if has_children => "Self",
            _ => self.info().title,
        }
    }

    /// Returns the text of its cell for an entry, safe to print on a terminal.
    #[must_use]
    pub fn text(self, profile: &Profile, table: &ProfileTable, entry: &Entry) -> String {
        let mut text = String::new();
        self.write_cell(&mut text, profile, table, entry);
        text
    }

    /// Returns the width of a share, which is the same for each entry; `None` for other columns.
    #[must_use]
    pub fn percentage_width(self) -> Option<usize> {
        match self {
            Self::Children
            | Self::Overhead
            | Self::LatencyChildren
            | Self::Latency
            | Self::OverheadOf(_) => self.figure_width(),
            Self::Samples | Self::Period | Self::Key(_) => None,
        }
    }

    /// Returns the least width of a figure, which is aligned to the right; `None` for names, which
    /// are aligned to the left.
    #[must_use]
    pub fn figure_width(self) -> Option<usize> {
        match self.info().width {
            Figure(width) => Some(width),
            Name(_) => None,
        }
    }

    /// Returns the weight whose share the column shows.
    pub(crate) fn part(self, entry: &Entry) -> Weight {
        let latency = |period| Weight { period, ..entry.own() };
        match self {
            Self::Children => entry.total,
            Self::LatencyChildren => latency(entry.parts().total_latency),
            Self::Latency => latency(entry.parts().own_latency),
            _ => entry.own(),
        }
    }

    /// Returns the weight that is 100% in the column.
    pub(crate) fn whole(self, table: &ProfileTable) -> Weight {
        match self {
            Self::LatencyChildren | Self::Latency => {
                Weight { period: table.all_latency, ..table.all }
            }
            _ => table.all,
        }
    }

    /// Whether it shows shares of the time that passed.
    #[must_use]
    pub fn is_latency(self) -> bool {
        matches!(self, Self::LatencyChildren | Self::Latency)
    }

    /// Returns the least width of a name.
    pub(crate) fn name_width(self) -> usize {
        match self.info().width {
            Name(width) => width,
            Figure(_) => 0,
        }
    }

    /// Appends the text of its cell for an entry.
    pub(crate) fn write_cell(
        self,
        out: &mut String,
        profile: &Profile,
        table: &ProfileTable,
        entry: &Entry,
    ) {
        let info = self.info();
        // Writing to a string can't fail.
        let _ = (info.write)(out, &CellSource { info, profile, table, entry });
    }
}

/// Finds a sort key by which recordings can be compared.
///
/// # Errors
/// Fails for any other key, with a message that lists these keys.
pub fn comparable_key(name: &str) -> Result<SortKey, String> {
    let columns = COMPARABLE_KEYS.map(|key| Column::Key(key).info());
    if let Some(Column::Key(key)) =
        columns.iter().find(|info| info.names.contains(&name)).map(|info| info.column)
        && name != "comm_nodigit"
    {
        return Ok(key);
    }
    let names = columns.map(|info| info.names[0]).join(", ");
    Err(match Column::from_name(name) {
        Ok(Column::Key(SortKey::Tid | SortKey::Tgid | SortKey::Cpu)) => format!(
            "{name}: process ids and CPU numbers mean nothing in another recording; choose from {names}"
        ),
        _ => format!("{name}: recordings are compared by {names}, or with --stacks by call chain"),
    })
}

impl CellSource<'_> {
    fn write_text(&self, out: &mut String, id: Option<StringId>) -> fmt::Result {
        match id {
            Some(id) => out.write_str(&printable(self.profile.string(id))),
            None => out.write_str(self.info.absent),
        }
    }

    /// Writes a detail; `write_number` formats numbers.
    fn write_detail(
        &self,
        out: &mut String,
        write_number: impl FnOnce(&mut String, u64) -> fmt::Result,
    ) -> fmt::Result {
        let Column::Key(SortKey::Detail(detail)) = self.info.column else { return Ok(()) };
        match self.profile.detail(self.entry.task.details, detail) {
            Value::None => out.write_str(self.info.absent),
            Value::Text(text) => self.write_text(out, Some(text)),
            Value::Number(number) => write_number(out, number),
        }
    }
}

fn write_share(out: &mut String, cell: &CellSource<'_>) -> fmt::Result {
    let column = cell.info.column;
    let part = match column {
        Column::OverheadOf(space) => {
            Weight { period: weight_in_space(cell.entry, space), samples: 0 }
        }
        _ => column.part(cell.entry),
    };
    write!(out, "{:.2}%", percent(part, column.whole(cell.table)))
}

fn write_samples(out: &mut String, cell: &CellSource<'_>) -> fmt::Result {
    write!(out, "{}", cell.entry.own().samples)
}

fn write_period(out: &mut String, cell: &CellSource<'_>) -> fmt::Result {
    write!(out, "{}", cell.entry.own().period)
}

fn write_comm(out: &mut String, cell: &CellSource<'_>) -> fmt::Result {
    cell.write_text(out, cell.entry.task.comm)
}

fn write_dso(out: &mut String, cell: &CellSource<'_>) -> fmt::Result {
    cell.write_text(out, short_name(cell.profile, cell.entry.frame))
}

fn write_symbol(out: &mut String, cell: &CellSource<'_>) -> fmt::Result {
    let CellSource { profile, entry, .. } = cell;
    write!(out, "[{}] ", space_letter(profile, entry))?;
    write_function(out, profile, entry.function(profile))?;
    out.write_str(inlined(profile, entry.frame))
}

fn write_tid(out: &mut String, cell: &CellSource<'_>) -> fmt::Result {
    match thread_number(SortKey::Tid, cell.profile, cell.entry) {
        Some(tid) => {
            write!(out, "{tid:>7}:")?;
            let thread = cell.entry.task.thread;
            cell.write_text(out, thread.and_then(|thread| cell.profile.last_name(thread)))
        }
        None => out.write_str(cell.info.absent),
    }
}

fn write_tgid(out: &mut String, cell: &CellSource<'_>) -> fmt::Result {
    match thread_number(SortKey::Tgid, cell.profile, cell.entry) {
        Some(tgid) => write!(out, "{tgid:>7}"),
        None => out.write_str(cell.info.absent),
    }
}

fn write_source_file(out: &mut String, cell: &CellSource<'_>) -> fmt::Result {
    let Some(line) = cell.entry.frame.and_then(|frame| cell.profile.frame(frame)?.line) else {
        return out.write_str(cell.info.absent);
    };
    let path = cell.profile.string(line.file);
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    out.write_str(&printable(name))
}

fn write_source_line(out: &mut String, cell: &CellSource<'_>) -> fmt::Result {
    write_source_file(out, cell)?;
    match cell.entry.frame.and_then(|frame| cell.profile.frame(frame)?.line) {
        Some(line) => write!(out, ":{}", line.line),
        None => Ok(()),
    }
}

fn write_cpu(out: &mut String, cell: &CellSource<'_>) -> fmt::Result {
    match cell.entry.task.cpu {
        Some(cpu) => write!(out, "{cpu:03}"),
        None => out.write_str(cell.info.absent),
    }
}

fn write_event(out: &mut String, cell: &CellSource<'_>) -> fmt::Result {
    cell.write_text(out, cell.profile.event(cell.table.event).map(|event| event.name))
}

fn write_trace(out: &mut String, cell: &CellSource<'_>) -> fmt::Result {
    cell.write_text(out, cell.entry.task.trace)
}

fn write_number(out: &mut String, cell: &CellSource<'_>) -> fmt::Result {
    cell.write_detail(out, |out, number| write!(out, "{number}"))
}

fn write_times_samples(out: &mut String, cell: &CellSource<'_>) -> fmt::Result {
    let samples = cell.entry.own().samples;
    cell.write_detail(out, |out, number| write!(out, "{}", number.saturating_mul(samples)))
}

fn write_socket(out: &mut String, cell: &CellSource<'_>) -> fmt::Result {
    cell.write_detail(out, |out, number| write!(out, "{number:03}"))
}

fn write_address(out: &mut String, cell: &CellSource<'_>) -> fmt::Result {
    cell.write_detail(out, |out, address| write!(out, "{address:#x}"))
}

fn write_physical_address(out: &mut String, cell: &CellSource<'_>) -> fmt::Result {
    cell.write_detail(out, |out, address| write!(out, "[.] {address:#018x}"))
}

/// Writes `4K`; a size of 0 is unknown.
fn write_page_size(out: &mut String, cell: &CellSource<'_>) -> fmt::Result {
    cell.write_detail(out, |out, bytes| match bytes {
        0 => out.write_str(cell.info.absent),
        bytes if bytes % (1 << 30) == 0 => write!(out, "{}G", bytes >> 30),
        bytes if bytes % (1 << 20) == 0 => write!(out, "{}M", bytes >> 20),
        bytes if bytes % (1 << 10) == 0 => write!(out, "{}K", bytes >> 10),
        bytes => write!(out, "{bytes}B"),
    })
}

fn by_own_weight(_: Column, _: &Profile, left: &Entry, right: &Entry) -> Ordering {
    right.own().period.cmp(&left.own().period)
}

/// Compares by weight with callees. Of two entries with the same weight in a thread, the caller
/// comes first.
fn by_total_weight(_: Column, _: &Profile, left: &Entry, right: &Entry) -> Ordering {
    let by_weight = right.total.period.cmp(&left.total.period);
    by_weight.then(left.task.thread.cmp(&right.task.thread)).then(right.depth.cmp(&left.depth))
}

fn by_latency(column: Column, _: &Profile, left: &Entry, right: &Entry) -> Ordering {
    column.part(right).period.cmp(&column.part(left).period)
}

fn by_space_weight(column: Column, _: &Profile, left: &Entry, right: &Entry) -> Ordering {
    let Column::OverheadOf(space) = column else { return Ordering::Equal };
    weight_in_space(right, space).cmp(&weight_in_space(left, space))
}

fn by_samples(_: Column, _: &Profile, left: &Entry, right: &Entry) -> Ordering {
    right.own().samples.cmp(&left.own().samples)
}

fn by_comm(_: Column, profile: &Profile, left: &Entry, right: &Entry) -> Ordering {
    let name = |entry: &Entry| entry.task.comm.map(|comm| profile.string(comm));
    name(left).cmp(&name(right))
}

fn by_dso(_: Column, profile: &Profile, left: &Entry, right: &Entry) -> Ordering {
    let name = |entry: &Entry| short_name(profile, entry.frame).map(|name| profile.string(name));
    name(left).cmp(&name(right))
}

fn by_symbol(_: Column, profile: &Profile, left: &Entry, right: &Entry) -> Ordering {
    let name = |function| match function {
        FunctionKey::Named(symbol) => {
            profile.symbol(symbol).map(|symbol| profile.string(symbol.name))
        }
        FunctionKey::Address(..) | FunctionKey::Unknown => None,
    };
    let left = left.function(profile);
    let right = right.function(profile);
    name(left).cmp(&name(right)).then_with(|| left.cmp(&right))
}

fn by_thread(column: Column, profile: &Profile, left: &Entry, right: &Entry) -> Ordering {
    let Column::Key(key) = column else { return Ordering::Equal };
    thread_number(key, profile, left).cmp(&thread_number(key, profile, right))
}

fn by_source(_: Column, profile: &Profile, left: &Entry, right: &Entry) -> Ordering {
    let line = |entry: &Entry| {
        let line = profile.frame(entry.frame?)?.line?;
        Some((profile.string(line.file), line.line))
    };
    line(left).cmp(&line(right))
}

fn by_cpu(_: Column, _: &Profile, left: &Entry, right: &Entry) -> Ordering {
    left.task.cpu.cmp(&right.task.cpu)
}

fn by_trace(_: Column, profile: &Profile, left: &Entry, right: &Entry) -> Ordering {
    let text = |entry: &Entry| entry.task.trace.map(|trace| profile.string(trace));
    text(left).cmp(&text(right))
}

/// For the event column: all entries of a table have the same event.
fn always_equal(_: Column, _: &Profile, _: &Entry, _: &Entry) -> Ordering {
    Ordering::Equal
}

/// Compares details: absent values come first, then numbers, then texts.
fn by_detail(column: Column, profile: &Profile, left: &Entry, right: &Entry) -> Ordering {
    let Column::Key(SortKey::Detail(detail)) = column else { return Ordering::Equal };
    let value = |entry: &Entry| match profile.detail(entry.task.details, detail) {
        Value::None => (0, &[][..]),
        Value::Number(number) => (number.saturating_add(1), &[][..]),
        Value::Text(text) => (u64::MAX, profile.string(text)),
    };
    value(left).cmp(&value(right))
}

/// Returns the period of an entry's samples in an address space. The user's includes hypervisors
/// and unknown spaces.
fn weight_in_space(entry: &Entry, space: Space) -> u64 {
    let [kernel, user, guest_kernel, guest_user] = entry.parts().own_by_space;
    match space {
        Space::Kernel => kernel,
        Space::GuestKernel => guest_kernel,
        Space::GuestUser => guest_user,
        Space::User | Space::Hypervisor | Space::Unknown => user,
    }
}

/// Returns the id of an entry's thread ([`SortKey::Tid`]) or process.
pub(crate) fn thread_number(key: SortKey, profile: &Profile, entry: &Entry) -> Option<i32> {
    let thread = profile.thread(entry.task.thread?)?;
    Some(if key == SortKey::Tid { thread.tid } else { thread.pid })
}

/// Returns the share of a period in another, in percent; 0 if the other is 0.
#[must_use]
pub fn percent(part: Weight, all: Weight) -> f64 {
    if all.period == 0 { 0.0 } else { 100.0 * part.period as f64 / all.period as f64 }
}

/// Returns the suffix of an inlined function's name; empty for other functions.
pub fn inlined(profile: &Profile, frame: Option<FrameId>) -> &'static str {
    let frame = frame.and_then(|frame| profile.frame(frame));
    if frame.is_some_and(|frame| frame.is_inlined) { " (inlined)" } else { "" }
}

fn space_letter(profile: &Profile, entry: &Entry) -> char {
    let frame = entry.frame.and_then(|frame| profile.frame(frame));
    frame.map_or(Space::Unknown, |frame| frame.space).letter()
}

/// Returns the name of a frame's function, its address, or `[unknown]`, safe for a terminal.
#[must_use]
pub fn function_name(profile: &Profile, frame: Option<FrameId>) -> String {
    let mut name = String::new();
    // Writing to a string can't fail.
    let _ = write_function(&mut name, profile, FunctionKey::at_frame(profile, frame));
    name
}

/// Writes a function's name, its address with 16 digits, or `[unknown]`.
fn write_function(out: &mut String, profile: &Profile, function: FunctionKey) -> fmt::Result {
    match function {
        FunctionKey::Named(symbol) => match profile.symbol(symbol) {
            Some(symbol) => out.write_str(&printable(profile.string(symbol.name))),
            None => Ok(()),
        },
        FunctionKey::Address(_, 0) => write!(out, "{:016x}", 0),
        FunctionKey::Address(_, address) => write!(out, "{address:#018x}"),
        FunctionKey::Unknown => out.write_str(UNKNOWN),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_and_columns_are_unique() {
        let mut names = HashSet::new();
        for (index, info) in COLUMNS.iter().enumerate() {
            assert!(info.names.iter().all(|name| names.insert(*name)), "{:?}", info.names);
            let first = COLUMNS.iter().position(|other| other.column == info.column);
            assert_eq!(first, Some(index), "{:?}", info.column);
        }
    }

    #[test]
    fn help_lists_every_name() {
        let help = column_help();
        for info in COLUMNS {
            let names = info.names.join(", ");
            let lines = match names.len() {
                ..=19 => format!("  {names:<19} {}\n", info.help),
                _ => format!("  {names}\n{:22}{}\n", "", info.help),
            };
            assert!(format!("{help}\n").contains(&lines), "{lines}");
        }
    }

    #[test]
    fn the_manual_has_a_row_for_each_column() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/report.md");
        let manual = std::fs::read_to_string(path).unwrap();
        let begin =
            manual.find("| name | header | holds |").expect("docs/report.md lacks the table");
        let rows = manual[begin..].lines().skip(2).take_while(|line| line.starts_with('|'));
        let expected = ColumnGroup::HEADINGS.iter().flat_map(|(group, _)| {
            COLUMNS.iter().filter(move |info| info.group == *group).map(|info| {
                let names: Vec<_> = info.names.iter().map(|name| format!("`{name}`")).collect();
                format!("| {} | {} | {} |", names.join(", "), info.title.trim(), info.help)
            })
        });
        assert_eq!(rows.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }

    #[test]
    fn unknown_and_missing_names_are_explained() {
        assert_eq!(Column::from_name("symbol"), Ok(Column::Key(SortKey::Symbol)));
        assert!(Column::from_name("simd").unwrap_err().contains("Arm SPE"));
        assert!(Column::from_name("nonsense").unwrap_err().contains("choose from overhead, "));
        assert_eq!(comparable_key("symbol"), Ok(SortKey::Symbol));
        assert!(comparable_key("cpu").unwrap_err().ends_with("choose from comm, dso, sym"));
        assert!(comparable_key("parent").unwrap_err().contains("--stacks"));
    }
}
