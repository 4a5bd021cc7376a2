//! Why the page can't be served, or a question has no answer.

use std::io;
use std::net::SocketAddr;

use tare_fleet::FleetError;
use tare_store::StoreError;

/// Why the page can't be served, or a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address can't be listened on.
    #[error("{address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// The operating system refuses something that the server needs.
    #[error("{0}")]
    System(#[from] io::Error),
    /// A question can't be asked so.
    #[error("{0}")]
    Question(String),
    /// The store or the question's engine fails.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// The client is gone.
    #[error("stopped")]
    Stopped,
}

impl ServeError {
    /// Returns whether the request is wrong, not the server.
    pub(crate) fn is_of_request(&self) -> bool {
        let fleet = |error: &FleetError| {
            matches!(error, FleetError::Question(_) | FleetError::Condition(_))
        };
        match self {
            Self::Question(_) => true,
            Self::Fleet(error) => fleet(error),
            _ => false,
        }
    }
}

impl From<StoreError> for ServeError {
    fn from(error: StoreError) -> Self {
        Self::Fleet(error.into())
    }
}
