//! The page of `tare flame` for 100,000 distinct call chains in headless Chromium: time until it is
//! drawn, time until a search is drawn, and size.

mod browser;

use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use serde_json::json;

use super::tui::made::SyntheticRecording;
use crate::report::{Bound, Estimate, Finding, Report};
use crate::run::run as run_command;
use crate::scratch::Scratch;
use crate::setting::Setting;
use browser::Browser;

const CHAINS: u32 = 100_000;
const SEED: u64 = 12;

/// The searches: a part of a quarter of the names, a regular expression for three functions, and a
/// name that doesn't exist.
const SEARCHES: [&str; 3] = ["f1", "^f(100|2000|4000)$", "no such function"];

/// The tags around the data of a page.
const DATA: [&str; 2] = ["<script id=\"data\" type=\"application/json\">", "</script>"];

/// Times of one browser, in seconds.
#[derive(Debug, Serialize)]
struct BrowserTimes {
    /// From navigation to the second frame after the page is ready.
    drawn: f64,
    /// From the input in the search box to the second frame after it, by search.
    searches: Vec<f64>,
}

impl BrowserTimes {
    fn slowest_search(&self) -> f64 {
        self.searches.iter().copied().fold(0.0, f64::max)
    }
}

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let file = scratch.path("made.data");
    SyntheticRecording { samples: CHAINS.into(), chains: CHAINS, seed: SEED }.write(&file)?;
    let page = scratch.path("page.html");
    let words = [&setting.tare(), "flame", "-i"].map(str::to_owned);
    let words = words.into_iter().chain([file.display().to_string()]);
    let made = run_command(
        &words.chain(["-o".to_owned(), page.display().to_string()]).collect::<Vec<_>>(),
    )?;
    let size = Page::read(&page)?;
    let page = page.canonicalize()?;
    let mut rounds = Vec::new();
    // The first browser fills the page cache with its own files and isn't counted.
    for at in 0..=setting.rounds.unwrap_or(10) {
        let round = round(&page)?;
        if at > 0 {
            rounds.push(round);
        }
    }
    let median = |of: fn(&BrowserTimes) -> f64| Estimate::median(rounds.iter().map(of).collect());
    let finding = |what: &str, measured, bound| Finding {
        what: what.to_owned(),
        measured,
        bound: Bound::AtMost(bound),
    };
    let drawn = median(|round| round.drawn);
    let search = median(BrowserTimes::slowest_search);
    let findings = vec![
        finding("drawn after, seconds", drawn, 2.0),
        finding("slowest of three searches, seconds", search, 0.3),
        finding(
            "bytes beside the data, kB",
            Estimate::exact((size.bytes - size.data) as f64 / 1e3),
            300.0,
        ),
        finding("bytes, MB", Estimate::exact(size.bytes as f64 / 1e6), 6.0),
    ];
    let line = |round: &BrowserTimes| {
        let searches = round.searches.iter().map(|search| format!("{:.0} ms", search * 1e3));
        let searches: Vec<String> = searches.collect();
        format!("drawn after {:.3} s, searches {}", round.drawn, searches.join(", "))
    };
    let mut table: Vec<String> = rounds.iter().map(line).collect();
    table.push(format!(
        "{CHAINS} chains, seed {SEED}: {} bytes, {} of them data: {} functions in call chains, {} merged; written in {:.2} s",
        size.bytes, size.data, size.functions, size.merged, made.elapsed_ns as f64 / 1e9
    ));
    let raw = json!({ "page": size, "made": made, "rounds": rounds, "searches": SEARCHES });
    Ok(Report { table, findings, raw })
}

/// Sizes of a page and of its data.
#[derive(Debug, Serialize)]
struct Page {
    bytes: usize,
    data: usize,
    /// Nodes of the call tree in the page's data.
    functions: u64,
    /// Nodes that were merged because they are too narrow.
    merged: u64,
}

impl Page {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)?;
        let [begin, end] = DATA;
        let data = text.split_once(begin).and_then(|(_, rest)| rest.split_once(end));
        let (data, _) = data.context("the page has no data")?;
        let parsed: serde_json::Value = serde_json::from_str(data)?;
        let number = |name: &str| parsed[name].as_u64().with_context(|| format!("no {name}"));
        let functions = number("count")?;
        let merged = number("merged")?;
        Ok(Self { bytes: text.len(), data: data.len(), functions, merged })
    }
}

fn round(page: &Path) -> anyhow::Result<BrowserTimes> {
    let mut browser = Browser::start()?;
    let drawn = browser.open(page)?.as_secs_f64();
    let mut searches = Vec::new();
    for search in SEARCHES {
        let milliseconds = browser.js(&format!(
            "new Promise((done) => {{
                const box = document.getElementById('search'), begin = performance.now();
                box.value = {};
                box.dispatchEvent(new Event('input'));
                {}(() => done(performance.now() - begin));
            }})",
            json!(search),
            browser::DRAWN
        ))?;
        searches.push(milliseconds.as_f64().context("a search has no time")? / 1e3);
    }
    Ok(BrowserTimes { drawn, searches })
}
