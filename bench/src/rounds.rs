//! Interleaved rounds, so that drift (neighbours, clock rate) affects all variants alike.

use serde::Serialize;

use crate::run::{Usage, run};

/// One of the compared commands.
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

/// One run of every variant.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Round {
    /// The order of the runs, as indices of the variants.
    pub(crate) order: Vec<usize>,
    /// The usage of each variant, in the order of the variants.
    pub(crate) usage: Vec<Usage>,
}

/// Runs a warm-up round that doesn't count, then `count` rounds, each in random order.
///
/// # Errors
/// A run failed.
pub(crate) fn rounds(variants: &[Variant], count: usize) -> anyhow::Result<Vec<Round>> {
    round(variants)?;
    cold_rounds(variants, count)
}

/// Runs `count` rounds without a warm-up.
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

/// Calls `each` for every element in random order. Returns that order as indices, and the results
/// in the order of `all`.
///
/// # Errors
/// The first error of `each`.
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
