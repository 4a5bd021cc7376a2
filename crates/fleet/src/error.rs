//! Why a question has no answer.

use std::time::Duration;

use tare_store::{FilterError, StoreError};

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The store can't be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A text isn't a condition.
    #[error(transparent)]
    Condition(#[from] FilterError),
    /// The question can't be asked so.
    #[error("{0}")]
    Question(String),
    /// A program of an engine can't be started.
    #[error("{program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// The reason.
        source: std::io::Error,
    },
    /// An engine failed.
    #[error("{engine}: {message}")]
    Engine {
        /// Name of the engine.
        engine: &'static str,
        /// What it printed.
        message: String,
    },
    /// An engine's rows aren't those of the question, or contradict each other.
    #[error("{engine} gave a row without meaning: {message}")]
    Row {
        /// Name of the engine.
        engine: &'static str,
        /// What is wrong.
        message: String,
    },
    /// The time limit passed.
    #[error("no answer within {} s; ask for fewer hours, or raise --timeout", .0.as_secs_f64())]
    Timeout(Duration),
    /// The caller gave up.
    #[error("interrupted")]
    Interrupted,
}
