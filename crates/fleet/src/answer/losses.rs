//! Which hosts lost samples, exceed the budget, have broken stacks, or fell silent?

use crate::answer::{Answer, Cell, column, share};
use crate::engine::{Engine, RunControl};
use crate::error::FleetError;
use crate::question::{LossLimits, Request};
use crate::time::rfc3339;

/// A host's sums.
struct HostRow {
    host: String,
    windows: i64,
    gaps: i64,
    samples: i64,
    lost: i64,
    gap_samples: i64,
    truncated: i64,
    unnamed: i64,
    omitted: i64,
    cost_us: i64,
    cpu_us: i64,
    last_us: i64,
}

/// A host with its shares.
struct JudgedHost {
    row: HostRow,
    lost: f64,
    broken: f64,
    cost: Option<f64>,
    problems: Vec<&'static str>,
}

pub(super) fn ask(
    request: &Request,
    limits: &LossLimits,
    all: bool,
    engine: &dyn Engine,
    control: &RunControl<'_>,
) -> Result<Answer, FleetError> {
    refuse_labels(request)?;
    let mut hosts = Vec::new();
    engine.rows(request, control, &mut |_, row| {
        let int = |at: usize| row[at].int();
        hosts.push(HostRow {
            host: row[0].text().unwrap_or_default().to_owned(),
            windows: int(1),
            gaps: int(2),
            samples: int(3),
            lost: int(4),
            gap_samples: int(5),
            truncated: int(6),
            unnamed: int(7),
            omitted: int(8),
            cost_us: int(9),
            cpu_us: int(10),
            last_us: int(12),
        });
        Ok(())
    })?;
    let newest = hosts.iter().map(|host| host.last_us).max().unwrap_or(0);
    // The times may reach into the future.
    let end = request.selection.until_us.map_or(newest, |until| until.min(newest));
    let count = hosts.len();
    let judged: Result<Vec<JudgedHost>, FleetError> =
        hosts.into_iter().map(|host| judge(host, limits, end, engine)).collect();
    let mut judged = judged?;
    judged.retain(|host| all || !host.problems.is_empty());
    judged.sort_by(|a, b| {
        (b.problems.len(), b.lost)
            .partial_cmp(&(a.problems.len(), a.lost))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    let listed = judged.len();
    let mut remarks = vec![format!(
        "{listed} of {count} hosts{}; the newest window ended at {}",
        if all { "" } else { " have a problem" },
        rfc3339(newest)
    )];
    if count == 0 {
        remarks = vec!["no host has a window in these times".to_owned()];
    }
    Ok(Answer {
        question: request.question.name(),
        columns: COLUMNS.to_vec(),
        rows: judged.into_iter().map(cells).collect(),
        remarks,
    })
}

/// Refuses conditions on other labels than the host.
fn refuse_labels(request: &Request) -> Result<(), FleetError> {
    let other = request.selection.conditions.iter().find(|condition| condition.label() != "host");
    other.map_or(Ok(()), |other| {
        Err(FleetError::Question(format!(
            "losses are known by host, not by {}; select with host=NAME",
            other.label()
        )))
    })
}

const COLUMNS: [crate::answer::AnswerColumn; 12] = [
    column("host", "host"),
    column("problems", "problems"),
    column("lost_share", "lost"),
    column("lost", "samples"),
    column("cost_share", "cost"),
    column("broken_share", "broken"),
    column("unnamed", "unnamed"),
    column("omitted", "omitted"),
    column("gaps", "gaps"),
    column("windows", "windows"),
    column("samples", "kept"),
    column("last", "last window"),
];

fn judge(
    row: HostRow,
    limits: &LossLimits,
    end_us: i64,
    engine: &dyn Engine,
) -> Result<JudgedHost, FleetError> {
    let lost_samples = row.lost.saturating_add(row.gap_samples);
    let lost = share(engine, lost_samples, lost_samples.saturating_add(row.samples))?;
    let broken = share(engine, row.truncated, row.samples)?;
    share(engine, row.unnamed, row.samples)?;
    share(engine, row.omitted, row.samples)?;
    let cost = if row.cpu_us == 0 { None } else { Some(share(engine, row.cost_us, row.cpu_us)?) };
    let silence_us = end_us.saturating_sub(row.last_us);
    let found = [
        ("lost samples", lost > limits.lost),
        ("over budget", cost.is_some_and(|cost| cost > limits.cost)),
        ("broken stacks", broken > limits.broken),
        ("silent", silence_us >= limits.silence_us && silence_us > 0),
    ];
    let problems = found.iter().filter(|(_, is_so)| *is_so).map(|(name, _)| *name).collect();
    Ok(JudgedHost { row, lost, broken, cost, problems })
}

fn cells(host: JudgedHost) -> Vec<Cell> {
    let JudgedHost { row, lost, broken, cost, problems } = host;
    let last = if row.last_us == 0 { Cell::Missing } else { Cell::Moment(row.last_us) };
    vec![
        Cell::Text(row.host),
        Cell::Text(problems.join(", ")),
        Cell::Share(lost),
        Cell::Count(row.lost.saturating_add(row.gap_samples)),
        cost.map_or(Cell::Missing, Cell::Share),
        Cell::Share(broken),
        Cell::Count(row.unnamed),
        Cell::Count(row.omitted),
        Cell::Count(row.gaps),
        Cell::Count(row.windows),
        Cell::Count(row.samples),
        last,
    ]
}
