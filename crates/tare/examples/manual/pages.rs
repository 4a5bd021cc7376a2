//! Manual pages: `tare.1`, a page for each command with its options, examples and its text in
//! `docs`, and a page in section 7 for each other text there.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use tare::cli::raw::Tare;

use crate::markdown::{self, escape};

/// Commands whose text is a section of a page, not a page of their own.
const SECTIONS: [(&str, &str, &str); 8] = [
    ("archive", "symbols", "Archives"),
    ("buildid-list", "inspect", "tare buildid-list"),
    ("completions", "install", "Completions"),
    ("doctor", "inspect", "tare doctor"),
    ("evlist", "inspect", "tare evlist"),
    ("inject", "inspect", "tare inject"),
    ("kallsyms", "inspect", "tare kallsyms"),
    ("list", "inspect", "tare list"),
];
/// `version` has nothing to explain, and its text in `inspect` repeats its options.
const WITHOUT_TEXT: [&str; 1] = ["version"];
/// Pages that aren't pages of the manual: `README` is the text of `tare.1`, and the commands in
/// `inspect` have pages of their own.
const NO_PAGES: [&str; 2] = ["README", "inspect"];

/// Returns the name and text of each page.
pub(crate) fn all() -> Result<Vec<(String, String)>, Box<dyn std::error::Error>> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let text = |name: &str| fs::read_to_string(docs.join(format!("{name}.md")));
    let mut tare = Tare::command().disable_help_subcommand(true);
    tare.build();
    let commands: Vec<&Command> =
        tare.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    let names: Vec<&str> = commands.iter().map(|command| command.get_name()).collect();
    let mut pages = vec![("tare.1".to_owned(), main_page(&tare, &commands, &text("README")?)?)];
    for command in &commands {
        let name = command.get_name();
        let section = SECTIONS.iter().find(|(command, ..)| *command == name);
        let about = match section {
            _ if WITHOUT_TEXT.contains(&name) => String::new(),
            Some((_, page, heading)) => section_of(&text(page)?, heading),
            None => text(name)?,
        };
        pages.push((format!("tare-{name}.1"), command_page(command, &about, &names)?));
    }
    for path in markdown_files(&docs)? {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !names.contains(&name.as_str()) && !NO_PAGES.contains(&name.as_str()) {
            pages.push((format!("tare-{name}.7"), topic_page(&name, &text(&name)?, &names)));
        }
    }
    Ok(pages)
}

fn markdown_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries: Result<Vec<_>, _> = fs::read_dir(folder)?.collect();
    let mut paths: Vec<_> = entries?.iter().map(fs::DirEntry::path).collect();
    paths.retain(|path| path.extension().is_some_and(|kind| kind == "md"));
    paths.sort();
    Ok(paths)
}

/// Returns the text below a heading of level 2, up to the next one.
fn section_of(page: &str, heading: &str) -> String {
    let start = format!("\n## {heading}\n");
    let (_, section) = page.split_once(&start).unwrap_or_else(|| panic!("no section {heading}"));
    format!("# {heading}\n{}", section.split("\n## ").next().unwrap_or_default())
}

fn title(page: &mut String, name: &str, section: u8, about: &str) {
    let _ = writeln!(page, ".TH {} {section} \"\" \"tare\" \"tare manual\"", escape(name));
    let _ = writeln!(page, ".SH NAME\n{} \\- {}", escape(name), escape(about));
}

/// Writes the usage line: `tare record [OPTIONS] [COMMAND]...`.
fn synopsis(page: &mut String, command: &Command) {
    let usage = command.clone().render_usage().to_string();
    page.push_str(".SH SYNOPSIS\n");
    for line in usage.lines() {
        let line = line.trim_start_matches("Usage:").trim();
        let words: Vec<&str> = line.split(' ').collect();
        let named =
            words.iter().take_while(|word| word.chars().all(|c| c.is_alphanumeric() || c == '-'));
        let named = named.count();
        let name = escape(&words[..named].join(" "));
        let _ = writeln!(page, "\\fB{name}\\fR {}\n.br", escape(&words[named..].join(" ")));
    }
}

