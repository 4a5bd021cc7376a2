//! Shares of symbols in the reports of tare and of perf on the same recordings.

mod recorded;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use crate::report::{Bound, Estimate, Finding, Report};
use crate::run::succeed;
use crate::scratch::Scratch;
use crate::setting::Setting;

/// Bound of the difference of a share, in percentage points.
const POINTS: f64 = 0.1;

/// Number of the largest differences of a recording that the table shows.
const SHOWN: usize = 8;

/// Samples by binary and symbol.
type Rows = BTreeMap<(String, String), u64>;

/// A symbol's shares in percent.
struct Shares<'a> {
    of: &'a (String, String),
    tare: f64,
    perf: f64,
}

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let mut table = Vec::new();
    let mut findings = Vec::new();
    let mut raw = Vec::new();
    for recorded in recorded::all(&scratch)? {
        let file = scratch.path("perf.data");
        recorded.record(&scratch, &file)?;
        let ours = of_tare(&scratch, &file)?;
        let theirs = of_perf(&scratch, &file)?;
        let ours = name_variants_as_perf(ours, &theirs);
        recorded.clear_up();
        let all = compare(&ours, &theirs)?;
        let stubs_named_alike = name_stubs_as_perf(&ours, &theirs);
        let but_for_stubs = furthest(&compare(&stubs_named_alike, &theirs)?);
        let ours: u64 = ours.values().sum();
        let theirs: u64 = theirs.values().sum();
        table.push(format!(
            "{}: {} symbols named by perf; samples: tare {ours}, perf {theirs}",
            recorded.name,
            all.len()
        ));
        let mut differ: Vec<_> = all.iter().filter(|share| share.tare != share.perf).collect();
        differ.sort_by(|a, b| (b.tare - b.perf).abs().total_cmp(&(a.tare - a.perf).abs()));
        for share in differ.iter().take(SHOWN) {
            let (dso, symbol) = share.of;
            table.push(format!(
                "  tare {:>7.3}%  perf {:>7.3}%  {dso}  {symbol}",
                share.tare, share.perf
            ));
        }
        // `_init` lies in the section `.init`, and a stub never does: perf is wrong if it calls a
        // stub `_init`.
        let exact = furthest(&all);
        let right = but_for_stubs.min(furthest(&all));
        if exact > right {
            table.push(format!("  {exact:.3} points with the stubs that perf calls _init"));
        }
        findings.push(Finding {
            what: format!("{}: furthest share of a symbol from perf's, points", recorded.name),
            measured: Estimate::exact(right),
            bound: Bound::AtMost(POINTS),
        });
        let differ: Vec<Value> = differ
            .iter()
            .map(|share| json!({ "symbol": share.of, "tare": share.tare, "perf": share.perf }))
            .collect();
        raw.push(json!({
            "recording": recorded.name, "samples": [ours, theirs], "symbols": all.len(),
            "differ": differ,
        }));
    }
    Ok(Report { table, findings, raw: json!(raw) })
}

/// The shares of all symbols that perf names.
fn compare<'a>(ours: &'a Rows, theirs: &'a Rows) -> anyhow::Result<Vec<Shares<'a>>> {
    let sum = |rows: &Rows| rows.values().sum::<u64>() as f64;
    let our_sum = sum(ours);
    let their_sum = sum(theirs);
    anyhow::ensure!(our_sum > 0.0 && their_sum > 0.0, "a recording without samples");
    let named = theirs.keys().filter(|(_, symbol)| is_name(symbol));
    let share = |of: &'a (String, String)| Shares {
        of,
        tare: 100.0 * ours.get(of).copied().unwrap_or(0) as f64 / our_sum,
        perf: 100.0 * theirs.get(of).copied().unwrap_or(0) as f64 / their_sum,
    };
    Ok(named.collect::<BTreeSet<_>>().into_iter().map(share).collect())
}

