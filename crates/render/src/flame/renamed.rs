//! Threads of a comparison whose names occur on one side only.
//!
//! A thread's name is usually its program's file name, so comparing `./old` with `./new` would
//! otherwise match nothing. `tare diff` ignores thread names; here all names of one side only
//! become one name, and names that both sides have stay apart.

use std::collections::HashMap;

use indexmap::{IndexMap, IndexSet};

use super::FlameInput;

/// Number of names of a side that a label lists.
const LISTED: usize = 2;

/// The names that occur on one side only, if each side has one.
#[derive(Debug, Default)]
pub(super) struct RenamedThreads {
    labels: HashMap<Vec<u8>, String, foldhash::fast::RandomState>,
}

impl RenamedThreads {
    /// Finds the names in the first side, and in the second, which is the earlier one.
    pub(super) fn new(sides: &[Vec<FlameInput<'_>>]) -> Self {
        let [now, before] = [0, 1].map(|side| sides.get(side).map_or(&[][..], |side| side));
        let names = [now, before].map(names_by_weight);
        let only = |side: usize, other: usize| -> Vec<&[u8]> {
            let names_of_side = names[side].iter();
            names_of_side.copied().filter(|name| !names[other].contains(name)).collect()
        };
        let now = only(0, 1);
        let before = only(1, 0);
        if now.is_empty() || before.is_empty() {
            return Self::default();
        }
        let label = format!("{} → {}", list(&before), list(&now));
        let renamed = before.iter().chain(&now).map(|name| (name.to_vec(), label.clone()));
        Self { labels: renamed.collect() }
    }

    /// Returns the printable name that a renamed thread gets.
    pub(super) fn label(&self, name: &[u8]) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }
}

/// Returns the thread names of a side, those with the most samples first.
fn names_by_weight<'a>(side: &'a [FlameInput<'a>]) -> IndexSet<&'a [u8]> {
    let mut samples: IndexMap<&[u8], u64> = IndexMap::new();
    for input in side {
        for (key, weight) in &input.samples.rows {
            if let Some(comm) = key.comm {
                *samples.entry(input.whole.profile.string(comm)).or_default() += weight.samples;
            }
        }
    }
    samples.sort_by(|_, left, _, right| right.cmp(left));
    samples.into_keys().collect()
}

fn list(names: &[&[u8]]) -> String {
    let printable = |name: &&[u8]| tare_format::printable(*name).into_owned();
    let listed: Vec<String> = names.iter().take(LISTED).map(printable).collect();
    let more = if names.len() > LISTED { ", …" } else { "" };
    format!("{}{more}", listed.join(", "))
}
