//! Call chains that miss callers because code on their way keeps no frame pointer.
//!
//! ```text
//! frame            leaf          f            g            main         C library
//! keeps one        no            yes          no           yes          no
//! by frame         leaf - - - - - - - - - ->  g - - - - - - - - - - ->  ...
//! pointers         (f is missed)              (main is missed)
//! ```
//! Whether a function keeps one is known by its rows of call frames: it does where its caller's frame
//! is found by it in any of them. Where a chain ends in a library that keeps none, callers are missing
//! too, unless it is the C library, which starts programs and threads.

use std::collections::HashMap;

use tare_profile::{DsoId, FrameId, FramePointers, Profile, Space, StackId};

/// Chains, and what broke them.
#[derive(Debug, Default)]
pub(super) struct Chains {
    /// By stack, the first file that broke it.
    culprits: HashMap<StackId, Option<DsoId>, foldhash::fast::RandomState>,
    broken: HashMap<DsoId, u64, foldhash::fast::RandomState>,
    all: u64,
}

/// Whether frames' functions keep a frame pointer, as far as that is known.
pub(super) type FramePointerCache = HashMap<FrameId, bool, foldhash::fast::RandomState>;

impl Chains {
    /// Counts the call chain of a sample, which has the innermost frame first.
    pub(super) fn add(
        &mut self,
        profile: &Profile,
        kept: &FramePointerCache,
        stack: StackId,
        chain: &[FrameId],
    ) {
        self.all += 1;
        let culprit = self.culprits.entry(stack).or_insert_with(|| culprit(profile, kept, chain));
        if let Some(dso) = culprit {
            *self.broken.entry(*dso).or_default() += 1;
        }
    }

    /// The account; `None` where no chain is broken.
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

fn culprit(profile: &Profile, kept: &FramePointerCache, chain: &[FrameId]) -> Option<DsoId> {
    let dso = |frame: &FrameId| profile.frame(*frame)?.dso;
    let is_user =
        |frame: &&FrameId| profile.frame(**frame).is_some_and(|frame| frame.space == Space::User);
    let mut user = chain.iter().filter(is_user).peekable();
    let leaf = *user.peek()?;
    while let Some(frame) = user.next() {
        if kept.get(frame) != Some(&false) {
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

/// The library that starts programs and threads, by its name.
fn is_c_library(profile: &Profile, dso: DsoId) -> bool {
    let name = profile.dso(dso).map_or(&b""[..], |dso| profile.string(dso.short));
    [&b"libc.so"[..], b"libc-", b"libpthread", b"ld-", b"libc.musl"]
        .iter()
        .any(|start| name.starts_with(start))
}
