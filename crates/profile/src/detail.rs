//! What of a sample tells rows apart beside its thread, CPU and place in code.

use crate::ids::StringId;

/// What of a sample can tell rows apart beside its thread, CPU and place in code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Detail {
    /// The innermost caller that a pattern fits.
    Parent,
    /// The path of the cgroup.
    Cgroup,
    /// Device and inode of the cgroup namespace.
    CgroupId,
    /// The time, in slices of the quantum.
    Time,
    /// What the sample's access or transaction cost.
    LocalWeight,
    /// That of all samples together.
    Weight,
    /// The latency of the instruction, in cycles.
    LocalInsLat,
    /// That of all samples together.
    InsLat,
    /// The cycles that the instruction held a stage of the pipeline.
    LocalPStageCyc,
    /// Those of all samples together.
    PStageCyc,
    /// The size of the mapping that the code lies in, in bytes.
    DsoSize,
    /// The size of the function, in bytes.
    SymbolSize,
    /// The function, by what accessed memory.
    CodeSymbol,
    /// The CPU's socket.
    Socket,
    /// The address of the instruction.
    Address,
    /// The size of the page that the code lies in, in bytes.
    CodePageSize,
    /// The size of the page that the data lie in, in bytes.
    DataPageSize,
    /// The flags of a transaction.
    Transaction,
    /// The physical address of the data.
    PhysicalAddress,
    /// What lies where the data are.
    DataSymbol,
    /// The file that the data lie in.
    DataDso,
    /// What lies where the data's cache line begins.
    DataCacheline,
    /// Where in the memory hierarchy the data were.
    Memory,
    /// What other caches said.
    Snoop,
    /// Where the address was translated.
    Tlb,
    /// Whether the access was locked.
    Locked,
    /// What held the access up.
    Blocked,
    /// Where a branch came from.
    SymbolFrom,
    /// Where a branch went to.
    SymbolTo,
    /// The file that a branch came from.
    DsoFrom,
    /// The file that a branch went to.
    DsoTo,
    /// The address that a branch came from.
    AddressFrom,
    /// The address that a branch went to.
    AddressTo,
    /// Whether a branch was predicted.
    Mispredict,
    /// Whether a branch was in a transaction.
    InTransaction,
    /// Whether a branch was the abort of a transaction.
    Abort,
    /// Cycles since the branch before.
    Cycles,
}

impl Detail {
    /// Whether it looks at functions or files.
    #[must_use]
    pub const fn is_of_places(self) -> bool {
        let of_data = matches!(self, Self::DataSymbol | Self::DataCacheline | Self::DataDso);
        self.is_end_of_branch() || of_data || matches!(self, Self::Parent | Self::CodeSymbol)
    }

    /// Whether it is of a branch.
    #[must_use]
    pub const fn is_of_branch(self) -> bool {
        self.is_end_of_branch()
            || matches!(self, Self::Mispredict | Self::InTransaction | Self::Abort | Self::Cycles)
    }

    /// Whether it is where a branch came from or went.
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
    /// A figure.
    Number(u64),
    /// A text. Untrusted.
    Text(StringId),
}
