//! `--exact`: divides the groups of events into sets that are counted without multiplexing.

use std::time::Duration;

use tare_events::Event;
use tare_measure::count::{Scope, plan_exact};

use super::session::StatSession;
use crate::cli::resolved::stat::{Stat, StatTarget};
use crate::exit::say;

/// How long a set counts before the next, where sets take turns in time.
pub(super) const TURN: Duration = Duration::from_millis(100);

/// Sets of groups that are counted one after the other. Without `--exact` one set holds all.
#[derive(Debug)]
pub(super) struct Turns {
    sets: Vec<Vec<usize>>,
    /// Whether the sets alternate within a run instead of over runs.
    pub(super) in_time: bool,
}

impl Turns {
    /// Asks the kernel which groups fit on the counters together.
    ///
    /// # Errors
    /// Fails if a group can't be opened.
    pub(super) fn plan(stat: &Stat, session: &StatSession<'_>) -> anyhow::Result<Self> {
        let all = vec![(0..stat.events.groups.len()).collect()];
        if !stat.events.exact || stat.events.groups.is_empty() {
            return Ok(Self { sets: all, in_time: false });
        }
        // A command doesn't exist yet; tare's own thread stands for all tasks: it uses the same
        // counters.
        let own = i32::try_from(std::process::id())?;
        let scope = match &stat.target {
            StatTarget::Cpus { cpus, .. }
            | StatTarget::CommandInCgroup(cpus)
            | StatTarget::Cgroups { cpus, .. } => Scope::Cpus(cpus.clone()),
            _ => Scope::Tasks(vec![own]),
        };
        let sets = plan_exact(session.kernel, &stat.events.groups, &scope)
            .map_err(|error| session.explain(&error))?
            .0;
        let in_time = !matches!(stat.target, StatTarget::Command | StatTarget::CommandInCgroup(_))
            && sets.len() > 1;
        let turns = Self { sets, in_time };
        turns.announce(stat);
        Ok(turns)
    }

    fn announce(&self, stat: &Stat) {
        let sets = self.sets.len();
        if sets < 2 || stat.output.is_without_messages() {
            return;
        }
        match stat.runs.number {
            _ if self.in_time => {
                say(&format!(
                    "--exact: {sets} sets of events take turns of {} ms; each count covers its own turns only, unscaled",
                    TURN.as_millis()
                ));
            }
            Some(runs) if (runs as usize) < sets => {
                say(&format!(
                    "--exact: these events need {sets} runs to be counted without scaling, and -r asks for {runs}: use -r {sets}"
                ));
            }
            _ => say(&format!("--exact: {sets} sets of events take turns over the runs")),
        }
    }

    /// The groups of a run, or of a turn.
    pub(super) fn set(&self, number: usize) -> &[usize] {
        &self.sets[number % self.sets.len()]
    }

    /// The events of a set.
    pub(super) fn events<'a>(&self, set: usize, stat: &'a Stat) -> Vec<&'a Event> {
        self.set(set).iter().flat_map(|&group| &stat.events.groups[group].events).collect()
    }

    /// Number of sets.
    pub(super) fn len(&self) -> usize {
        self.sets.len()
    }
}
