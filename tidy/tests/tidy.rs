//! The rules of STYLE.md that a program can keep, held against every file of the project.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this file is tests, the helpers too"
)]

use std::collections::{BTreeMap, BTreeSet};

use tare_tidy::circles::circles;
use tare_tidy::{File, files, functions, links, output, root};

fn all_files() -> Option<Vec<File>> {
    match files() {
        Ok(files) => Some(files),
        Err(error) => {
            println!("skipped: the list of files comes from git: {error}");
            None
        }
    }
}

fn rust_files() -> Option<Vec<File>> {
    let mut files = all_files()?;
    files.retain(|file| file.path.ends_with(".rs"));
    assert!(files.len() > 10, "only {} Rust files found", files.len());
    Some(files)
}

fn none(rule: &str, found: &[String]) {
    assert!(found.is_empty(), "{rule}:\n{}", found.join("\n"));
}

/// Which sibling may use which: ARCHITECTURE.md says why.
const EDGES: &[(&str, &[&str])] = &[
    ("tare-format", &[]),
    ("tare-kernel", &["tare-format"]),
    ("tare-events", &["tare-format", "tare-kernel"]),
    ("tare-measure", &["tare-events", "tare-format", "tare-kernel"]),
    ("tare-symbols", &["tare-kernel"]),
    ("tare-trace", &["tare-format", "tare-kernel", "tare-symbols"]),
    ("tare-profile", &[]),
    ("tare-record", &["tare-events", "tare-format", "tare-kernel"]),
    ("tare-replay", &["tare-format", "tare-profile", "tare-symbols"]),
    ("tare-render", &["tare-format", "tare-profile"]),
    ("tare-annotate", &["tare-profile", "tare-replay", "tare-symbols"]),
    (
        "tare-script",
        &[
            "tare-annotate",
            "tare-format",
            "tare-profile",
            "tare-render",
            "tare-replay",
            "tare-symbols",
        ],
    ),
    (
        "tare-tui",
        &[
            "tare-annotate",
            "tare-format",
            "tare-kernel",
            "tare-profile",
            "tare-render",
            "tare-replay",
            "tare-symbols",
        ],
    ),
    (
        "tare-perf",
        &[
            "tare-annotate",
            "tare-events",
            "tare-format",
            "tare-kernel",
            "tare-measure",
            "tare-profile",
            "tare-record",
            "tare-render",
            "tare-replay",
            "tare-script",
            "tare-symbols",
            "tare-trace",
            "tare-tui",
        ],
    ),
    ("tare-bench", &["tare-format", "tare-kernel", "tare-measure", "tare-symbols"]),
    (
        "tare-fuzz",
        &[
            "tare-events",
            "tare-format",
            "tare-kernel",
            "tare-measure",
            "tare-profile",
            "tare-render",
            "tare-replay",
            "tare-symbols",
            "tare-trace",
        ],
    ),
    ("tare-simulate", &["tare-events", "tare-format", "tare-kernel", "tare-record", "tare-replay"]),
    ("tare-tidy", &[]),
];

/// What cargo says of the workspace's own packages.
fn metadata() -> serde_json::Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let text =
        output(&cargo, &["metadata", "--no-deps", "--format-version", "1", "--offline"]).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn crate_edges_are_those_of_the_architecture() {
    let metadata = metadata();
    let mut found = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let siblings = dependencies.filter(|d| !d["path"].is_null() && d["kind"].is_null());
        let mut names: Vec<_> = siblings.filter_map(|d| d["name"].as_str()).collect();
        names.sort_unstable();
        found.insert(package["name"].as_str().unwrap(), names);
    }
    let allowed: BTreeMap<_, _> =
        EDGES.iter().map(|(name, edges)| (*name, edges.to_vec())).collect();
    assert_eq!(found, allowed, "an edge is added here, in ARCHITECTURE.md, and with a reason");
}

