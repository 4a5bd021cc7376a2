//! The prose of the project's files: comments, messages and documents; and the phrases that it
//! should do without.

use crate::File;
use crate::finding::Finding;

/// A piece of prose: a block of comment lines, a string, or a paragraph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Passage {
    /// Line of the file on which the passage begins, from 1.
    line: usize,
    /// The lines, each without its comment marker.
    lines: Vec<String>,
}

impl Passage {
    /// The line of the file that byte `at` of the joined text is on.
    fn line_of(&self, at: usize) -> usize {
        let mut end = 0;
        for (index, line) in self.lines.iter().enumerate() {
            end += line.len() + 1;
            if at < end {
                return self.line + index;
            }
        }
        self.line
    }
}

/// A phrase to avoid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phrase {
    /// The phrase, in lower case.
    pub text: String,
    /// Whether documents may have it.
    pub in_code_only: bool,
}

/// Parses the list of phrases: one a line, `#` for comments, `code:` for those that documents may
/// have.
#[must_use]
pub fn phrases(list: &str) -> Vec<Phrase> {
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let in_code = line.strip_prefix("code: ");
            Phrase { text: in_code.unwrap_or(line).to_owned(), in_code_only: in_code.is_some() }
        })
        .collect()
}

/// Finds phrases in the prose of a file.
#[must_use]
pub fn find_phrases(file: &File, phrases: &[Phrase]) -> Vec<Finding> {
    let is_document = file.path.ends_with(".md");
    let passages = if is_document {
        paragraphs(&file.text)
    } else if file.path.ends_with(".rs") {
        rust_passages(&file.text)
    } else if is_script(file) {
        comment_lines(&file.text)
    } else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for passage in &passages {
        let text = without_code(&passage.lines.join("\n")).to_lowercase().replace('\n', " ");
        for phrase in phrases.iter().filter(|phrase| !(is_document && phrase.in_code_only)) {
            findings.extend(words_at(&text, &phrase.text).map(|at| Finding {
                path: file.path.clone(),
                line: passage.line_of(at),
                message: format!("\"{}\"", phrase.text),
            }));
        }
    }
    findings
}

