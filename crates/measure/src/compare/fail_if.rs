//! `--fail-if 'time>+2%'`: a comparison as a gate.
//!
//! ```text
//! condition = metric ( ">" | "<" ) amount "%"        time>+2%   page-faults>5%   cpu-time<-1%
//! ```

use std::fmt;
use std::str::FromStr;

use super::judge::{LEVEL, MetricVerdict};

/// A condition that fails a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The metric's name.
    pub metric: String,
    /// Whether B must not be above the limit, rather than not below it.
    pub above: bool,
    /// The limit: B relative to A, as a share (0.02 for +2%).
    pub limit: f64,
}

/// An invalid condition, and the position of the error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}', position {position}: {problem}; write it like 'time>+2%' or 'page-faults>5%'")]
pub struct BadCondition {
    /// The condition as given.
    pub text: String,
    /// The number of the character at which the invalid part begins or a missing one belongs, from
    /// 1.
    pub position: usize,
    /// The error.
    pub problem: &'static str,
}

/// The result of checking a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The whole interval lies beyond the limit. If the limit allows for a difference, this one is
    /// also certain: its corrected p is below 0.01, unless the pairs are too few for such a p.
    Fails,
    /// The interval reaches the limit, is on the right side of it, or the difference isn't certain.
    Passes,
    /// There is no such metric, or it has too few runs for an interval. A gate must not treat this
    /// as a pass.
    Unknown,
}

impl Condition {
    /// Checks the condition against the results.
    #[must_use]
    pub fn judge(&self, results: &[MetricVerdict]) -> Judgement {
        let Some(judged) = results.iter().find(|judged| judged.metric.name() == self.metric) else {
            return Judgement::Unknown;
        };
        let Some(interval) = judged.relative() else { return Judgement::Unknown };
        let is_beyond =
            if self.above { interval.low > self.limit } else { interval.high < self.limit };
        // Equal commands are beyond a limit on the other side of 0.
        let is_of_a_difference = if self.above { self.limit >= 0.0 } else { self.limit <= 0.0 };
        // Too few pairs for any verdict have an interval all the same.
        let is_certain = judged.p_holm < LEVEL || judged.effect.detectable.is_none();
        if is_beyond && (is_certain || !is_of_a_difference) {
            Judgement::Fails
        } else {
            Judgement::Passes
        }
    }
}

