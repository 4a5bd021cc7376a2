//! A million addresses: tare's library beside the program of the crate `addr2line` and beside
//! `blazesym`, and on two threads beside one.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::ensure;
use serde_json::json;

use super::addresses::drawn;
use super::answer;
use super::programs;
use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::{Round, Variant, rounds};
use crate::run::succeed;
use crate::scratch::Scratch;
use crate::setting::Setting;

const COUNT: u64 = 1_000_000;

/// Indices of variants; the last one, blazesym, needs none.
const ONE: usize = 0;
const TWO: usize = 1;
const PEER: usize = 2;

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let file = programs::tare()?;
    let addresses = scratch.path("addresses");
    std::fs::write(&addresses, answer::text(&drawn(&file, COUNT, setting.seed.unwrap_or(1))?))?;
    let ours = programs::symbolize()?;
    let addr2line = programs::addr2line()?;
    let blazesym = programs::blazesym()?;
    let [file, ours, addr2line, blazesym, addresses] =
        [&file, &ours, &addr2line, &blazesym, &addresses].map(|path| path.display().to_string());
    let of_tare = |threads: &str| format!("{ours} --threads {threads} {file} <{addresses}");
    let lines = [
        of_tare("1"),
        of_tare("2"),
        format!("{addr2line} -f -i --llvm -e {file} <{addresses}"),
        format!("{blazesym} {file} <{addresses}"),
    ];
    let names = ["tare, one thread", "tare, two threads", "addr2line", "blazesym"];
    let variant = |at: usize| Variant::new(names[at], ["sh", "-c", &format!("exec {}", lines[at])]);
    let variants: Vec<Variant> = (0..names.len()).map(variant).collect();
    let all = rounds(&variants, setting.rounds.unwrap_or(7))?;
    // After the rounds: the peak memory of child processes starts at this process's.
    let answers = all_answers(&scratch, &lines)?;
    let ratio = |one: usize, other: usize| {
        let elapsed = |round: &Round, at: usize| round.usage[at].elapsed_ns as f64;
        Estimate::of_ratios(all.iter().map(|round| elapsed(round, one) / elapsed(round, other)))
    };
    let bounded = |what: &str, measured, bound| Finding { what: what.to_owned(), measured, bound };
    let equal = answers[ONE].iter().zip(&answers[TWO]).filter(|(one, two)| one == two).count();
    let findings = vec![
        bounded("elapsed on one thread, tare/addr2line", ratio(ONE, PEER), Bound::AtMost(1.0)),
        bounded("speed of two threads, in that of one", ratio(ONE, TWO), Bound::AtLeast(1.6)),
        bounded(
            "answers of two threads that are those of one, share",
            Estimate::exact(equal as f64 / COUNT as f64),
            Bound::AtLeast(1.0),
        ),
    ];
    let mut report = Report::of_rounds(&variants, &all, findings);
    let mut differ = Vec::new();
    for (name, peer) in names.iter().zip(&answers).skip(PEER) {
        let all = differences(&answers[ONE], peer)?;
        report.table.push(format!("of {COUNT} answers, as tare and {name} give them:"));
        report.table.extend(all.iter().map(|(what, count)| format!("{count:>8}  {what}")));
        differ.push(json!({ "peer": name, "answers": all }));
    }
    report.raw = json!({ "runs": report.raw, "beside_tare": differ });
    Ok(report)
}

/// All answers of each program.
fn all_answers(scratch: &Scratch<'_>, lines: &[String]) -> anyhow::Result<Vec<Vec<String>>> {
    let file = scratch.path("answers");
    let answers = |line: &String| {
        let line = format!("{line} >{}", file.display());
        succeed(&["sh", "-c", &line].map(str::to_owned))?;
        read(&file)
    };
    lines.iter().map(answers).collect()
}

/// Counts answers by how they differ.
fn differences(
    ours: &[String],
    theirs: &[String],
) -> anyhow::Result<BTreeMap<&'static str, usize>> {
    let mut all = BTreeMap::new();
    for (ours, theirs) in ours.iter().zip(theirs) {
        let ours = answer::frames(ours)?;
        let theirs = answer::frames(theirs)?;
        let difference = answer::difference(&ours, &theirs).unwrap_or("the same");
        *all.entry(difference).or_default() += 1;
    }
    Ok(all)
}

/// The answers in a file, each as it is written.
fn read(file: &Path) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(file)?;
    let answers: Vec<_> = text.split_terminator("\n\n").map(str::to_owned).collect();
    ensure!(answers.len() as u64 == COUNT, "{} answers", answers.len());
    Ok(answers)
}
