//! Which samples of a running recording are unwound.

/// An event whose samples are unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnwoundEvent {
    /// Its index in the recording's description.
    pub event: usize,
    /// Whether its samples keep their user registers.
    pub keeps_registers: bool,
}