fn main_page(
    tare: &Command,
    commands: &[&Command],
    text: &str,
) -> Result<String, Box<dyn std::error::Error>> {
    let mut page = String::new();
    title(&mut page, "tare", 1, &about(tare));
    synopsis(&mut page, tare);
    page.push_str(".SH COMMANDS\n");
    for command in commands {
        let name = command.get_name();
        let _ =
            writeln!(page, ".TP\n\\fBtare-{}\\fR(1)\n{}", escape(name), escape(&about(command)));
    }
    page.push_str(&options(tare)?);
    let names: Vec<&str> = commands.iter().map(|command| command.get_name()).collect();
    page.push_str(&markdown::to_roff(text, "README", &names));
    Ok(page)
}

fn about(command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    about.trim_end_matches('.').to_owned()
}

fn options(command: &Command) -> Result<String, Box<dyn std::error::Error>> {
    let mut options = Vec::new();
    Man::new(command.clone()).render_options_section(&mut options)?;
    let text = String::from_utf8(options)?;
    // Each rendered piece defines `Aq`, an apostrophe, in a preamble.
    let text = text.replace("\\*(Aq", "\\(aq");
    let is_text = |line: &&str| !line.starts_with(".ie ") && !line.starts_with(".el ");
    Ok(text.lines().filter(is_text).map(|line| format!("{line}\n")).collect())
}

fn command_page(
    command: &Command,
    text: &str,
    names: &[&str],
) -> Result<String, Box<dyn std::error::Error>> {
    let name = command.get_name();
    let mut page = String::new();
    title(&mut page, &format!("tare-{name}"), 1, &about(command));
    synopsis(&mut page, command);
    page.push_str(&markdown::to_roff(text, name, names));
    page.push_str(&options(command)?);
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    page.push_str(&after_help(&after, &format!("tare-{name}(1)")));
    page.push_str(
        ".SH SEE ALSO\n\\fBtare\\fR(1), \\fBtare\\-events\\fR(7), \\fBtare\\-symbols\\fR(7)\n",
    );
    Ok(page)
}

fn topic_page(name: &str, text: &str, names: &[&str]) -> String {
    let heading = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(name);
    let mut page = String::new();
    title(&mut page, &format!("tare-{name}"), 7, heading);
    page.push_str(&markdown::to_roff(text, name, names));
    page.push_str(".SH SEE ALSO\n\\fBtare\\fR(1)\n");
    page
}

/// Turns the end of a help, examples and lists, into sections. A line that ends with a colon is a
/// heading; two spaces or more separate a term from its description. Sentences that point to this
/// page are left out.
fn after_help(text: &str, own: &str) -> String {
    let mut page = String::new();
    for line in text.lines() {
        let words = line.trim();
        let indent = line.len() - line.trim_start().len();
        if words.is_empty() {
            continue;
        }
        if indent == 0 {
            match words.strip_suffix(':') {
                Some(heading) => {
                    let _ = writeln!(page, ".SH {}", escape(&heading.to_uppercase()));
                }
                None => {
                    let sentences = words.split_inclusive(". ");
                    let kept = sentences.filter(|sentence| !sentence.contains(own));
                    let kept: String = kept.collect();
                    if !kept.is_empty() {
                        let _ = writeln!(page, ".PP\n{}", escape(kept.trim()));
                    }
                }
            }
        } else if indent > 6 {
            // The description of the line before.
            let _ = writeln!(page, "{}", escape(words));
        } else if let Some((term, description)) = words.split_once("  ") {
            let term = escape(term);
            let description = escape(description.trim());
            let _ = writeln!(page, ".TP\n\\fB{term}\\fR\n{description}");
        } else {
            let _ = writeln!(page, ".TP\n\\fB{}\\fR", escape(words));
        }
    }
    page
}
