//! The manual pages and shell completions that the example `manual` writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::workload;

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

/// The pages of the manual, by path.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let sections = ["man1", "man7"].map(|section| folder.join(section));
    let entries = sections.iter().flat_map(|section| fs::read_dir(section).unwrap());
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// An installed page has no other files beside it.
#[test]
fn pages_stand_alone_and_have_short_synopses() {
    let (_folder, path) = made();
    let pages = pages(&path);
    assert!(pages.len() > 30, "{pages:?}");
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        for pointer in ["docs/", ".md"] {
            assert!(!text.contains(pointer), "{}: {pointer}", page.display());
        }
        for word in text.split("\\fBtare\\-").skip(1) {
            let (name, rest) = word.split_once("\\fR(").unwrap_or_default();
            let Some(section) = rest.chars().next().filter(char::is_ascii_digit) else { continue };
            let name = name.replace("\\-", "-");
            let named = path.join(format!("man{section}/tare-{name}.{section}"));
            assert!(named.exists(), "{}: {}", page.display(), named.display());
        }
        let Some(shown) = run("man", &["--warnings", "-E", "UTF-8", "-l", page.to_str().unwrap()])
        else {
            return;
        };
        let said = String::from_utf8_lossy(&shown.stderr).into_owned();
        assert!(shown.status.success() && said.is_empty(), "{}: {said}", page.display());
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        if let Some((_, synopsis)) = shown.split_once("\nSYNOPSIS\n") {
            let lines: Vec<_> =
                synopsis.lines().take_while(|line| line.starts_with("  ")).collect();
            assert!((1..=3).contains(&lines.len()), "{}: {lines:?}", page.display());
        }
    }
    let sched =
        run("man", &["-E", "UTF-8", "-l", path.join("man1/tare-sched.1").to_str().unwrap()]);
    let shown = String::from_utf8_lossy(&sched.unwrap().stdout).into_owned();
    for line in
        ["       tare sched [OPTIONS] [COMMAND]...", "       tare sched -- make -j8", "EXAMPLES"]
    {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
    // The text of docs/sched.md, with its table of columns.
    assert!(shown.contains("migrations") && shown.contains("DIFFERENCES FROM PERF"), "{shown}");
}