/// What the binary is built from has a row each.
#[test]
fn dependencies_are_those_of_the_table() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let in_binary = packages.filter(|package| {
        let manifest = package["manifest_path"].as_str().unwrap();
        manifest.strip_prefix(root().to_str().unwrap()).is_some_and(|at| at.starts_with("/crates/"))
    });
    let dependencies = in_binary.flat_map(|package| package["dependencies"].as_array().unwrap());
    // What replaces the standard library's threads in a test is in no binary.
    let is_built = |d: &&serde_json::Value| d["target"].as_str() != Some("cfg(shuttle)");
    let others = dependencies.filter(|d| d["path"].is_null() && d["kind"].is_null());
    let others = others.filter(is_built);
    let wanted: BTreeSet<&str> = others.filter_map(|d| d["name"].as_str()).collect();
    let page = std::fs::read_to_string(root().join("docs/internals/dependencies.md")).unwrap();
    let names = page.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let names: BTreeSet<&str> =
        names.flat_map(|names| names.split(", ").map(|name| name.trim_matches('`'))).collect();
    assert_eq!(names, wanted, "docs/internals/dependencies.md");
}

#[test]
fn unsafe_is_in_the_kernel_crate_alone() {
    let Some(files) = rust_files() else { return };
    let keyword = concat!("uns", "afe");
    let is_code = |line: &&str| {
        !line.trim_start().starts_with("//") && !line.contains(&format!("{keyword}_code"))
    };
    let uses = |line: &str| {
        line.contains(&format!("{keyword} {{"))
            || line.contains(&format!("{keyword} fn "))
            || line.contains(&format!("{keyword} impl "))
    };
    let outside = files.iter().filter(|file| !file.path.starts_with("crates/kernel/"));
    let found: Vec<_> = outside
        .filter(|file| file.text.lines().filter(is_code).any(uses))
        .map(|file| file.path.clone())
        .collect();
    none("outside of crates/kernel", &found);
}

#[test]
fn unused_code_is_removed_and_not_silenced() {
    let Some(files) = rust_files() else { return };
    let silenced = concat!("allow(dead", "_code");
    let found: Vec<_> = files
        .iter()
        .filter(|file| file.text.contains(silenced))
        .map(|file| file.path.clone())
        .collect();
    none("dead code is silenced in", &found);
}

/// Names of types that say nothing of what a type is for, or belong to no field.
const VAGUE: [&str; 13] = [
    "Account",
    "Family",
    "Held",
    "Holder",
    "Moment",
    "Piece",
    "Place",
    "Surroundings",
    "Thing",
    "Wanted",
    "Way",
    "What",
    "Stuff",
];

#[test]
fn types_have_the_words_of_the_field() {
    let Some(files) = rust_files() else { return };
    let declares = |line: &str| {
        let words: Vec<&str> = line
            .split(|letter: char| !letter.is_alphanumeric())
            .skip_while(|word| !["struct", "enum", "trait", "type"].contains(word))
            .collect();
        words.get(1).is_some_and(|name| VAGUE.contains(&name.strip_suffix('s').unwrap_or(name)))
    };
    let mut found = Vec::new();
    for file in &files {
        let code = file.text.lines().filter(|line| !line.trim_start().starts_with("//"));
        found.extend(
            code.filter(|line| declares(line))
                .map(|line| format!("{}: {}", file.path, line.trim())),
        );
    }
    none("a type's name says too little:", &found);
}

/// The command line stays thin: what it does belongs into libraries.
#[test]
fn the_command_line_is_thin() {
    let Some(files) = rust_files() else { return };
    let limit = limits(&std::fs::read_to_string(root().join(LIMITS)).unwrap())["command-line"];
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    let code = |file: &File| {
        let text = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        text.lines().filter(is_code).count()
    };
    let is_of_it = |file: &&File| {
        file.path.starts_with("crates/tare/src/") && !file.path.ends_with("/tests.rs")
    };
    let lines: usize = files.iter().filter(is_of_it).map(code).sum();
    assert!(lines <= limit, "crates/tare has {lines} lines of code; at most {limit}");
}

/// The numbers of limits.txt, by name.
fn limits(text: &str) -> BTreeMap<String, usize> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(' '))
        .map(|(name, number)| (name.to_owned(), number.trim().parse().unwrap()))
        .collect()
}

const LIMITS: &str = "tidy/limits.txt";

