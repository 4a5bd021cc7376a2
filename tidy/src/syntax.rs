//! Rules about declarations, checked on the syntax tree: parameters, tuple patterns, names, and the
//! size of structs.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{FnArg, ImplItem, Item, Pat, Signature};

use crate::File;
use crate::finding::Finding;

/// Parameters that a function may have; `self` isn't counted.
const MAX_PARAMETERS: usize = 6;
/// Fields that a struct with methods may have.
const MAX_FIELDS: usize = 10;

/// Types of the workspace that may share a name. `Error` is exempt: each module may have its own.
const MAX_SAME_NAMES: usize = 3;

/// Names of types that don't say what the type holds: participles, question words, and nouns that
/// fit anything.
const VAGUE_TYPES: &[&str] = &[
    "About",
    "Above",
    "Account",
    "Added",
    "Ahead",
    "Arrived",
    "Asked",
    "Awaited",
    "Base",
    "Below",
    "Beside",
    "Between",
    "By",
    "Chosen",
    "Closed",
    "Compared",
    "Counted",
    "Delivered",
    "Drawn",
    "Due",
    "Ended",
    "Family",
    "Finished",
    "Followed",
    "Forgotten",
    "Found",
    "From",
    "Given",
    "Gone",
    "Guarded",
    "Happened",
    "Held",
    "Holder",
    "How",
    "Joined",
    "Judged",
    "Kept",
    "Killed",
    "Known",
    "Lack",
    "Learned",
    "Listed",
    "Loaded",
    "Made",
    "Mended",
    "Merged",
    "Moment",
    "Mounted",
    "Moved",
    "Named",
    "Of",
    "Opened",
    "Ordered",
    "Other",
    "Out",
    "Over",
    "Own",
    "Packed",
    "Passed",
    "Per",
    "Piece",
    "Pinned",
    "Place",
    "Placed",
    "Planned",
    "Planted",
    "Played",
    "Prepared",
    "Printed",
    "Published",
    "Pushed",
    "Queued",
    "Ran",
    "Ready",
    "Recorded",
    "Removed",
    "Renumbered",
    "Reopened",
    "Repeated",
    "Saved",
    "Says",
    "Seen",
    "Selected",
    "Shared",
    "Shown",
    "Sliced",
    "Stopped",
    "Stored",
    "Stuff",
    "Surroundings",
    "Switched",
    "Taken",
    "Thing",
    "To",
    "Told",
    "Took",
    "Touched",
    "Traced",
    "Trimmed",
    "Typed",
    "Unnamed",
    "Unwound",
    "Used",
    "Valued",
    "Wanted",
    "Wants",
    "Watched",
    "Way",
    "What",
    "When",
    "Where",
    "Who",
    "Whole",
    "Whose",
    "Why",
    "With",
    "Written",
];

/// Findings by rule.
#[derive(Debug, Default)]
pub struct Findings {
    /// Parameters of named functions that are tuple patterns.
    pub tuple_parameters: Vec<Finding>,
    /// `let (a, b) = (x, y)`.
    pub tuple_lets: Vec<Finding>,
    /// Functions with more than `MAX_PARAMETERS` parameters.
    pub long_parameter_lists: Vec<Finding>,
    /// Structs that have methods and more than `MAX_FIELDS` fields.
    pub large_structs: Vec<Finding>,
    /// Functions called `of`.
    pub of_functions: Vec<Finding>,
    /// Types with a name of `VAGUE_TYPES`.
    pub vague_types: Vec<Finding>,
    /// Names that several types have, each place a finding.
    pub repeated_types: Vec<Finding>,
}

impl Findings {
    /// Each rule's name with its findings.
    #[must_use]
    pub fn into_rules(self) -> [(&'static str, Vec<Finding>); 7] {
        [
            ("tuple-parameters", self.tuple_parameters),
            ("tuple-lets", self.tuple_lets),
            ("long-parameter-lists", self.long_parameter_lists),
            ("large-structs", self.large_structs),
            ("of-functions", self.of_functions),
            ("vague-types", self.vague_types),
            ("repeated-types", self.repeated_types),
        ]
    }
}

/// Checks all Rust files. A struct and its methods may be in different files of one crate.
///
/// `records` lists plain records of data or options, which may have many fields: a line
/// `crates/folder TypeName` each.
///
/// # Errors
/// Fails if a file isn't valid Rust.
pub fn check(files: &[File], records: &str) -> syn::Result<Findings> {
    let lines = records.lines().filter(|line| !line.starts_with('#'));
    let records = lines.filter_map(|line| line.split_once(' '));
    let mut collector = Collector {
        records: records.map(|(folder, name)| (folder.to_owned(), name.to_owned())).collect(),
        ..Collector::default()
    };
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        collector.path.clone_from(&file.path);
        collector.crate_folder = crate_folder(&file.path).to_owned();
        collector.visit_file(&syn::parse_file(&file.text)?);
    }
    Ok(collector.finish())
}

