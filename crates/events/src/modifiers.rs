//! Modifiers: the letters after an event's name that select where and how it counts, like `:ukp`.

use tare_format::abi::{Attr, Flags};

use super::error::{LocatedProblem, Problem};
use super::syntax::{Term, Word};
use super::{Event, terms};

/// Parsed modifiers. The letters have the meaning of `perf-list(1)`.
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
    /// `S`, for [`super::EventGroup::sample_read`].
    pub(super) sample_read: bool,
    /// `W`, for [`super::EventGroup::weak`].
    pub(super) weak: bool,
}

/// Whether each character of the text is a modifier.
pub(super) fn has_only_modifiers(text: &str) -> bool {
    text.chars().all(|c| "ukhGHpPSDIWe".contains(c))
}

impl Modifiers {
    /// Parses the modifiers of an event or group; without a word there are none.
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

    /// Returns a modifier that only the first event of a group can have, if there is one.
    pub(super) fn leader_only(self) -> Option<char> {
        match self {
            Self { pinned: true, .. } => Some('D'),
            Self { exclusive: true, .. } => Some('e'),
            _ => None,
        }
    }

    /// Applies the modifiers to an event, in addition to earlier ones: an event's own modifiers are
    /// applied before its group's. `leads`: the event is the first of its group.
    pub(super) fn apply(self, event: &mut Event, leads: bool) {
        use Flags as F;
        let attr = &mut event.attr;
        // The first level excludes the others; each further level includes itself again.
        let levels = [
            (self.user, F::EXCLUDE_USER),
            (self.kernel, F::EXCLUDE_KERNEL),
            (self.hypervisor, F::EXCLUDE_HV),
        ];
        exclude_all_but(attr, F::EXCLUDE_USER | F::EXCLUDE_KERNEL | F::EXCLUDE_HV, &levels);
        exclude_all_but(
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

/// Applies the terms that every event has, then the modifiers.
pub(super) fn apply_terms_and_modifiers(
    event: &mut Event,
    given: Option<&[Term<'_>]>,
    modifiers: Option<Word<'_>>,
) -> Result<(), LocatedProblem> {
    for term in given.unwrap_or_default() {
        if !terms::apply(event, term)? {
            let problem = Problem::MisplacedTerm(term.name.text.to_owned());
            return Err(LocatedProblem::new(term.name.at, problem)
                .with_nearest(term.name.text, terms::NAMES));
        }
    }
    Modifiers::parse(modifiers)?.apply(event, true);
    Ok(())
}

/// Excludes `all` except the named ones. If some are excluded already, only includes the named ones
/// again.
fn exclude_all_but(attr: &mut Attr, all: Flags, named: &[(bool, Flags)]) {
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
