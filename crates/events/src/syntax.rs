//! Parses a list of events into words, without looking names up.

use super::error::{LocatedProblem, Problem};

/// A piece of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word<'a> {
    /// Byte offset in the text.
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
    /// The whole text of the event.
    pub(super) whole: Word<'a>,
    /// The words before the terms, separated by colons; at least one.
    pub(super) words: Vec<Word<'a>>,
    /// The terms between slashes, if there are slashes.
    pub(super) terms: Option<Vec<Term<'a>>>,
    /// The text after the terms and an optional colon, if there is any.
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

/// Parses the text of an `-e`.
pub(super) fn parse_items(text: &str) -> Result<Vec<Item<'_>>, LocatedProblem> {
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
            return Err(cursor.error("expected a comma or the end"));
        }
    }
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn error(&self, why: &'static str) -> LocatedProblem {
        LocatedProblem::new(self.at, Problem::Syntax(why))
    }

    fn skip_blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Skips the character if it is next. Returns whether it was.
    fn take(&mut self, c: char) -> bool {
        let there = self.rest().starts_with(c);
        self.at += if there { c.len_utf8() } else { 0 };
        there
    }

    /// Takes the text up to one of these characters, or the end.
    fn take_until(&mut self, ends: &[char]) -> Word<'a> {
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
                return Err(self.error("expected a comma or the closing } of the group"));
            }
        }
        let modifiers = self.take(':').then(|| self.take_until(&[',', '{', '}']));
        Ok(Item::Group { events, modifiers: modifiers.map(Word::trimmed) })
    }

    fn event(&mut self) -> Result<EventText<'a>, LocatedProblem> {
        let start = self.at;
        let first = self.word();
        if first.text.is_empty() {
            return Err(LocatedProblem::new(start, Problem::Syntax("expected an event")));
        }
        let mut words = vec![first];
        // A path contains slashes: uprobe:/usr/bin/prog:main
        if is_probe(first.text) && self.take(':') {
            words.push(self.take_until(&[':', ',', '{', '}']).trimmed());
        }
        while self.take(':') {
            words.push(self.word());
        }
        // Here a slash begins the length of a breakpoint: mem:ADDRESS/LENGTH:rw
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
            return Err(self.error("expected a comma or the end"));
        }
        let whole = Word { at: start, text: &self.text[start..self.at] };
        Ok(EventText { whole: whole.trimmed(), words, terms, tail })
    }

    fn word(&mut self) -> Word<'a> {
        self.take_until(&['/', ':', ',', '{', '}']).trimmed()
    }

    /// Parses terms, including the closing slash.
    fn terms(&mut self) -> Result<Vec<Term<'a>>, LocatedProblem> {
        let mut terms = Vec::new();
        loop {
            self.skip_blanks();
            if self.take('/') {
                return Ok(terms);
            }
            let name = self.take_until(&[',', '/', '=']).trimmed();
            if name.text.is_empty() {
                return Err(LocatedProblem::new(
                    name.at,
                    Problem::Syntax(if self.rest().is_empty() {
                        "the closing / is missing"
                    } else {
                        "expected a term"
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

    /// Parses a value. In quotes it may contain commas and slashes.
    fn value(&mut self) -> Result<Word<'a>, LocatedProblem> {
        if !self.take('\'') {
            return Ok(self.take_until(&[',', '/']).trimmed());
        }
        let quoted = self.take_until(&['\'']);
        if self.take('\'') { Ok(quoted) } else { Err(self.error("the closing ' is missing")) }
    }
}

impl Word<'_> {
    fn trimmed(self) -> Self {
        let start = self.text.trim_start();
        Self { at: self.at + self.text.len() - start.len(), text: start.trim_end() }
    }
}

/// Parses a number: decimal, or hexadecimal after `0x`.
pub(super) fn parse_number(text: &str) -> Option<u64> {
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

/// Whether a name matches a pattern with `*` (any text), `?` (any character), `[a-z]` and `[!a-z]`
/// (a character in or outside a set).
#[must_use]
pub fn glob_matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let mut p = 0;
    let mut n = 0;
    // The last star, to retry with one more character in its place: the position in the pattern
    // after it, and where its text ends in the name.
    let mut star = None;
    while n < name.len() {
        let one = match pattern.get(p) {
            Some('*') => {
                star = Some((p + 1, n));
                p += 1;
                continue;
            }
            Some(_) => match_character(&pattern[p..], name[n]),
            None => None,
        };
        match (one, star) {
            (Some(used), _) => {
                p += used;
                n += 1;
            }
            (None, Some((after, from))) => {
                star = Some((after, from + 1));
                p = after;
                n = from + 1;
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

/// Matches the start of the pattern with a character. Returns the length of the matching part in
/// characters. A `[` without a `]` stands for itself.
fn match_character(pattern: &[char], c: char) -> Option<usize> {
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

/// Whether an event that begins with this word is a probe in a program.
pub(super) fn is_probe(word: &str) -> bool {
    matches!(word, "uprobe" | "uretprobe")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_patterns() {
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
    fn words_have_their_offsets() {
        let [Item::Event(first), Item::Group { events, modifiers }] =
            &parse_items("cs, {a/b=1,c/u,d:k}:S").unwrap()[..]
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
            ["10", "0x1F", "+1", "-1", "", "0x"].map(parse_number),
            [Some(10), Some(31), None, None, None, None]
        );
    }
}
