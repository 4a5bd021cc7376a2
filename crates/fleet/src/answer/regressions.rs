//! Which services use more CPU time since a version or a deploy?
//!
//! The unit is a host: windows of one host aren't independent. A host's rate is its weight divided
//! by the length of the windows in which the service was sampled there. On hosts that have both
//! sides the logarithms of the ratios are tested (a paired test, without the differences between
//! hosts); otherwise the logarithms of the rates of both groups of hosts (Yuen and Welch). Means
//! are trimmed by 20% at each end. Holm's correction and intervals of Bonferroni's width keep the
//! chance of any false alarm in an answer below 1%.

use std::collections::BTreeMap;

use tare_measure::statistics::{TrimmedMean, holm, t_above, t_quantile};

use crate::answer::{Answer, AnswerColumn, Cell, column, is_time};
use crate::engine::{Engine, RunControl};
use crate::error::FleetError;
use crate::question::Request;
use crate::rows::RowValue;

/// Chance of any false alarm in an answer.
const FAMILY_LEVEL: f64 = 0.01;

/// Fewest hosts of a side.
const FEWEST_HOSTS: usize = 3;

/// Weight and length of windows: a host's hours on one side.
#[derive(Default)]
struct HostHours(Vec<[i64; 2]>);

impl HostHours {
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    fn rate(weight: i64, covered_us: i64) -> Option<f64> {
        (covered_us > 0 && weight > 0).then(|| weight as f64 / 1000.0 / covered_us as f64)
    }

    /// Weight by time: cores, if the weight is time.
    fn mean(&self) -> Option<f64> {
        let [weight, covered] = [0, 1].map(|at| self.0.iter().map(|hour| hour[at]).sum::<i64>());
        Self::rate(weight, covered)
    }

    /// Sum of squares of the hours' logarithms around their mean, and degrees of freedom.
    fn spread(&self) -> [f64; 2] {
        let rates = self.0.iter().filter_map(|[weight, covered]| Self::rate(*weight, *covered));
        let logs: Vec<f64> = rates.map(f64::ln).collect();
        #[expect(clippy::cast_precision_loss, reason = "hours")]
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count.max(1.0);
        [logs.iter().map(|log| (log - mean).powi(2)).sum(), (count - 1.0).max(0.0)]
    }
}

type Hosts = BTreeMap<String, HostHours>;

/// A service before and after.
struct ServiceVersions {
    event: String,
    service: Option<String>,
    names: [Option<String>; 2],
    hosts: [Hosts; 2],
}

/// Logarithm of the ratio of both sides.
struct Effect {
    mean: f64,
    error: f64,
    freedom: f64,
    p: f64,
    paired: usize,
    between_hosts: f64,
}

/// Rows by event and service, then by version.
type Versions = BTreeMap<(String, Option<String>), BTreeMap<Option<String>, (i64, Hosts)>>;

