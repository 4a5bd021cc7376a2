//! Checks every file of the project against the rules of STYLE.md.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this file is tests, the helpers too"
)]

use std::collections::{BTreeMap, BTreeSet};

use tare_tidy::circles::circles;
use tare_tidy::markdown::{edges, links};
use tare_tidy::rules::{self, RATCHET, numbers};
use tare_tidy::{File, files, output, root};

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

/// The workspace's own packages, as cargo describes them.
fn metadata() -> serde_json::Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let text =
        output(&cargo, &["metadata", "--no-deps", "--format-version", "1", "--offline"]).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn crate_edges_are_those_of_the_architecture() {
    let metadata = metadata();
    let mut in_manifests = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let siblings = dependencies.filter(|d| !d["path"].is_null() && d["kind"].is_null());
        let names: BTreeSet<_> = siblings.filter_map(|d| d["name"].as_str()).collect();
        in_manifests.insert(package["name"].as_str().unwrap(), names);
    }
    let document = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let documented: BTreeMap<_, BTreeSet<_>> = edges(&document)
        .into_iter()
        .map(|(user, used)| (user, used.into_iter().collect()))
        .collect();
    assert_eq!(in_manifests, documented, "a new edge belongs into ARCHITECTURE.md");
}

/// Whether an embedded file lies outside of the folder of the crate, seen from the folder of the
/// file that embeds it.
fn leads_out(folder_in_crate: &str, embedded: &str) -> bool {
    let mut depth = folder_in_crate.split('/').filter(|part| !part.is_empty()).count();
    embedded.split('/').any(|part| match part {
        ".." if depth == 0 => true,
        ".." => {
            depth -= 1;
            false
        }
        "." | "" => false,
        _ => {
            depth += 1;
            false
        }
    })
}

/// What a registry requires of a crate, and what its page shows.
#[test]
fn published_crates_are_described_and_complete() {
    let metadata = metadata();
    let files = rust_files().unwrap_or_default();
    let mut found = Vec::new();
    let published = |package: &&serde_json::Value| package["publish"].is_null();
    for package in metadata["packages"].as_array().unwrap().iter().filter(published) {
        let name = package["name"].as_str().unwrap();
        for field in ["description", "license", "readme", "rust_version"] {
            if package[field].as_str().is_none_or(str::is_empty) {
                found.push(format!("{name}: no {field}"));
            }
        }
        for field in ["keywords", "categories"] {
            if package[field].as_array().is_none_or(Vec::is_empty) {
                found.push(format!("{name}: no {field}"));
            }
        }
        let folder = std::path::Path::new(package["manifest_path"].as_str().unwrap());
        let folder = folder.parent().unwrap();
        for file in ["LICENSE-MIT", "LICENSE-APACHE", "README.md"] {
            if !folder.join(file).is_file() {
                found.push(format!("{name}: no {file}"));
            }
        }
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        for dependency in dependencies.filter(|d| !d["path"].is_null() && d["kind"] != "dev") {
            if dependency["req"] == "*" {
                found.push(format!("{name}: {} has no version", dependency["name"]));
            }
        }
        let prefix = format!("{}/", folder.strip_prefix(root()).unwrap().display());
        for file in &files {
            let Some(path) = file.path.strip_prefix(&prefix) else { continue };
            let inside = path.rsplit_once('/').map_or("", |(inside, _)| inside);
            let embedded = ["include_str!(\"", "include_bytes!(\"", "include!(\""]
                .iter()
                .flat_map(|call| file.text.split(call).skip(1))
                .filter_map(|rest| rest.split('"').next());
            for embedded in embedded.filter(|embedded| leads_out(inside, embedded)) {
                found.push(format!("{}: embeds {embedded}", file.path));
            }
        }
    }
    none("crates that can't be published", &found);
}

