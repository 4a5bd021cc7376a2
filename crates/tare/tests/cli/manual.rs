//! The manual pages and shell completions that the example `manual` writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Writes the pages and completions into a temporary folder.
fn made() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let generator = Path::new(env!("CARGO_BIN_EXE_tare")).with_file_name("examples/manual");
    let output = Command::new(&generator).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let path = folder.path().to_owned();
    (folder, path)
}

/// A program's output. If the program isn't installed, prints that and returns `None`.
fn run(program: &str, args: &[&str]) -> Option<Output> {
    let output = Command::new(program).args(args).output();
    if output.is_err() {
        println!("skipped: {program} is not installed");
    }
    output.ok()
}

#[test]
fn each_command_has_a_manual_page_with_its_options() {
    let (_folder, path) = made();
    let help = Command::new(env!("CARGO_BIN_EXE_tare")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let commands = help.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let commands: Vec<_> = commands.filter(|name| !name.is_empty() && *name != "help").collect();
    assert!(commands.contains(&"stat") && commands.contains(&"buildid-list"), "{help}");
    for command in commands.iter().filter(|name| !name.starts_with('-')) {
        let page = path.join(format!("man1/tare-{command}.1"));
        let text = fs::read_to_string(&page).unwrap();
        assert!(text.contains(".SH OPTIONS") && text.contains(".SH NAME"), "{command}");
    }
    let page = fs::read_to_string(path.join("man1/tare-record.1")).unwrap();
    assert!(page.contains("\\-\\-max\\-overhead"), "{page}");
    let page = path.join("man1/tare-record.1");
    let Some(shown) = run("man", &["--warnings", "-E", "UTF-8", "-l", page.to_str().unwrap()])
    else {
        return;
    };
    let shown_text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.status.success() && shown_text.contains("--max-overhead"), "{shown:?}");
    assert!(shown.stderr.is_empty(), "{}", String::from_utf8_lossy(&shown.stderr));
}

#[test]
fn bash_completes_commands_and_options() {
    let (_folder, path) = made();
    let script = path.join("bash/tare");
    let complete = |words: &str, at: usize| -> String {
        let line = format!(
            "source '{}'; COMP_WORDS=({words}); COMP_CWORD={at}; COMPREPLY=(); \
             _tare tare \"${{COMP_WORDS[$at]}}\" \"\"; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        let line = format!("at={at}; {line}");
        let output = Command::new("bash").args(["--norc", "-c", &line]).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let has = |text: &str, word: &str| text.lines().any(|line| line == word);
    let commands = complete("tare rec", 1);
    assert!(has(&commands, "record") && !has(&commands, "stat"), "{commands}");
    let options = complete("tare record --max-o", 2);
    assert!(has(&options, "--max-overhead"), "{options}");
}

#[test]
fn completions_of_other_shells_are_scripts_of_theirs() {
    let (_folder, path) = made();
    for (shell, file) in [("zsh", "zsh/_tare"), ("fish", "fish/tare.fish")] {
        let file = path.join(file);
        assert!(fs::read_to_string(&file).unwrap().contains("max-overhead"), "{shell}");
        let Some(output) = run(shell, &["-n", file.to_str().unwrap()]) else { continue };
        assert!(output.status.success() && output.stderr.is_empty(), "{shell}: {output:?}");
    }
}
