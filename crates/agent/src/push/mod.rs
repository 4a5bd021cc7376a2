//! Sends windows to other systems.
//!
//! `pusher` encodes a window for each target (`otlp`, `parca`, `pyroscope`) into requests, which
//! wait in the target's `spool`; `sender` sends them by a transport (`http`, `grpc`), and tries again
//! if that fails.

#[cfg(not(feature = "push"))]
mod absent;
#[cfg(feature = "push")]
mod credentials;
#[cfg(feature = "push")]
mod grpc;
#[cfg(feature = "push")]
mod http;
#[cfg(feature = "push")]
mod otlp;
#[cfg(feature = "push")]
mod outbox;
#[cfg(feature = "push")]
mod parca;
#[cfg(feature = "push")]
mod pprof;
#[cfg(feature = "push")]
mod pusher;
#[cfg(feature = "push")]
mod pyroscope;
#[cfg(feature = "push")]
mod request;
#[cfg(feature = "push")]
mod sender;
#[cfg(feature = "push")]
mod spool;
#[cfg(feature = "push")]
mod tables;
mod target;
mod totals;
#[cfg(feature = "push")]
mod window_rows;

#[cfg(not(feature = "push"))]
pub use absent::Pusher;
#[cfg(feature = "push")]
pub use pusher::Pusher;
pub(crate) use target::validate;
pub use target::{Endpoint, Protocol, PushTarget, TargetError};
pub use totals::PushTotals;
