//! Finds call chains that miss callers because a function on the way keeps no frame pointer.
//!
//! ```text
//! frame            leaf          f            g            main         C library
//! keeps one        no            yes          no           yes          no
//! by frame         leaf - - - - - - - - - ->  g - - - - - - - - - - ->  ...
//! pointers         (f is missed)              (main is missed)
//! ```
//! The unwinding tables show whether a function keeps one: some row finds the caller's frame by the
//! frame pointer. Callers are also missing if the chain ends in a library that keeps none, except in
//! the C library, which starts programs and threads.

use std::collections::HashMap;

use tare_profile::{DsoId, FrameId, FramePointers, Profile, Space, StackId};

/// Counts of call chains, and the files that broke some of them.
#[derive(Debug, Default)]
pub(super) struct BrokenChains {
    /// The first file that broke each stack.
    culprits: HashMap<StackId, Option<DsoId>, foldhash::fast::RandomState>,
    broken: HashMap<DsoId, u64, foldhash::fast::RandomState>,
    all: u64,
}

/// Whether functions keep a frame pointer, by frame; unknown ones are absent.
pub(super) type FramePointerUses = HashMap<FrameId, bool, foldhash::fast::RandomState>;

impl BrokenChains {
    /// Counts the call chain of a sample, innermost frame first.
    pub(super) fn count(
        &mut self,
        profile: &Profile,
        uses: &FramePointerUses,
        stack: StackId,
        chain: &[FrameId],
    ) {
        self.all += 1;
        let culprit = self.culprits.entry(stack).or_insert_with(|| culprit(profile, uses, chain));
        if let Some(dso) = culprit {
            *self.broken.entry(*dso).or_default() += 1;
        }
    }

    /// Returns the counts, or `None` if no chain is broken.
    pub(super) fn summary(&self, profile: &Profile) -> Option<FramePointers> {
        let name = |dso: DsoId| {
            let path = profile.dso(dso).map_or(&b""[..], |dso| profile.string(dso.path));
            String::from_utf8_lossy(path).into_owned()
        };
        let mut dsos: Vec<_> =
            self.broken.iter().map(|(dso, stacks)| (name(*dso), *stacks)).collect();
        dsos.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let broken = dsos.iter().map(|(_, stacks)| stacks).sum();
        (broken > 0).then_some(FramePointers { stacks: self.all, broken, dsos, cost_us: None })
    }
}

fn culprit(profile: &Profile, uses: &FramePointerUses, chain: &[FrameId]) -> Option<DsoId> {
    let dso = |frame: &FrameId| profile.frame(*frame)?.dso;
    let is_user =
        |frame: &&FrameId| profile.frame(**frame).is_some_and(|frame| frame.space == Space::User);
    let mut user = chain.iter().filter(is_user).peekable();
    let leaf = *user.peek()?;
    while let Some(frame) = user.next() {
        if uses.get(frame) != Some(&false) {
            continue;
        }
        let is_inside = frame == leaf || user.peek().is_some();
        let ends_elsewhere = dso(frame) != dso(leaf) && !is_c_library(profile, dso(frame)?);
        if is_inside || ends_elsewhere {
            return dso(frame);
        }
    }
    None
}

/// Whether a file is the C library or its loader, which start programs and threads.
fn is_c_library(profile: &Profile, dso: DsoId) -> bool {
    let name = profile.dso(dso).map_or(&b""[..], |dso| profile.string(dso.short));
    [&b"libc.so"[..], b"libc-", b"libpthread", b"ld-", b"libc.musl"]
        .iter()
        .any(|start| name.starts_with(start))
}