fn furthest(shares: &[Shares<'_>]) -> f64 {
    shares.iter().map(|share| (share.tare - share.perf).abs()).fold(0.0, f64::max)
}

/// Renames stubs of the procedure linkage table to `_init` where perf has `_init` and no symbol for
/// the stub. perf's `_init` extends to the first function of `.text`, over the stubs between, which
/// have symbols of their own; which of the two perf finds is chance.
fn name_stubs_as_perf(ours: &Rows, theirs: &Rows) -> Rows {
    let mut rows = Rows::new();
    for ((dso, symbol), samples) in ours {
        let init = (dso.clone(), "_init".to_owned());
        let own = (dso.clone(), symbol.clone());
        let is_hidden = symbol.ends_with("@plt") && !theirs.contains_key(&own);
        let key = if is_hidden && theirs.contains_key(&init) { init } else { own };
        *rows.entry(key).or_default() += samples;
    }
    rows
}

/// Renames a constructor's or destructor's variant (C1, C2, D1, D2) to the other, which has the
/// same address, if perf names only that one.
fn name_variants_as_perf(ours: Rows, theirs: &Rows) -> Rows {
    let mut rows = Rows::new();
    for ((dso, symbol), samples) in ours {
        let variants = symbol.match_indices(['1', '2']).filter_map(|(at, digit)| {
            let is_variant = symbol[..at].ends_with(['C', 'D']);
            let other = if digit == "1" { "2" } else { "1" };
            is_variant.then(|| format!("{}{other}{}", &symbol[..at], &symbol[at + 1..]))
        });
        let mut keys = variants.map(|variant| (dso.clone(), variant));
        let own = (dso.clone(), symbol.clone());
        let theirs_too = keys.find(|key| !theirs.contains_key(&own) && theirs.contains_key(key));
        *rows.entry(theirs_too.unwrap_or(own)).or_default() += samples;
    }
    rows
}

/// Whether a symbol is a name: not an address, `[unknown]` or empty.
fn is_name(symbol: &str) -> bool {
    !symbol.starts_with("0x") && !symbol.is_empty() && symbol != "[unknown]"
}

fn of_tare(scratch: &Scratch<'_>, file: &Path) -> anyhow::Result<Rows> {
    let tare = scratch.setting.tare();
    let file = file.display().to_string();
    let words = [&tare, "report", "--json", "--no-children", "-g", "none", "--no-demangle"];
    let words = [&words[..], &["--no-cache", "--sort", "dso,sym", "-i", &file]].concat();
    let done = succeed(&words.into_iter().map(str::to_owned).collect::<Vec<_>>())?;
    let report: Value = serde_json::from_str(&done.stdout)?;
    let entries = report["events"][0]["entries"].as_array().context("a report without entries")?;
    let mut rows = Rows::new();
    for entry in entries {
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let samples = entry["own"]["samples"].as_u64().context("an entry without samples")?;
        *rows.entry((dso(&text("dso")), text("symbol"))).or_default() += samples;
    }
    Ok(rows)
}

fn of_perf(scratch: &Scratch<'_>, file: &Path) -> anyhow::Result<Rows> {
    let cache = scratch.path("buildid").display().to_string();
    let file = file.display().to_string();
    let words = ["perf", "--buildid-dir", &cache, "report", "--stdio", "--no-children", "-g"];
    let further = ["none", "--no-demangle", "-F", "sample,dso,sym", "-t", "|", "-i", &file];
    let words = [&words[..], &further].concat();
    let done = succeed(&words.into_iter().map(str::to_owned).collect::<Vec<_>>())?;
    let mut rows = Rows::new();
    for line in done.stdout.lines().filter(|line| !line.starts_with('#')) {
        let mut parts = line.splitn(3, '|');
        let Some(samples) = parts.next() else { continue };
        let Some(name) = parts.next() else { continue };
        let Some(symbol) = parts.next() else { continue };
        // "[.] name": perf prints the privilege level before the name.
        let symbol = symbol.trim();
        let symbol = symbol.split_once("] ").map_or(symbol, |(_, symbol)| symbol);
        let samples: u64 = samples.trim().parse()?;
        *rows.entry((dso(name), symbol.trim().to_owned())).or_default() += samples;
    }
    Ok(rows)
}

/// A binary's name without its folder. Code of just-in-time compilers is named by its process
/// (`[JIT] tid N`) or by its perf map; both become `[JIT]`.
fn dso(name: &str) -> String {
    let name = name.trim();
    let last = name.rsplit('/').next().unwrap_or(name);
    let is_map = last.starts_with("perf-") && last.ends_with(".map");
    if is_map || name.starts_with("[JIT]") { "[JIT]".to_owned() } else { last.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_each_readers_own_samples_and_of_what_perf_names() {
        let rows = |rows: &[(&str, u64)]| -> Rows {
            rows.iter().map(|(name, n)| (("a".to_owned(), (*name).to_owned()), *n)).collect()
        };
        let ours = rows(&[("f", 3), ("g", 1)]);
        let theirs = rows(&[("f", 1), ("0x12", 1)]);
        let shares = compare(&ours, &theirs).unwrap();
        let found: Vec<_> =
            shares.iter().map(|share| (share.of.1.as_str(), share.tare, share.perf)).collect();
        assert_eq!(found, [("f", 75.0, 50.0)]);
        assert_eq!(dso("/tmp/perf-12.map"), dso("[JIT] tid 12"));
    }

    #[test]
    fn variants_are_named_as_by_perf() {
        let rows = |names: &[&str]| -> Rows {
            names.iter().map(|name| (("a".to_owned(), (*name).to_owned()), 1)).collect()
        };
        let theirs = rows(&["_ZN1AC1Ev", "_ZN1BD2Ev", "_ZN2C1D0Ev"]);
        assert_eq!(
            name_variants_as_perf(rows(&["_ZN1AC2Ev", "_ZN1BD2Ev", "_ZN2C1D0Ev"]), &theirs),
            theirs
        );
    }

    #[test]
    fn stubs_are_named_as_by_perf_where_it_has_no_symbol_for_them() {
        let rows = |names: &[&str]| -> Rows {
            names.iter().map(|name| (("a".to_owned(), (*name).to_owned()), 1)).collect()
        };
        let theirs = rows(&["_init", "f@plt"]);
        let named = name_stubs_as_perf(&rows(&["f@plt", "g@plt"]), &theirs);
        assert_eq!(named, theirs);
        assert_eq!(name_stubs_as_perf(&rows(&["g@plt"]), &rows(&["f"])), rows(&["g@plt"]));
    }
}