#[test]
fn functions_fit_on_a_screen() {
    let Some(files) = rust_files() else { return };
    let limits = limits(&std::fs::read_to_string(root().join(LIMITS)).unwrap());
    let mut found = Vec::new();
    for File { path, text } in &files {
        for (name, at, lines) in functions(text) {
            if lines > limits["function"] {
                found.push(format!(
                    "{path}:{at}: {name} has {lines} lines; at most {} in one function",
                    limits["function"]
                ));
            }
        }
    }
    none("split what has grown", &found);
}

#[test]
fn limits_only_go_down() {
    let now = limits(&std::fs::read_to_string(root().join(LIMITS)).unwrap());
    let Ok(commits) = output("git", &["log", "--format=%H", "--", LIMITS]) else {
        println!("skipped: the history comes from git");
        return;
    };
    for commit in commits.lines() {
        let Ok(text) = output("git", &["show", &format!("{commit}:{LIMITS}")]) else { continue };
        for (name, then) in limits(&text) {
            assert!(
                now.get(&name).is_none_or(|now| *now <= then),
                "{LIMITS}: '{name}' was {then} in {commit}"
            );
        }
    }
}

/// The circles that are still there, one a line; it may only shrink.
const CIRCLES: &str = "tidy/circles.txt";

/// Modules that use each other can't be read, tested or moved one without the other.
#[test]
fn sibling_modules_use_each_other_in_one_direction() {
    let Some(files) = rust_files() else { return };
    let list = std::fs::read_to_string(root().join(CIRCLES)).unwrap_or_default();
    let mut gone: Vec<_> = list.lines().filter(|line| !line.starts_with('#')).collect();
    let known: Vec<_> = gone.iter().filter_map(|line| line.split_once(": ")).collect();
    let mut found = Vec::new();
    for circle in circles(&files) {
        let is_within = |(parent, modules): &&(&str, &str)| {
            let modules: Vec<_> = modules.split(' ').collect();
            *parent == circle.parent
                && circle.modules.iter().all(|name| modules.contains(&&name[..]))
        };
        if let Some((parent, modules)) = known.iter().find(is_within) {
            gone.retain(|line| line.split_once(": ") != Some((parent, modules)));
            continue;
        }
        found.push(circle.to_string());
        let uses = circle.uses.iter();
        found.extend(uses.map(|(from, to, file)| format!("    {from} uses {to} in {file}")));
    }
    none("break the circle: move what both need into a module of its own", &found);
    assert!(gone.is_empty(), "mended: remove from {CIRCLES} {gone:#?}");
}

/// Nothing of the machine that it was written on, and no package registry's host.
#[test]
fn no_file_names_a_machine() {
    let Some(files) = all_files() else { return };
    let words = [
        concat!("/wo", "rk"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
        concat!("crates", ".io"),
        concat!("deb.", "debian"),
        concat!("artif", "actory"),
    ];
    let mut found = Vec::new();
    for File { path, text } in files.iter().filter(|file| !file.path.ends_with(".lock")) {
        for (at, line) in text.lines().enumerate() {
            if let Some(word) = words.iter().find(|word| names(line, word)) {
                found.push(format!("{path}:{}: '{word}'", at + 1));
            }
        }
    }
    none("these words mean nothing to others", &found);
}

/// Whether `word` stands in `line` and isn't the beginning of a longer one.
fn names(line: &str, word: &str) -> bool {
    let mut ends = line.match_indices(word).map(|(at, _)| at + word.len());
    ends.any(|end| {
        word.ends_with('/')
            || !line[end..].starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '-')
    })
}

#[test]
fn links_between_documents_lead_somewhere() {
    let Some(files) = all_files() else { return };
    let mut found = Vec::new();
    for File { path, text } in files.iter().filter(|file| file.path.ends_with(".md")) {
        let document = root().join(path);
        let folder = document.parent().unwrap();
        for link in
            links(text).into_iter().filter(|link| !link.contains("://") && !link.starts_with('#'))
        {
            let target = link.split('#').next().unwrap();
            if !folder.join(target).exists() {
                found.push(format!("{path}: {link}"));
            }
        }
    }
    none("nothing is there", &found);
}
