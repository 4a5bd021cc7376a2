//! The tables of a store. `docs/store.md` describes the columns.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::schema::types::{Type, TypePtr};

/// Raised when a column is removed or changes its meaning, not for new columns.
pub const VERSION: u32 = 1;

/// Kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// A moment in UTC, in microseconds since 1970.
    Time,
    /// A signed number of 64 bits.
    Int64,
    /// A signed number of 32 bits.
    Int32,
    /// UTF-8.
    Text,
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnDefinition {
    /// Its name in files and in SQL.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: ColumnKind,
    /// Whether a value may be NULL.
    pub is_nullable: bool,
}

/// A table: a tree of files with the same columns.
#[derive(Debug, PartialEq, Eq)]
pub struct TableDefinition {
    /// Name of the table and of its folder.
    pub name: &'static str,
    /// The columns, in the order of the files.
    pub columns: &'static [ColumnDefinition],
    /// Columns by which a file is sorted, ascending, NULL first.
    pub sort: &'static [usize],
}

macro_rules! table {
    ($(#[$doc:meta])* $columns:ident, $table:ident, $name:literal, sort $sort:expr;
     $($variant:ident $column:literal $kind:ident $null:literal $text:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $columns { $(#[doc = $text] $variant,)* }

        impl $columns {
            /// All columns, in the order of the files.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the column's name in files and in SQL.
            #[must_use]
            pub fn name(self) -> &'static str {
                $table.columns[self as usize].name
            }
        }

        $(#[$doc])*
        pub static $table: TableDefinition = TableDefinition {
            name: $name,
            columns: &[$(ColumnDefinition {
                name: $column,
                kind: ColumnKind::$kind,
                is_nullable: $null,
            },)*],
            sort: &$sort,
        };
    };
}

table! {
    /// Samples of a window with equal labels, event and stack: a row each.
    SampleColumn, SAMPLES, "samples", sort [2, 5, 14, 16, 0];
    Window "window" Time false "Start of the window.",
    WindowUs "window_us" Int64 false "Length of the window in microseconds.",
    Service "service" Text true "Name of the service.",
    Version "version" Text true "Version of the service.",
    Host "host" Text false "Name of the host.",
    Container "container" Text true "Id of the container.",
    Process "process" Text true "Name of the process.",
    Thread "thread" Text true "Name of the thread, or the pattern it is folded to.",
    Unit "unit" Text true "The systemd unit.",
    Namespace "namespace" Text true "The Kubernetes namespace.",
    Pod "pod" Text true "The Kubernetes pod.",
    Owner "owner" Text true "The pod's owner, such as a deployment.",
    Image "image" Text true "Image of the container.",
    Extra "extra" Text true "Further labels, as a JSON object.",
    Event "event" Text false "Name of the event.",
    WaitReason "wait_reason" Text true "What a thread waited for, if the event is off-CPU time.",
    StackId "stack_id" Int64 false "Id of the stack, 0 if it wasn't kept.",
    Function "function" Text true "The innermost function.",
    Samples "samples" Int64 false "Number of samples.",
    Weight "weight" Int64 false "Sum of the samples' periods.",
}

table! {
    /// The frames of stacks: a row each.
    FrameColumn, FRAMES, "frames", sort [0, 1];
    StackId "stack_id" Int64 false "Id of the stack.",
    Depth "depth" Int32 false "0 for the innermost frame.",
    Function "function" Text true "Name of the function, NULL if it has none yet.",
    File "file" Text true "Source file.",
    Line "line" Int32 true "Line in the source file.",
    Module "module" Text true "Path of the binary or library.",
    BuildId "build_id" Text true "Build id of the module, in hexadecimal.",
    Address "address" Int64 false "Offset in the module's file.",
}

table! {
    /// Windows and gaps of hosts: a row each.
    SegmentColumn, SEGMENTS, "segments", sort [1, 5];
    Kind "kind" Text false "`window` or `gap`.",
    Host "host" Text false "Name of the host.",
    Boot "boot" Text true "Id of the boot.",
    Kernel "kernel" Text true "Release of the kernel.",
    AgentVersion "agent_version" Text true "Version of the writer.",
    Start "start" Time false "Start of the window or gap.",
    End "end" Time false "End of the window or gap.",
    Samples "samples" Int64 false "Samples; of a gap at least as many were lost.",
    Lost "lost" Int64 false "Samples that the kernel or the writer dropped.",
    Truncated "truncated" Int64 false "Samples with an incomplete stack.",
    Unnamed "unnamed" Int64 false "Samples whose innermost frame has no function.",
    Omitted "omitted" Int64 false "Samples whose stack was beyond the window's limits.",
    RecorderCpuUs "recorder_cpu_us" Int64 false "The writer's CPU time in microseconds.",
    KernelUs "kernel_us" Int64 false "Time for sampling in the kernel, in microseconds.",
    RateMillihertz "rate_millihertz" Int64 false "The sampling rate at the window's end.",
    Cpus "cpus" Int64 false "Number of CPUs online.",
}

impl TableDefinition {
    /// Returns whether the table's folders of dates have folders of hours.
    pub(crate) fn has_hours(&self) -> bool {
        self.name == SAMPLES.name
    }

    /// Returns the type of the table's files.
    ///
    /// # Errors
    /// Never for the tables of this module.
    pub(crate) fn message(&self) -> Result<TypePtr, ParquetError> {
        let fields: Result<Vec<TypePtr>, ParquetError> =
            self.columns.iter().map(|column| column.field().map(Arc::new)).collect();
        let message = Type::group_type_builder(self.name).with_fields(fields?).build()?;
        Ok(Arc::new(message))
    }
}

impl ColumnDefinition {
    fn field(&self) -> Result<Type, ParquetError> {
        let utc_microseconds = LogicalType::timestamp(true, TimeUnit::MICROS);
        let (physical, logical) = match self.kind {
            ColumnKind::Time => (PhysicalType::INT64, Some(utc_microseconds)),
            ColumnKind::Int64 => (PhysicalType::INT64, None),
            ColumnKind::Int32 => (PhysicalType::INT32, None),
            ColumnKind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let repetition = if self.is_nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        Type::primitive_type_builder(self.name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .build()
    }
}