impl FromStr for Condition {
    type Err = BadCondition;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = |byte: usize, problem| {
            let position = text.get(..byte).unwrap_or(text).chars().count() + 1;
            BadCondition { text: text.to_owned(), position, problem }
        };
        let sign = text
            .rfind(['<', '>'])
            .ok_or_else(|| bad(text.len(), "no '>' or '<' after the metric"))?;
        let metric = text[..sign].trim();
        if metric.is_empty() {
            return Err(bad(0, "no metric before the sign"));
        }
        let amount = text[sign + 1..].trim_end();
        let number = amount
            .strip_suffix('%')
            .ok_or_else(|| bad(sign + 1 + amount.len(), "no '%' at the end"))?;
        let percent: f64 = number.trim().parse().map_err(|_| bad(sign + 1, "not a number"))?;
        if !percent.is_finite() {
            return Err(bad(sign + 1, "not a finite number"));
        }
        if percent < -100.0 {
            return Err(bad(sign + 1, "nothing falls by more than 100%"));
        }
        Ok(Self {
            metric: metric.to_owned(),
            above: text[sign..].starts_with('>'),
            limit: percent / 100.0,
        })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Round away binary fractions: 0.07 · 100 is 7.000000000000001.
        let percent = (self.limit * 1e10).round() / 1e8;
        write!(f, "{}{}{percent:+}%", self.metric, if self.above { '>' } else { '<' })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Measurement, Metric, Pair, Rules, Side, judge};

    fn parse(text: &str) -> (String, bool, f64) {
        let condition: Condition = text.parse().unwrap();
        (condition.metric, condition.above, condition.limit)
    }

    #[test]
    fn reads_conditions() {
        assert_eq!(parse("time>+2%"), ("time".into(), true, 0.02));
        assert_eq!(parse("page-faults > 5 %"), ("page-faults".into(), true, 0.05));
        assert_eq!(parse("cpu-time<-1.5%"), ("cpu-time".into(), false, -0.015));
        assert_eq!(
            parse("cpu/event=0x3c,umask=1/u>0%"),
            ("cpu/event=0x3c,umask=1/u".into(), true, 0.0)
        );
    }

    #[test]
    fn formats_conditions_as_typed() {
        for text in ["time>+2%", "cpu-time<-1.5%", "sched:sched_switch>+7%"] {
            assert_eq!(text.parse::<Condition>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn errors_have_the_position_of_the_invalid_part() {
        for (text, position, problem) in [
            ("time", 5, "no '>' or '<' after the metric"),
            ("", 1, "no '>' or '<' after the metric"),
            (">2%", 1, "no metric before the sign"),
            ("time>2", 7, "no '%' at the end"),
            ("zeit→>2", 8, "no '%' at the end"),
            ("time>two%", 6, "not a number"),
            ("time>%", 6, "not a number"),
            ("time>nan%", 6, "not a finite number"),
            ("time<-101%", 6, "nothing falls by more than 100%"),
        ] {
            let error = text.parse::<Condition>().unwrap_err();
            assert_eq!((error.position, error.problem), (position, problem), "{text}");
        }
    }

    #[test]
    fn fails_only_if_the_whole_interval_is_beyond_the_limit() {
        let run = |x: f64| Measurement { counts: vec![Some(x)], ..Measurement::default() };
        // B is 2% to 3.4% above A.
        let pairs: Vec<Pair> = (0..30)
            .map(|i| Pair {
                first: Side::A,
                a: run(1000.0),
                b: run(1020.0 + f64::from(i * 7 % 21)),
            })
            .collect();
        let results = judge(
            &pairs,
            &[Metric::Event { index: 0, name: "e".into(), unit: String::new(), step: 1.0 }],
            &Rules { min_effect: 0.01, seed: 1, comparisons: 1 },
        );
        let judged = |text: &str| text.parse::<Condition>().unwrap().judge(&results);
        assert_eq!(judged("e>+2%"), Judgement::Fails);
        assert_eq!(judged("e>+3%"), Judgement::Passes);
        assert_eq!(judged("e<+5%"), Judgement::Fails);
        assert_eq!(judged("e<+2%"), Judgement::Passes);
        assert_eq!(judged("f>+2%"), Judgement::Unknown);
    }

    /// A single metric's interval may lie beyond 0 by chance in one of 40 comparisons.
    #[test]
    fn a_difference_that_is_not_certain_passes() {
        let run = |x: f64| Measurement { counts: vec![Some(x)], ..Measurement::default() };
        let pair = |i: u32| {
            // Two thirds of the pairs have more in B.
            let more = if i.is_multiple_of(3) { -40.0 } else { 45.0 + f64::from(i) };
            Pair { first: Side::A, a: run(1000.0), b: run(1000.0 + more) }
        };
        let pairs: Vec<Pair> = (0..36).map(pair).collect();
        let event = Metric::Event { index: 0, name: "e".into(), unit: String::new(), step: 1.0 };
        let rules = Rules { min_effect: 0.01, seed: 1, comparisons: 40 };
        let results = judge(&pairs, &[event], &rules);
        let low = results[0].relative().unwrap().low;
        assert!(low > 0.0 && results[0].p_holm > 0.01, "{results:?}");
        let judged = |text: &str| text.parse::<Condition>().unwrap().judge(&results);
        assert_eq!(judged("e>+0%"), Judgement::Passes);
        assert_eq!(judged("e>-1%"), Judgement::Fails, "equal commands fail this one too");
    }
}
