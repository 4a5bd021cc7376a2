use crate::answer::{Answer, Cell};
use crate::engine::{Engine, RunControl};
use crate::error::FleetError;
use crate::question::{Grouping, Question, Request, Selection};
use crate::rows::{PartSink, RowValue};

/// A row with the columns of a part.
type TestRow = Vec<RowValue<'static>>;

/// Gives the same rows to every part.
struct TestEngine(Vec<TestRow>);

impl Engine for TestEngine {
    fn name(&self) -> &'static str {
        "test"
    }

    fn rows(
        &self,
        request: &Request,
        _: &RunControl<'_>,
        each: &mut PartSink<'_>,
    ) -> Result<(), FleetError> {
        let mut parts = request.question.parts().iter();
        parts.try_for_each(|part| self.0.iter().try_for_each(|row| each(*part, row)))
    }
}

fn ask(question: Question, rows: Vec<TestRow>) -> Result<Answer, FleetError> {
    let request = Request { question, selection: Selection::default() };
    Answer::ask(&request, &TestEngine(rows), &RunControl::default())
}

fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

const HOSTS: [&str; 12] =
    ["h00", "h01", "h02", "h03", "h04", "h05", "h06", "h07", "h08", "h09", "h10", "h11"];
const SERVICES: [&str; 10] = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9"];
const HOUR_US: i64 = 3_600_000_000;

/// A day of each service on each host, with a deploy at noon after which `s3` uses `factor` times
/// the CPU time. Hosts differ by half, their reactions to a deploy by 5%, hours by a fifth.
fn rates(random: &mut fastrand::Rng, factor: f64) -> Vec<TestRow> {
    let mut rows = Vec::new();
    for service in SERVICES {
        for host in HOSTS {
            let base = (0.5 * normal(random)).exp();
            let reaction = (0.05 * normal(random)).exp();
            for hour in 0..24 {
                let (version, deployed) = if hour < 12 { ("1", 1.0) } else { ("2", reaction) };
                let injected = if version == "2" && service == "s3" { factor } else { 1.0 };
                let cores = base * deployed * injected * (0.2 * normal(random)).exp();
                #[expect(clippy::cast_possible_truncation, reason = "a weight")]
                let weight = (cores * 3.6e12) as i64;
                let texts = ["cpu-clock", service, version, host].map(RowValue::Text);
                let numbers = [hour * HOUR_US, HOUR_US, weight].map(RowValue::Int);
                rows.push(texts.into_iter().chain(numbers).collect());
            }
        }
    }
    rows
}

/// Returns the services with a verdict of a change.
fn changed(answer: &Answer) -> Vec<String> {
    let is_changed = |row: &&Vec<Cell>| {
        [Cell::Text("more".to_owned()), Cell::Text("less".to_owned())].contains(&row[1])
    };
    let names = answer.rows.iter().filter(is_changed).map(|row| format!("{:?}", row[12]));
    names.collect()
}

/// Of 300 deploys of ten services without a change, about 3 may raise any alarm. More than 9 have
/// a probability of 0.1% if the chance is 1%.
#[test]
fn deploys_without_a_change_raise_no_alarm() {
    let question = || Question::Regressions { versus: None };
    let mut alarms = 0;
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let answer = ask(question(), rates(&mut random, 1.0)).unwrap();
        assert_eq!(answer.rows.len(), SERVICES.len());
        alarms += usize::from(!changed(&answer).is_empty());
    }
    assert!(alarms <= 9, "{alarms} of 300");
}

#[test]
fn a_detectable_change_is_found_and_its_interval_holds_it() {
    let question = || Question::Regressions { versus: None };
    let mut found = 0;
    let mut within = 0;
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(1000 + seed);
        let answer = ask(question(), rates(&mut random, 1.3)).unwrap();
        let row = answer.rows.iter().find(|row| row[12] == Cell::Text("s3".to_owned())).unwrap();
        found += usize::from(row[1] == Cell::Text("more".to_owned()));
        let [low, high, detectable] = [3, 4, 6].map(|at| match row[at] {
            Cell::Change(change) => change,
            _ => f64::NAN,
        });
        within += usize::from(low <= 0.3 && 0.3 <= high);
        assert!(low < high && detectable > 0.0, "{row:?}");
    }
    assert!(found >= 80 && within >= 97, "found {found}, within the interval {within}");
}

#[test]
fn two_hosts_get_no_verdict() {
    let mut rows = rates(&mut fastrand::Rng::with_seed(1), 3.0);
    rows.retain(|row| matches!(row[3], RowValue::Text("h00" | "h01")));
    let answer = ask(Question::Regressions { versus: None }, rows).unwrap();
    assert!(changed(&answer).is_empty());
    assert!(answer.rows.iter().all(|row| row[1] == Cell::Text("too few hosts".to_owned())));
}

#[test]
fn rows_without_meaning_are_errors() {
    let top = || Question::Top { by: Grouping::service(), with_total: false, limit: 9 };
    let row = |numbers: [i64; 4]| -> Vec<TestRow> {
        let texts = ["cpu-clock", "api"].map(RowValue::Text).into_iter();
        vec![texts.chain(numbers.map(RowValue::Int)).collect()]
    };
    assert!(ask(top(), row([1, 5, 5, 5])).is_ok());
    for wrong in [[1, 6, 6, 5], [1, -1, 5, 5], [1, 5, 4, 5], [1, 5, 5, -5]] {
        let error = ask(top(), row(wrong)).unwrap_err();
        assert!(matches!(error, FleetError::Row { .. }), "{wrong:?}: {error}");
    }
}

#[test]
fn hostile_names_reach_no_terminal_and_stay_in_their_field() {
    let name = "a\u{1b}[31m\u{202e}\n,\"b";
    let texts = ["cpu-clock", name].map(RowValue::Text).into_iter();
    let rows = vec![texts.chain([1, 5, 5, 5].map(RowValue::Int)).collect()];
    let top = Question::Top { by: Grouping::service(), with_total: false, limit: 9 };
    let answer = ask(top, rows).unwrap();
    let text = answer.to_text();
    assert!(!text.contains(['\u{1b}', '\u{202e}']) && text.contains("\\n"), "{text}");
    assert!(answer.to_csv().contains(&format!("\"{}\"", name.replace('"', "\"\""))));
    let document: serde_json::Value = serde_json::from_str(&answer.to_json()).unwrap();
    assert_eq!(document["rows"][0]["service"], name);
}