/// The folder of the crate that a file belongs to.
fn crate_folder(path: &str) -> &str {
    ["/src/", "/tests/", "/examples/", "/benches/"]
        .iter()
        .find_map(|folder| path.split_once(folder))
        .map_or(path, |(front, _)| front)
}

/// A struct's number of fields, and the finding to report if there are too many.
struct Struct {
    finding: Finding,
    fields: usize,
}

#[derive(Default)]
struct Collector {
    path: String,
    crate_folder: String,
    /// By crate and name.
    structs: BTreeMap<(String, String), Vec<Struct>>,
    /// Crate and name of types whose inherent methods take `self`.
    with_behaviour: BTreeSet<(String, String)>,
    /// Crate and name of structs that may have many fields.
    records: BTreeSet<(String, String)>,
    types: BTreeMap<String, Vec<Finding>>,
    findings: Findings,
}

impl Collector {
    fn finding(&self, span: Span, message: String) -> Finding {
        Finding { path: self.path.clone(), line: span.start().line, message }
    }

    fn signature(&mut self, signature: &Signature) {
        let name = signature.ident.to_string();
        let span = signature.ident.span();
        let typed = signature.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(parameter) => Some(&*parameter.pat),
            FnArg::Receiver(_) => None,
        });
        let patterns: Vec<&Pat> = typed.collect();
        if patterns.len() > MAX_PARAMETERS {
            let finding = self.finding(span, format!("{name} has {} parameters", patterns.len()));
            self.findings.long_parameter_lists.push(finding);
        }
        if patterns.iter().any(|pattern| has_tuple(pattern)) {
            let finding =
                self.finding(span, format!("{name} takes a tuple apart in its parameters"));
            self.findings.tuple_parameters.push(finding);
        }
        if name == "of" {
            let finding = self.finding(span, "fn of".to_owned());
            self.findings.of_functions.push(finding);
        }
    }

    fn declared(&mut self, ident: &syn::Ident) {
        let name = ident.to_string();
        let finding = self.finding(ident.span(), name.clone());
        let singular = name.strip_suffix('s').unwrap_or(&name);
        if VAGUE_TYPES.iter().any(|vague| *vague == name || *vague == singular) {
            self.findings.vague_types.push(finding.clone());
        }
        self.types.entry(name).or_default().push(finding);
    }

    fn finish(mut self) -> Findings {
        for (key, structs) in &self.structs {
            if !self.with_behaviour.contains(key) || self.records.contains(key) {
                continue;
            }
            let large = structs.iter().filter(|declared| declared.fields > MAX_FIELDS);
            self.findings.large_structs.extend(large.map(|declared| declared.finding.clone()));
        }
        let is_repeated = |(name, places): &(&String, &Vec<Finding>)| {
            *name != "Error" && places.len() > MAX_SAME_NAMES
        };
        let repeated = self.types.iter().filter(is_repeated);
        self.findings.repeated_types = repeated.flat_map(|(_, places)| places.clone()).collect();
        self.findings
    }
}

fn has_tuple(pattern: &Pat) -> bool {
    match pattern {
        Pat::Tuple(_) => true,
        Pat::Reference(inner) => has_tuple(&inner.pat),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Struct(declared) => {
                self.declared(&declared.ident);
                let name = declared.ident.to_string();
                let finding = self.finding(
                    declared.ident.span(),
                    format!("{name} has {} fields", declared.fields.len()),
                );
                let key = (self.crate_folder.clone(), name);
                self.structs
                    .entry(key)
                    .or_default()
                    .push(Struct { finding, fields: declared.fields.len() });
            }
            Item::Enum(declared) => self.declared(&declared.ident),
            Item::Trait(declared) => self.declared(&declared.ident),
            Item::Type(declared) => self.declared(&declared.ident),
            Item::Impl(block) if block.trait_.is_none() => {
                let takes_self =
                    |item: &ImplItem| matches!(item, ImplItem::Fn(f) if f.sig.receiver().is_some());
                if let (syn::Type::Path(path), true) =
                    (&*block.self_ty, block.items.iter().any(takes_self))
                    && let Some(last) = path.path.segments.last()
                {
                    self.with_behaviour.insert((self.crate_folder.clone(), last.ident.to_string()));
                }
            }
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        self.signature(signature);
        visit::visit_signature(self, signature);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        let pattern = match &local.pat {
            Pat::Type(typed) => &*typed.pat,
            pattern => pattern,
        };
        let is_tuple =
            local.init.as_ref().is_some_and(|init| matches!(&*init.expr, syn::Expr::Tuple(_)));
        if let (Pat::Tuple(_), true) = (pattern, is_tuple) {
            let finding = self.finding(local.span(), "let (…) = (…)".to_owned());
            self.findings.tuple_lets.push(finding);
        }
        visit::visit_local(self, local);
    }
}
