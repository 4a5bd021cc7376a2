//! Finds call chains that miss callers because a function on the way keeps no frame pointer.
//!
//! ```text
//! frame            leaf          f            g            main         C library
//! keeps one        no            yes          no           yes          no
//! by frame         leaf - - - - - - - - - ->  g - - - - - - - - - - ->  ...
//! pointers         (f is missed)              (main is missed)
//! ```
//! The unwinding tables show whether a function keeps one: some row finds the caller's frame by the
//! frame pointer. Callers are also missing if the chain ends in a library that keeps none, except
//! in the C library, which starts programs and threads, and if it continues outside of code: the
//! last function used the register for data. The functions of Go's runtime that begin a stack keep
//! none either, but have no caller.

use std::collections::HashMap;

use tare_profile::{DsoId, FrameId, FramePointers, Profile, Space, StackId};

/// A call chain to judge, innermost frame first.
#[derive(Clone, Copy, Debug)]
pub(super) struct JudgedChain<'a> {
    pub(super) frames: &'a [FrameId],
    /// Whether it continued at an address that isn't in code.
    pub(super) is_cut: bool,
}

/// Counts of call chains, and the files that broke some of them.
#[derive(Debug, Default)]
pub(super) struct BrokenChains {
    /// The first file that broke each stack, cut or not.
    culprits: HashMap<(StackId, bool), Option<DsoId>, foldhash::fast::RandomState>,
    broken: HashMap<DsoId, u64, foldhash::fast::RandomState>,
    all: u64,
}

/// Whether functions keep a frame pointer, by frame; unknown ones are absent.
pub(super) type FramePointerUses = HashMap<FrameId, bool, foldhash::fast::RandomState>;

impl BrokenChains {
    pub(super) fn count(
        &mut self,
        profile: &Profile,
        uses: &FramePointerUses,
        stack: StackId,
        chain: JudgedChain<'_>,
    ) {
        self.all += 1;
        let key = (stack, chain.is_cut);
        let culprit =
            self.culprits.entry(key).or_insert_with(|| find_culprit(profile, uses, chain));
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

fn find_culprit(
    profile: &Profile,
    uses: &FramePointerUses,
    chain: JudgedChain<'_>,
) -> Option<DsoId> {
    let dso = |frame: &FrameId| profile.frame(*frame)?.dso;
    let is_user =
        |frame: &&FrameId| profile.frame(**frame).is_some_and(|frame| frame.space == Space::User);
    let mut user = chain.frames.iter().filter(is_user).peekable();
    let leaf = *user.peek()?;
    while let Some(frame) = user.next() {
        if uses.get(frame) != Some(&false) || is_go_start(profile, *frame) {
            continue;
        }
        let is_inside = frame == leaf || user.peek().is_some();
        let ends_elsewhere = dso(frame) != dso(leaf) && !is_c_library(profile, dso(frame)?);
        if is_inside || ends_elsewhere {
            return dso(frame);
        }
    }
    chain.frames.last().filter(|_| chain.is_cut).and_then(dso)
}

/// Whether a frame is of a function of Go's runtime that begins a stack: no function calls it.
fn is_go_start(profile: &Profile, frame: FrameId) -> bool {
    let function = profile.frame(frame).and_then(|frame| profile.symbol(frame.function.ok()?));
    let name = function.map_or(&b""[..], |function| profile.string(function.name));
    let name = name.strip_suffix(b".abi0").unwrap_or(name);
    [&b"goexit"[..], b"mstart", b"rt0_go", b"mcall", b"morestack", b"systemstack"]
        .iter()
        .any(|start| name.strip_prefix(b"runtime.") == Some(start))
}

/// Whether a file is the C library or its loader, which start programs and threads.
fn is_c_library(profile: &Profile, dso: DsoId) -> bool {
    let name = profile.dso(dso).map_or(&b""[..], |dso| profile.string(dso.short));
    [&b"libc.so"[..], b"libc-", b"libpthread", b"ld-", b"libc.musl"]
        .iter()
        .any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use tare_profile::{Dso, ProfileFrame, Symbol};

    use super::*;

    /// Makes frames of functions at consecutive addresses, each in a file and with or without a
    /// frame pointer. A file may be followed by a colon and the function's name.
    fn frames(functions: &[(&str, bool)]) -> (Profile, FramePointerUses, Vec<FrameId>) {
        let mut profile = Profile::default();
        let mut uses = FramePointerUses::default();
        let mut chain = Vec::new();
        for ((file, keeps), address) in functions.iter().zip(0..) {
            let mut parts = file.split(':');
            let name = profile.add_string(parts.next().unwrap().as_bytes());
            let dso = profile.add_dso(Dso { path: name, short: name });
            let function = parts.next().map(|function| {
                let name = profile.add_string(function.as_bytes());
                profile.add_symbol(Symbol { dso, name, start: address })
            });
            let frame = profile.add_frame(ProfileFrame {
                space: Space::User,
                dso: Some(dso),
                function: function.ok_or(name),
                address,
                is_inlined: false,
                line: None,
            });
            uses.insert(frame, *keeps);
            chain.push(frame);
        }
        (profile, uses, chain)
    }

    /// Returns the file that breaks a call chain, innermost function first.
    fn culprit(functions: &[(&str, bool)]) -> Option<String> {
        culprit_of(functions, false)
    }

    fn culprit_of(functions: &[(&str, bool)], is_cut: bool) -> Option<String> {
        let (mut profile, uses, chain) = frames(functions);
        let stack = profile.add_stack(&chain).unwrap();
        let mut broken = BrokenChains::default();
        let chain = JudgedChain { frames: &chain, is_cut };
        broken.count(&profile, &uses, stack, chain);
        broken.count(&profile, &uses, stack, chain);
        let summary = broken.summary(&profile)?;
        assert_eq!((summary.stacks, summary.broken, summary.dsos[0].1), (2, 2, 2));
        Some(summary.dsos[0].0.clone())
    }

    #[test]
    fn a_function_without_a_frame_pointer_breaks_the_chain_inside_it() {
        assert_eq!(culprit(&[("a", true), ("a", true)]), None);
        assert_eq!(culprit(&[("a", false), ("a", true)]).as_deref(), Some("a"));
        assert_eq!(culprit(&[("a", true), ("b", false), ("a", true)]).as_deref(), Some("b"));
    }

    #[test]
    fn a_chain_may_end_in_its_own_file_and_in_the_c_library() {
        assert_eq!(culprit(&[("a", true), ("a", false)]), None);
        assert_eq!(culprit(&[("a", true), ("libc.so.6", false)]), None);
        assert_eq!(culprit(&[("a", true), ("b", false)]).as_deref(), Some("b"));
    }

    /// Go asks the vDSO for the time.
    #[test]
    fn the_function_that_begins_a_goroutine_misses_no_caller() {
        let chain = |first| [("[vdso]", true), ("server:main.main", true), (first, false)];
        assert_eq!(culprit(&chain("server:runtime.goexit.abi0")), None);
        assert_eq!(culprit(&chain("server:runtime.mstart")), None);
        assert_eq!(culprit(&chain("server:runtime.goexits")).as_deref(), Some("server"));
    }

    #[test]
    fn the_last_function_breaks_a_chain_that_leaves_the_code() {
        assert_eq!(culprit_of(&[("a", true), ("b", true)], true).as_deref(), Some("b"));
        assert_eq!(
            culprit_of(&[("a", true), ("libc.so.6", true)], true).as_deref(),
            Some("libc.so.6")
        );
    }
}
