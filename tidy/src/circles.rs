//! Circles between sibling modules: modules of one folder that use each other, in a pair or around
//! several.
//!
//! The module tree comes from the paths of the files, the uses from `use` declarations and from
//! paths that begin with `crate`, `super` or `self`. A name that a parent module re-exports counts
//! as a use of the module that defines it. Modules and items below `#[cfg(test)]` don't count.

use std::collections::{BTreeMap, BTreeSet};

use crate::File;
use crate::source::Source;

/// Sibling modules that use each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Circle {
    /// The folder or file of the parent module, without `.rs` and `mod.rs`.
    pub parent: String,
    /// The names of the modules, sorted.
    pub modules: Vec<String>,
    /// The uses among them: from, to, and the file that has it.
    pub uses: Vec<(String, String, String)>,
}

/// A crate: its modules by path, `[]` is its root.
type Modules = BTreeMap<Vec<String>, Module>;

struct Module {
    file: String,
    source: Source,
}

/// The circles of all crates whose files are given, sorted.
#[must_use]
pub fn circles(files: &[File]) -> Vec<Circle> {
    let mut found = Vec::new();
    for root in files.iter().filter_map(|file| crate_root(&file.path)) {
        found.extend(circles_of(&root, &modules_of(&root, files)));
    }
    found.sort();
    found
}

/// The root file of a crate: its folder and its file name.
#[derive(Clone, Debug)]
struct Root {
    folder: String,
    file: String,
}

/// `src/lib.rs`, `src/main.rs` and `tests/name/main.rs` begin a crate. A `main.rs` beside a
/// `lib.rs` has a module tree of its own.
fn crate_root(path: &str) -> Option<Root> {
    let (folder, file) = path.rsplit_once('/')?;
    let is_root = match file {
        "lib.rs" => folder.ends_with("src"),
        "main.rs" => folder.ends_with("src") || folder.contains("tests/"),
        _ => false,
    };
    is_root.then(|| Root { folder: folder.to_owned(), file: file.to_owned() })
}

/// The modules below a root that are declared and not for tests alone.
fn modules_of(root: &Root, files: &[File]) -> Modules {
    let below = format!("{}/", root.folder);
    let mut modules = Modules::new();
    for file in files {
        let Some(path) = file.path.strip_prefix(&below) else { continue };
        let Some(path) = path.strip_suffix(".rs") else { continue };
        let path = match path {
            _ if path == root.file.trim_end_matches(".rs") => Vec::new(),
            "lib" | "main" => continue,
            _ => path.trim_end_matches("/mod").split('/').map(str::to_owned).collect(),
        };
        modules.insert(path, Module { file: file.path.clone(), source: Source::new(&file.text) });
    }
    let declared: Vec<_> = modules.keys().filter(|path| is_declared(path, &modules)).collect();
    let declared: BTreeSet<_> = declared.into_iter().cloned().collect();
    modules.retain(|path, _| declared.contains(path));
    modules
}

/// Whether the module and all its ancestors are declared outside of tests.
fn is_declared(path: &[String], modules: &Modules) -> bool {
    (0..path.len()).all(|depth| {
        let parent = modules.get(&path[..depth]);
        parent.is_some_and(|parent| parent.source.children.contains(&path[depth]))
    })
}

fn circles_of(root: &Root, modules: &Modules) -> Vec<Circle> {
    // By parent: the uses among its modules, and a file that has each.
    let mut uses: BTreeMap<&[String], BTreeMap<(&str, &str), &str>> = BTreeMap::new();
    let targets: Vec<_> = modules
        .iter()
        .flat_map(|(user, module)| {
            let named = module.source.paths.iter();
            named.flat_map(|named| resolve(user, named, modules)).map(move |target| (user, target))
        })
        .collect();
    for (user, target) in &targets {
        let common = user.iter().zip(target).take_while(|(a, b)| a == b).count();
        if let (Some(from), Some(to)) = (user.get(common), target.get(common)) {
            let among = uses.entry(&user[..common]).or_default();
            among.entry((from, to)).or_insert(&modules[*user].file);
        }
    }
    let mut found = Vec::new();
    for (parent, among) in uses {
        let edges: BTreeSet<_> = among.keys().copied().collect();
        for modules in strongly_connected(&edges) {
            let inside = |name: &str| modules.contains(name);
            let uses = among.iter().filter(|((from, to), _)| inside(from) && inside(to));
            found.push(Circle {
                parent: [std::slice::from_ref(&root.folder), parent].concat().join("/"),
                modules: modules.iter().map(|&name| name.to_owned()).collect(),
                uses: uses
                    .map(|((from, to), file)| [*from, *to, *file].map(str::to_owned).into())
                    .collect(),
            });
        }
    }
    found
}

/// The modules that a path leads to: where the path itself ends, and where a re-exported name is
/// defined.
fn resolve(user: &[String], named: &[String], modules: &Modules) -> Vec<Vec<String>> {
    let Some(mut path) = absolute(user, named, modules) else { return Vec::new() };
    let mut found = Vec::new();
    // A re-export may lead to another. The bound ends circles, which don't compile.
    for _ in 0..16 {
        let depth = (0..=path.len()).rev().find(|&depth| modules.contains_key(&path[..depth]));
        let depth = depth.unwrap_or(0);
        let (module, rest) = path.split_at(depth);
        found.push(module.to_vec());
        let reexported = rest.first().and_then(|name| {
            let source = &modules.get(module)?.source;
            let named = source.reexport(name)?;
            let target = absolute(module, named, modules)?;
            Some([&target[..], &rest[1..]].concat())
        });
        match reexported {
            Some(target) if target != path => path = target,
            _ => break,
        }
    }
    found
}

