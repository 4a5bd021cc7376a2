//! Takes a list of events apart. What a name means is not asked here.

use super::error::{LocatedProblem, Problem};

/// A piece of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word<'a> {
    /// Where it begins, in bytes from the start of the text.
    pub(super) at: usize,
    pub(super) text: &'a str,
}

/// `name` or `name=value` between the slashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term<'a> {
    pub(super) name: Word<'a>,
    pub(super) value: Option<Word<'a>>,
}

/// `word:word/terms/modifiers`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EventText<'a> {
    /// All of it.
    pub(super) whole: Word<'a>,
    /// What colons separate, before the terms: never empty.
    pub(super) words: Vec<Word<'a>>,
    /// What stands between slashes, if there are any.
    pub(super) terms: Option<Vec<Term<'a>>>,
    /// What follows the second slash.
    pub(super) tail: Option<Word<'a>>,
}

/// An event, or a group of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item<'a> {
    Event(EventText<'a>),
    Group { events: Vec<EventText<'a>>, modifiers: Option<Word<'a>> },
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

/// The items of a whole text.
pub(super) fn items(text: &str) -> Result<Vec<Item<'_>>, LocatedProblem> {
    let mut cursor = Cursor { text, at: 0 };
    let mut items = Vec::new();
    loop {
        cursor.skip_blanks();
        items.push(if cursor.take('{') { cursor.group()? } else { Item::Event(cursor.event()?) });
        cursor.skip_blanks();
        if cursor.rest().is_empty() {
            return Ok(items);
        }
        if !cursor.take(',') {
            return Err(cursor.error("a comma or the end belongs here"));
        }
    }
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn error(&self, what: &'static str) -> LocatedProblem {
        LocatedProblem::new(self.at, Problem::Syntax(what))
    }

    fn skip_blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn take(&mut self, c: char) -> bool {
        let there = self.rest().starts_with(c);
        self.at += if there { c.len_utf8() } else { 0 };
        there
    }

    /// Everything up to one of these characters, or the end.
    fn until(&mut self, ends: &[char]) -> Word<'a> {
        let at = self.at;
        let text = &self.rest()[..self.rest().find(ends).unwrap_or(self.rest().len())];
        self.at += text.len();
        Word { at, text }
    }

    fn group(&mut self) -> Result<Item<'a>, LocatedProblem> {
        let mut events = Vec::new();
        loop {
            self.skip_blanks();
            events.push(self.event()?);
            self.skip_blanks();
            if self.take('}') {
                break;
            }
            if !self.take(',') {
                return Err(self.error("the group lacks its closing }"));
            }
        }
        let modifiers = self.take(':').then(|| self.until(&[',', '{', '}']));
        Ok(Item::Group { events, modifiers: modifiers.map(Word::trimmed) })
    }

    fn event(&mut self) -> Result<EventText<'a>, LocatedProblem> {
        let start = self.at;
        let first = self.word();
        if first.text.is_empty() {
            return Err(LocatedProblem::new(start, Problem::Syntax("an event belongs here")));
        }
        let mut words = vec![first];
        // A path holds slashes: uprobe:/usr/bin/prog:main
        if is_probe(first.text) && self.take(':') {
            words.push(self.until(&[':', ',', '{', '}']).trimmed());
        }
        while self.take(':') {
            words.push(self.word());
        }
        // The length of a breakpoint also follows a slash: mem:ADDRESS/LENGTH:rw
        if first.text == "mem"
            && self
                .rest()
                .strip_prefix('/')
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        {
            self.at += 1;
            words.push(Word { at: self.at, text: "/" });
            words.push(self.word());
            while self.take(':') {
                words.push(self.word());
            }
        }
        let terms = if self.take('/') { Some(self.terms()?) } else { None };
        let tail = if terms.is_some() {
            self.take(':');
            Some(self.word()).filter(|word| !word.text.is_empty())
        } else {
            None
        };
        if !matches!(self.rest().chars().next(), None | Some(',' | '}')) {
            return Err(self.error("a comma or the end belongs here"));
        }
        let whole = Word { at: start, text: &self.text[start..self.at] };
        Ok(EventText { whole: whole.trimmed(), words, terms, tail })
    }

    fn word(&mut self) -> Word<'a> {
        self.until(&['/', ':', ',', '{', '}']).trimmed()
    }

    /// Up to and with the closing slash.
    fn terms(&mut self) -> Result<Vec<Term<'a>>, LocatedProblem> {
        let mut terms = Vec::new();
        loop {
            self.skip_blanks();
            if self.take('/') {
                return Ok(terms);
            }
            let name = self.until(&[',', '/', '=']).trimmed();
            if name.text.is_empty() {
                return Err(LocatedProblem::new(
                    name.at,
                    Problem::Syntax(if self.rest().is_empty() {
                        "the closing / is missing"
                    } else {
                        "a term belongs here"
                    }),
                ));
            }
            let value = if self.take('=') { Some(self.value()?) } else { None };
            terms.push(Term { name, value });
            if !self.take(',') && !self.rest().starts_with('/') {
                return Err(self.error("the closing / is missing"));
            }
        }
    }

    /// A value; one in quotes may hold commas and slashes.
    fn value(&mut self) -> Result<Word<'a>, LocatedProblem> {
        if !self.take('\'') {
            return Ok(self.until(&[',', '/']).trimmed());
        }
        let quoted = self.until(&['\'']);
        if self.take('\'') { Ok(quoted) } else { Err(self.error("the closing ' is missing")) }
    }
}