/// The table in docs/internals/dependencies.md names the direct dependencies of the crates in the
/// binary, and no others.
#[test]
fn dependencies_are_those_of_the_table() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let in_binary = packages.filter(|package| {
        let manifest = package["manifest_path"].as_str().unwrap();
        manifest.strip_prefix(root().to_str().unwrap()).is_some_and(|at| at.starts_with("/crates/"))
    });
    let dependencies = in_binary.flat_map(|package| package["dependencies"].as_array().unwrap());
    // shuttle replaces the standard library's threads in tests: it is in no binary.
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
fn unsafe_is_in_the_kernel_crate_and_in_examples_alone() {
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
    let may =
        |file: &&File| file.path.starts_with("crates/kernel/") || file.path.contains("/examples/");
    let outside = files.iter().filter(|file| !may(file));
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

/// The command line stays thin: its work belongs into libraries.
#[test]
fn the_command_line_is_thin() {
    let Some(files) = rust_files() else { return };
    let architecture = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let limit =
        architecture.lines().find(|line| line.starts_with("| `tare-perf` |")).and_then(|line| {
            let number = line.split("under ").nth(1)?.split(" lines").next()?;
            number.replace(',', "").parse::<usize>().ok()
        });
    let limit = limit.expect("ARCHITECTURE.md limits the lines of tare-perf");
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

fn ratchet() -> BTreeMap<String, usize> {
    numbers(&std::fs::read_to_string(root().join(RATCHET)).unwrap()).unwrap()
}

#[test]
fn no_rule_is_broken_more_often_than_the_ratchet_allows() {
    let Some(files) = all_files() else { return };
    let ratchet = ratchet();
    let mut broken = Vec::new();
    for rule in rules::check(&files).unwrap() {
        let found = rule.findings.len();
        let allowed = *ratchet.get(rule.name).unwrap_or_else(|| {
            panic!("{RATCHET} has no number for '{}': {found}", rule.name);
        });
        if found > allowed {
            broken.push(format!("{}: {found} places, at most {allowed}", rule.name));
            broken.extend(rule.findings.iter().map(|finding| format!("    {finding}")));
        } else if found < allowed {
            println!("{RATCHET}: lower '{}' from {allowed} to {found}", rule.name);
        }
    }
    none("rules are broken", &broken);
}

#[test]
fn the_ratchet_only_goes_down() {
    let now = ratchet();
    let Ok(commits) = output("git", &["log", "--format=%H", "--", RATCHET]) else {
        println!("skipped: the history comes from git");
        return;
    };
    for commit in commits.lines() {
        let Ok(text) = output("git", &["show", &format!("{commit}:{RATCHET}")]) else { continue };
        for (name, then) in numbers(&text).unwrap() {
            assert!(
                now.get(&name).is_none_or(|now| *now <= then),
                "{RATCHET}: '{name}' was {then} in {commit}"
            );
        }
    }
}

/// Circles of modules that are left, one a line; no circle may be added.
const CIRCLES: &str = "tidy/circles.txt";

/// Modules that use each other can't be read, tested or moved apart.
#[test]
fn sibling_modules_use_each_other_in_one_direction() {
    let Some(files) = rust_files() else { return };
    let list = std::fs::read_to_string(root().join(CIRCLES)).unwrap_or_default();
    let mut mended: Vec<_> = list.lines().filter(|line| !line.starts_with('#')).collect();
    let known: Vec<_> = mended.iter().filter_map(|line| line.split_once(": ")).collect();
    let mut found = Vec::new();
    for circle in circles(&files) {
        let is_within = |(parent, modules): &&(&str, &str)| {
            let modules: Vec<_> = modules.split(' ').collect();
            *parent == circle.parent
                && circle.modules.iter().all(|name| modules.contains(&&name[..]))
        };
        if let Some((parent, modules)) = known.iter().find(is_within) {
            mended.retain(|line| line.split_once(": ") != Some((parent, modules)));
            continue;
        }
        found.push(circle.to_string());
        let uses = circle.uses.iter();
        found.extend(uses.map(|(from, to, file)| format!("    {from} uses {to} in {file}")));
    }
    none("break the circle: move what both need into a module of its own", &found);
    assert!(mended.is_empty(), "no longer circles: remove from {CIRCLES} {mended:#?}");
}

/// Files name no path of the machine that they were written on, and no package registry's host.
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
