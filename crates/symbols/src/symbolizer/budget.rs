//! The memory limit of all symbol tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits;
use crate::unresolved::Unresolved;

/// Memory of the tables of all DSOs.
///
/// Invariant: the bytes reserved and not released never exceed [`limits::TABLE_BYTES`], whatever
/// files a recording names.
#[derive(Debug, Default)]
pub(super) struct TableBudget(AtomicUsize);

/// Reserved memory, released when it is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    budget: Arc<TableBudget>,
    bytes: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}

impl TableBudget {
    /// Adds a table.
    ///
    /// # Errors
    /// [`Unresolved::OverLimit`] if all tables together would be too large; the table isn't added.
    pub(super) fn reserve(&self, bytes: usize) -> Result<(), Unresolved> {
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= limits::TABLE_BYTES {
            return Ok(());
        }
        self.0.fetch_sub(bytes, Ordering::Relaxed);
        Err(Unresolved::OverLimit)
    }

    /// Adds a table that may be dropped any time.
    ///
    /// # Errors
    /// As [`Self::reserve`].
    pub(super) fn hold(self: &Arc<Self>, bytes: usize) -> Result<Reservation, Unresolved> {
        self.reserve(bytes)?;
        Ok(Reservation { budget: Arc::clone(self), bytes })
    }

    /// Removes tables.
    pub(super) fn release(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes reserved.
    pub(super) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_a_table_over_the_limit_and_keeps_its_sum() {
        let budget = Arc::new(TableBudget::default());
        assert_eq!(budget.reserve(limits::TABLE_BYTES - 10), Ok(()));
        assert_eq!(budget.reserve(11), Err(Unresolved::OverLimit));
        assert_eq!(budget.bytes(), limits::TABLE_BYTES - 10);
        budget.release(100);
        assert_eq!((budget.reserve(11), budget.bytes()), (Ok(()), limits::TABLE_BYTES - 99));
        drop(budget.hold(90).unwrap());
        assert_eq!(budget.bytes(), limits::TABLE_BYTES - 99);
    }
}