/// A path from the root of the crate; `None` for a path into another crate.
fn absolute(user: &[String], named: &[String], modules: &Modules) -> Option<Vec<String>> {
    let first = named.first()?;
    if first == "crate" {
        return Some(named[1..].to_vec());
    }
    let ups = named.iter().take_while(|name| *name == "super").count();
    if ups > 0 {
        return Some([user.get(..user.len().checked_sub(ups)?)?, &named[ups..]].concat());
    }
    let rest = if first == "self" { &named[1..] } else { named };
    let child = [user, &rest[..rest.len().min(1)]].concat();
    (first == "self" || modules.contains_key(&child)).then(|| [user, rest].concat())
}

/// The groups of two and more that all reach each other.
fn strongly_connected<'a>(edges: &BTreeSet<(&'a str, &'a str)>) -> Vec<BTreeSet<&'a str>> {
    let reach = |from: &'a str| {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];

        while let Some(at) = open.pop() {
            for &(_, to) in edges.iter().filter(|(from, _)| *from == at) {
                if reached.insert(to) {
                    open.push(to);
                }
            }
        }
        reached
    };
    let names: BTreeSet<_> = edges.iter().flat_map(|&(from, to)| [from, to]).collect();
    let reached: BTreeMap<_, _> = names.iter().map(|&name| (name, reach(name))).collect();
    let groups: BTreeSet<BTreeSet<_>> = names
        .iter()
        .map(|&name| {
            let both =
                |other: &&&str| reached[name].contains(**other) && reached[**other].contains(name);
            names.iter().filter(both).copied().collect()
        })
        .filter(|group: &BTreeSet<_>| group.len() > 1)
        .collect();
    groups.into_iter().collect()
}

/// A circle as one line of a list: `folder: module module`.
impl std::fmt::Display for Circle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.parent, self.modules.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let file = |&(path, text): &(&str, &str)| File { path: path.into(), text: text.into() };
        let files: Vec<_> = files.iter().map(file).collect();
        circles(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn two_modules_that_use_each_other() {
        let files = [
            ("x/src/lib.rs", "mod a; mod b; mod c;"),
            ("x/src/a.rs", "use crate::b::B; use super::c;"),
            ("x/src/b/mod.rs", "mod inner;"),
            ("x/src/b/inner.rs", "fn f() { super::super::a::A }"),
            ("x/src/c.rs", "use std::fmt;"),
        ];
        assert_eq!(found(&files), ["x/src: a b"]);
        let circle = [("a", "b", "x/src/a.rs"), ("b", "a", "x/src/b/inner.rs")];
        let as_written = files.map(|(path, text)| File { path: path.into(), text: text.into() });
        let uses = &circles(&as_written)[0].uses;
        assert_eq!(
            uses.iter().map(|(a, b, c)| (&a[..], &b[..], &c[..])).collect::<Vec<_>>(),
            circle
        );
    }

    #[test]
    fn around_three_and_in_a_folder_of_its_own() {
        let files = [
            ("x/src/main.rs", "mod p;"),
            ("x/src/p.rs", "mod a; mod b; mod c; pub use a::A;"),
            ("x/src/p/a.rs", "use super::b;"),
            ("x/src/p/b.rs", "use crate::p::c::{C, D};"),
            ("x/src/p/c.rs", "use super::A;"),
        ];
        assert_eq!(found(&files), ["x/src/p: a b c"]);
        let mut broken = files;
        broken[4].1 = "use super::Own;";
        assert_eq!(found(&broken), [""; 0], "the parent's own items are no sibling's");
    }

    #[test]
    fn names_that_a_sibling_hands_on_lead_to_where_they_are_defined() {
        let files = [
            ("x/src/lib.rs", "mod a; mod b;"),
            ("x/src/a.rs", "mod deep; pub use deep::Deep; pub use crate::b::Other as Named;"),
            ("x/src/a/deep.rs", ""),
            ("x/src/b.rs", "use crate::a::Deep;"),
        ];
        assert_eq!(found(&files), ["x/src: a b"]);
    }

    #[test]
    fn tests_other_crates_and_children_are_no_siblings() {
        let files = [
            ("x/src/lib.rs", "mod a; mod b; #[cfg(test)] mod t;"),
            ("x/src/a.rs", "use crate::b::B; #[cfg(test)] mod tests;"),
            ("x/src/a/tests.rs", "use crate::b::B;"),
            ("x/src/b.rs", "#[cfg(test)] mod tests { use crate::a::A; }"),
            ("x/src/t.rs", "use crate::a; use crate::b;"),
            ("y/src/lib.rs", "mod a; mod b;"),
            ("y/src/a.rs", "use x::b;"),
            ("y/src/b.rs", "mod c; use c::C; use super::a;"),
            ("y/src/b/c.rs", "use super::Parent;"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }
}
