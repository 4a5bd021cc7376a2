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
    pub(crate) fn new<S: Into<String>>(
        name: impl Into<String>,
        words: impl IntoIterator<Item = S>,
    ) -> Self {
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

/// Runs every variant once as a warm-up that doesn't count, then `count` rounds, each in a random
/// order.
///
/// # Errors
/// A run failed.
pub(crate) fn rounds(variants: &[Variant], count: usize) -> anyhow::Result<Vec<Round>> {
    round(variants)?;
    cold_rounds(variants, count)
}

/// The same without a warm-up.
///
/// # Errors
/// A run failed.
pub(crate) fn cold_rounds(variants: &[Variant], count: usize) -> anyhow::Result<Vec<Round>> {
    (0..count).map(|_| round(variants)).collect()
}

fn round(variants: &[Variant]) -> anyhow::Result<Round> {
    let (order, usage) = in_random_order(variants, |variant| run(&variant.words))?;
    Ok(Round { order, usage })
}

/// Does something with each of all, in a random order: returns that, as indices, and what came of
/// each, in the order of `all`.
///
/// # Errors
/// The first one.
pub(crate) fn in_random_order<T, R>(
    all: &[T],
    mut each: impl FnMut(&T) -> anyhow::Result<R>,
) -> anyhow::Result<(Vec<usize>, Vec<R>)> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    fastrand::shuffle(&mut order);
    let mut done: Vec<(usize, R)> =
        order.iter().map(|&at| Ok((at, each(&all[at])?))).collect::<anyhow::Result<_>>()?;
    done.sort_by_key(|(at, _)| *at);
    Ok((order, done.into_iter().map(|(_, result)| result).collect()))
}
