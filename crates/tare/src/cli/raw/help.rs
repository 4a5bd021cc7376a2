//! Lays out the ends of helps, examples and lists in columns, for the width of the terminal. clap
//! would wrap their lines without their indents.

use rustix::termios::tcgetwinsize;

/// Width without a terminal, as in clap.
const DEFAULT_WIDTH: usize = 100;
/// Least width of a column beside another one.
const LEAST: usize = 24;

/// Returns the width of a help: of the terminal, or `COLUMNS`, as in clap.
pub(super) fn width() -> usize {
    let of_terminal = tcgetwinsize(rustix::stdio::stdout())
        .or_else(|_| tcgetwinsize(rustix::stdio::stderr()))
        .or_else(|_| tcgetwinsize(rustix::stdio::stdin()))
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|width| *width > 0);
    let of_variable = || std::env::var("COLUMNS").ok()?.parse().ok();
    of_terminal.or_else(of_variable).unwrap_or(DEFAULT_WIDTH).min(super::MAX_HELP_WIDTH)
}

/// Wraps each line that is too wide. Two spaces or more within a line separate two columns: the
/// second one keeps its indent, or moves below the first one if it has no room.
pub(super) fn lay_out(text: &str, width: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        lay_out_line(line, width, &mut out);
    }
    out.truncate(out.trim_end().len());
    out
}

fn lay_out_line(line: &str, width: usize, out: &mut String) {
    if line.chars().count() <= width {
        out.push_str(line);
        out.push('\n');
        return;
    }
    let indent = line.len() - line.trim_start().len();
    let words = line.trim();
    let second = words.split_once("  ").map(|(first, second)| (first, second.trim_start()));
    let Some((first, second)) = second else {
        let rest = if indent >= LEAST { indent } else { indent + 4 };
        wrap(words, indent, rest, width, out);
        return;
    };
    let column = line.chars().count() - second.chars().count();
    if column + LEAST <= width {
        let mut lines = String::new();
        wrap(second, column, column, width, &mut lines);
        let start: String = line.chars().take(column).collect();
        out.push_str(&start);
        out.push_str(lines.trim_start());
    } else {
        wrap(first, indent, indent + 4, width, out);
        wrap(second, indent + 6, indent + 6, width, out);
    }
}

/// Appends words in lines of at most `width` characters, the first one after `first` spaces, the
/// others after `rest`. A longer word has a line of its own.
fn wrap(text: &str, first: usize, rest: usize, width: usize, out: &mut String) {
    let mut at = first;
    out.extend(std::iter::repeat_n(' ', first));
    for (number, word) in text.split(' ').filter(|word| !word.is_empty()).enumerate() {
        let length = word.chars().count();
        if number > 0 && at + 1 + length > width {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', rest));
            at = rest;
        } else if number > 0 {
            out.push(' ');
            at += 1;
        }
        out.push_str(word);
        at += length;
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_keep_their_indents() {
        let text = "\
Examples:
  tare x        short
  tare x        a description that is too long for its line
  tare x --with --many --options --here        a description
  tare x --with --many --options --here,without,a --description
                                  below the line before";
        let wanted = "\
Examples:
  tare x        short
  tare x        a description that is
                too long for its line
  tare x --with --many --options --here
        a description
  tare x --with --many --options
      --here,without,a --description
                                  below
                                  the
                                  line
                                  before";
        assert_eq!(lay_out(text, 40), wanted);
        assert_eq!(lay_out(text, 120), text);
    }
}