pub(super) fn ask(
    request: &Request,
    versus: Option<&Request>,
    engine: &dyn Engine,
    control: &RunControl<'_>,
) -> Result<Answer, FleetError> {
    let before = read(request, versus.is_some(), engine, control)?;
    let compared = match versus {
        Some(versus) => by_selection(before, read(versus, true, engine, control)?),
        None => by_version(before),
    };
    let effects: Vec<Option<Effect>> =
        compared.iter().map(|service| effect(&service.hosts)).collect();
    let p: Vec<f64> = effects.iter().flatten().map(|effect| effect.p).collect();
    let mut adjusted = holm(&p).into_iter();
    let mut rows: Vec<(f64, Vec<Cell>)> = Vec::new();
    for (service, effect) in compared.iter().zip(&effects) {
        let p = effect.as_ref().and_then(|_| adjusted.next());
        rows.push((p.unwrap_or(2.0), cells(service, effect.as_ref(), p, effects.len())));
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Tables are by event.
    rows.sort_by(|a, b| event(&a.1).cmp(event(&b.1)));
    let mut remarks = vec![format!(
        "changes of CPU time by host; the chance of any false verdict here is at most {:.0}%",
        FAMILY_LEVEL * 100.0
    )];
    if rows.is_empty() {
        remarks = vec!["no service has samples on both sides".to_owned()];
    }
    let rows = rows.into_iter().map(|(_, cells)| cells).collect();
    Ok(Answer { question: request.question.name(), columns: COLUMNS.to_vec(), rows, remarks })
}

fn event(cells: &[Cell]) -> &str {
    if let Some(Cell::Text(event)) = cells.first() { event } else { "" }
}

/// Reads the rates of a selection. With `merged`, versions are one.
fn read(
    request: &Request,
    merged: bool,
    engine: &dyn Engine,
    control: &RunControl<'_>,
) -> Result<Versions, FleetError> {
    let mut versions = Versions::new();
    engine.rows(request, control, &mut |_, row| {
        let text = |value: RowValue<'_>| value.text().map(str::to_owned);
        let [hour_us, covered, weight] = [4, 5, 6].map(|at| row[at].int());
        if covered <= 0 || weight < 0 {
            let message = format!("a weight of {weight} in {covered} us");
            return Err(FleetError::Row { engine: engine.name(), message });
        }
        let service = versions.entry((text(row[0]).unwrap_or_default(), text(row[1]))).or_default();
        let version = if merged { None } else { text(row[2]) };
        let (first, hosts) = service.entry(version).or_insert((i64::MAX, Hosts::new()));
        *first = (*first).min(hour_us);
        hosts.entry(text(row[3]).unwrap_or_default()).or_default().0.push([weight, covered]);
        Ok(())
    })?;
    Ok(versions)
}

/// Compares each service's two versions that began last.
fn by_version(versions: Versions) -> Vec<ServiceVersions> {
    let compared = versions.into_iter().filter_map(|((event, service), versions)| {
        let named = versions.into_iter().filter(|(version, _)| version.is_some());
        let mut named: Vec<_> = named.collect();
        named.sort_by_key(|(_, (first, _))| *first);
        let (after, (_, after_hosts)) = named.pop()?;
        let (before, (_, before_hosts)) = named.pop()?;
        let hosts = [before_hosts, after_hosts];
        Some(ServiceVersions { event, service, names: [before, after], hosts })
    });
    compared.collect()
}

/// Compares each service's two selections.
fn by_selection(before: Versions, mut after: Versions) -> Vec<ServiceVersions> {
    let compared = before.into_iter().filter_map(|(key, mut versions)| {
        let (_, before) = versions.remove(&None)?;
        let (_, after) = after.get_mut(&key)?.remove(&None)?;
        let (event, service) = key;
        Some(ServiceVersions { event, service, names: [None, None], hosts: [before, after] })
    });
    compared.collect()
}

/// Returns the change with its error; `None` if there are too few hosts.
fn effect(hosts: &[Hosts; 2]) -> Option<Effect> {
    let [before, after] = hosts;
    let log = |hours: &HostHours| Some(hours.mean()?.ln());
    let pairs =
        before.iter().filter_map(|(host, hours)| Some(log(after.get(host)?)? - log(hours)?));
    let pairs: Vec<f64> = pairs.collect();
    let paired = pairs.len();
    let (mean, error, freedom, between_hosts) = if paired >= FEWEST_HOSTS {
        let spread = trimmed(pairs)?;
        (spread.mean, spread.error, freedom(&spread), spread.error * root(paired))
    } else {
        let side = |hosts: &Hosts| hosts.values().filter_map(log).collect::<Vec<f64>>();
        let [before, after] = [side(before), side(after)];
        if before.len().min(after.len()) < FEWEST_HOSTS {
            return None;
        }
        let count = before.len() + after.len();
        let [before, after] = [trimmed(before)?, trimmed(after)?];
        let squares = [before.error.powi(2), after.error.powi(2)];
        let error = (squares[0] + squares[1]).sqrt();
        // Welch's degrees of freedom.
        let parts = squares[0].powi(2) / freedom(&before) + squares[1].powi(2) / freedom(&after);
        let degrees = if parts > 0.0 { error.powi(4) / parts } else { freedom(&before) };
        (after.mean - before.mean, error, degrees, error * root(count) / 2.0)
    };
    let p = match error > 0.0 {
        true => (2.0 * t_above((mean / error).abs(), freedom)).min(1.0),
        false => 1.0,
    };
    Some(Effect { mean, error, freedom, p, paired, between_hosts })
}

fn trimmed(mut values: Vec<f64>) -> Option<TrimmedMean> {
    values.sort_by(f64::total_cmp);
    TrimmedMean::from_sorted(&values).filter(|mean| mean.freedom > 0)
}

#[expect(clippy::cast_precision_loss, reason = "hosts")]
fn freedom(mean: &TrimmedMean) -> f64 {
    mean.freedom as f64
}

#[expect(clippy::cast_precision_loss, reason = "hosts")]
fn root(count: usize) -> f64 {
    (count as f64).sqrt()
}

const COLUMNS: [AnswerColumn; 14] = [
    column("event", "event"),
    column("verdict", "verdict"),
    column("change", "change"),
    column("low", "from"),
    column("high", "to"),
    column("p", "p"),
    column("detectable", "detectable"),
    column("before_rate", "before"),
    column("after_rate", "after"),
    column("hosts", "hosts"),
    column("hosts_deviation", "hosts ±"),
    column("windows_deviation", "hours ±"),
    column("service", "service"),
    column("versions", "versions"),
];

fn cells(
    service: &ServiceVersions,
    effect: Option<&Effect>,
    p: Option<f64>,
    family: usize,
) -> Vec<Cell> {
    #[expect(clippy::cast_precision_loss, reason = "services")]
    let tail = FAMILY_LEVEL / 2.0 / family.max(1) as f64;
    let verdict = match (effect, p) {
        (Some(effect), Some(p)) if p <= FAMILY_LEVEL && effect.mean > 0.0 => "more",
        (Some(_), Some(p)) if p <= FAMILY_LEVEL => "less",
        (Some(_), _) => "no change shown",
        (None, _) => "too few hosts",
    };
    let change = |log: f64| Cell::Change(log.exp_m1());
    let [change_cell, low, high, detectable, between] = match effect {
        Some(effect) => {
            let half = t_quantile(1.0 - tail, effect.freedom) * effect.error;
            let found = half + t_quantile(0.8, effect.freedom) * effect.error;
            [effect.mean, effect.mean - half, effect.mean + half, found, effect.between_hosts]
                .map(change)
        }
        None => [const { Cell::Missing }; 5],
    };
    let rate = |hosts: &Hosts| {
        let rates: Vec<f64> = hosts.values().filter_map(HostHours::mean).collect();
        #[expect(clippy::cast_precision_loss, reason = "hosts")]
        let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
        if is_time(&service.event) { Cell::Cores(mean) } else { Cell::Missing }
    };
    let all = || service.hosts.iter().flat_map(|hosts| hosts.values());
    let [squares, degrees] = all()
        .map(HostHours::spread)
        .fold([0.0; 2], |sum, host| [sum[0] + host[0], sum[1] + host[1]]);
    let hours = if degrees > 0.0 { change((squares / degrees).sqrt()) } else { Cell::Missing };
    let [before, after] = &service.hosts;
    let versions = service.names.each_ref().map(|name| name.as_deref().unwrap_or(""));
    vec![
        Cell::Text(service.event.clone()),
        Cell::Text(verdict.to_owned()),
        change_cell,
        low,
        high,
        p.map_or(Cell::Missing, Cell::Probability),
        detectable,
        rate(before),
        rate(after),
        Cell::Text(match effect {
            Some(effect) if effect.paired >= FEWEST_HOSTS => format!("{} pairs", effect.paired),
            _ => format!("{} + {}", before.len(), after.len()),
        }),
        between,
        hours,
        service.service.clone().map_or(Cell::Missing, Cell::Text),
        Cell::Text(if versions == ["", ""] { String::new() } else { versions.join(" -> ") }),
    ]
}
