//! What `tare record` is to do.

mod output;
mod registers;
mod sampling;
mod target;

use std::ffi::OsString;
use std::time::Duration;

use tare_events::{EventGroup, Sources};
use tare_kernel::host::Host;

pub use self::output::Output;
pub use self::registers::user_registers;
pub use self::sampling::{Budget, Callchains, Levels, Rate, Sampling};
pub use self::target::{Cpus, Target};
use super::events;
use super::stat::Begin;
use crate::cli::raw;
use crate::exit::Refusal;

/// What `tare record` is to do.
#[derive(Debug)]
pub struct Record {
    /// The events that the user named; none for the default event.
    pub groups: Vec<EventGroup>,
    /// How they are sampled, and what is recorded beside samples.
    pub sampling: Sampling,
    /// Whose events are recorded.
    pub target: Target,
    /// How what the command starts is followed, with [`Target::Command`].
    pub follow: raw::Follow,
    /// The command to run meanwhile; with [`Target::Command`], the one to record.
    pub command: Vec<OsString>,
    /// Whether children and new threads are recorded, where an event doesn't say.
    pub inherit: bool,
    /// When recording begins.
    pub begin: Begin,
    /// When it ends at the latest.
    pub timeout: Option<Duration>,
    /// Where enable, disable, ping and stop come from.
    pub control: Option<String>,
    /// The rings.
    pub rings: Rings,
    /// Where the recording goes.
    pub output: Output,
    /// What of running processes is described.
    pub synthesize: Synthesize,
    /// Whether tare's own threads are recorded, too.
    pub include_self: bool,
    /// How many threads read rings; `None`: as many as the machine's CPUs ask for.
    pub readers: Option<usize>,
    /// The SCHED_FIFO priority of reading.
    pub realtime_priority: Option<u32>,
    /// 1: what is done; 2: every attribute.
    pub verbose: u8,
    /// Only errors are printed.
    pub quiet: bool,
    /// What would be opened is shown, and nothing is recorded.
    pub dry_run: bool,
}

/// The rings of the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rings {
    /// Bytes of data of each, a power of two of pages; `None`: as many as may be locked, up to 8
    /// MiB.
    pub bytes: Option<u64>,
    /// What happens to what a reader doesn't take away in time.
    pub keep: Keep,
    /// How often what is in them is written at least.
    pub flush_interval: Duration,
}

/// Which records stay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keep {
    /// All: they are written as they come.
    All,
    /// The last that fit into the rings.
    WhatFits,
    /// The last so many seconds.
    Last(Duration),
}

/// What of running processes is described, in records that the kernel would have written had tare
/// been there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synthesize {
    /// Their names and parents.
    pub tasks: bool,
    /// What they map.
    pub maps: bool,
    /// Cgroups.
    pub cgroups: bool,
    /// At the end of the recording, not at its beginning.
    pub at_the_end: bool,
}

impl Record {
    /// Works out what is to be done.
    ///
    /// # Errors
    /// A [`Refusal`] that names the remedy.
    pub fn resolve(raw: raw::Record, host: &Host) -> Result<Self, Refusal> {
        let target = Target::resolve(&raw.target, raw.command.is_empty(), host)?;
        let begin = target::begin(&raw.target)?;
        let sampling = Sampling::resolve(&raw.sampling, !raw.output.no_bpf_event)?;
        let sources = Sources::new(host.clone());
        let mut groups = events::typed(&raw.events, &raw.filters, &raw.filter_positions, &sources)?;
        groups
            .iter_mut()
            .flat_map(|group| &mut group.events)
            .try_for_each(|event| sampling.apply_levels(event))?;
        let rings = rings(&raw.output)?;
        let keeps_some = rings.keep != Keep::All
            || groups
                .iter()
                .flat_map(|group| &group.events)
                .any(|event| event.sampling.overwrite == Some(true));
        Ok(Self {
            output: Output::resolve(&raw.output, keeps_some)?,
            synthesize: synthesize(&raw.output, sampling.all_cgroups)?,
            groups,
            include_self: raw.sampling.include_self,
            sampling,
            target,
            follow: raw.target.follow,
            inherit: !raw.target.no_inherit,
            begin,
            timeout: raw.target.timeout.map(Duration::from_millis),
            control: raw.target.control,
            rings,
            readers: raw.output.readers.and_then(|readers| usize::try_from(readers).ok()),
            realtime_priority: raw.output.realtime,
            command: raw.command,
            verbose: raw.verbose,
            quiet: raw.quiet,
            dry_run: raw.dry_run,
        })
    }

    /// The event that a user gets who names none, where the machine has a PMU: one for each kind of
    /// core.
    ///
    /// # Errors
    /// What sysfs says of the PMUs can't be understood.
    pub fn default_event(
        text: &str,
        sampling: &Sampling,
        sources: &Sources,
    ) -> Result<Vec<EventGroup>, Refusal> {
        let mut groups =
            tare_events::parse(text, sources).map_err(|error| events::refuse(&error))?;
        groups
            .iter_mut()
            .flat_map(|group| &mut group.events)
            .try_for_each(|event| sampling.apply_levels(event))?;
        Ok(groups)
    }
}

fn rings(raw: &raw::record::Output) -> Result<Rings, Refusal> {
    let bytes = match raw.mmap_pages.as_deref() {
        None => None,
        Some(text) if text.contains(',') => {
            return Err(Refusal::usage(format!(
                "-m {text}: tare records no AUX area (Intel PT, CoreSight), give one number: -m {}",
                before_comma(text)
            )));
        }
        Some(text) => Some(output::pages("-m", text)?),
    };
    let keep = match raw.keep_last {
        Some(seconds) => match Duration::try_from_secs_f64(seconds) {
            Ok(time) if !time.is_zero() && seconds <= 86_400.0 => Keep::Last(time),
            _ => {
                return Err(Refusal::usage(
                    "--keep-last takes seconds, above 0 and at most a day (86400)",
                ));
            }
        },
        None if raw.overwrite => Keep::WhatFits,
        None => Keep::All,
    };
    Ok(Rings { bytes, keep, flush_interval: Duration::from_millis(raw.flush_interval) })
}

fn before_comma(text: &str) -> &str {
    text.split(',').next().unwrap_or_default()
}

fn synthesize(raw: &raw::record::Output, cgroups_sampled: bool) -> Result<Synthesize, Refusal> {
    let everything = Synthesize {
        tasks: true,
        maps: true,
        cgroups: cgroups_sampled,
        at_the_end: raw.tail_synthesize,
    };
    let mut chosen = Synthesize { tasks: false, maps: false, cgroups: false, ..everything };
    for what in &raw.synth {
        match what.as_str() {
            "all" => chosen = everything,
            "no" if raw.synth.len() == 1 => {}
            "task" => chosen.tasks = true,
            "mmap" => (chosen.tasks, chosen.maps) = (true, true),
            "cgroup" => chosen.cgroups = true,
            _ => {
                return Err(Refusal::usage(format!(
                    "--synth={what}: give no alone, all, or a list of task, mmap, cgroup"
                )));
            }
        }
    }
    Ok(if raw.synth.is_empty() { everything } else { chosen })
}

#[cfg(test)]
mod tests;
