//! `make -j2` of a C library: shares by command name in the report, compared with the CPU time that
//! the kernel counted for each process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::recorded::RecorderKind;
use crate::benchmark::zstd::sources;
use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::in_random_order;
use crate::run::succeed;
use crate::scratch::Scratch;
use crate::setting::Setting;

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let objects = scratch.path("objects");
    std::fs::create_dir(&objects)?;
    let makefile = scratch.path("Makefile");
    std::fs::write(&makefile, rules(&sources()?, &objects))?;
    let command =
        ["make", "-s", "-j2", "-B", "-f", &makefile.display().to_string()].map(str::to_owned);
    succeed(&command)?;
    let round =
        || Ok(in_random_order(&RecorderKind::ALL, |&who| compare(&scratch, who, &command))?.1);
    let rounds: Vec<Vec<ShareComparison>> =
        (0..setting.rounds.unwrap_or(10)).map(|_| round()).collect::<anyhow::Result<_>>()?;
    let mut table = Vec::new();
    let mut findings = Vec::new();
    for (at, who) in RecorderKind::ALL.into_iter().enumerate() {
        let furthest = Estimate::median(rounds.iter().map(|round| round[at].furthest()).collect());
        let exact = rounds.last().map_or_else(String::new, |round| round[at].line());
        table.push(format!(
            "{:<13} furthest from exact {furthest} points; last run: {exact}",
            who.name()
        ));
        if matches!(who, RecorderKind::Tare("cgroup" | "system")) {
            let what =
                format!("share of a program, furthest from the exact one, points, {}", who.name());
            findings.push(Finding { what, measured: furthest, bound: Bound::AtMost(3.0) });
        }
    }
    let raw: Vec<Vec<Value>> = rounds
        .iter()
        .map(|round| round.iter().map(|compared| json!(compared.0)).collect())
        .collect();
    Ok(Report {
        table,
        findings,
        raw: json!({ "ways": RecorderKind::ALL.map(RecorderKind::name), "rounds": raw }),
    })
}

/// By command name: the reported and the exact share, in percent.
#[derive(Clone, Debug, Default)]
struct ShareComparison(BTreeMap<String, (f64, f64)>);

impl ShareComparison {
    fn furthest(&self) -> f64 {
        self.0.values().map(|(reported, exact)| (reported - exact).abs()).fold(0.0, f64::max)
    }

    /// A line with the commands whose reported or exact share is at least 1%.
    fn line(&self) -> String {
        let large = self.0.iter().filter(|(_, (reported, exact))| reported.max(*exact) >= 1.0);
        large
            .map(|(name, (reported, exact))| format!("{name} {reported:.1}% (exact {exact:.1}%)"))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

fn compare(
    scratch: &Scratch<'_>,
    who: RecorderKind,
    command: &[String],
) -> anyhow::Result<ShareComparison> {
    let recorded = scratch.follow(who, &["-e", "cpu-clock", "-F", "1000"], command)?;
    let whole: f64 = recorded.names.values().map(|time| time.exact_s).sum();
    let mut compared = BTreeMap::new();
    for (name, time) in &recorded.names {
        compared.insert(name.clone(), (0.0, 100.0 * time.exact_s / whole));
    }
    for (name, percent) in reported(scratch, who)? {
        compared.entry(name).or_insert((0.0, 0.0)).0 = percent;
    }
    Ok(ShareComparison(compared))
}

/// Names and percentages in the report, which the tool that recorded makes.
fn reported(scratch: &Scratch<'_>, who: RecorderKind) -> anyhow::Result<Vec<(String, f64)>> {
    let file = scratch.recording().display().to_string();
    let words = match who {
        RecorderKind::Perf => {
            ["perf", "report", "--stdio", "--sort", "comm", "-i", &file].map(str::to_owned)
        }
        RecorderKind::Tare(_) => {
            [&scratch.setting.tare(), "report", "-G", "--sort", "comm", "-i", &file]
                .map(str::to_owned)
        }
    };
    let done = succeed(&words)?;
    let row = |line: &str| {
        let (share, name) = line.trim().split_once(char::is_whitespace)?;
        Some((name.trim().to_owned(), share.strip_suffix('%')?.parse().ok()?))
    };
    let rows: Vec<_> =
        done.stdout.lines().filter(|line| !line.starts_with('#')).filter_map(row).collect();
    anyhow::ensure!(!rows.is_empty(), "'{}' shows nothing", words.join(" "));
    Ok(rows)
}

/// A makefile with one rule per C file and one for the archive. It doesn't optimize, because the
/// benchmark needs many short processes and the optimizer takes long for a few files.
/// The rules of a makefile that compiles files into a library.
pub(crate) fn rules(files: &[PathBuf], objects: &Path) -> String {
    let object = |file: &Path| {
        objects.join(file.with_extension("o").file_name().unwrap_or_default()).display().to_string()
    };
    let all: Vec<_> = files.iter().map(|file| object(file)).collect();
    let archive = objects.join("library.a").display().to_string();
    let mut text = format!("{archive}: {}\n\tar rcs $@ $^\n", all.join(" "));
    for (file, object) in files.iter().zip(&all) {
        // make runs a line with a semicolon in a shell, which waits for the compiler.
        text.push_str(&format!(
            "{object}: {}\n\tcc -O0 -DZSTD_DISABLE_ASM -c -o $@ $<; :\n",
            file.display()
        ));
    }
    text
}