/// The words that bash offers at the end of a command line.
fn bash_offers(folder: &Path, line: &str) -> Vec<String> {
    let script = folder.join("bash/tare");
    let binaries = Path::new(env!("CARGO_BIN_EXE_tare")).parent().unwrap();
    // readline's splitting: at blanks, and at ':' and '=', which are words of their own.
    let program = r#"
        source "$SCRIPT"
        COMP_WORDBREAKS=$' \t\n"\'><=;|&(:' COMP_LINE=$LINE COMP_POINT=${#LINE}
        read -r -a COMP_WORDS <<<"$(sed 's/[:=]/ & /g' <<<"$LINE")"
        [[ $LINE == *[[:space:]:=] ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _tare tare "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", program]).env("SCRIPT", script).env("LINE", line);
    let path = std::env::var("PATH").unwrap();
    let output = bash.env("PATH", format!("{}:{path}", binaries.display())).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(ToOwned::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_their_values() {
    let (_folder, path) = made();
    let pid = std::process::id().to_string();
    let half = |text: &str| text[..text.len() - 1].to_owned();
    let program = workload("latency").display().to_string();
    for (line, wanted, other) in [
        ("tare rec", "record", "stat"),
        ("tare record --max-o", "--max-overhead", "--off-cpu"),
        ("tare record -e cpu-cl", "cpu-clock", "page-faults"),
        ("tare record -a -e page-faults,cpu-cl", "page-faults,cpu-clock", "cpu-clock"),
        ("tare stat --event=page-f", "page-faults", "cpu-clock"),
        ("tare report --sort comm,ds", "comm,dso", "comm,sym"),
        ("tare report -s +sy", "+sym", "+dso"),
        ("tare report --fields over", "overhead", "comm"),
        ("tare top --sort comm", "comm", "dso"),
        ("tare diff --sort d", "dso", "comm"),
        ("tare sched --sort m", "max", "avg"),
        ("tare script -F comm,ti", "comm,time", "comm,comm"),
        ("tare trace -e opena", "openat", "read"),
        ("tare trace -e openat,%net", "openat,%network", "%network"),
        ("tare export --format fire", "firefox", "pprof"),
        ("tare flame --format s", "svg", "html"),
        (&format!("tare stat -p {}", half(&pid)), &pid, "1x"),
        ("tare record -u roo", "root", "daemon"),
        (&format!("tare trace --probe {program}:qui"), "quick", "work"),
        (&format!("tare trace --probe {}", half(&program)), &program, "quick"),
    ] {
        let offered = bash_offers(&path, line);
        let has = |word: &str| offered.iter().any(|offered| offered == word);
        assert!(has(wanted) && !has(other), "{line}: {offered:?}");
    }
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    if let Some(cgroups) = mounts.lines().find(|line| line.contains(" cgroup2 ")) {
        let folder = Path::new(cgroups.split(' ').nth(1).unwrap());
        let is_folder = |path: &PathBuf| path.is_dir();
        let mut below = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        if let Some(cgroup) = below.find(is_folder) {
            let name = cgroup.file_name().unwrap().to_str().unwrap();
            let offered = bash_offers(&path, &format!("tare stat -G {}", half(name)));
            assert!(offered.iter().any(|offered| offered == name), "{name}: {offered:?}");
        }
    }
    // What precedes the last ':' stays on the line.
    let tracepoints = bash_offers(&path, "tare record -e sched:sched_sw");
    let all = bash_offers(&path, "tare record -e sch");
    let is_listed = all.iter().any(|event| event == "sched:sched_switch");
    assert_eq!(
        tracepoints.iter().any(|event| event == "sched_switch"),
        is_listed,
        "{tracepoints:?}"
    );
}

#[test]
fn the_program_prints_completions_for_each_shell() {
    let (_folder, path) = made();
    let printed = |shell: &str| {
        let tare = env!("CARGO_BIN_EXE_tare");
        let output = Command::new(tare).args(["completions", shell]).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{shell}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for (shell, file) in [("bash", "bash/tare"), ("zsh", "zsh/_tare"), ("fish", "fish/tare.fish")] {
        assert_eq!(printed(shell), fs::read_to_string(path.join(file)).unwrap(), "{shell}");
    }
    for shell in ["elvish", "powershell"] {
        assert!(printed(shell).contains("--max-overhead"), "{shell}");
    }
}

#[test]
fn completions_of_other_shells_are_scripts_of_theirs() {
    let (_folder, path) = made();
    for (shell, file) in [("zsh", "zsh/_tare"), ("fish", "fish/tare.fish")] {
        let file = path.join(file);
        let text = fs::read_to_string(&file).unwrap();
        for part in
            ["max-overhead", "tare list --raw-dump", "clock_nanosleep", "dcacheline", "brstacksym"]
        {
            assert!(text.contains(part), "{shell}: {part}");
        }
        let Some(output) = run(shell, &["-n", file.to_str().unwrap()]) else { continue };
        assert!(output.status.success() && output.stderr.is_empty(), "{shell}: {output:?}");
    }
}

/// What fish and zsh offer at the end of a command line.
#[test]
fn other_shells_offer_the_values_of_options() {
    let (_folder, path) = made();
    let binaries = Path::new(env!("CARGO_BIN_EXE_tare")).parent().unwrap().display().to_string();
    let fish = path.join("fish/tare.fish").display().to_string();
    let timed = workload("latency").display().to_string();
    for (line, wanted) in [
        ("tare record -e cpu-cl", "cpu-clock"),
        ("tare report --sort comm,ds", "comm,dso"),
        ("tare script --fields ti", "time"),
        ("tare trace --calls opena", "openat"),
        ("tare export --format fire", "firefox"),
        ("tare record --uid roo", "root"),
        (&format!("tare trace --probe {timed}:qui"), &format!("{timed}:quick")),
    ] {
        let program = format!("set PATH {binaries} $PATH; source {fish}; complete -C '{line}'");
        let Some(output) = run("fish", &["--no-config", "-c", &program]) else { break };
        let offered = String::from_utf8_lossy(&output.stdout).into_owned();
        let has = offered.lines().any(|offer| offer.split('\t').next() == Some(wanted));
        assert!(has, "{line}: {offered} {}", String::from_utf8_lossy(&output.stderr));
    }
    // zsh completes only for its line editor: the functions of the values are called alone.
    let zsh = path.join("zsh/_tare").display().to_string();
    let program = format!(
        "PATH={binaries}:$PATH; compdef() {{ :; }}; _sequence() {{ print -l -- \"$@\"; }}; source {zsh}; _tare_events; _tare_columns; _tare_calls; _tare_users; compadd() {{ print -l -- \"$@\"; }}; PREFIX={timed}:qui; _tare_functions"
    );
    let Some(output) = run("zsh", &["-f", "-c", &program]) else { return };
    let offered = String::from_utf8_lossy(&output.stdout).into_owned();
    let place = format!("{timed}:quick");
    for wanted in ["cpu-clock", "dcacheline", "openat", "%network", "root", &place] {
        assert!(offered.lines().any(|offer| offer == wanted), "{wanted}: {offered}");
    }
    let text = fs::read_to_string(&zsh).unwrap();
    assert!(text.contains(":EVENTS:_tare_events' \\"), "no option uses the events");
}
