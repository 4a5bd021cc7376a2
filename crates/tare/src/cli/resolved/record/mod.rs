//! What `tare record` is to do.

mod off_cpu;
mod output;
mod registers;
mod sampling;
mod target;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tare_events::Sources;
use tare_format::abi::Flags;
use tare_kernel::host::Host;
use tare_record::Options;
use tare_record::options::{Follow, Keep, Rings, Synthesize};

pub use self::output::RecordOutput;
use super::events;
use crate::cli::raw;
use crate::exit::Refusal;

/// How often rings are emptied at least.
const FLUSH_INTERVAL: Duration = Duration::from_millis(250);

/// What `tare record` is to do.
#[derive(Debug)]
pub struct RecordOptions {
    /// What is recorded, and how.
    pub options: Options,
    /// The command to run meanwhile; with [`tare_record::options::Target::Command`], the one to record.
    pub command: Vec<OsString>,
    /// When recording ends at the latest.
    pub timeout: Option<Duration>,
    /// Where enable, disable, ping and stop come from.
    pub control: Option<String>,
    /// Where the recording goes.
    pub output: RecordOutput,
    /// What a sample costs is measured at the end, where nobody did on this host.
    pub calibrates: bool,
    /// 1: what is done; 2: every attribute.
    pub verbose: u8,
    /// Only errors are printed.
    pub quiet: bool,
    /// What would be opened is shown, and nothing is recorded.
    pub dry_run: bool,
}

impl RecordOptions {
    /// Works out what is to be done.
    ///
    /// # Errors
    /// A [`Refusal`] that names the remedy.
    pub fn resolve(raw: raw::RecordArgs, host: &Host) -> Result<Self, Refusal> {
        let target = target::resolve(&raw.target, raw.command.is_empty(), host)?;
        let begin = target::begin(&raw.target)?;
        let mut sampling = sampling::resolve(&raw.sampling, !raw.output.no_bpf_event)?;
        // By the kernel's word, files are told apart that had one path after the other.
        if raw.output.keep_binaries.is_some() {
            sampling.tracking.insert(Flags::BUILD_ID);
        }
        let sources = Sources::new(host.clone());
        let mut groups = events::typed(&raw.events, &raw.filters, &raw.filter_positions, &sources)?;
        for event in groups.iter_mut().flat_map(|group| &mut group.events) {
            sampling
                .apply_levels(event)
                .map_err(|term| Refusal::usage(format!("{}: {term}", event.name)))?;
        }
        let mut rings = rings(&raw.output)?;
        // A file is held once its mapping is read: a program may end soon, and its files with it.
        if raw.output.keep_binaries.is_some() {
            rings.flush_interval = rings.flush_interval.min(Duration::from_millis(20));
        }
        let typed = raw.sampling.call_graph.as_deref();
        let by_frame_pointers = typed.is_some_and(|how| how.starts_with("fp"));
        let keeps_some = rings.keep != Keep::All
            || groups
                .iter()
                .flat_map(|group| &group.events)
                .any(|event| event.sampling.overwrite == Some(true));
        Ok(Self {
            output: RecordOutput::resolve(&raw.output, keeps_some)?,
            options: Options {
                synthesize: synthesize(&raw.output, sampling.all_cgroups)?,
                groups,
                include_self: raw.sampling.include_self,
                sampling,
                target,
                follow: follow(raw.target.follow),
                inherit: !raw.target.no_inherit,
                begin,
                may_pause: raw.target.control.is_some(),
                rings,
                build_ids: !raw.output.no_buildid,
                keep_binaries: raw.output.keep_binaries.as_deref().map(kept_in).transpose()?,
                readers: raw.output.readers.and_then(|readers| usize::try_from(readers).ok()),
                realtime_priority: raw.output.realtime,
                off_cpu: off_cpu::resolve(&raw.off_cpu, by_frame_pointers)?,
                ..Options::default()
            },
            timeout: raw.target.timeout.map(Duration::from_millis),
            control: raw.target.control,
            calibrates: !raw.output.no_calibrate,
            command: raw.command,
            verbose: raw.verbose,
            quiet: raw.quiet,
            dry_run: raw.dry_run,
        })
    }
}

/// The folder that binaries are kept in; `~/.debug`, where perf has its cache, unless one is named.
fn kept_in(named: &Path) -> Result<PathBuf, Refusal> {
    if named != Path::new("~/.debug") {
        return Ok(named.to_owned());
    }
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let home = home.map(|home| PathBuf::from(home).join(".debug"));
    home.ok_or_else(|| {
        Refusal::usage("--keep-binaries: HOME is not set: name a folder, --keep-binaries=FOLDER")
    })
}

fn follow(raw: raw::FollowMode) -> Follow {
    match raw {
        raw::FollowMode::Auto => Follow::Auto,
        raw::FollowMode::Cgroup => Follow::Cgroup,
        raw::FollowMode::System => Follow::System,
        raw::FollowMode::Inherit => Follow::Inherit,
    }
}

fn rings(raw: &raw::record::OutputArgs) -> Result<Rings, Refusal> {
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
    Ok(Rings {
        bytes,
        keep,
        flush_interval: raw.flush_interval.map_or(FLUSH_INTERVAL, Duration::from_millis),
    })
}

fn before_comma(text: &str) -> &str {
    text.split(',').next().unwrap_or_default()
}

fn synthesize(raw: &raw::record::OutputArgs, cgroups_sampled: bool) -> Result<Synthesize, Refusal> {
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