/// Where `phrase` stands in `text` as whole words.
fn words_at(text: &str, phrase: &str) -> impl Iterator<Item = usize> {
    text.match_indices(phrase).map(|(at, _)| at).filter(move |&at| {
        let before = text[..at].chars().next_back();
        let after = text[at + phrase.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

/// The text with everything between back quotes blanked, so that places stay the same.
fn without_code(text: &str) -> String {
    let mut in_code = false;
    let blank = |letter: char| {
        in_code ^= letter == '`';
        if in_code && letter != '\n' { "_".repeat(letter.len_utf8()) } else { letter.to_string() }
    };
    text.chars().map(blank).collect()
}

fn is_script(file: &File) -> bool {
    let endings = [".sh", ".py", ".c", ".h", ".S", ".jq", ".awk", ".toml", ".js", ".yml"];
    endings.iter().any(|ending| file.path.ends_with(ending)) || file.text.starts_with("#!/")
}

/// The paragraphs of a Markdown text, without fenced code.
fn paragraphs(text: &str) -> Vec<Passage> {
    let mut passages = Vec::new();
    let mut fenced = false;
    let mut goes_on = false;
    for (index, line) in text.lines().enumerate() {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        if fenced || is_fence || line.trim().is_empty() {
            goes_on = false;
            continue;
        }
        add_line(&mut passages, goes_on, index + 1, line.to_owned());
        goes_on = true;
    }
    passages
}

/// The comments of a script or a C file, and its other lines one by one, which hold its messages.
fn comment_lines(text: &str) -> Vec<Passage> {
    let mut passages = Vec::new();
    let mut goes_on = false;
    for (index, line) in text.lines().enumerate() {
        let comment = ["# ", "// ", "/* ", "* "]
            .iter()
            .find_map(|marker| line.trim_start().strip_prefix(marker));
        add_line(
            &mut passages,
            goes_on && comment.is_some(),
            index + 1,
            comment.unwrap_or(line).to_owned(),
        );
        goes_on = comment.is_some();
    }
    passages
}

/// Adds a line to the last passage if it goes on, or begins a new one.
fn add_line(passages: &mut Vec<Passage>, goes_on: bool, line: usize, text: String) {
    match passages.last_mut() {
        Some(last) if goes_on => last.lines.push(text),
        _ => passages.push(Passage { line, lines: vec![text] }),
    }
}

/// The comments and the strings of a Rust file.
fn rust_passages(text: &str) -> Vec<Passage> {
    let mut lexer = Lexer { text, at: 0, line: 1, passages: Vec::new(), last_comment: 0 };
    while lexer.step() {}
    lexer.passages
}

/// Reads a Rust file far enough to tell comments, strings and code apart.
struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// Line that `at` is on, from 1.
    line: usize,
    passages: Vec<Passage>,
    /// Line of the last comment: one on the next line goes on with it.
    last_comment: usize,
}

impl Lexer<'_> {
    /// Passes a comment, a string or a character; `false` at the end.
    fn step(&mut self) -> bool {
        let rest = &self.text[self.at..];
        let Some(letter) = rest.chars().next() else { return false };
        if rest.starts_with("//") {
            self.comment(rest.lines().next().unwrap_or_default());
        } else if rest.starts_with("/*") {
            self.pass(rest.find("*/").map_or(rest.len(), |end| end + 2));
        } else if let Some(hashes) = raw_string_hashes(rest) {
            let begin = hashes + 2;
            let end = format!("\"{}", "#".repeat(hashes));
            let length = rest[begin..].find(&end).unwrap_or(rest.len() - begin);
            self.string(begin, length, end.len());
        } else if letter == '"' {
            self.string(1, string_length(&rest[1..]), 1);
        } else if letter == '\'' {
            self.pass(character_length(rest));
        } else if letter.is_alphanumeric() || letter == '_' {
            // A whole word, so that the `r` at the end of an identifier begins no raw string.
            let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            self.pass(word.unwrap_or(rest.len()));
        } else {
            self.pass(letter.len_utf8());
        }
        true
    }

    fn pass(&mut self, length: usize) {
        self.line += self.text[self.at..self.at + length].matches('\n').count();
        self.at += length;
    }

    fn comment(&mut self, comment: &str) {
        let text = comment.trim_start_matches(['/', '!']).trim_start();
        let goes_on = self.last_comment != 0 && self.last_comment + 1 == self.line;
        add_line(&mut self.passages, goes_on, self.line, text.to_owned());
        self.last_comment = self.line;
        self.pass(comment.len());
    }

    /// Adds a string's text as a passage unless it has no space, and passes the string: `begin`
    /// bytes up to the text, `length` bytes of text, and `closing` bytes of delimiter.
    fn string(&mut self, begin: usize, length: usize, closing: usize) {
        let text = &self.text[self.at + begin..self.at + begin + length];
        if text.contains(' ') {
            let lines = text.lines().map(|line| line.trim().trim_end_matches('\\').to_owned());
            self.passages.push(Passage { line: self.line, lines: lines.collect() });
            self.last_comment = 0;
        }
        self.pass((begin + length + closing).min(self.text.len() - self.at));
    }
}

/// The number of `#` of the raw string that begins here.
fn raw_string_hashes(rest: &str) -> Option<usize> {
    let behind = rest.strip_prefix('r')?;
    let hashes = behind.len() - behind.trim_start_matches('#').len();
    behind[hashes..].starts_with('"').then_some(hashes)
}

/// Length of a string up to its closing quote.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    let end = text.char_indices().find(|&(_, letter)| {
        let ends = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at)
}

/// Length of the character literal that begins here, or of the quote alone: of a lifetime.
fn character_length(rest: &str) -> usize {
    let mut letters = rest.char_indices().skip(1);
    match letters.next() {
        Some((_, '\\')) => rest[3..].find('\'').map_or(1, |end| end + 4),
        Some((at, letter)) if rest[at + letter.len_utf8()..].starts_with('\'') => {
            at + letter.len_utf8() + 1
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        let file = File { path: path.into(), text: text.into() };
        let phrases = phrases("# list\nbad words\ncode: only code\n");
        let findings = find_phrases(&file, &phrases).into_iter();
        findings.map(|finding| (finding.line, finding.message)).collect()
    }

    #[test]
    fn comments_and_strings_of_rust_are_searched_and_code_is_not() {
        let text = "fn f<'a>() { // has bad\n    // words\n    let r = '\"'; bad(words);\n    \
                    g(\"bad words \\\" more\", r#\"and\n only code\"#);\n}\n";
        let bad = "\"bad words\"".to_owned();
        assert_eq!(
            found("a.rs", text),
            [(1, bad.clone()), (4, bad), (5, "\"only code\"".to_owned())]
        );
    }

    #[test]
    fn words_are_whole_and_code_spans_are_exempt() {
        assert_eq!(found("a.rs", "// bad wordsmith, `bad words`, forbad words\n"), []);
    }

    #[test]
    fn paragraphs_of_documents_are_searched_over_line_ends() {
        let text = "# Title\n\nBad\nwords and only code.\n```\nbad words\n```\n";
        assert_eq!(found("a.md", text), [(3, "\"bad words\"".to_owned())]);
    }

    #[test]
    fn scripts_are_searched_whole() {
        let text = "#!/bin/sh\n# bad\n# words\necho bad words\n";
        assert_eq!(found("run", text).len(), 2);
    }
}
