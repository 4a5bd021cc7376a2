//! The code of a symbol, and whose it is.

use tare_symbols::{Code, DsoAddress, Symbol, Unresolved};

use super::Machine;

impl Machine {
    /// The instructions of a symbol, as the build has them that was recorded.
    ///
    /// # Errors
    /// They are not there: why.
    pub fn code(&self, symbol: Symbol) -> Result<Code, Unresolved> {
        self.symbolizer.code(&self.dsos, symbol)
    }

    /// The instructions from an address in a DSO on, as the build has them that was recorded.
    ///
    /// # Errors
    /// They are not there: why.
    pub fn code_at(&self, at: DsoAddress, length: usize) -> Result<Code, Unresolved> {
        self.symbolizer.code_at(&self.dsos, at.dso, at.address, length)
    }

    /// Where in the symbol's file an address lies, as the file itself calls addresses.
    #[must_use]
    pub fn offset_of(&self, symbol: Symbol, address: u64) -> Option<u64> {
        self.symbolizer.offset_of(&self.dsos, symbol, address)
    }

    /// See [`tare_symbols::Symbolizer::is_lock_function`].
    #[must_use]
    pub fn is_lock_function(&self, address: u64) -> bool {
        self.symbolizer.is_lock_function(address)
    }
}
