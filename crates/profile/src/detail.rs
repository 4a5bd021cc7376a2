//! Properties of a sample that only some sort keys need.

use crate::ids::StringId;

/// A property of a sample other than its thread, CPU and frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Detail {
    /// The innermost caller whose name matches a pattern.
    Parent,
    /// The path of the cgroup.
    Cgroup,
    /// Device and inode of the cgroup namespace.
    CgroupId,
    /// The time, rounded down to a multiple of the time quantum.
    Time,
    /// The cost of the memory access or transaction (`PERF_SAMPLE_WEIGHT`).
    LocalWeight,
    /// The sum of that cost over all samples.
    Weight,
    /// The latency of the instruction, in cycles.
    LocalInsLat,
    /// The sum of the latencies of all samples.
    InsLat,
    /// The cycles that the instruction spent in a pipeline stage.
    LocalPStageCyc,
    /// The sum of these cycles over all samples.
    PStageCyc,
    /// The size of the mapping that contains the code, in bytes.
    DsoSize,
    /// The size of the function, in bytes.
    SymbolSize,
    /// The function of the instruction that accessed memory.
    CodeSymbol,
    /// The CPU's socket.
    Socket,
    /// The address of the instruction.
    Address,
    /// The size of the page that contains the code, in bytes.
    CodePageSize,
    /// The size of the page that contains the data, in bytes.
    DataPageSize,
    /// The flags of a transaction.
    Transaction,
    /// The physical address of the data.
    PhysicalAddress,
    /// The symbol of the data.
    DataSymbol,
    /// The file that contains the data.
    DataDso,
    /// The symbol at the start of the data's cache line.
    DataCacheline,
    /// The level of the memory hierarchy that held the data.
    Memory,
    /// The result of snooping other caches.
    Snoop,
    /// The TLB level that translated the address.
    Tlb,
    /// Whether the access was locked.
    Locked,
    /// The reason why the access was blocked.
    Blocked,
    /// The function that contains a branch.
    SymbolFrom,
    /// The function that contains a branch's target.
    SymbolTo,
    /// The file that contains a branch.
    DsoFrom,
    /// The file that contains a branch's target.
    DsoTo,
    /// The address of a branch.
    AddressFrom,
    /// The address of a branch's target.
    AddressTo,
    /// Whether a branch was predicted.
    Mispredict,
    /// Whether a branch was in a transaction.
    InTransaction,
    /// Whether a branch was the abort of a transaction.
    Abort,
    /// Cycles since the preceding branch.
    Cycles,
}

impl Detail {
    /// Whether its value is a function or a file.
    #[must_use]
    pub const fn is_of_places(self) -> bool {
        let of_data = matches!(self, Self::DataSymbol | Self::DataCacheline | Self::DataDso);
        self.is_end_of_branch() || of_data || matches!(self, Self::Parent | Self::CodeSymbol)
    }

    /// Whether it is a property of a branch.
    #[must_use]
    pub const fn is_of_branch(self) -> bool {
        self.is_end_of_branch()
            || matches!(self, Self::Mispredict | Self::InTransaction | Self::Abort | Self::Cycles)
    }

    /// Whether it is the source or the target of a branch.
    const fn is_end_of_branch(self) -> bool {
        matches!(
            self,
            Self::SymbolFrom
                | Self::SymbolTo
                | Self::AddressFrom
                | Self::AddressTo
                | Self::DsoFrom
                | Self::DsoTo
        )
    }
}

/// The value of a [`Detail`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Value {
    /// Not recorded.
    #[default]
    None,
    /// A number.
    Number(u64),
    /// A text. Untrusted.
    Text(StringId),
}
