//! Turns the pages of `docs` into roff. It knows what these pages use: headings, paragraphs, fenced
//! blocks, lists, tables, code, emphasis and links.

use std::fmt::Write as _;

/// Length of a table's first cell, in bytes of Markdown, above which an empty line separates it
/// from the second cell, in tables with two columns.
const TERM: usize = 60;

/// Escapes a text for roff.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '\\' => escaped.push_str("\\e"),
            '-' => escaped.push_str("\\-"),
            '\'' => escaped.push_str("\\(aq"),
            '`' => escaped.push_str("\\(ga"),
            '^' => escaped.push_str("\\(ha"),
            '~' => escaped.push_str("\\(ti"),
            '"' => escaped.push_str("\\(dq"),
            letter => escaped.push(letter),
        }
    }
    // A line that begins with a dot is a request.
    if escaped.starts_with('.') { format!("\\&{escaped}") } else { escaped }
}

/// Returns the page as roff, without its title. `page` is its name, `commands` have pages in
/// section 1.
pub(crate) fn to_roff(text: &str, page: &str, commands: &[&str]) -> String {
    let mut roff = Roff { out: String::new(), page, commands, begun: false };
    let mut lines = text.lines().skip_while(|line| !line.starts_with("# ")).skip(1).peekable();
    while let Some(line) = lines.next() {
        if let Some(heading) = line.strip_prefix("## ") {
            let heading = roff.inline(heading).to_uppercase_outside_escapes();
            roff.section(&heading);
        } else if let Some(heading) = line.strip_prefix("### ") {
            let heading = roff.inline(heading);
            let _ = writeln!(roff.out, ".SS {heading}");
        } else if line.starts_with("```") {
            let block = lines.by_ref().take_while(|line| !line.starts_with("```"));
            let block: Vec<&str> = block.collect();
            roff.block(&block);
        } else if line.starts_with('|') {
            let mut table = vec![line];
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                table.push(row);
            }
            roff.table(&table);
        } else if !line.trim().is_empty() {
            let is_item = |line: &str| line.trim_start().starts_with("- ");
            let mut words = line.trim().to_owned();
            let goes_on = |line: &&str| {
                !line.trim().is_empty() && !is_item(line) && !line.starts_with(['#', '|', '`'])
                    || line.starts_with('`') && !line.starts_with("```")
            };
            while let Some(more) = lines.next_if(goes_on) {
                words = format!("{words} {}", more.trim());
            }
            roff.paragraph(&words);
        }
    }
    roff.out
}

struct Roff<'a> {
    out: String,
    page: &'a str,
    commands: &'a [&'a str],
    /// Whether the first section has begun.
    begun: bool,
}

/// Capital letters for headings, except in roff's escapes.
trait Uppercase {
    fn to_uppercase_outside_escapes(&self) -> String;
}

impl Uppercase for str {
    fn to_uppercase_outside_escapes(&self) -> String {
        if self.contains('\\') { self.to_owned() } else { self.to_uppercase() }
    }
}

