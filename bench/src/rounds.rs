//! Interleaved rounds: what drifts (a neighbour, the clock rate) hits every variant alike.

use serde::Serialize;

use crate::run::{Usage, run};

/// One of the commands that are compared.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Variant {
    /// Its name in tables and files.
    pub(crate) name: String,
    /// The command.
    pub(crate) words: Vec<String>,
}

impl Variant {
    pub(crate) fn new<S: Into<String>>(name: impl Into<String>, words: impl IntoIterator<Item = S>) -> Self {
        Self { name: name.into(), words: words.into_iter().map(Into::into).collect() }
    }
}

/// Every variant once.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Round {
    /// The order in which they ran, as indices of the variants.
    pub(crate) order: Vec<usize>,
    /// What each variant used, in the order of the variants.
    pub(crate) usage: Vec<Usage>,
}

/// Runs every variant once as a warm-up that doesn't count, then `count` rounds, each in a random order.
///
/// # Errors
/// A run failed.
pub(crate) fn rounds(variants: &[Variant], count: usize) -> anyhow::Result<Vec<Round>> {
    round(variants)?;
    (0..count).map(|_| round(variants)).collect()
}

fn round(variants: &[Variant]) -> anyhow::Result<Round> {
    let mut order: Vec<usize> = (0..variants.len()).collect();
    fastrand::shuffle(&mut order);
    let mut usage = vec![None; variants.len()];
    for &at in &order {
        usage[at] = Some(run(&variants[at].words)?);
    }
    Ok(Round { order, usage: usage.into_iter().flatten().collect() })
}
