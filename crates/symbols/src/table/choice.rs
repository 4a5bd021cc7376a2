//! Which of several symbols with one address names it.

use std::cmp::Reverse;

use super::{Binding, Candidate, NameAt, Names};
use crate::demangle::demangle;
use crate::limits;

/// Chooses among symbols with one address.
pub(super) struct Choice<'a> {
    pub(super) names: &'a Names,
    /// Bytes of names that may still be demangled: many symbols of a damaged file may share a long
    /// one.
    pub(super) demangled_bytes_left: usize,
    /// The merits of the name that was the better one last.
    pub(super) best: Option<(NameAt, NameMerits)>,
}

/// Fewer leading underscores, then the longer name.
pub(super) type NameMerits = (Reverse<usize>, usize);

impl Choice<'_> {
    /// Whether of two symbols with one address the later is the better one: with a size, no label,
    /// not weak, global, then by name. (`choose_best_symbol` in `tools/perf/util/symbol.c` has
    /// these rules.) Of a constructor's or destructor's variants, which are called alike in source
    /// code, it is the last one, as for LLVM's symbolizer.
    pub(super) fn is_better(&mut self, later: &Candidate, kept: &Candidate) -> bool {
        let merits = |(entry, binding, kind): &Candidate| {
            let is_weak = *binding == Binding::Weak;
            let is_global = *binding == Binding::Global;
            (entry.end > entry.start, *kind, !is_weak, is_global)
        };
        let later_name = later.0.name;
        let kept_name = kept.0.name;
        match merits(later).cmp(&merits(kept)) {
            std::cmp::Ordering::Equal if later_name == kept_name => false,
            std::cmp::Ordering::Equal => {
                let kept = match self.best {
                    Some((name, merits)) if name == kept_name => merits,
                    _ => self.name_merits(kept_name),
                };
                let later = self.name_merits(later_name);
                let is_better = later > kept
                    || later == kept
                        && are_variants(self.names.get(later_name), self.names.get(kept_name));
                self.best = Some(if is_better { (later_name, later) } else { (kept_name, kept) });
                is_better
            }
            unequal => unequal.is_gt(),
        }
    }

    fn name_merits(&mut self, at: NameAt) -> NameMerits {
        let merits = |name: &[u8]| {
            (Reverse(name.iter().take_while(|byte| **byte == b'_').count()), name.len())
        };
        let longest = self.demangled_bytes_left.max(limits::SHORT_NAME_BYTES);
        let name = self.names.get_up_to(at, longest);
        match self.demangled_bytes_left.checked_sub(name.len()) {
            Some(left) => {
                self.demangled_bytes_left = left;
                merits(demangle(name).as_bytes())
            }
            None => merits(&name[..name.len().min(limits::SHORT_NAME_BYTES)]),
        }
    }
}

/// Whether two mangled names are those of one constructor or destructor: `C1` and `C2`, `D1` and
/// `D2` (Itanium C++ ABI, section 5.1.4.3).
fn are_variants(one: &[u8], other: &[u8]) -> bool {
    let mut differ = (0..one.len().min(other.len())).filter(|at| one[*at] != other[*at]);
    let (Some(at), None) = (differ.next(), differ.next()) else { return false };
    let is_variant = |name: &[u8]| {
        at > 0 && matches!(name[at - 1], b'C' | b'D') && matches!(name[at], b'1' | b'2')
    };
    one.len() == other.len() && is_variant(one) && is_variant(other)
}