impl Roff<'_> {
    fn section(&mut self, heading: &str) {
        self.begun = true;
        let _ = writeln!(self.out, ".SH {heading}");
    }

    /// Text before the first heading is the description.
    fn begin(&mut self) {
        if !self.begun {
            self.section("DESCRIPTION");
        }
    }

    fn block(&mut self, lines: &[&str]) {
        self.begin();
        self.out.push_str(".PP\n.RS 4\n.nf\n");
        for line in lines {
            let line = escape(line);
            let _ = writeln!(self.out, "{}", if line.is_empty() { "\\&" } else { &line });
        }
        self.out.push_str(".fi\n.RE\n");
    }

    fn paragraph(&mut self, words: &str) {
        self.begin();
        let item = words.strip_prefix("- ");
        let start = if item.is_some() { ".IP \\(bu 2" } else { ".PP" };
        let text = self.inline(item.unwrap_or(words));
        let _ = writeln!(self.out, "{start}\n{text}");
    }

    /// A table with two columns becomes a list of terms; wider ones name the columns of each row.
    fn table(&mut self, lines: &[&str]) {
        self.begin();
        let row = |line: &str| -> Vec<String> {
            let line = line.trim().trim_start_matches('|').trim_end_matches('|');
            let line = line.replace("\\|", "\u{1}");
            line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
        };
        let mut rows = lines.iter().map(|line| row(line));
        let heading = rows.next().unwrap_or_default();
        for cells in rows.skip(1) {
            let term = self.inline(&cells[0]);
            let _ = writeln!(self.out, ".TP\n{term}");
            if cells[0].len() > TERM && cells.len() == 2 {
                self.out.push_str("\\&\n.br\n");
            }
            for (at, cell) in cells.iter().enumerate().skip(1).filter(|(_, cell)| !cell.is_empty())
            {
                let text = self.inline(cell);
                if cells.len() == 2 {
                    let _ = writeln!(self.out, "{text}");
                } else {
                    let name = heading.get(at).map(|name| self.inline(name)).unwrap_or_default();
                    let _ = writeln!(self.out, "\\fI{name}:\\fR {text}\n.br");
                }
            }
        }
    }

    /// Formats code, emphasis and links.
    fn inline(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['`', '*', '[']) {
            let (before, special) = rest.split_at(at);
            out.push_str(&escape_inside(before));
            rest = match special.as_bytes()[0] {
                b'`' => delimited(special, '`', "\\fB", &mut out),
                b'*' => delimited(special, '*', "\\fI", &mut out),
                _ => self.link(special, &mut out),
            };
        }
        out.push_str(&escape_inside(rest));
        if out.starts_with(['.', '\'']) { format!("\\&{out}") } else { out }
    }

    /// Formats `[TEXT](TARGET)`: other pages are named, addresses are printed.
    fn link<'a>(&self, text: &'a str, out: &mut String) -> &'a str {
        let parts = text[1..].split_once("](").and_then(|(label, rest)| {
            let (target, rest) = rest.split_once(')')?;
            (!label.contains('[')).then_some((label, target, rest))
        });
        let Some((label, target, rest)) = parts else {
            out.push('[');
            return &text[1..];
        };
        let file = target.split('#').next().unwrap_or_default();
        let page = file.strip_suffix(".md").filter(|page| !page.contains('/'));
        let target = match page {
            Some(page) if page == self.page => None,
            Some("inspect") => Some("\\fBtare\\-list\\fR(1)".to_owned()),
            Some(page) => {
                let section = if self.commands.contains(&page) { 1 } else { 7 };
                Some(format!("\\fBtare\\-{}\\fR({section})", escape(page)))
            }
            None if target.starts_with("http") => Some(escape(target)),
            // A heading of this page, or a file that isn't installed.
            None => target.contains('/').then(|| "in the sources of tare".to_owned()),
        };
        match target {
            Some(target) if label.ends_with(".md") => out.push_str(&target),
            Some(target) => {
                let _ = write!(out, "{} ({target})", self.inline(label));
            }
            None => out.push_str(&self.inline(label)),
        }
        rest
    }
}

/// Escapes a text that doesn't begin a line.
fn escape_inside(text: &str) -> String {
    let escaped = escape(text);
    escaped.strip_prefix("\\&").map_or(escaped.clone(), ToOwned::to_owned)
}

/// Formats what stands between two delimiters; without a second one the first is text.
fn delimited<'a>(text: &'a str, mark: char, font: &str, out: &mut String) -> &'a str {
    match text[1..].split_once(mark) {
        Some((inner, rest)) if !inner.is_empty() => {
            let _ = write!(out, "{font}{}\\fR", escape_inside(inner));
            rest
        }
        _ => {
            out.push(mark);
            &text[1..]
        }
    }
}
