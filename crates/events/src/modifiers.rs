//! What follows an event's name and says where and how it counts: `:ukp`.

use tare_format::abi::{Attr, Flags};

use super::error::{LocatedProblem, Problem};
use super::syntax::{Term, Word};
use super::{Event, terms};

/// The letters, read. Their meaning is that of `perf-list(1)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Modifiers {
    user: bool,
    kernel: bool,
    hypervisor: bool,
    guest: bool,
    host: bool,
    not_idle: bool,
    precise: u8,
    precise_max: bool,
    pinned: bool,
    exclusive: bool,
    /// `S`
    pub(super) sample_read: bool,
    /// `W`
    pub(super) weak: bool,
}

/// Whether all of the text is letters that stand for modifiers.
pub(super) fn could_be(text: &str) -> bool {
    text.chars().all(|c| "ukhGHpPSDIWe".contains(c))
}

impl Modifiers {
    /// Reads the letters after a name; none where there is no such word.
    pub(super) fn parse(word: Option<Word<'_>>) -> Result<Self, LocatedProblem> {
        let mut all = Self::default();
        let Some(word) = word else { return Ok(all) };
        for (at, letter) in word.text.char_indices() {
            let wrong = || LocatedProblem::new(word.at + at, Problem::Modifier(letter));
            if letter == 'p' {
                all.precise += 1;
                if all.precise > 3 {
                    return Err(wrong());
                }
                continue;
            }
            let flag = all.flag(letter).ok_or_else(wrong)?;
            if std::mem::replace(flag, true) {
                return Err(wrong());
            }
        }
        Ok(all)
    }

    fn flag(&mut self, letter: char) -> Option<&mut bool> {
        Some(match letter {
            'u' => &mut self.user,
            'k' => &mut self.kernel,
            'h' => &mut self.hypervisor,
            'G' => &mut self.guest,
            'H' => &mut self.host,
            'I' => &mut self.not_idle,
            'P' => &mut self.precise_max,
            'S' => &mut self.sample_read,
            'D' => &mut self.pinned,
            'W' => &mut self.weak,
            'e' => &mut self.exclusive,
            _ => return None,
        })
    }

    /// A letter that only the first event of a group can have.
    pub(super) fn leader_only(self) -> Option<char> {
        match self {
            Self { pinned: true, .. } => Some('D'),
            Self { exclusive: true, .. } => Some('e'),
            _ => None,
        }
    }

    /// Applies the letters to an event, in addition to those that it had: those of a group come
    /// after those of its events.
    pub(super) fn apply(self, event: &mut Event, leads: bool) {
        use Flags as F;
        let attr = &mut event.attr;
        // Naming one level leaves out the others, and naming another brings that one back.
        let levels = [
            (self.user, F::EXCLUDE_USER),
            (self.kernel, F::EXCLUDE_KERNEL),
            (self.hypervisor, F::EXCLUDE_HV),
        ];
        only(attr, F::EXCLUDE_USER | F::EXCLUDE_KERNEL | F::EXCLUDE_HV, &levels);
        only(
            attr,
            F::EXCLUDE_HOST | F::EXCLUDE_GUEST,
            &[(self.guest, F::EXCLUDE_GUEST), (self.host, F::EXCLUDE_HOST)],
        );
        attr.flags.set(F::EXCLUDE_IDLE, self.not_idle || attr.flags.contains(F::EXCLUDE_IDLE));
        if leads {
            attr.flags.set(F::PINNED, self.pinned || attr.flags.contains(F::PINNED));
            attr.flags.set(F::EXCLUSIVE, self.exclusive || attr.flags.contains(F::EXCLUSIVE));
        }
        if self.precise > 0 {
            attr.precise_ip = self.precise;
        }
        if self.precise_max {
            attr.precise_ip = 3;
            event.precise_max = true;
        }
        event.explicit_levels |= self.user || self.kernel || self.hypervisor;
    }
}

/// Applies the terms that every event takes, and the modifiers.
pub(super) fn finish(
    event: &mut Event,
    given: Option<&[Term<'_>]>,
    modifiers: Option<Word<'_>>,
) -> Result<(), LocatedProblem> {
    for term in given.unwrap_or_default() {
        if !terms::apply(event, term)? {
            let problem = Problem::MisplacedTerm(term.name.text.to_owned());
            return Err(
                LocatedProblem::new(term.name.at, problem).near(term.name.text, terms::NAMES)
            );
        }
    }
    Modifiers::parse(modifiers)?.apply(event, true);
    Ok(())
}

/// Excludes `all` but those that were named; where some were excluded before, it only brings back
/// those that are named now.
fn only(attr: &mut Attr, all: Flags, named: &[(bool, Flags)]) {
    if !named.iter().any(|(named, _)| *named) {
        return;
    }
    if !attr.flags.intersects(all) {
        attr.flags |= all;
    }
    for (_, flag) in named.iter().filter(|(named, _)| *named) {
        attr.flags.remove(*flag);
    }
}