impl Word<'_> {
    fn trimmed(self) -> Self {
        let start = self.text.trim_start();
        Self { at: self.at + self.text.len() - start.len(), text: start.trim_end() }
    }
}

/// A number as users write it: decimal, or hexadecimal after `0x`.
pub(super) fn number(text: &str) -> Option<u64> {
    let digits = |text: &str, radix| {
        text.chars()
            .all(|c| c.is_ascii_hexdigit())
            .then(|| u64::from_str_radix(text, radix).ok())?
    };
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => digits(hex, 16),
        None => digits(text, 10),
    }
}

/// Whether a name has the shape of a pattern with `*` (any text), `?` (any character) and `[a-z]`,
/// `[!a-z]` (one of a set).
#[must_use]
pub fn glob_matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let mut p = 0;
    let mut n = 0;
    // Where to go on when the text after the last star didn't fit: one character further.
    let mut star = None;
    while n < name.len() {
        let one = match pattern.get(p) {
            Some('*') => {
                star = Some((p + 1, n));
                p += 1;
                continue;
            }
            Some(_) => one_of(&pattern[p..], name[n]),
            None => None,
        };
        match (one, star) {
            (Some(used), _) => (p, n) = (p + used, n + 1),
            (None, Some((after, from))) => {
                star = Some((after, from + 1));
                (p, n) = (after, from + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

/// How many characters of the pattern stand for this one, if they do. A set without its end is an
/// ordinary `[`.
fn one_of(pattern: &[char], c: char) -> Option<usize> {
    let close = pattern.iter().skip(2).position(|&end| end == ']').map(|at| at + 2);
    match (pattern.first()?, close) {
        ('?', _) => Some(1),
        ('[', Some(close)) => {
            let inside = &pattern[1..close];
            let (negated, inside) = match inside {
                ['!' | '^', rest @ ..] => (true, rest),
                _ => (false, inside),
            };
            let mut found = false;
            let mut at = 0;
            while at < inside.len() {
                let range = inside.get(at + 1) == Some(&'-') && at + 2 < inside.len();
                let last = if range { inside[at + 2] } else { inside[at] };
                found |= (inside[at]..=last).contains(&c);
                at += if range { 3 } else { 1 };
            }
            (found != negated).then_some(close + 1)
        }
        (&first, _) => (first == c).then_some(1),
    }
}

/// Whether the event is a probe in a program, by the word that it begins with: at the entry of a
/// function, or where it returns.
pub(super) fn is_probe(word: &str) -> bool {
    matches!(word, "uprobe" | "uretprobe")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (pattern, name) in [
            ("*", ""),
            ("sched_s*", "sched_switch"),
            ("*imc*", "uncore_imc_0"),
            ("a?c", "abc"),
            ("[a-c]x", "bx"),
            ("[!a]x", "bx"),
            ("a*b*c", "aXbYbZc"),
        ] {
            assert!(glob_matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "a"),
            ("sched_s*", "sched_wakeup"),
            ("a?c", "ac"),
            ("[a-c]x", "dx"),
            ("[", "a"),
            ("a*b", "a"),
        ] {
            assert!(!glob_matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn pieces_know_where_they_begin() {
        let [Item::Event(first), Item::Group { events, modifiers }] =
            &items("cs, {a/b=1,c/u,d:k}:S").unwrap()[..]
        else {
            panic!("an event and a group")
        };
        assert_eq!(first.whole, Word { at: 0, text: "cs" });
        let terms = events[0].terms.as_ref().unwrap();
        assert_eq!(
            (terms[0].value, terms[1].name),
            (Some(Word { at: 9, text: "1" }), Word { at: 11, text: "c" })
        );
        assert_eq!(events[0].tail, Some(Word { at: 13, text: "u" }));
        assert_eq!(events[1].words, [Word { at: 15, text: "d" }, Word { at: 17, text: "k" }]);
        assert_eq!(*modifiers, Some(Word { at: 20, text: "S" }));
    }

    #[test]
    fn numbers_have_no_signs() {
        assert_eq!(
            (number("10"), number("0x1F"), number("+1"), number("-1"), number(""), number("0x")),
            (Some(10), Some(31), None, None, None, None)
        );
    }
}
