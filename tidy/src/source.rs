//! What a Rust file says about modules: which it declares, and which paths it uses.

/// A file of Rust, as far as modules go. Comments, strings and what is below `#[cfg(test)]` are
/// left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Source {
    /// The modules that it declares as files.
    pub(crate) children: Vec<String>,
    /// The paths of its `use` declarations, and all others that begin with `crate`, `super` or
    /// `self`.
    pub(crate) paths: Vec<Vec<String>>,
    /// The names that `use` declarations bring in, and the path of each.
    imports: Vec<(String, Vec<String>)>,
}

impl Source {
    /// Takes a file's text apart.
    #[must_use]
    pub(crate) fn new(text: &str) -> Self {
        let code = without_comments(text);
        let tokens = without_tests(&tokens(&code));
        let mut source = Self::default();
        let mut at = 0;
        while at < tokens.len() {
            at = match tokens[at] {
                // `use<'a>` in a type is no declaration.
                "use" if tokens.get(at + 1) != Some(&"<") => source.import(&tokens, at + 1),
                "mod" if tokens.get(at + 2) == Some(&";") => {
                    source.children.push(tokens[at + 1].to_owned());
                    at + 3
                }
                "crate" | "super" | "self" if tokens.get(at + 1) == Some(&"::") => {
                    let path = path(&tokens[at..]);
                    at += 2 * path.len() - 1;
                    source.paths.push(path);
                    at
                }
                _ => at + 1,
            };
        }
        source
    }

    /// The path that a name of this module was brought in from.
    #[must_use]
    pub(crate) fn reexport(&self, name: &str) -> Option<&[String]> {
        self.imports.iter().find(|(import, _)| import == name).map(|(_, path)| &path[..])
    }

    /// Takes in a `use` declaration whose tree begins at `at`. Returns where its tokens end.
    fn import(&mut self, tokens: &[&str], at: usize) -> usize {
        let end = tokens[at..].iter().position(|token| *token == ";");
        let end = end.map_or(tokens.len(), |length| at + length);
        self.tree(&tokens[at..end], &[]);
        end
    }

    /// A tree of a `use` declaration below `prefix`.
    fn tree(&mut self, tokens: &[&str], prefix: &[String]) {
        for branch in branches(tokens) {
            let Some(brace) = branch.iter().position(|token| *token == "{") else {
                self.leaf(branch, prefix);
                continue;
            };
            let names = branch[..brace].iter().filter(|token| **token != "::");
            let prefix: Vec<_> =
                prefix.iter().cloned().chain(names.map(|name| (*name).to_owned())).collect();
            self.tree(&branch[brace + 1..branch.len() - 1], &prefix);
        }
    }

    /// `path`, `path as name`, `path::self` or `path::*`.
    fn leaf(&mut self, tokens: &[&str], prefix: &[String]) {
        let (path, alias) = match tokens.iter().position(|token| *token == "as") {
            Some(at) => (&tokens[..at], tokens.get(at + 1)),
            None => (tokens, None),
        };
        let names = path.iter().filter(|token| **token != "::").map(|name| (*name).to_owned());
        let mut path: Vec<_> = prefix.iter().cloned().chain(names).collect();
        if path.len() > 1 && path.last().is_some_and(|last| last == "self" || last == "*") {
            path.pop();
        }
        let Some(last) = path.last() else { return };
        let name = alias.map_or(last.clone(), |alias| (*alias).to_owned());
        self.imports.push((name, path.clone()));
        self.paths.push(path);
    }
}

/// What stands between the commas that are in no braces.
fn branches<'a, 'b>(tokens: &'a [&'b str]) -> Vec<&'a [&'b str]> {
    let mut depth = 0;
    let split = tokens.split(|token| {
        match *token {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        depth == 0 && *token == ","
    });
    split.filter(|branch| !branch.is_empty()).collect()
}

/// The path at the front, up to what can't belong to it.
fn path(tokens: &[&str]) -> Vec<String> {
    let mut path = vec![tokens[0].to_owned()];
    let mut rest = &tokens[1..];
    while let ["::", name, after @ ..] = rest {
        if !name.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            break;
        }
        path.push((*name).to_owned());
        rest = after;
    }
    path
}

