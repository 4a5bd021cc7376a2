//! `--fail-if 'malloc>+1%'`: a limit on a function's change, as a gate.
//!
//! ```text
//! condition = function ( ">" | "<" ) amount ( "%" | "pp" )     malloc>+1%   *>+5%   parse>+0.5pp
//! ```

use std::fmt;
use std::str::FromStr;

use super::Change;
use crate::compare::{BadCondition, Condition, Judgement};

/// The figure that a condition limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateOf {
    /// The weight per unit of work, relative to A's (`%`).
    Weight,
    /// The share of all samples, in percentage points (`pp`).
    Share,
}

/// A condition that fails a comparison of recordings. Its metric is the name of a function, or `*`
/// for any.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// The function and its limit.
    pub condition: Condition,
    /// The figure.
    pub of: GateOf,
}

impl Gate {
    /// Whether the gate is about any function. Such a gate fails only on significant changes,
    /// because it tests many.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.condition.metric == "*"
    }

    /// Checks a function's change. It fails the gate if its whole interval lies beyond the limit
    /// and, for a gate on any function, the change is significant. Unknown without an interval.
    #[must_use]
    pub fn judge(&self, change: &Change) -> Judgement {
        let Some(difference) = change.interval else { return Judgement::Unknown };
        let (low, high) = match self.of {
            GateOf::Share => (difference.low, difference.high),
            GateOf::Weight => match change.ratio {
                Some(ratio) => (ratio.low - 1.0, ratio.high - 1.0),
                // Without a ratio a mean is zero: here both, then B's, then A's.
                None if change.mean_a == change.mean_b => (0.0, 0.0),
                None if change.mean_a > 0.0 => {
                    (-1.0, if difference.high < 0.0 { -1.0 } else { 0.0 })
                }
                None => (if difference.low > 0.0 { f64::INFINITY } else { 0.0 }, f64::INFINITY),
            },
        };
        let Condition { above, limit, .. } = self.condition;
        let is_beyond = if above { low > limit } else { high < limit };
        let is_shown = !self.is_any() || change.shown().is_some();
        if is_beyond && is_shown { Judgement::Fails } else { Judgement::Passes }
    }
}

impl FromStr for Gate {
    type Err = BadCondition;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (of, in_percent) = match text.trim_end().strip_suffix("pp") {
            Some(front) => (GateOf::Share, format!("{front}%")),
            None => (GateOf::Weight, text.to_owned()),
        };
        let condition = in_percent.parse();
        let condition =
            condition.map_err(|error| BadCondition { text: text.to_owned(), ..error })?;
        Ok(Self { condition, of })
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.condition.to_string();
        match self.of {
            GateOf::Weight => f.write_str(&text),
            GateOf::Share => write!(f, "{}pp", text.trim_end_matches('%')),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Interval;

    fn change(mean_a: f64, mean_b: f64, half: f64) -> Change {
        let difference = mean_b - mean_a;
        let around = |at: f64, half: f64| Interval { low: at - half, high: at + half };
        let ratio = (mean_a > 0.0 && mean_b > 0.0).then(|| around(mean_b / mean_a, half / mean_a));
        Change {
            mean_a,
            mean_b,
            interval: Some(around(difference, half)),
            ratio,
            p: Some(0.5),
            detectable: None,
        }
    }

    #[test]
    fn parses_conditions_and_formats_them_as_typed() {
        for text in ["malloc>+1%", "std::vector<int>::push_back>+0.5pp", "*>+5%", "f<-3pp"] {
            assert_eq!(text.parse::<Gate>().unwrap().to_string(), text);
        }
        let error = "malloc>1".parse::<Gate>().unwrap_err();
        assert_eq!((error.position, error.text.as_str()), (9, "malloc>1"));
        assert!("malloc>xpp".parse::<Gate>().is_err());
    }

    #[test]
    fn fails_only_if_the_whole_interval_is_beyond_the_limit() {
        let judged = |text: &str, change: &Change| text.parse::<Gate>().unwrap().judge(change);
        let more = change(100.0, 103.0, 1.0);
        assert_eq!(judged("f>+1%", &more), Judgement::Fails);
        assert_eq!(judged("f>+2.5%", &more), Judgement::Passes);
        assert_eq!(judged("f<+5%", &more), Judgement::Fails);
        assert_eq!(judged("*>+1%", &more), Judgement::Passes, "p is large");
        assert_eq!(judged("*>+1%", &Change { p: Some(0.001), ..more }), Judgement::Fails);
        let share = change(0.2, 0.21, 0.002);
        assert_eq!(judged("f>+0.5pp", &share), Judgement::Fails);
        assert_eq!(judged("f>+0.9pp", &share), Judgement::Passes);
        assert_eq!(judged("f>+900%", &change(0.0, 5.0, 1.0)), Judgement::Fails);
        assert_eq!(judged("f>+1%", &change(0.0, 0.0, 1.0)), Judgement::Passes);
        assert_eq!(judged("f<-50%", &change(5.0, 0.0, 1.0)), Judgement::Fails);
        assert_eq!(judged("f>+1%", &Change { interval: None, ..more }), Judgement::Unknown);
    }
}
