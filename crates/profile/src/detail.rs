//! Properties of a sample that only some sort keys need.

use crate::ids::{DetailsId, StringId};
use crate::sets::ListSet;

/// A property of a sample other than its thread, CPU and frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Detail {
    /// The innermost function of the call chain whose name matches a pattern.
    Parent,
    /// The path of the cgroup.
    Cgroup,
    /// Device and inode of the cgroup namespace.
    CgroupId,
    /// The time, rounded down to a multiple of the time quantum.
    Time,
    /// The cost of the memory access or transaction (`PERF_SAMPLE_WEIGHT`).
    LocalWeight,
    /// The same cost, shown times the number of samples.
    Weight,
    /// The latency of the instruction, in cycles.
    LocalInsLat,
    /// The same latency, shown times the number of samples.
    InsLat,
    /// The cycles that the instruction spent in a pipeline stage.
    LocalPStageCyc,
    /// The same cycles, shown times the number of samples.
    PStageCyc,
    /// The size of the mapping that contains the code, in bytes.
    DsoSize,
    /// The size of the function, in bytes.
    SymbolSize,
    /// The function of the instruction that accessed memory.
    CodeSymbol,
    /// The CPU's socket.
    Socket,
    /// The number of threads that ran at that time.
    Parallelism,
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
    /// A property of a branch.
    Branch(BranchDetail),
}

/// A property of a branch record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BranchDetail {
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
    /// Whether a branch was mispredicted.
    Mispredict,
    /// Whether a branch was in a transaction.
    InTransaction,
    /// Whether a branch was the abort of a transaction.
    Abort,
    /// Cycles since the preceding branch.
    Cycles,
}

impl Detail {
    /// Whether its value names a function or a file.
    #[must_use]
    pub const fn is_of_places(self) -> bool {
        match self {
            Self::DataSymbol | Self::DataCacheline | Self::DataDso => true,
            Self::Parent | Self::CodeSymbol => true,
            Self::Branch(branch) => branch.is_end(),
            _ => false,
        }
    }
}

impl BranchDetail {
    /// Whether it is the source or the target of the branch.
    const fn is_end(self) -> bool {
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

/// Values of details. Each list of values is kept once and has a value for each key, in the order
/// of the keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct DetailTable {
    keys: Vec<Detail>,
    values: ListSet<Value>,
}

impl DetailTable {
    pub(crate) fn set_keys(&mut self, keys: &[Detail]) {
        self.keys = keys.to_vec();
    }

    pub(crate) fn keys(&self) -> &[Detail] {
        &self.keys
    }

    /// Returns a list of values; empty if the id is unknown.
    pub(crate) fn values(&self, id: DetailsId) -> &[Value] {
        self.values.get(id)
    }

    /// Returns the value of a key; [`Value::None`] if it isn't a key or the id is unknown.
    pub(crate) fn value(&self, id: DetailsId, key: Detail) -> Value {
        let at = self.keys.iter().position(|known| *known == key);
        at.and_then(|at| self.values(id).get(at).copied()).unwrap_or_default()
    }

    pub(crate) fn insert(&mut self, values: &[Value]) -> DetailsId {
        self.values.insert(values)
    }

    /// Inserts a copy of a list, with another value of a key.
    pub(crate) fn insert_with(
        &mut self,
        id: Option<DetailsId>,
        key: Detail,
        value: Value,
    ) -> DetailsId {
        let mut values = id.map_or_else(Vec::new, |id| self.values(id).to_vec());
        values.resize(self.keys.len(), Value::None);
        if let Some(at) = self.keys.iter().position(|known| *known == key) {
            values[at] = value;
        }
        self.insert(&values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_belong_to_the_keys_in_their_order() {
        let mut table = DetailTable::default();
        table.set_keys(&[Detail::Time, Detail::Parent]);
        let id = table.insert(&[Value::Number(7), Value::None]);
        assert_eq!(table.value(id, Detail::Time), Value::Number(7));
        assert_eq!(table.value(id, Detail::Socket), Value::None);
        let other = table.insert_with(Some(id), Detail::Parent, Value::Number(1));
        assert_eq!(table.values(other), [Value::Number(7), Value::Number(1)]);
        let alone = table.insert_with(None, Detail::Parent, Value::Number(1));
        assert_eq!(table.values(alone), [Value::None, Value::Number(1)]);
        assert_eq!(table.insert(&[Value::Number(7), Value::None]), id);
    }
}