/// Words, `::`, and other characters one by one.
fn tokens(code: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after.trim_start();
    }
    tokens
}

/// Leaves out each item below `#[cfg(test)]`.
fn without_tests<'a>(tokens: &[&'a str]) -> Vec<&'a str> {
    const CFG_TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::with_capacity(tokens.len());
    let mut rest = tokens;
    while let Some(first) = rest.first() {
        if rest.starts_with(&CFG_TEST) {
            rest = &rest[CFG_TEST.len() + item(&rest[CFG_TEST.len()..])..];
        } else {
            kept.push(*first);
            rest = &rest[1..];
        }
    }
    kept
}

/// The number of tokens of the item at the front: up to its semicolon, or the end of its braces.
fn item(tokens: &[&str]) -> usize {
    let mut depth = 0;
    let mut braces = 0;

    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "(" | "[" => depth += 1,
            ")" | "]" => depth -= 1,
            "{" => braces += 1,
            "}" => braces -= 1,
            _ => {}
        }
        if depth == 0 && braces == 0 && matches!(*token, ";" | "}") {
            return at + 1;
        }
    }
    tokens.len()
}

/// The text with comments left out, and with nothing in its strings and characters.
fn without_comments(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |at| at + 2),
            '"' => quoted(rest, 1, '"'),
            'r' if is_raw(rest) && !code.ends_with(|c: char| c.is_alphanumeric() || c == '_') => {
                raw(rest)
            }
            '\'' if rest[1..].starts_with('\\') => quoted(rest, 1, '\''),
            '\'' if rest.chars().nth(2) == Some('\'') => {
                rest.char_indices().nth(3).map_or(rest.len(), |(at, _)| at)
            }
            _ => {
                code.push(first);
                rest = &rest[first.len_utf8()..];
                continue;
            }
        };
        code.push(' ');
        rest = &rest[skipped..];
    }
    code
}

/// Bytes of a literal in quotes, up to its closing one. Its content begins at `at`.
fn quoted(text: &str, at: usize, quote: char) -> usize {
    let mut escaped = false;
    for (offset, c) in text[at..].char_indices() {
        if c == quote && !escaped {
            return at + offset + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

fn is_raw(text: &str) -> bool {
    text[1..].trim_start_matches('#').starts_with('"')
}

/// Bytes of a raw string: `r"..."` or `r#"..."#`.
fn raw(text: &str) -> usize {
    let hashes = text[1..].len() - text[1..].trim_start_matches('#').len();
    let end = format!("\"{}", "#".repeat(hashes));
    let body = 2 + hashes;
    text[body..].find(&end).map_or(text.len(), |at| body + at + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_tests_hold_no_uses() {
        let text = r##"
            //! [`crate::a`]
            mod child;
            #[cfg(test)]
            mod tests;
            const TEXT: (&str, char, char) = ("crate::b \" crate::b", '"', '\'');
            const RAW: &str = r#"crate::c " crate::c"#;
            /* crate::d */
            #[cfg(test)]
            mod more { use crate::e; const X: [u8; 2] = [1; 2]; }
            fn f<'a>(x: &'a super::F) -> impl Iterator + use<'a> { self::g::<crate::h::T>(x) }
        "##;
        let source = Source::new(text);
        assert_eq!(source.children, ["child"]);
        let paths: Vec<_> = source.paths.iter().map(|path| path.join("::")).collect();
        assert_eq!(paths, ["super::F", "self::g", "crate::h::T"]);
    }

    #[test]
    fn every_leaf_of_a_use_is_a_path() {
        let source = Source::new("pub(crate) use crate::{a::{self, B as C}, d::*};\nuse e::F;");
        let paths: Vec<_> = source.paths.iter().map(|path| path.join("::")).collect();
        assert_eq!(paths, ["crate::a", "crate::a::B", "crate::d", "e::F"]);
        let found = |name| source.reexport(name).map(|path| path.join("::"));
        assert_eq!(found("C").as_deref(), Some("crate::a::B"));
        assert_eq!(found("F").as_deref(), Some("e::F"));
        assert_eq!(found("B"), None);
    }
}
